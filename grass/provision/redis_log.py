"""Append-only log of a cluster's own redis: detection of damage, and the explicit repair.

`grass create` and `grass status` call it when redis does not answer. The check uses redis' own tool: the server's
program takes that role when it is called by the tool's name. The module must repair nothing without a request. On the
master of several hosts: ``python -m grass.provision.redis_log CLUSTER_JSON [--repair]``; the two commands run it there
without ``--repair`` (``on_premises.log_damage``).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grass.config import ClusterConfig, Secrets
from grass.errors import GrassError
from grass.node_config import load_master
from grass.store import embedded
from grass.store.connect import open_backend
from grass.system import clock

_ANALYZED = re.compile(r"^AOF analyzed: (?:filename=(?P<name>.+), )?size=(?P<size>\d+), ok_up_to=(?P<good>\d+),", re.M)
PATIENCE = 60.0
"""Seconds for the check of one log; the tool reads some hundred MB a second."""
_REPAIR = "`grass create --repair` keeps a copy of that file and cuts off"
_REPAIR_ON_HOST = (
    "as root on the master, `systemctl stop grass-redis@{name}`, `runuser -u grass -- {python} -m "
    "grass.provision.redis_log {path} --repair` and `systemctl start grass-redis@{name}` keep a copy of that file and "
    "cut off"
)


class DamagedLogError(GrassError):
    """redis cannot read its log. Fix: `grass create --repair`, which loses all data after the damage."""

    code = "damaged-log"
    exit_code = 3


@dataclass(frozen=True)
class Damage:
    """Damage of a log.

    ``file`` can be read up to the byte ``good`` of ``size``; ``words``: the error text of redis' tool. ``size`` 0: the
    tool does not report the position, and cannot repair the file.
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
    """Return whether the cluster's redis serves requests.

    A redis that loads its log does not serve requests. A redis with a damaged log repeatedly reports that it loads,
    before it ends. ``patience``: seconds to wait for the restart of a killed redis.
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


def damage(config: ClusterConfig, repair: str = _REPAIR) -> str:
    """Return the message for the user about a redis that does not answer. Empty: its log is intact.

    ``repair``: which commands cut off the end of the log.
    """
    found = find_damage(embedded.find_server().path, _folder(config))
    if found is None:
        return ""
    if not found.size:
        return f"cluster {config.name}: {found}; redis' tool cannot repair it; put back a copy of {found.file.parent}"
    lost = found.size - found.good
    return (
        f"cluster {config.name}: {found}; {repair} the last {lost} bytes, which are lost; everything before them stays"
    )


def check(config: ClusterConfig) -> None:
    """Check the log. Raises DamagedLogError."""
    if said := damage(config):
        raise DamagedLogError(said)


def repair(config: ClusterConfig, progress: Callable[[str], None]) -> None:
    """Cut off the unreadable part of the log, after keeping a copy. redis must not run. An intact log is not changed.

    Raises DamagedLogError when redis' tool cannot repair it: the damage is not at the end of the last file.
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
    """Find the damage of a log. None: the log is readable, or does not exist yet.

    ``server``: path of the server's program. ``folder``: its working folder.
    """
    log = _log(folder)
    if not log.exists():
        return None
    said, code = _tool(server, str(log))
    files = list(_ANALYZED.finditer(said))
    if code == 0:
        return None
    if not files or files[-1]["good"] == files[-1]["size"]:  # a base file: the tool does not report the file's size
        return Damage(log, 0, 0, said.rstrip().rpartition("\n")[2])
    last = files[-1]
    file = log.parent / last["name"] if last["name"] else log
    before = said[: last.start()].rstrip().rpartition("\n")[2]
    words = re.sub(r"^(0x\s*[0-9a-f]+: |AOF \S+ (?=format error))", "", before)
    return Damage(file, int(last["size"]), int(last["good"]), words)


def _folder(config: ClusterConfig) -> Path:
    return Path(config.home) / "redis"


def _log(folder: Path) -> Path:
    """Return the log, or its list of files: servers from 7.0 on keep several files and a list of them."""
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
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout, done.returncode


def main(path: str, *options: str) -> int:
    config = load_master(path)
    try:
        if "--repair" in options:
            repair(config, _say)
            return 0
    except DamagedLogError as error:
        _say(str(error))
        return error.exit_code
    found = damage(config, _REPAIR_ON_HOST.format(name=config.name, python=sys.executable, path=path))
    if found:
        _say(found)
    return DamagedLogError.exit_code if found else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
