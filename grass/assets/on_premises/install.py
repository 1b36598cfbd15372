"""Install Grass from a bundle in a new virtual environment, without pip and without a network.

    python3 install.py BUNDLE VENV master|node

It lies in the bundle, and runs on the host with the Python that Grass will use: `grass create` and `join.py` call it.
The wheels are unpacked by the library `installer`, which is in the bundle as well. Bytecode comes from the bundle if it
was made by the same version of Python as this one. Otherwise it is compiled here: only the owner may write into VENV,
so Python could not keep what it compiles at each start.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CONTENTS = "wheels.json"
LIBRARY = "installer-"
"""The wheel of the library that unpacks the others. It is used as it is, and not installed."""
REFUSED = 2
"""Exit code if the bundle has nothing for this machine; nothing was changed."""
TESTS = "/tests/"
"""Folders that are not installed: packages import nothing from them. A third of numpy's files are in them."""


class Refused(Exception):
    """The bundle is not for this machine: the message for people."""


def main(bundle: Path, target: Path, role: str) -> None:
    work = target.with_name(f"{target.name}.wheels")
    with tarfile.open(bundle, "r:") as tar:
        contents = json.loads(content(tar, CONTENTS))
        names = wanted(contents, role)
        shutil.rmtree(work, ignore_errors=True)  # of an installation that was killed
        work.mkdir(parents=True)
        try:
            for name in names:
                (work / name).write_bytes(content(tar, name))
            bytecode = compiled(tar, contents["bytecode"], names)
            venv.EnvBuilder(symlinks=True, clear=True).create(target)
            site = target / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
            install([work / name for name in names], target, site)
            for name in bytecode:
                with tar.extractfile(name) as file, zipfile.ZipFile(file) as archive:  # type: ignore[union-attr]
                    archive.extractall(site)  # noqa: S202 # its digest was checked
        finally:
            shutil.rmtree(work, ignore_errors=True)
    if not bytecode:
        compile_here(target, site)


def content(tar: tarfile.TarFile, name: str) -> bytes:
    with tar.extractfile(name) as file:  # type: ignore[union-attr] # it is a file
        return file.read()


def wanted(contents: dict[str, Any], role: str) -> list[str]:  # Any: decoded JSON
    """Return the names of the wheels for this role on this machine. Raises Refused if there are none."""
    if role == "master":
        return list(contents["master"])
    nodes, kind = contents["nodes"], kind_of_machine()
    if kind not in nodes:
        raise Refused(
            f"this cluster has no packages for {kind}, only for {', '.join(sorted(nodes))}; nothing was installed. "
            "Use one of these versions of Python, or set `bundle: {machines: [...]}` in the settings for more machines"
        )
    return list(nodes[kind])


def kind_of_machine() -> str:
    libc = "glibc" if "glibc" in platform.libc_ver()[0] else "musl"
    return f"{sys.version_info[0]}.{sys.version_info[1]}-{platform.machine()}-{libc}"


def compiled(tar: tarfile.TarFile, made: dict[str, str], names: list[str]) -> list[str]:
    """Return the names of the archives of bytecode for these wheels; empty: this Python cannot use them."""
    if made["magic"] != importlib.util.MAGIC_NUMBER.hex() or made["tag"] != sys.implementation.cache_tag:
        return []
    there = set(tar.getnames())
    archives = [f"{name}.{made['tag']}.zip" for name in names if not name.startswith(LIBRARY)]
    return archives if there.issuperset(archives) else []


def install(wheels: list[Path], target: Path, site: Path) -> None:
    [library] = [wheel for wheel in wheels if wheel.name.startswith(LIBRARY)]
    sys.path.insert(0, str(library))
    import installer
    from installer.destinations import SchemeDictionaryDestination
    from installer.sources import WheelFile

    class WithoutTests(WheelFile):  # type: ignore[misc]
        def get_contents(self) -> Iterable[Any]:
            return (each for each in super().get_contents() if TESTS not in each[0][0])

    folders = {
        "purelib": site,
        "platlib": site,
        "scripts": target / "bin",
        "data": target,
        "headers": target / "include",
    }
    schemes = {scheme: str(folder) for scheme, folder in folders.items()}
    destination = SchemeDictionaryDestination(schemes, str(target / "bin" / "python"), "posix")
    for wheel in wheels:
        if wheel != library:
            with WithoutTests.open(wheel) as source:
                installer.install(source, destination, {})


def compile_here(target: Path, site: Path) -> None:
    """Compile. A file that does not compile is not a failure: nothing imports it."""
    jobs = "0" if (os.cpu_count() or 1) > 2 else "1"  # on two cores, the start of the workers costs what they save
    command = [str(target / "bin" / "python"), "-m", "compileall", "-q", "-j", jobs, str(site)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False, close_fds=False)  # the child inherits a lock


if __name__ == "__main__":
    os.umask(0o022)
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    except Refused as refused:
        sys.stderr.write(f"{refused}\n")
        sys.exit(REFUSED)
