"""The end of every ``match`` over an enum or a union: the type checker then reports a case that is missing."""

from __future__ import annotations

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """As ``typing.assert_never``, which needs Python 3.11."""
    raise AssertionError(f"unexpected value: {value!r}")
