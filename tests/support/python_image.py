"""An image of the tests with the machine's own Python, its standard library, and the libraries of C that it needs."""

from __future__ import annotations

import functools
import io
import re
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import docker

from node.runtime.docker.engine import SOCKET
from tests.support.engine import require_engine
from tests.support.needs import require

IMAGE = "grass-test-python:1"
PYTHON = Path("/usr/bin/python3")
_LEFT_OUT = {"dist-packages", "site-packages", "test", "idlelib", "lib2to3", "ensurepip", "pydoc_data", "__pycache__"}


@functools.cache
def provide_image() -> None:
    """Load the image into the machine's engine, unless it is there."""
    require_engine()
    require(PYTHON.exists(), "Python of the system")
    client = docker.APIClient(base_url=f"unix://{SOCKET}", version="auto")
    try:
        if not client.images(IMAGE):
            client.import_image_from_data(image_files(), *IMAGE.split(":"))
    finally:
        client.close()


def image_files(more: Sequence[Path] = ()) -> bytes:
    """``more``: compiled files that are not in the image, whose libraries of C shall be, with those of all modules."""
    program = PYTHON.resolve()
    library = Path(f"/usr/lib/{program.name}")
    modules = library.glob("lib-dynload/*.so" if more else "lib-dynload/_ctypes.*.so")
    needed = {path for each in (program, *modules, *more) for path in _libraries(each)}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in (Path("/bin/busybox"), *sorted(needed)):
            tar.add(path.resolve(), str(path).lstrip("/"))
        for path in (program, library):
            tar.add(path, str(path).lstrip("/"), filter=_kept)
        for link, target in {"bin/sh": "busybox", "usr/bin/python3": program.name}.items():
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return packed.getvalue()


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if _LEFT_OUT.intersection(Path(entry.name).parts) else entry


def _libraries(program: Path) -> list[Path]:
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    found = [Path(path) for path in re.findall(r"(/\S+) \(", said)]
    return [path for path in found if "site-packages" not in path.parts]
