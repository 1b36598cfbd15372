"""Parsers of single values: each takes a value of the document and returns a value of the model, or raises ``Wrong``.

An error message names the expected form and the value found; the caller adds the path. Used by ``grass`` and
``master``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from grass.manifest.document import one_line, show_text
from grass.model import names
from grass.model.expression import compiled

Choice = TypeVar("Choice", bound=Enum)

MAX_ARGUMENT = 128 * 1024 - 1
"""Most bytes of an argument or environment entry; Linux refuses longer ones (MAX_ARG_STRLEN)."""
MAX_PATTERN = 4096

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Wrong(ValueError):
    """A value that cannot be accepted."""


def show(value: Any) -> str:
    """Show a value in a message."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return show_text(value)
        case int() | float():
            return repr(value) if isinstance(value, float) or abs(value) < 10**20 else "a huge number"
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
    return f"a {type(value).__name__}"


def whole(minimum: int, maximum: int) -> Callable[[Any], int]:
    """Return a parser of whole numbers from ``minimum`` to ``maximum``. true and false are not numbers."""

    def parse(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Wrong(f"must be a whole number, got {show(value)}")
        if value < minimum:
            raise Wrong(f"must be at least {minimum}, got {show(value)}")
        if value > maximum:
            raise Wrong(f"must be at most {maximum}, got {show(value)}")
        return value

    return parse


def truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"must be true or false, got {show(value)}")
    return value


def text(value: Any) -> str:
    """Parse text that is not blank and that a process can receive."""
    if not isinstance(value, str):
        raise Wrong(f"must be text, got {show(value)}")
    if not value.strip():
        raise Wrong("must not be empty")
    return _passable(value)


def scalar_text(value: Any) -> str:
    """Parse text, or a number as written. Refuse true and false: programs spell these differently."""
    if isinstance(value, bool):
        word = show(value)
        raise Wrong(f'must be text or a number, got {word}; write "{word}" to make it text')
    if value is None:
        raise Wrong('must be text or a number, got nothing; write "" for empty text')
    if not isinstance(value, (str, int, float)):
        raise Wrong(f"must be text or a number, got {show(value)}")
    if isinstance(value, int) and abs(value) >= 10**100:
        raise Wrong("must be text or a number, got a huge number; put it in quotes to make it text")
    return _passable(str(value))


def _passable(value: str) -> str:
    if "\0" in value:
        raise Wrong("must not contain a NUL character")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise Wrong(f"must be UTF-8 text, got {not_text(value)}; rename it, or write it in UTF-8") from error
    if size > MAX_ARGUMENT:
        raise Wrong(f"must be at most {MAX_ARGUMENT} bytes long, got {size}; put it in a file (`grass data push`)")
    return value


def not_text(value: str) -> str:
    """Show text that is not UTF-8, for a message: the bytes that Python read it from, near the first wrong one."""
    at = next((at for at, each in enumerate(value) if "\ud800" <= each <= "\udfff"), 0)
    try:
        shown = repr(value[max(0, at - 20) : at + 20].encode(errors="surrogateescape"))[1:]
    except UnicodeEncodeError:
        return "half of a surrogate pair"
    return shown if len(value) <= 40 else f"…{shown}…"


def absolute_path(value: Any) -> str:
    """Parse an absolute path without ``..``; drop a slash at its end."""
    path = text(value)
    if not path.startswith("/") or ".." in path.split("/") or "\n" in path:
        raise Wrong(f"must be an absolute path, got {show(value)}")
    return path.rstrip("/") or "/"


def command(value: Any) -> str | tuple[str, ...]:
    """Parse text for /bin/sh, or a list of arguments."""
    if isinstance(value, (list, tuple)):
        if not value:
            raise Wrong("must not be empty")
        return tuple(_argument(item, index) for index, item in enumerate(value))
    if not isinstance(value, str):
        raise Wrong(f"must be text (for /bin/sh) or a list of arguments, got {show(value)}")
    return text(value)


def argv(value: Any) -> tuple[str, ...]:
    """Parse a program and its arguments."""
    found = command(value)
    if isinstance(found, str):
        raise Wrong("must be a list: the program and its arguments")
    return found


def _argument(value: Any, index: int) -> str:
    try:
        return text(value) if index == 0 else scalar_text(value)
    except Wrong as wrong:
        raise Wrong(f"item {index} {wrong}") from wrong


def one_of(kind: type[Choice]) -> Callable[[Any], Choice]:
    def parse(value: Any) -> Choice:
        for member in kind:
            if isinstance(value, str) and member.value == value:
                return member
        words = ", ".join(member.value for member in kind)
        raise Wrong(f"must be one of {words}; got {show(value)}")

    return parse


def name(value: Any) -> str:
    """Parse the name of a job, schedule, node or cluster (``grass.model.names``)."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = show(value)
    return _word(value, names.is_name, names.NAME_RULE)


def component_name(value: Any) -> str:
    return _word(value, names.is_component_name, names.COMPONENT_RULE)


def port_name(value: Any) -> str:
    return _word(value, names.is_port_name, names.PORT_RULE)


def _word(value: Any, matches: Callable[[object], bool], rule: str) -> str:
    if not isinstance(value, str):
        raise Wrong(f"must be a name, got {show(value)}")
    if len(value) > names.MAX_NAME:
        raise Wrong(f"must be at most {names.MAX_NAME} characters long, got {len(value)}")
    if not matches(value):
        raise Wrong(f"must be a name made of {rule}; got {show(value)}")
    return value


def variable_name(value: str) -> str:
    """Parse the name of an environment variable that a job may set."""
    if not _VARIABLE.fullmatch(value) or len(value) > 255:
        raise Wrong("must be the name of an environment variable (letters, digits and `_`, not starting with a digit)")
    if value.startswith("GRASS_"):
        raise Wrong("is reserved; Grass sets the variables that begin with GRASS_")
    return value


def inherited_name(value: Any) -> str:
    """Parse the name of a variable of the submitting shell."""
    return variable_name(text(value))


_TASK_VARIABLES = frozenset(
    {"JOB_ID", "JOB_NAME", "COMPONENT_TYPE", "COMPONENT_INDEX", "COMPONENT_ID", "CONTAINER_NAME"}
    | {"CLUSTER_ID", "CLUSTER_NAME", "NODE_ID", "NODE_NAME", "CUDA_VISIBLE_DEVICES"}
)


def task_variable(value: str) -> str:
    """Parse the name of an environment variable that differs from task to task."""
    if value in _TASK_VARIABLES:
        raise Wrong("is reserved; Grass sets it")
    return variable_name(value)


def pattern(value: Any) -> str:
    """Parse a regular expression in RE2's syntax."""
    expression = text(value)
    if len(expression) > MAX_PATTERN:
        raise Wrong(f"must be at most {MAX_PATTERN} characters long, got {len(expression)}")
    try:
        compiled(expression)
    except ValueError as error:
        raise Wrong(f"is not a regular expression: {one_line(str(error))}") from error
    return expression
