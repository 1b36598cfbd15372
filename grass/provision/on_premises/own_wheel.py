"""Wheel of the running Grass, installed or in a checkout. Needs no build tool and no network. Used by ``bundle``."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from grass import __version__
from grass.assets import asset
from grass.provision.on_premises import requirements

_PACKAGES = ("grass", "master", "node")
_ASSETS = ("deploy", "examples")
_NAME = "grass_cluster"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_wheel() -> tuple[str, bytes]:
    """Return the wheel's file name and content. The same sources make the same bytes."""
    files = dict(_files())
    info = f"{_NAME}-{__version__}.dist-info"
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: grass\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = b"[console_scripts]\ngrass = grass.cli.entry:main\n"
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD").encode()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    return f"{_NAME}-{__version__}-py3-none-any.whl", content.getvalue()


def _files() -> Iterator[tuple[str, bytes]]:
    for package in _PACKAGES:
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None, f"{package} is not installed beside grass"
        yield from _tree(Path(spec.origin).parent, package)
    for folder in _ASSETS:  # an installed Grass has them in the package already, with equal names and bytes
        yield from _tree(asset(folder), f"grass/assets/{folder}")


def _tree(folder: Path, inside: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
            yield f"{inside}/{path.relative_to(folder).as_posix()}", path.read_bytes()


def _metadata() -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {requirements.DISTRIBUTION}", f"Version: {__version__}"]
    lines += ["License: MIT", "Requires-Python: >=3.10"]
    lines += [f"Requires-Dist: {line}" for line in requirements.own()]
    # who makes a cluster with this wheel brings them to the master of a cloud
    lines += [f"Provides-Extra: {requirements.AZURE}"]
    lines += [
        f'Requires-Dist: {line}; extra == "{requirements.AZURE}"' for line in requirements.of_extra(requirements.AZURE)
    ]
    return "\n".join(lines) + "\n"


def _record(files: dict[str, bytes], own: str) -> str:
    lines = []
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(files[name])}")
    return "\n".join([*lines, f"{own},,"]) + "\n"
