"""Puts into a document what only this machine knows, before it is sent. Used by ``Client`` and `grass apply`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from grass.errors import InputError, ManifestError
from grass.manifest.document import Document
from grass.system import environment


def with_data(document: Mapping[str, object], env: Mapping[str, str] | None, folder: str, source: str) -> Document:
    """Return the document with what only this machine knows: variables of the shell, and files that ``from`` names."""
    from grass.manifest.entries import with_entries
    from grass.manifest.foreign.marks import is_foreign
    from grass.manifest.shell import with_shell

    if env and is_foreign(document):
        raise InputError(f"{source or 'the job'}: --env does not go with a file of another system; set env in the file")

    if is_foreign(document):
        return dict(document)  # none of its keys asks for data of this machine
    try:
        known = with_shell(dict(document), environment.variables(), env or {})
        return with_entries(known, lambda name: _entries_text(Path(folder, name)))
    except ManifestError as error:
        raise ManifestError(error.problems, source) from error


def _entries_text(path: Path) -> str:
    """Return the text of a file that ``from`` names. Raises InputError; Wrong for one that is too large."""
    from grass.document_file import read_bytes, read_text
    from grass.manifest.document import MAX_BYTES
    from grass.manifest.values import Wrong

    if len(read_bytes(path)) > MAX_BYTES:
        line = f'sed -n "$((GRASS_INDEX + 1))p" "$GRASS_DATA/{path.name}"'
        raise Wrong(
            f"is larger than 1 MiB; send it with `grass data push {path.name} {path.name}`, use `replicas`, and let "
            f"each task read its own part, such as a line: `{line}`"
        )
    return read_text(path)
