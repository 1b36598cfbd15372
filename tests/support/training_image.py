"""What training in pods needs: an image with a Python, and a folder with torch, numpy and scikit-learn for the claim.

The image has the libraries of C that those need. They are not in it themselves: a gigabyte more for each engine.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from tests.support import kubernetes, python_image
from tests.support.frameworks import torch_folder

IMAGE = "grass-test-training:1"
_TORCHRUN = b"#!/usr/bin/python3\nfrom torch.distributed.run import main\n\nmain()\n"
_LEARNING = (
    "sklearn",
    "scikit_learn.libs",
    "scipy",
    "scipy.libs",
    "joblib",
    "threadpoolctl.py",
    "narwhals",
    "cloudpickle",
)


def provide_image() -> None:
    """Give the cluster of Kubernetes the image, unless it has it."""
    kubernetes.provide(IMAGE, _image_files)


def _image_files() -> bytes:
    packages = torch_folder() / "lib"
    compiled = sorted(packages.glob("python3*/site-packages/torch/lib/*.so*"))
    packed = io.BytesIO(python_image.image_files(compiled))
    with tarfile.open(fileobj=packed, mode="a") as tar:
        torchrun = tarfile.TarInfo("usr/bin/torchrun")
        torchrun.size, torchrun.mode = len(_TORCHRUN), 0o755
        tar.addfile(torchrun, io.BytesIO(_TORCHRUN))
        python = tarfile.TarInfo("usr/bin/python")
        python.type, python.linkname = tarfile.SYMTYPE, "python3"
        tar.addfile(python)
    return packed.getvalue()


def provide_software(folder: Path) -> None:
    """Link the packages into a folder that does not exist yet."""
    sklearn = Path(pytest.importorskip("sklearn", reason="pip install -e .[examples]").__file__).parents[1]
    [torch] = torch_folder().glob("lib/python3*/site-packages")
    shutil.copytree(torch, folder, copy_function=_linked, symlinks=True)
    for name in _LEARNING:
        if (sklearn / name).is_dir():
            shutil.copytree(sklearn / name, folder / name, copy_function=_linked)
        else:
            _linked(str(sklearn / name), str(folder / name))


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy(source, target)
