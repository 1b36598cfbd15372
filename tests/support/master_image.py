"""An image with Grass for a master inside Kubernetes, made of what the tests themselves run with: no registry is asked.

With compiled files, without which each daemon would compile all that it imports.
Users make theirs with ``deploy/kubernetes/Dockerfile``.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

from tests.support import kubernetes

ROOT = Path(__file__).parents[2]
_NAME = "grass-test-master"
_LIBRARY = f"usr/local/lib/python{sys.version_info.major}.{sys.version_info.minor}"
_OWN = ("grass", "master", "node", "deploy")
_LEFT_OUT = {"dist-packages", "site-packages", "test", "tests", "idlelib", "lib2to3", "ensurepip"}
_USERS = b"root:x:0:0::/root:/bin/sh\ngrass-master:x:1000:1000::/tmp:/bin/sh\n"


def provide_images() -> tuple[str, str]:
    """Give the cluster an image with the present code, unless it has it, under two names. Remove older ones."""
    sources = sorted(
        path for package in _OWN for path in (ROOT / package).rglob("*") if path.suffix not in (".pyc", "")
    )
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources if path.is_file())).hexdigest()[:12]
    names = (f"{_NAME}:{digest}-1", f"{_NAME}:{digest}-2")
    kubernetes.provide(names[0], image_files, names[1], without=_NAME)
    return names


def image_files() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        program, library = Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib"))
        tar.add(program, "usr/local/bin/python3")
        tar.add(library, _LIBRARY, filter=_kept)
        for package in _OWN:
            tar.add(ROOT / package, f"{_LIBRARY}/site-packages/{package}")
        compiled = [program, *library.glob("lib-dynload/*.so")]
        for file, name in _packages():
            tar.add(file, f"{_LIBRARY}/site-packages/{name}")
            if ".so" in file.suffixes or "bin" in file.parts:
                compiled.append(file)
        for path in sorted(_libraries(compiled)):
            tar.add(path.resolve(), f"lib/x86_64-linux-gnu/{path.name}")
            if path.name.startswith("ld-linux"):
                tar.add(path.resolve(), str(path).lstrip("/"))
        tar.add("/bin/busybox", "bin/busybox")
        _link(tar, "bin/sh", "busybox")
        _file(tar, "etc/passwd", _USERS)
        temporary = tarfile.TarInfo("tmp")
        temporary.type, temporary.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(temporary)
    return packed.getvalue()


def _packages() -> Iterator[tuple[Path, str]]:
    """Yield the files of all packages that Grass needs, and their names below site-packages."""
    for name in sorted(_required("grass-cluster", {"kubernetes"}) - {"grass-cluster"}):
        for file in importlib.metadata.distribution(name).files or ():
            path = Path(str(file.locate()))
            if not file.is_absolute() and ".." not in file.parts and path.is_file():
                yield path, str(file)


def _required(name: str, extras: set[str]) -> set[str]:
    found: set[str] = set()
    left = [(name, frozenset(extras))]
    while left:
        name, wanted = left.pop()
        if name in found:
            continue
        found.add(name)
        for text in importlib.metadata.requires(name) or ():
            each = Requirement(text)
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                left.append((each.name.lower().replace("_", "-"), frozenset(each.extras)))
    return found


def _libraries(programs: list[Path]) -> set[Path]:
    done = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    found = {Path(path) for path in re.findall(r"(/\S+) \(0x", done.stdout)}
    return {path for path in found if "site-packages" not in path.parts}


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if _LEFT_OUT.intersection(Path(entry.name).parts[4:]) else entry


def _link(tar: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    tar.addfile(entry)


def _file(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
