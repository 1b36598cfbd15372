"""``assert_never``, the last case of every ``match`` over an enum or union: mypy then reports a missing case.

Used by all packages.
"""

from __future__ import annotations

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """Same as ``typing.assert_never``, which needs Python 3.11."""
    raise AssertionError(f"unexpected value: {value!r}")
