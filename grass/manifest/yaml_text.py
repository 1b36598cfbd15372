"""Parses YAML text to plain values, from the parser's events. No recursion; aliases are counted before expansion.

Used by ``document``, ``secret_text``, ``grass.cli`` and ``grass.manifest.export``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from grass.lines import lines_of
from grass.manifest.document import MAX_DEPTH, MAX_VALUES, Document, DocumentFault, join, plain_scalar, show_text

_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"


def parse(text: str) -> Any:
    """Return the one document in ``text``; None if the text is empty. Raise DocumentFault with the line."""
    return _build(text, several=False).result


def parse_all(text: str) -> list[Any]:
    """Return all documents in ``text``. Raise DocumentFault with the line."""
    return _build(text, several=True).results


def _build(text: str, *, several: bool) -> _Builder:
    builder = _Builder(several)
    for kind, event in events(text):
        builder.handle_event(kind, event)
    return builder


_AMBIGUOUS = re.compile(r"[yYnN]|[-+]?\.?\d[\w.:+-]*")
"""Text that some readers of YAML take for a truth value, a number or a date, and others do not."""
_QUOTES = "a text that begins with this character needs quotes"
_BEFORE = {"\t": "a tab; use spaces to indent", "@": _QUOTES, "`": _QUOTES, "%": _QUOTES}
"""What is wrong if the parser stops before this character: more than it says itself."""


def events(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the parser's events with their kinds. Raise DocumentFault with the line."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(text, Loader=loader):
            yield type(event).__name__, event
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = _BEFORE.get(text[mark.index : mark.index + 1] if mark else "") or error.problem or error.context
        raise DocumentFault("", f"{where}is not YAML: {problem}") from error
    except yaml.YAMLError as error:
        raise DocumentFault("", f"is not YAML: {lines_of(str(error))[0]}") from error
    except UnicodeEncodeError as error:
        raise DocumentFault("", "is not valid Unicode: it has half of a surrogate pair") from error


@dataclass(frozen=True)
class _Value:
    """A finished value, with its number of expanded values and its depth."""

    content: Any
    count: int = 1
    height: int = 0


@dataclass
class _Open:
    """A mapping or list whose end has not been read. ``key`` waits for its value; ``lines``: the line of each key."""

    content: Any
    anchor: str | None
    key: str | None = None
    merging: bool = False
    merged: list[Document] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    count: int = 1
    height: int = 1


class _Builder:
    def __init__(self, several: bool) -> None:
        self.result: Any = None
        self.results: list[Any] = []
        self._several = several
        self._documents = 0
        self._values = 0
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Value] = {}

    def handle_event(self, kind: str, event: Any) -> None:
        match kind:
            case "ScalarEvent":
                self._scalar(event)
            case "MappingStartEvent":
                self._open({}, "map", event)
            case "SequenceStartEvent":
                self._open([], "seq", event)
            case "MappingEndEvent" | "SequenceEndEvent":
                self._close()
            case "AliasEvent":
                self._alias(event)
            case "DocumentStartEvent":
                self._documents += 1
                self._anchors.clear()
                if self._documents > 1 and not self._several:
                    raise DocumentFault(
                        "", f"line {_line(event)}: a second document begins; a file must have one document"
                    )

    def _scalar(self, event: Any) -> None:
        plain = event.tag is None and event.implicit[0]
        if event.tag not in (None, "!", _TAG + "str"):
            self._refuse_tag(event)
        if self._wants_key():
            self._set_key(event.value, plain, event)
            return
        value = _Value(plain_scalar(event.value) if plain else event.value)
        self._remember(event.anchor, value)
        self._add(value, event)

    def _open(self, content: Any, kind: str, event: Any) -> None:
        if event.tag not in (None, "!", _TAG + kind):
            self._refuse_tag(event)
        if self._wants_key():
            raise DocumentFault(self._path(), f"line {_line(event)}: a key must be text, not a mapping or a list")
        if len(self._stack) >= MAX_DEPTH:
            raise DocumentFault("", f"line {_line(event)}: is nested more than {MAX_DEPTH} levels deep")
        self._stack.append(_Open(content, event.anchor))

    def _close(self) -> None:
        done = self._stack.pop()
        for base in done.merged:
            for key, value in base.items():
                done.content.setdefault(key, value)
        value = _Value(done.content, done.count, done.height)
        self._remember(done.anchor, value)
        self._add(value, None)

    def _alias(self, event: Any) -> None:
        if self._wants_key():
            raise DocumentFault(self._path(), f"line {_line(event)}: a key must be text, not an alias")
        value = self._anchors.get(event.anchor)
        if value is None:
            raise DocumentFault(self._path(), f"line {_line(event)}: the alias *{event.anchor} has no anchor before it")
        self._add(value, event)

    def _add(self, value: _Value, event: Any) -> None:
        """Add a finished value to its parent. The counts bound the work of the reader of the result."""
        if not self._stack:
            self.result = value.content
            self.results.append(value.content)
            self._values += value.count
            self._check_count(self._values)
            return
        parent = self._stack[-1]
        parent.count += value.count
        parent.height = max(parent.height, value.height + 1)
        self._check_count(sum(each.count for each in self._stack))
        if len(self._stack) + value.height > MAX_DEPTH:
            raise DocumentFault("", f"is nested more than {MAX_DEPTH} levels deep")
        if isinstance(parent.content, list):
            parent.content.append(value.content)
        elif parent.merging:
            self._merge(parent, value.content, event)
        else:
            parent.content[parent.key] = value.content
        parent.key = None
        parent.merging = False

    def _check_count(self, count: int) -> None:
        if count > MAX_VALUES:
            raise DocumentFault("", f"has more than {MAX_VALUES} values (each use of an alias counts)")

    def _merge(self, parent: _Open, content: Any, event: Any) -> None:
        bases = content if isinstance(content, list) else [content]
        if not all(isinstance(base, dict) for base in bases):
            where = f"line {_line(event)}: " if event is not None else ""
            raise DocumentFault(self._path(), f"{where}`<<` needs a mapping or a list of mappings")
        parent.merged.extend(bases)

    def _wants_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].content, dict) and self._stack[-1].key is None

    def _set_key(self, key: str, plain: bool, event: Any) -> None:
        top = self._stack[-1]
        top.key = key
        top.count += 1
        if plain and key == _MERGE:
            top.merging = True
            return
        line = top.lines.setdefault(key, _line(event))
        if key in top.content:
            raise DocumentFault(self._path(), f"line {_line(event)}: the key appears twice; first on line {line}")

    def _remember(self, anchor: str | None, value: _Value) -> None:
        if anchor is not None:
            self._anchors[anchor] = value

    def _refuse_tag(self, event: Any) -> None:
        raise DocumentFault(self._path(), f"line {_line(event)}: the YAML tag {show_text(event.tag)} is not supported")

    def _path(self) -> str:
        path = ""
        for each in self._stack:
            if each.key is not None:
                path = join(path, each.key)
            elif isinstance(each.content, list):
                path += f"[{len(each.content)}]"
        return path


def write(document: Any) -> str:
    """Return YAML text from which ``parse`` makes the same document. Keys keep their order."""
    import yaml

    base: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc, valid-type]  # chosen at run time: the one in C is five times as fast
        """Writes numbers, and text that looks like one, as ``plain_scalar`` reads them: `1e-09` is a number here.

        Text that another reader may take for a number or a truth value has quotes: of `1e-3`, `y`, `1_000`.
        """

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent_float(dumper: Any, value: float) -> yaml.ScalarNode:
        text = repr(value)
        node: yaml.ScalarNode = dumper.represent_scalar(dumper.resolve(yaml.ScalarNode, text, (True, False)), text)
        return node

    def represent_text(dumper: Any, value: str) -> yaml.ScalarNode:
        style = "'" if _AMBIGUOUS.fullmatch(value) or not isinstance(plain_scalar(value), str) else None
        style = "|" if "\n" in value else style
        node: yaml.ScalarNode = dumper.represent_scalar(_TAG + "str", value, style=style)
        return node

    Dumper.add_representer(float, represent_float)
    Dumper.add_representer(str, represent_text)
    text: str = yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
