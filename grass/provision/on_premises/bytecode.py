"""Bytecode of wheels, compiled once on the machine of the CLI instead of on each host.

It fits hosts whose Python has the same magic number, which is that of the same minor version; the processor does not
matter. Files are marked as *unchecked* (PEP 552: a hash that Python does not compare with the source), because what is
installed is never edited. ``bundle`` calls ``archives``, which calls this module as a program of its own: with a fixed
seed of hashes, the same wheel makes the same bytes. Used by ``bundle``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import os
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from grass.errors import UnreachableError
from grass.system import own_program
from grass.system.atomic_file import replace_file

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
TAG = sys.implementation.cache_tag or ""
MAGIC = importlib.util.MAGIC_NUMBER.hex()
_SECONDS = 300
_UNCHECKED = (1).to_bytes(4, "little")
"""Flags of PEP 552: there is a hash of the source (bit 0), and Python does not check it (bit 1 is not set)."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def archives(wheels: Iterable[Path], cache: Path) -> dict[str, Path]:
    """Return the name in a bundle → zip of a wheel's bytecode, to unpack in `site-packages`. Missing ones are compiled.

    ``cache``: a folder, created if missing; one process at a time. Raises UnreachableError: compiling failed.
    """
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = {wheel: cache / f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}.{MAGIC}.zip" for wheel in wheels}
    missing = [str(path) for pair in found.items() if not pair[1].exists() for path in pair]
    if missing:
        _compile_apart(missing)
    for archive in found.values():
        os.utime(archive)
    return {f"{wheel.name}.{TAG}.zip": archive for wheel, archive in found.items()}


def _compile_apart(pairs: list[str]) -> None:
    command = own_program.command("grass.provision.on_premises.bytecode", *pairs)
    env = {**own_program.environment(), "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise UnreachableError(f"the packages for hosts were not compiled within {_SECONDS} s") from None
    if done.returncode:
        raise UnreachableError(f"cannot compile the packages for hosts:\n  {done.stderr.strip()[-2000:]}")


def compile_wheel(wheel: bytes) -> bytes:
    """Return a zip of the bytecode. Sources that do not compile and folders of tests are left out."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(wheel)) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        for name in sorted(source.namelist()):
            path = _installed(PurePosixPath(name))
            if path is None:
                continue
            text = source.read(name)
            try:
                code = compile(text, str(path), "exec", dont_inherit=True, optimize=0)
            except (SyntaxError, ValueError):
                continue
            entry = zipfile.ZipInfo(str(path.parent / "__pycache__" / f"{path.stem}.{TAG}.pyc"), _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            header = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(text)
            target.writestr(entry, header + marshal.dumps(code))
    return made.getvalue()


def _installed(path: PurePosixPath) -> PurePosixPath | None:
    """Return where a source is in `site-packages`; None: it is not to be compiled."""
    if path.suffix != ".py" or "/tests/" in str(path):
        return None
    if not path.parts[0].endswith(".data"):
        return path
    return PurePosixPath(*path.parts[2:]) if path.parts[1] in ("purelib", "platlib") else None


def main(words: list[str]) -> int:
    """Compile each wheel into the archive that follows it in ``words``."""
    warnings.simplefilter("ignore")  # of the authors of packages, not of ours
    for wheel, archive in zip(words[::2], words[1::2], strict=True):
        replace_file(Path(archive), compile_wheel(Path(wheel).read_bytes()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
