"""The append-only log of a cluster's own redis: is it damaged, where, and the explicit repair.

Called by `grass create` and `grass status` when redis does not answer. redis' own check tool does the work: it is part
of the server's program, which takes that role when it is called by the tool's name. Nothing is repaired unless asked.
By hand, on a host: ``python -m grass.provision.redis_log CLUSTER_JSON [--repair]``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grass import clock
from grass.config import ClusterConfig, Secrets
from grass.errors import GrassError
from grass.store import embedded
from grass.store.connect import open_backend

_ANALYZED = re.compile(r"^AOF analyzed: (?:filename=(?P<name>.+), )?size=(?P<size>\d+), ok_up_to=(?P<good>\d+),", re.M)
_PATIENCE = 60.0
"""Seconds for the check of one log; it reads some hundred MB a second."""


class DamagedLogError(GrassError):
    """redis cannot read what it wrote. Fix: `grass create --repair`, which loses what follows the damage."""

    code = "damaged-log"
    exit_code = 3


@dataclass(frozen=True)
class Damage:
    """``file`` can be read up to the byte ``good`` of ``size``; ``words``: what redis' tool says is wrong there.

    ``size`` 0: the tool does not say where, and cannot repair it.
    """

    file: Path
    size: int
    good: int
    words: str

    def __str__(self) -> str:
        return f"redis cannot read its log {self.file}: damaged after byte {self.good} of {self.size}" + (
            f" ({self.words})" if self.words else ""
        )


def answers(config: ClusterConfig, patience: float = 2.5) -> bool:
    """Whether the cluster's redis serves requests.

    One that loads its log does not: a redis with a damaged log says that it loads, again and again, before it ends.
    ``patience``: seconds for a redis that was killed to be started again.
    """
    until = clock.steady() + patience
    while not (serves := _serves(config)) and clock.steady() < until:
        clock.sleep(0.05)
    return serves


def _serves(config: ClusterConfig) -> bool:
    if not config.redis.embedded:
        return True
    try:
        backend = open_backend(config, Secrets.load(config.home), "admin")
    except (OSError, GrassError):
        return False
    try:
        backend.ping()
    except GrassError:
        return False
    finally:
        backend.close()
    return True


def damage(config: ClusterConfig) -> str:
    """What to tell the user about a redis that does not answer. Empty: its log is whole."""
    found = find_damage(embedded.find_server().path, _folder(config))
    if found is None:
        return ""
    if not found.size:
        return f"cluster {config.name}: {found}; redis' tool cannot repair it; put back a copy of {found.file.parent}"
    return (
        f"cluster {config.name}: {found}; `grass create --repair` keeps a copy of that file and cuts off the last "
        f"{found.size - found.good} bytes, which are lost; everything before them stays"
    )


def check(config: ClusterConfig) -> None:
    """Raises DamagedLogError."""
    if said := damage(config):
        raise DamagedLogError(said)


def repair(config: ClusterConfig, progress: Callable[[str], None]) -> None:
    """Cut off what cannot be read, after a copy was kept. redis must not run. Does nothing to a log that is whole.

    Raises DamagedLogError when redis' tool cannot mend it: the damage is not at the end of the last file.
    """
    folder, server = _folder(config), embedded.find_server().path
    found = find_damage(server, folder)
    if found is None:
        progress(f"the log of redis in {folder} is whole")
        return
    if not found.size:
        raise DamagedLogError(damage(config))
    copy = found.file.with_name(f"{found.file.name}.damaged-{int(clock.wall())}")
    shutil.copy2(found.file, copy)
    _tool(server, "--fix", str(_log(folder)), answer="y\n")
    if (left := find_damage(server, folder)) is not None:
        raise DamagedLogError(f"cluster {config.name}: {left}; redis' tool cannot repair it; a copy is in {copy}")
    progress(f"cut {found.size - found.good} bytes off {found.file}; a copy of the damaged file is {copy}")


def find_damage(server: Path, folder: Path) -> Damage | None:
    """None: all can be read, or there is no log yet. ``server``: its program. ``folder``: the one it works in."""
    log = _log(folder)
    if not log.exists():
        return None
    said, code = _tool(server, str(log))
    files = list(_ANALYZED.finditer(said))
    if code == 0:
        return None
    if not files or files[-1]["good"] == files[-1]["size"]:  # a base file: the tool does not tell its size
        return Damage(log, 0, 0, said.rstrip().rpartition("\n")[2])
    last = files[-1]
    file = log.parent / last["name"] if last["name"] else log
    before = said[: last.start()].rstrip().rpartition("\n")[2]
    words = re.sub(r"^(0x\s*[0-9a-f]+: |AOF \S+ (?=format error))", "", before)
    return Damage(file, int(last["size"]), int(last["good"]), words)


def _folder(config: ClusterConfig) -> Path:
    return Path(config.home) / "redis"


def _log(folder: Path) -> Path:
    """Servers from 7.0 on keep several files and a list of them."""
    manifest = folder / "appendonlydir" / "appendonly.aof.manifest"
    return manifest if manifest.exists() else folder / "appendonly.aof"


def _tool(server: Path, *arguments: str, answer: str = "") -> tuple[str, int]:
    done = subprocess.run(
        ["redis-check-aof", *arguments],
        executable=server,
        input=answer,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PATIENCE,
        check=False,
    )
    return done.stdout, done.returncode


def main(path: str, *options: str) -> int:
    config = ClusterConfig.load(path)
    try:
        if "--repair" in options:
            repair(config, _say)
        else:
            check(config)
    except DamagedLogError as error:
        _say(str(error))
        return error.exit_code
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
