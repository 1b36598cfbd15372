"""The bundle: Grass and all its requirements, as wheels, in one tar file that is copied to hosts.

The bundle holds the wheels of the master, for the master's Python, and the wheels of nodes, for each Python that Grass
supports. Few wheels differ between them. ``wheels.json`` in the bundle says which wheels belong to which kind of
machine. The bundle also holds the program that installs it (``install.py``), and the bytecode of the wheels for the
Python of the CLI (``bytecode``). It is built on the machine of the CLI, the only one that needs a package index. Wheels
are cached by version of Python, machine and C library. A host installs from the tar alone. Used by ``create``,
``install`` and ``master``.
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
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from grass import __version__
from grass.assets import asset
from grass.errors import InputError, UnreachableError
from grass.lines import lines_of
from grass.provision.filelock import file_lock
from grass.provision.on_premises import bytecode, requirements
from grass.provision.on_premises.own_wheel import write_wheel
from grass.provision.on_premises.requirements import Target
from grass.system import own_program

FORMAT = 2
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
"""Versions of Python that nodes may have."""
CONTENTS = "wheels.json"
INSTALLER = "install.py"
UNKNOWN = "DIGEST"
"""In place of the digest of a bundle that is planned, and not built."""
_LIBRARY = "installer>=0.7"
"""What unpacks wheels on a host."""
_KEPT, _KEPT_SETS, _KEPT_BYTECODE = 4, 24, 400
"""Numbers of tars of earlier versions, of sets of wheels, and of wheels' bytecode, that stay in the cache."""
_SECONDS = 900
"""Limit of one call of pip, and of the wait for another command that builds the same."""
_AT_ONCE = 4
"""Most calls of pip at once."""


@dataclass(frozen=True)
class Bundle:
    """A built bundle.

    ``digest``: SHA-256 of the tar in hexadecimal; it identifies the bundle. ``target``: the master's. ``nodes``: kinds
    of machines (``Target.kind``) that can become nodes with this bundle.
    """

    tar: Path
    digest: str
    target: Target
    nodes: tuple[str, ...] = ()

    def description(self) -> bytes:
        """Return the content of ``bundle.json``, which lies beside the tar on the master."""
        wire = {
            "file": "bundle.tar",
            "digest": self.digest,
            "version": __version__,
            "python": self.target.python,
            "machine": self.target.machine,
            "nodes": self.nodes,
        }
        return (json.dumps(wire, indent=2) + "\n").encode()


def make_bundle(
    target: Target,
    cache: Path,
    progress: Callable[[str], None],
    *,
    machines: Iterable[str] = (),
    pythons: Iterable[str] = PYTHONS,
    extras: Iterable[str] = (),
) -> Bundle:
    """Build the bundle.

    ``cache``: a folder, created if missing. ``machines``: machine types of nodes, besides the master's type. Wheels for
    other Pythons are left out if no index has them. ``extras``: those of Grass that the master needs. Raises
    UnreachableError: wheels of the master are missing, and no index has them.
    """
    own = _wheels(_of_master(extras), target, cache, progress)
    others = requirements.of_nodes(target, (target.machine, *machines), pythons)
    sets = {target.kind: own} | _sets(others, cache, progress, {target.machine, *machines} - {target.machine})
    bundles = cache / "bundles"
    bundles.mkdir(mode=0o700, parents=True, exist_ok=True)
    with file_lock(bundles / ".lock", _SECONDS):
        tar, digest = _pack(target, own, sets, cache)
        _forget(cache / "wheels", _KEPT_SETS)
        _forget(cache / "bytecode", _KEPT_BYTECODE)
        _forget(bundles, _KEPT)
    return Bundle(tar, digest, target, tuple(sorted(sets)))


def planned_bundle(
    target: Target,
    cache: Path,
    progress: Callable[[str], None],
    *,
    machines: Iterable[str] = (),
    pythons: Iterable[str] = PYTHONS,
    extras: Iterable[str] = (),
) -> Bundle:
    """Return the bundle for a plan, which fetches nothing.

    It is the real one only if its wheels are in the cache. Arguments are those of ``make_bundle``.
    """
    machines, pythons, extras = tuple(machines), tuple(pythons), tuple(extras)
    others = requirements.of_nodes(target, (target.machine, *machines), pythons)
    needed = [(_of_master(extras), target), *((requirements.of_node(), other) for other in others)]
    if all(_place(lines, each, cache).is_dir() for lines, each in needed):
        return make_bundle(target, cache, progress, machines=machines, pythons=pythons, extras=extras)
    return Bundle(cache / "bundles" / UNKNOWN, UNKNOWN, target, tuple(sorted(other.kind for other in others)))


def _of_master(extras: Iterable[str]) -> list[str]:
    return [*requirements.own(), *(line for extra in extras for line in requirements.of_extra(extra))]


def _place(needed: list[str], target: Target, cache: Path) -> Path:
    """Return the folder that a set of wheels has in the cache, once it is fetched."""
    key = hashlib.sha256(json.dumps([FORMAT, needed, str(target)]).encode()).hexdigest()[:16]
    return cache / "wheels" / f"{target.python}-{target.machine}-{key}"


