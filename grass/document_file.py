"""Reads a YAML or JSON document from a file, for the CLI and the Python client.

``grass.manifest`` opens no file; it takes what this module returns. Used by ``grass.api`` and ``grass.cli``.
"""

from __future__ import annotations

from pathlib import Path

from grass.errors import InputError
from grass.manifest.document import MAX_BYTES, Document, read_document


def load_document(path: Path) -> Document:
    """Return the mapping in a YAML file, or in a JSON file (by its suffix ``.json``).

    Raises ManifestError for invalid content, InputError for a file that cannot be read.
    """
    return load_with_text(path)[0]


def load_with_text(path: Path) -> tuple[Document, str]:
    """Return what ``load_document`` returns, and the text of the file."""
    path = Path(path)
    content = read_bytes(path)
    return read_document(content, source=str(path), json=path.suffix == ".json"), content.decode("utf-8-sig")


def read_text(path: Path) -> str:
    """Return the text of a data file of at most 1 MiB. Raises InputError."""
    content = read_bytes(path)
    if len(content) > MAX_BYTES:
        raise InputError(f"{path}: is larger than 1 MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (byte {error.start})") from error


def read_bytes(path: Path) -> bytes:
    """Return the content, at most one byte more than a document may have. Raises InputError."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a directory; give the file in it") from error
    except PermissionError as error:
        raise InputError(f"{path}: permission denied") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)!r}: cannot be read: {error}") from error
