"""Framework ``mars``: arguments of Mars's programs, and a configuration file for Mars 0.7 and later.

The role is option ``role``, or the component's name: ``supervisor``, ``worker``; for Mars <= 0.6 (option ``version``)
``scheduler``, ``web``, ``worker``. Addresses are those of the components' port ``mars``, the page is on port ``web``.
The options of KubeDL's memoryTuningPolicy are accepted under its names. Mars >= 0.7 takes most of them only in the file
that ``-f`` names. Used by ``registry``.
"""

from __future__ import annotations

from collections.abc import Mapping

from grass.errors import InputError
from grass.frameworks.seat import Rendered, Seat, files_folder, integer, library_folder, words
from grass.model.framework import MARS_PORT, MARS_ROLES, MARS_WEB, is_old_mars
from grass.network_address import network_address
from grass.wire.codec import indented

NODE_TIMEOUT = 20
"""Seconds after which a supervisor gives up a silent worker. Mars's own default, 120, fails jobs for two minutes."""
CONFIG = "mars.yml"
FALLBACK = "grass_mars"
"""Module of ``grass/task/library`` that bounds the cache where the task's Python has no plasma store."""
_SUPERVISORS = {False: ("supervisor",), True: ("scheduler",)}
"""Whether Mars is old (0.6 or earlier) → its supervising components, unless option ``supervisors`` names others."""


def render(seat: Seat) -> Rendered:
    """Return what the task gets.

    Raises InputError: an unknown role, no port, or a worker whose supervisor has no address yet.
    """
    framework, old = seat.framework, is_old_mars(str(seat.framework.options.get("version", "0.10")))
    role = _role(seat)
    port = _port(seat, MARS_PORT)
    env = {"MARS_CONTAINER_IP": seat.address, "MARS_BIND_PORT": str(port)}
    if seat.contained:
        # elsewhere Mars would count the processes of all tasks and of Grass: those below the first Python program
        env["MARS_USE_PROCESS_STAT"] = "1"
    if seat.memory:
        env["MARS_MEMORY_TOTAL"] = str(seat.memory)
    if seat.cpu:
        env["MARS_CPU_TOTAL"] = str(max(1, seat.cpu // 1000))
    if old:
        env["MARS_LOCK_FREE_FILEIO"] = "1" if framework.options.get("lockFreeFileIO", True) else "0"
        return Rendered(env, {}, ("-a", seat.address, "-p", str(port), *_old_arguments(seat, role)))
    return _newer(seat, role, port, env)


def _newer(seat: Seat, role: str, port: int, env: Mapping[str, str]) -> Rendered:
    arguments = ["-H", seat.address, "-p", str(port)]
    if role in ("supervisor", "scheduler", "web"):
        arguments += ["-w", str(_port(seat, MARS_WEB))]
        own = network_address(seat.address, port)
        # always there, even if it is empty: otherwise Mars takes the supervisors that left a file in /tmp for its own
        arguments += ["-s", ",".join(each for each in _supervisors(seat, old=False) if each != own)]
    else:
        arguments += ["-s", ",".join(_required(seat, old=False))]
        arguments += ["--n-cpu", env["MARS_CPU_TOTAL"]] if "MARS_CPU_TOTAL" in env else []
        arguments += ["--mem-bytes", str(seat.memory)] if seat.memory else []
    arguments += ["-f", f"{files_folder(seat.folder, seat.component)}/{CONFIG}"]
    more = {"PYTHONPATH": library_folder(seat.folder) + "/python"} if _cached(seat) else {}
    more |= {"MARS_SPILL_DIRS": spill} if (spill := _spill_folders(seat)) else {}
    return Rendered({**env, **more}, {CONFIG: _configuration(seat)}, tuple(arguments))


def _spill_folders(seat: Seat) -> str:
    """Return folders of this attempt alone: Mars deletes what it was given, with everything in it, when it ends."""
    own = f"{seat.job_id}-{seat.task}-{seat.attempt}"
    return ":".join(f"{folder}/{own}" for folder in words(seat.framework, "spillDirs"))


def _cached(seat: Seat) -> bool:
    """Return whether options ask for a cache: a plasma store, or what stands in for it."""
    return bool(cache_size(seat) or seat.framework.options.get("plasmaStore"))


def _configuration(seat: Seat) -> str:
    """Return the configuration file. It is JSON, which YAML includes."""
    timeout = integer(seat.framework, "nodeTimeout", NODE_TIMEOUT)
    found: dict[str, object] = {"@inherits": "@default", "cluster": {"node_timeout": timeout}}
    if not _cached(seat):
        return indented({**found, "storage": {"backends": ["shared_memory"]}})
    size, folder = cache_size(seat), str(seat.framework.options.get("plasmaStore") or "/dev/shm")
    store = {"plasma_directory": folder, **({"store_memory": size} if size else {})}
    return indented({**found, "third_party_modules": [FALLBACK], "storage": {"backends": ["plasma"], "plasma": store}})


def _old_arguments(seat: Seat, role: str) -> list[str]:
    if role == "scheduler":
        others = _supervisors(seat, old=True)
        return ["-s", ",".join(others)] if len(others) > 1 else []
    arguments = ["-s", ",".join(_required(seat, old=True))]
    if role == "worker":
        size, spill = cache_size(seat), _spill_folders(seat)
        store = seat.framework.options.get("plasmaStore")
        arguments += ["--cache-mem", str(size)] if size else []
        arguments += ["--spill-dir", spill] if spill else []
        arguments += ["--plasma-dir", str(store)] if store else []
        arguments += ["--phy-mem", str(seat.memory)] if seat.memory else []
    return arguments


def cache_size(seat: Seat) -> int | str:
    """Return the bytes of the workers' cache: a size wins over a percentage of the memory limit. 0: Mars decides.

    Without a limit, it is a percentage of the node's memory, which Mars finds out: ``40%``.
    """
    tuning = seat.framework.options
    size, percentage = tuning.get("workerCacheSize"), tuning.get("workerCachePercentage")
    if isinstance(size, int) and size > 0:
        return size
    if not isinstance(percentage, int) or percentage <= 0:
        return 0
    return seat.memory * min(100, percentage) // 100 if seat.memory else f"{min(100, percentage)}%"


def _role(seat: Seat) -> str:
    named = str(seat.framework.options.get("role", seat.component)).lower()
    if named not in MARS_ROLES:
        raise InputError(f"framework: component {seat.component}: set `role` to supervisor, worker, scheduler or web")
    return MARS_ROLES[named]


def _port(seat: Seat, name: str) -> int:
    if name not in seat.ports:
        raise InputError(f"framework: component {seat.component}: mars needs `ports: [{name}]`")
    return seat.ports[name]


def _supervisors(seat: Seat, *, old: bool) -> list[str]:
    names = words(seat.framework, "supervisors") or _SUPERVISORS[old]
    found = (member for name in names if name in seat.memberships for member in seat.memberships[name].members)
    return [network_address(member.address, member.ports[MARS_PORT]) for member in found if MARS_PORT in member.ports]


def _required(seat: Seat, *, old: bool) -> list[str]:
    found = _supervisors(seat, old=old)
    if not found:
        name = _SUPERVISORS[old][0]
        raise InputError(
            f"framework: component {seat.component}: no {name} has an address yet; add `depends_on: {{{name}: ready}}`"
        )
    return found
