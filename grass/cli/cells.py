"""Text in terminal cells: measure its width, cut it, break it into lines. Pure.

Callers pass text from jobs and files (names, messages) through ``clean`` before layout, so that no control sequence
in the text reaches the terminal. Used by this package.
"""

from __future__ import annotations

ELLIPSIS = "…"


def clean(text: str) -> str:
    """Return one line without control characters: white space becomes a blank, the others an escape (``\\x1b``)."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(mark) for mark in text)


def _visible(mark: str) -> str:
    from unicodedata import category

    if mark.isspace():
        return " "
    return mark if category(mark) not in ("Cc", "Cf", "Cs") else ascii(mark)[1:-1]


def width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(_cells(mark) for mark in text)


def _cells(mark: str) -> int:
    from unicodedata import combining, east_asian_width

    if combining(mark):
        return 0
    return 2 if east_asian_width(mark) in "WF" else 1


def clip(text: str, limit: int) -> str:
    """Cut the text to at most ``limit`` cells; an ellipsis marks the cut."""
    if width(text) <= limit:
        return text
    return _head(text, limit - 1) + ELLIPSIS if limit > 0 else ""


def pad(text: str, limit: int, *, right: bool = False) -> str:
    blanks = " " * (limit - width(text))
    return blanks + text if right else text + blanks


def wrap(text: str, limit: int) -> list[str]:
    """Break the text into lines of at most ``limit`` cells, at blanks where possible. The list is never empty."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if width(joined) <= limit:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        rest = word
        while width(rest) > limit:
            head = _head(rest, limit) or rest[0]
            lines[-1] = head
            lines.append("")
            rest = rest[len(head) :]
        lines[-1] = rest
    return lines if lines[-1] or len(lines) == 1 else lines[:-1]


def _head(text: str, limit: int) -> str:
    if text.isascii():
        return text[: max(0, limit)]
    used = 0
    for offset, mark in enumerate(text):
        used += _cells(mark)
        if used > limit:
            return text[:offset]
    return text
