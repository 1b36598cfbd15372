"""An empty image for the trial of a joining node. It runs the host's own programs, which are mounted into it.

So a node can be probed without a registry, and before any image was pushed. Used by ``kind``.
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

from grass.errors import NotFoundError
from grass.model.image import PROBE_IMAGE
from grass.model.job import Container, Mount
from node.runtime.docker.engine import Engine

_PROGRAMS = ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/usr")
_FOLDERS = ("dev", "etc", "proc", "sbin", "sys", "tmp")
"""``sbin`` is a folder, not a link, because the engine puts its init there."""


def provide(engine: Engine) -> str:
    """Return the image's name; create it unless the engine has it. Raises GrassError."""
    try:
        engine.image(PROBE_IMAGE)
    except NotFoundError:
        engine.import_files(_files(), PROBE_IMAGE)
    return PROBE_IMAGE


def container() -> Container:
    """Return the container's settings. Mounts the host's folders; links to folders are part of the image."""
    folders = [path for path in _PROGRAMS if Path(path).is_dir() and not Path(path).is_symlink()]
    return Container(mounts=tuple(Mount(path, path, read_only=True) for path in folders))


def _files() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for folder in _FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for path in filter(os.path.islink, _PROGRAMS):
            link = tarfile.TarInfo(path[1:])
            link.type, link.linkname = tarfile.SYMTYPE, os.readlink(path)  # noqa: PTH115
            tar.addfile(link)
    return packed.getvalue()
