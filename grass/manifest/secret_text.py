"""The text of a job file without its secrets, to be shown. Everything else stays as the user wrote it. Pure.

The rules are those of ``grass.model.secrets``, for values of mappings, for ``name``/``value`` pairs of pods, for
comments, and for passwords inside URLs. Used by ``master.api.job_file``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grass.manifest import yaml_text
from grass.manifest.document import MAX_DEPTH, DocumentFault
from grass.manifest.script import is_script, without_secrets
from grass.manifest.values import Wrong
from grass.model.secrets import REDACTED, is_secret, without_login, without_named

Span = tuple[int, int]
_BYTE_ORDER = "\ufeff"
_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\n]*", re.MULTILINE)


def shown_text(text: str) -> str | None:
    """Return the text of a job file or of a script with ``[REDACTED]`` for secrets; None: it cannot be read."""
    text = text.lstrip(_BYTE_ORDER)  # the parser does not count it
    if not is_script(text.encode(errors="replace")):
        reader = _Reader()
        try:
            for kind, event in yaml_text.events(text):
                reader.handle_event(kind, event)
        except DocumentFault:
            return None
        for start, end in sorted(reader.secrets(), reverse=True):
            kept = text[start:end]
            text = f'{text[:start]}"{REDACTED}"{kept[len(kept.rstrip()) :]}{text[end:]}'
    else:
        try:
            text = without_secrets(text)
        except Wrong:
            return None
    return without_login(_COMMENT.sub(lambda comment: without_named(comment[0]), text))


@dataclass(frozen=True)
class _Node:
    """What an anchor names. ``first`` to ``last``: which of the values in the text belong to it."""

    text: str = ""
    """The text of a scalar."""
    mapping: bool = False
    first: int = 0
    last: int = 0


@dataclass
class _Open:
    """A mapping or list whose end was not read. ``key`` waits for its value. ``first``: number of its first value."""

    mapping: bool
    secret: bool
    """Whether it is the value of a secret key, with all its values."""
    anchor: str | None
    first: int
    key: str | None = None
    pair_value: _Node | None = None
    """The ``value`` of the ``name``/``value`` pair of a pod."""
    pair_secret: bool = False
    """Whether the ``name`` of the pair is that of a secret."""


class _Reader:
    """Takes the parser's events. Its work grows with the text only, whatever the aliases in it repeat."""

    def __init__(self) -> None:
        self._values: list[Span] = []
        """Where each scalar that is a value is written."""
        self._secret: set[Span] = set()
        """First and last index of the values that are secret."""
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Node] = {}

    def secrets(self) -> Iterator[Span]:
        """Yield where secret values are written, each place once."""
        done = 0
        for first, last in sorted(self._secret):
            yield from self._values[max(first, done) : last]
            done = max(done, last)

    def handle_event(self, kind: str, event: Any) -> None:
        match kind:
            case "DocumentStartEvent":
                self._anchors.clear()
            case "ScalarEvent":
                self._scalar(event)
            case "AliasEvent":
                self._value(self._anchors.get(event.anchor, _Node()))
            case "MappingStartEvent" | "SequenceStartEvent":
                self._open(event.anchor, mapping=kind == "MappingStartEvent")
            case "MappingEndEvent" | "SequenceEndEvent":
                self._close()

    def _scalar(self, event: Any) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and top.mapping and top.key is None:
            top.key = event.value
            node = _Node(event.value)
        else:
            number = len(self._values)
            self._values.append((event.start_mark.index, event.end_mark.index))
            node = _Node(event.value, False, number, number + 1)
            self._value(node)
        if event.anchor is not None:
            self._anchors[event.anchor] = node

    def _open(self, anchor: str | None, *, mapping: bool) -> None:
        if len(self._stack) >= MAX_DEPTH:  # no job; the time of the parser grows with the square of the depth
            raise DocumentFault("", f"is nested more than {MAX_DEPTH} levels deep")
        self._stack.append(_Open(mapping, self._is_secret(mapping), anchor, len(self._values)))

    def _close(self) -> None:
        done = self._stack.pop()
        if done.pair_secret and done.pair_value is not None:
            self._hide(done.pair_value)
        if done.anchor is not None:
            self._anchors[done.anchor] = _Node("", done.mapping, done.first, len(self._values))
        if self._stack:
            self._stack[-1].key = None

    def _value(self, node: _Node) -> None:
        """Take a scalar, or what an alias repeats."""
        if self._is_secret(node.mapping):
            self._hide(node)
        if self._stack:
            top = self._stack[-1]
            if top.key == "value":
                top.pair_value = node
            elif top.key == "name":
                top.pair_secret = is_secret(node.text)
            top.key = None

    def _is_secret(self, mapping: bool) -> bool:
        """Return whether the next value is secret as a whole. A mapping under a secret key has keys of its own."""
        if not self._stack:
            return False
        top = self._stack[-1]
        return top.secret or (not mapping and top.key is not None and is_secret(top.key))

    def _hide(self, node: _Node) -> None:
        self._secret.add((node.first, node.last))
