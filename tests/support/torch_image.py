"""An image with torch, its Python, and the libraries of C that they need, for the Kubernetes of the tests."""

from __future__ import annotations

import functools
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.support import elastic_train
from tests.support.frameworks import torch_folder
from tests.support.kubernetes import STATE
from tests.support.python_image import libraries

IMAGE = "grass-test-torch:1"
TRAIN = "/train.py"
_LEFT_OUT = {"test", "tests", "include", "idlelib", "ensurepip", "pydoc_data", "pip"}
_DOCKER = ("docker", "-H", f"unix://{STATE / 'docker.sock'}")


@functools.cache
def provide_image() -> Path:
    """Load the image into the engine of the cluster, unless it is there. Return the folder of torch in it."""
    folder = torch_folder()
    if not subprocess.run([*_DOCKER, "images", "-q", IMAGE], capture_output=True, check=True).stdout:
        with tempfile.TemporaryFile() as packed:
            _pack(folder, packed)
            packed.seek(0)
            subprocess.run([*_DOCKER, "import", "-", IMAGE], stdin=packed, check=True, capture_output=True)
    return folder


def _pack(folder: Path, packed: object) -> None:
    python = (folder / "bin" / "python3").resolve()
    home = python.parents[1]
    library = next((home / "lib").glob("python3.*"))
    extensions = [*library.glob("lib-dynload/*.so"), *folder.glob("lib/*/site-packages/torch/lib/*.so*")]
    needed = {path for each in (python, *extensions) for path in libraries(each)}
    with tarfile.open(fileobj=packed, mode="w") as tar:  # type: ignore[call-overload]
        for path in (Path("/bin/busybox"), *sorted(each for each in needed if not each.is_relative_to(folder))):
            tar.add(path.resolve(), str(path).lstrip("/"))
        for path in (python, library, folder):
            tar.add(path, str(path).lstrip("/"), filter=_kept)
        for path in home.glob("lib/libpython*.so*"):
            tar.add(path, str(path).lstrip("/"))
        tar.add(elastic_train.__file__, TRAIN.lstrip("/"))
        for link, target in {"bin/sh": "busybox", "bin/sleep": "busybox", "usr/bin/env": "/bin/busybox"}.items():
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = Path(entry.name).parts
    own_packages = "site-packages" in parts and ".pyenv" in parts
    return None if own_packages or _LEFT_OUT.intersection(parts) else entry
