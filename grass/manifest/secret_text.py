"""The text of a job file without its secrets, to be shown. Everything else stays as the user wrote it. Pure.

The rules are those of ``grass.model.secrets``, for values of mappings, for ``name``/``value`` pairs of pods, for
comments, and for passwords inside URLs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from grass.manifest import yaml_text
from grass.manifest.document import DocumentFault
from grass.manifest.script import is_script
from grass.model.secrets import REDACTED, is_secret, without_login

Span = tuple[int, int]
_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\n]*", re.MULTILINE)
_SAID = re.compile(r"(\w+)(\s*[=:]\s*)('[^'\n]*'|\"[^\"\n]*\"|[^\s'\"]+)")


def shown_text(text: str) -> str | None:
    """Return the text of a job file or of a script with ``[REDACTED]`` for secrets; None: it cannot be read."""
    if not is_script(text.encode(errors="replace")):
        reader = _Reader()
        try:
            for kind, event in yaml_text.events(text):
                reader.take(kind, event)
        except DocumentFault:
            return None
        for start, end in sorted(reader.spans, reverse=True):
            kept = text[start:end]
            text = f'{text[:start]}"{REDACTED}"{kept[len(kept.rstrip()) :]}{text[end:]}'
    return without_login(_COMMENT.sub(_without_secrets, text))


def _without_secrets(comment: re.Match[str]) -> str:
    return _SAID.sub(lambda said: f"{said[1]}{said[2]}{REDACTED}" if is_secret(said[1]) else said[0], comment[0])


@dataclass
class _Open:
    """A mapping or list whose end was not read. ``key`` waits for its value."""

    mapping: bool
    secret: bool
    """Whether it is the value of a secret key, with all its values."""
    key: str | None = None
    pair_value: list[Span] = field(default_factory=list)
    """Where the ``value`` of the ``name``/``value`` pair of a pod is written."""
    pair_secret: bool = False
    """Whether the ``name`` of the pair is that of a secret."""

    @property
    def named_secret(self) -> bool:
        return self.key is not None and is_secret(self.key)


class _Reader:
    """Takes the parser's events; ``spans``: where secret values are written."""

    def __init__(self) -> None:
        self.spans: set[Span] = set()
        self._stack: list[_Open] = []
        self._anchors: dict[str, list[Span]] = {}

    def take(self, kind: str, event: Any) -> None:
        match kind:
            case "DocumentStartEvent":
                self._anchors.clear()
            case "ScalarEvent":
                self._scalar(event)
            case "AliasEvent":
                self._value("", self._anchors.get(event.anchor, []))
            case "MappingStartEvent" | "SequenceStartEvent":
                self._open(mapping=kind == "MappingStartEvent")
            case "MappingEndEvent" | "SequenceEndEvent":
                self._close()

    def _scalar(self, event: Any) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and top.mapping and top.key is None:
            top.key = event.value
            return
        spans = [(event.start_mark.index, event.end_mark.index)]
        if event.anchor is not None:
            self._anchors[event.anchor] = spans
        self._value(event.value, spans)

    def _open(self, *, mapping: bool) -> None:
        top = self._stack[-1] if self._stack else None
        secret = top is not None and (top.secret or (not mapping and top.named_secret))
        self._stack.append(_Open(mapping, secret))

    def _close(self) -> None:
        done = self._stack.pop()
        if done.pair_secret:
            self.spans.update(done.pair_value)
        if self._stack:
            self._stack[-1].key = None

    def _value(self, value: str, spans: list[Span]) -> None:
        """Take a value that is no mapping and no list."""
        top = self._stack[-1] if self._stack else None
        if top is None:
            return
        if top.secret or top.named_secret:
            self.spans.update(spans)
        if top.key == "value":
            top.pair_value = spans
        elif top.key == "name":
            top.pair_secret = is_secret(value)
        top.key = None
