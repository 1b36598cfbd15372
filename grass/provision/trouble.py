"""Reasons why a cluster on this machine does not answer, or only partly, with advice for the user.

Called by `grass status`. ``look`` reads the machine, ``trouble`` builds the text; both must change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grass.config import ClusterConfig
from grass.model.amounts import show_memory
from grass.model.daemons import SUPERVISOR, DaemonState
from grass.provision import redis_log
from grass.supervision import processes
from grass.system import disk


def look(config: ClusterConfig, daemons: Sequence[DaemonState]) -> list[str]:
    """Return the problems of a cluster. ``daemons``: those of ``local``."""
    home = Path(config.home)
    supervised = any(one.name == SUPERVISOR and one.state == "RUNNING" for one in daemons)
    damage = redis_log.damage(config) if supervised and not redis_log.answers(config) else ""
    return trouble(config.name, home, daemons, free=disk.free(home), tasks=len(processes.tasks_of(config)), log=damage)


def trouble(
    name: str, home: Path, daemons: Sequence[DaemonState], *, free: int, tasks: int = 0, log: str = ""
) -> list[str]:
    """Return one sentence for each problem. ``free``: bytes on the disk of ``home``. ``log``: damage of redis' log."""
    found = [log] if log else []
    found += _supervision(name, daemons, tasks)
    if free < disk.FULL:
        found.append(
            f"the disk of {home} is full ({show_memory(free)} free); the cluster goes on by itself once there is space"
        )
    return found


def _supervision(name: str, daemons: Sequence[DaemonState], tasks: int) -> list[str]:
    orphans = [one.name for one in daemons if one.state == "ORPHANED"]
    stopped = [one.name for one in daemons if one.state == "STOPPED"]
    running = f"{tasks} process{'es' if tasks != 1 else ''} of tasks"
    again = f"`grass start {name}`"
    if orphans:
        state = "does not answer" if SUPERVISOR in orphans else "is not running"
        others = ", ".join(one for one in orphans if one != SUPERVISOR)
        return [
            f"cluster {name}: partly running: supervisord {state}; {others or 'no daemon'} and {running} go on without "
            f"it; the master-agent starts it again within a minute, or {again} does so now"
        ]
    if daemons and len(stopped) == len(daemons):
        if tasks:
            return [f"cluster {name}: its daemons are stopped, but {running} still run; {again} takes them over"]
        return [f"cluster {name}: stopped; {again} starts it again with all its state"]
    if stopped:
        return [f"cluster {name}: partly running: {', '.join(stopped)} stopped; {again} starts what is stopped"]
    return []
