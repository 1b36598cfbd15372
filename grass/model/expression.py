"""Regular expressions of users that run where the work of others waits.

They are RE2's, whose time grows with the length of a text and not faster, whatever the expression; it cannot look ahead
or behind, nor refer to what it matched. https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

from typing import Any, Protocol


class Expression(Protocol):
    def search(self, line: bytes, /) -> object | None:
        """None: it matches nowhere in the line."""


def compiled(source: str) -> Expression:
    """Raises ValueError, which says what is wrong with it."""
    import re2  # takes 14 ms, and few need it

    options = re2.Options()
    options.log_errors = False
    try:
        made: Any = re2.compile(source, options)
    except re2.error as error:
        raise ValueError(error.args[0].decode(errors="replace")) from error
    return made  # type: ignore[no-any-return]
