"""Parses JSON text to plain values, within the same bounds as YAML. Used by ``document``."""

from __future__ import annotations

import json
from typing import Any

from grass.manifest.document import MAX_DEPTH, MAX_VALUES, Document, DocumentFault, join, number_or_text


def parse(text: str) -> Any:
    """Return the value in ``text``; None if the text is empty. Raise DocumentFault for text that cannot be accepted."""
    if not text.strip():
        return None
    try:
        tree = json.loads(
            text, object_pairs_hook=_Pairs, parse_int=number_or_text, parse_float=number_or_text, parse_constant=str
        )
    except json.JSONDecodeError as error:
        raise DocumentFault("", f"line {error.lineno}, column {error.colno}: is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise DocumentFault("", f"is nested more than {MAX_DEPTH} levels deep") from error
    return _Reader().value(tree, "", 0)


class _Pairs(list[Any]):
    """An object whose keys may repeat."""


class _Reader:
    def __init__(self) -> None:
        self._count = 0

    def value(self, tree: Any, path: str, depth: int) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            raise DocumentFault("", f"has more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise DocumentFault("", f"is nested more than {MAX_DEPTH} levels deep")
        if isinstance(tree, _Pairs):
            return self._mapping(tree, path, depth)
        if isinstance(tree, list):
            return [self.value(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(tree)]
        return tree

    def _mapping(self, pairs: _Pairs, path: str, depth: int) -> Document:
        result: Document = {}
        for key, item in pairs:
            where = join(path, key)
            if key in result:
                raise DocumentFault(where, "the key appears twice")
            result[key] = self.value(item, where, depth + 1)
        return result
