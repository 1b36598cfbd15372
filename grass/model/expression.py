"""Users' regular expressions that Grass evaluates itself, such as readiness checks.

Used by ``grass.manifest.values``, ``node.agent.check`` and ``node.agent.line_search``.

RE2 runs the expressions. Its time is linear in the length of the text for every expression, so no user can block
others. RE2 has no lookaround and no backreferences. https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

from typing import Any, Protocol


class Expression(Protocol):
    def search(self, line: bytes, /) -> object | None:
        """Search a line; None: no match."""


def compiled(source: str) -> Expression:
    """Compile an expression. Raise ValueError, which says what is wrong with the expression."""
    import re2  # imported here: the import takes 14 ms, and few processes need RE2

    options = re2.Options()
    options.log_errors = False
    try:
        made: Any = re2.compile(source, options)
    except re2.error as error:
        raise ValueError(error.args[0].decode(errors="replace")) from error
    return made  # type: ignore[no-any-return]
