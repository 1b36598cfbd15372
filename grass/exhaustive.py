"""``assert_never`` at the end of a ``match``: the type checker names the case that is missing. ``typing`` has it from
Python 3.11 on, Grass runs on 3.10."""

from __future__ import annotations

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    raise AssertionError(f"a case that cannot be: {value!r}")
