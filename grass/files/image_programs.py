"""Which programs of frameworks an image has on its PATH, read from its layers when it is pushed. Used by
``image_archive``, and by ``node.runtime.docker.image_programs``.

So a job whose image lacks the launcher of its framework is refused before it waits for nodes.
"""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from grass.frameworks.programs import KNOWN
from grass.model.program import SYSTEM_PATH

_REMOVED, _REMOVED_WITHIN = ".wh.", ".wh..wh..opq"
"""Names by which a layer removes what lower layers have."""
_MOST_LINKS = 40


def path_of(env: Sequence[str] | None) -> str:
    """Return the PATH of an image with these variables (``NAME=VALUE``)."""
    return next((each[5:] for each in env or () if each.startswith("PATH=")), SYSTEM_PATH)


def on_path(path: str, layers: Sequence[Path]) -> tuple[str, ...]:
    """Return their names. ``layers``: tars, the lowest first. Raises tarfile.TarError."""
    tree = _Tree()
    for layer in layers:
        tree.add(layer)
    folders = [tree.resolved(folder) for folder in path.split(":") if folder]
    return tuple(name for name in KNOWN if any(tree.has(f"{folder}/{name}") for folder in folders))


class _Tree:
    """The symbolic links of an image, and its files that are named as a program of a framework."""

    def __init__(self) -> None:
        self._links: dict[str, str] = {}
        self._files: set[str] = set()

    def add(self, layer: Path) -> None:
        """Put a layer on top of the others."""
        links: dict[str, str] = {}
        files: set[str] = set()
        with tarfile.open(layer, "r:") as archive:
            for entry in archive:
                path = "/" + str(PurePosixPath(entry.name)).lstrip("/")
                folder, _, name = path.rpartition("/")
                if name == _REMOVED_WITHIN:
                    self._remove(folder, itself=False)
                elif name.startswith(_REMOVED):
                    self._remove(f"{folder}/{name.removeprefix(_REMOVED)}")
                elif entry.issym():
                    links[path] = entry.linkname
                elif entry.isdir():
                    self._links.pop(path, None)
                elif name in KNOWN and entry.mode & 0o111:
                    files.add(path)
                    self._links.pop(path, None)
        self._links |= links
        self._files |= files

    def _remove(self, path: str, *, itself: bool = True) -> None:
        gone = {
            each for each in (*self._links, *self._files) if each.startswith(path + "/") or (itself and each == path)
        }
        self._files -= gone
        for each in gone & self._links.keys():
            del self._links[each]

    def has(self, path: str) -> bool:
        return path in self._files or path in self._links

    def resolved(self, folder: str) -> str:
        """Return the folder without symbolic links."""
        todo, found = [part for part in reversed(folder.split("/")) if part], ""
        followed = 0
        while todo:
            part = todo.pop()
            if part == "..":
                found = found.rpartition("/")[0]
            elif part != ".":
                found += f"/{part}"
            target = self._links.get(found)
            if target is not None and followed < _MOST_LINKS:
                followed += 1
                found = "" if target.startswith("/") else found.rpartition("/")[0]
                todo += [part for part in reversed(target.split("/")) if part]
        return found
