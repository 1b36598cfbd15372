"""The bundle: Grass and all that it needs, as wheels for one kind of machine, in one tar file that hosts are brought.

Made on the machine of the CLI, which is the only one that needs an index of packages; wheels are cached by version of
Python, machine and C library. A host installs from the tar alone.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grass import __version__
from grass.errors import InputError, UnreachableError
from grass.provision.on_premises import requirements
from grass.provision.on_premises.own_wheel import write_wheel
from grass.provision.on_premises.requirements import Target

FORMAT = 1
_TAR = tarfile.USTAR_FORMAT
_KEPT = 4
"""Tars of earlier versions, and sets of wheels, that stay in the cache."""
_SECONDS = 900


@dataclass(frozen=True)
class Bundle:
    """``digest``: SHA-256 of the tar in hexadecimal; with another digest it is another bundle."""

    tar: Path
    digest: str
    target: Target

    def description(self) -> bytes:
        """``bundle.json``, which lies beside the tar on the master."""
        wire = {
            "file": "bundle.tar",
            "digest": self.digest,
            "version": __version__,
            "python": self.target.python,
            "machine": self.target.machine,
        }
        return (json.dumps(wire, indent=2) + "\n").encode()


def make_bundle(target: Target, cache: Path, progress: Callable[[str], None]) -> Bundle:
    """``cache``: a folder that is made. UnreachableError: wheels are missing, and no index has them."""
    needed = requirements.own()
    key = hashlib.sha256(json.dumps([FORMAT, needed, str(target)]).encode()).hexdigest()[:16]
    wheels = cache / "wheels" / f"{target.python}-{target.machine}-{key}"
    if not wheels.is_dir():
        progress(f"fetching the packages that Grass needs for {target}")
        _fetch(needed, target, wheels)
    os.utime(wheels)
    tar, digest = _pack(wheels, cache / "bundles")
    _forget(cache / "wheels")
    _forget(cache / "bundles")
    return Bundle(tar, digest, target)


def _fetch(needed: list[str], target: Target, wheels: Path) -> None:
    """Into a folder beside, renamed when it is whole. pip judges conditions by its own Python, so we judge them."""
    wheels.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=wheels.parent, prefix=".fetch-"))
    try:
        wanted = requirements.meant(["pip", *needed], target)
        while True:
            _download(sorted(wanted), target, draft)
            more = requirements.closure(wanted, draft, target)
            if more <= wanted:
                break
            wanted |= more
        draft.replace(wheels)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _download(wanted: list[str], target: Target, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", target.python]
    command += [word for platform in target.platforms() for word in ("--platform", platform)]
    command += ["--find-links", str(folder), "--dest", str(folder), *wanted]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise UnreachableError(f"pip did not fetch the packages for {target} within {_SECONDS} s") from None
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise InputError(
            f"{sys.executable} has no pip, which fetches packages for hosts; `{sys.executable} -m ensurepip`"
        )
    said = "\n  ".join(line for line in done.stderr.splitlines() if line.strip())[-2000:]
    raise UnreachableError(f"pip cannot fetch the packages that Grass needs for {target}:\n  {said}")


def _pack(wheels: Path, folder: Path) -> tuple[Path, str]:
    """The same content always makes the same bytes, so that a host that has it is left alone."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".pack-")
    draft = Path(name)
    try:
        with (
            os.fdopen(descriptor, "wb") as file,
            tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            own_name, own = write_wheel()
            _add(tar, own_name, own)
            for wheel in sorted(wheels.glob("*.whl")):
                _add(tar, wheel.name, wheel.read_bytes())
        digest = hashlib.sha256(draft.read_bytes()).hexdigest()
        target = folder / f"{digest}.tar"
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return target, digest


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    tar.addfile(entry, io.BytesIO(content))


def _forget(folder: Path) -> None:
    old = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT:]
    for path in old:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