def _sets(targets: list[Target], cache: Path, progress: Callable[[str], None], asked: set[str]) -> dict[str, Path]:
    """Return kind → wheels. Wheels of machines in ``asked`` are required; the others are optional."""
    needed = requirements.of_node()

    def one(target: Target) -> tuple[str, Path | None]:
        try:
            return target.kind, _wheels(needed, target, cache, progress)
        except UnreachableError as error:
            if target.machine in asked:
                raise
            progress(f"without packages for {target}, so that none of these can be a node: {error}")
            return target.kind, None

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return {kind: wheels for kind, wheels in pool.map(one, targets) if wheels is not None}


def _wheels(needed: list[str], target: Target, cache: Path, progress: Callable[[str], None]) -> Path:
    """Return the folder of the wheels, fetched if they are missing. Commands that run at once fetch them once."""
    folder, wheels = cache / "wheels", _place(needed, target, cache)
    if not wheels.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file_lock(folder / f".{wheels.name}.lock", _SECONDS):
            if not wheels.is_dir():
                progress(f"fetching the packages that Grass needs for {target}")
                _fetch(needed, target, wheels)
    os.utime(wheels)
    return wheels


def _fetch(needed: list[str], target: Target, wheels: Path) -> None:
    """Fetch wheels into a temporary folder, renamed when complete. The caller has the lock.

    pip evaluates markers for its own Python, so this module evaluates them for the target.
    """
    draft = wheels.with_name(f".{wheels.name}.new")
    shutil.rmtree(draft, ignore_errors=True)  # of a command that was killed
    draft.mkdir(mode=0o700)
    try:
        wanted, before, now = requirements.meant([_LIBRARY, *needed], target), draft, draft
        while requirements.unmet(wanted, now):
            # A folder for each round: a later one may choose another version, and only one is to be installed.
            before, now = now, draft / f"{len(wanted)}"
            now.mkdir(mode=0o700)
            _download(sorted(wanted), target, before, now)
            wanted |= requirements.closure(wanted, now, target)
        now.replace(wheels)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _download(wanted: list[str], target: Target, before: Path, folder: Path) -> None:
    command = own_program.command("pip", "download", "--quiet", "--disable-pip-version-check", "--no-input")
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", target.python]
    command += [word for platform in target.platforms() for word in ("--platform", platform)]
    command += ["--find-links", str(before), "--dest", str(folder), *wanted]
    try:
        env = own_program.environment()
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise UnreachableError(f"pip did not fetch the packages for {target} within {_SECONDS} s") from None
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise InputError(
            f"{sys.executable} has no pip, which fetches packages for hosts; `{sys.executable} -m ensurepip`"
        )
    said = "\n  ".join(line for line in lines_of(done.stderr) if line.strip())[-2000:]
    raise UnreachableError(f"pip cannot fetch the packages that Grass needs for {target}:\n  {said}")


def _pack(master: Target, own: Path, sets: dict[str, Path], cache: Path) -> tuple[Path, str]:
    """Pack the tar. The same content always makes the same bytes, so that a host with that bundle is left unchanged."""
    bundles = cache / "bundles"
    work = bundles / ".new"
    shutil.rmtree(work, ignore_errors=True)  # of a command that was killed
    work.mkdir(mode=0o700)
    try:
        name, content = write_wheel()
        (work / name).write_bytes(content)
        wheels = {path.name: path for folder in (*sets.values(), own, work) for path in folder.glob("*.whl")}
        of_master = [name, *_names(own)]
        of_nodes = {kind: [name, *_names(sets[kind])] for kind in sorted(sets)}
        made = {"tag": bytecode.TAG, "magic": bytecode.MAGIC}
        contents = {"master": of_master, "nodes": of_nodes, "bytecode": made}
        lists = [of_master] if master.python == bytecode.PYTHON else []
        lists += [names for kind, names in of_nodes.items() if kind.startswith(f"{bytecode.PYTHON}-")]
        compiled = bytecode.archives([wheels[name] for name in sorted({*chain(*lists)})], cache / "bytecode")
        draft = work / "bundle.tar"
        with tarfile.open(draft, mode="w", format=tarfile.PAX_FORMAT) as tar:
            _add(tar, CONTENTS, (json.dumps(contents, indent=1) + "\n").encode())
            _add(tar, INSTALLER, asset(f"on_premises/{INSTALLER}").read_bytes())
            for name, path in sorted((wheels | compiled).items()):
                _add(tar, name, path.read_bytes())
        digest = hashlib.sha256(draft.read_bytes()).hexdigest()
        target = bundles / f"{digest}.tar"
        draft.replace(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target, digest


def _names(wheels: Path) -> list[str]:
    return sorted(path.name for path in wheels.glob("*.whl"))


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    tar.addfile(entry, io.BytesIO(content))


def _forget(folder: Path, kept: int) -> None:
    """Remove all but the newest. Drafts and locks, whose names begin with a dot, stay."""
    complete = [path for path in folder.iterdir() if not path.name.startswith(".")]
    old = sorted(complete, key=lambda path: path.stat().st_mtime, reverse=True)[kept:]
    for path in old:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
