"""Refuses text of a request that is not UTF-8, with its place. Pure. Used by ``transport``.

Arguments, folders and variables of this machine are bytes. Grass passes them on in JSON, which is UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from grass.errors import InputError
from grass.manifest.values import not_text

_LOW_HALF = re.compile(r"\\ud[c-f]", re.IGNORECASE)


def check_encodable(content: object, text: str) -> None:
    """Raise InputError if a text of ``content`` is not UTF-8. ``text``: its JSON, in ASCII."""
    if _LOW_HALF.search(text) is None:
        return
    for path, value in _texts(content, ""):
        try:
            value.encode()
        except UnicodeEncodeError:
            where = path.replace("manifest.", "", 1)
            message = f"{where}: must be UTF-8 text, got {not_text(value)}; rename it, or write it in UTF-8"
            raise InputError(message) from None


def _texts(value: object, path: str) -> Iterator[tuple[str, str]]:
    match value:
        case str():
            yield path or "the request", value
        case dict():
            for key, item in value.items():
                yield f"a name in {path or 'the request'}", str(key)
                yield from _texts(item, f"{path}.{key}" if path else str(key))
        case list() | tuple():
            for at, item in enumerate(value):
                yield from _texts(item, f"{path}[{at}]")
