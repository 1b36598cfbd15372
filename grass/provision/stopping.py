"""End of a cluster's processes, in order, in any state of the cluster: tasks and daemons first, redis last.

Used by ``local``, ``removed_folder`` and ``shutdown``.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterable

from grass.config import ClusterConfig
from grass.errors import GrassError
from grass.model.daemons import REDIS, SUPERVISOR
from grass.model.runtime import RuntimeName
from grass.node_config import NodeHome, own_node
from grass.provision import local_namespaces
from grass.supervision import processes
from grass.supervision.processes import Process
from grass.supervision.supervisor import Supervisor
from grass.system import own_program

TASKS_SECONDS = 20.0
"""Seconds for tasks and daemons to end. The shepherd gives tasks up to 10 s of grace, then kills them."""
REDIS_SECONDS = 10.0
KILL_SECONDS = 5.0


class CannotStopError(GrassError):
    """Processes survive even KILL: they hang in the kernel. Try again later."""


def stop(config: ClusterConfig, *, forever: bool = False) -> None:
    """Stop the cluster. Return when no process of it is left and no container runs. Its state stays on the disk.

    ``forever``: the exit states of its containers are no longer needed, so the containers are removed.
    """
    stop_processes(config)
    own = own_node(config)
    for each in (*([own] if own is not None else []), *local_namespaces.nodes(config)):
        if any(runtime.contained and runtime in each.node.runtimes for runtime in RuntimeName):
            end_containers(each, forever=forever)


def stop_processes(config: ClusterConfig) -> None:
    """Stop the cluster like ``stop``, except what engines and Kubernetes run for it: that goes on."""
    supervisor = Supervisor(config)
    if supervisor.answers():
        _stop_supervised(config, supervisor)
    _stop_unsupervised(config)


def end_containers(config: NodeHome, *, forever: bool) -> bool:
    """End what engines run for the node. One that is down does not stop the call; its error is shown to the user,
    and the answer is False."""
    options = ["--remove"] if forever else []
    command = own_program.command("node.runtime.sweep", str(config.path), *options)
    return subprocess.run(command, env=own_program.environment(), cwd="/", check=False).returncode == 0


def end_orphans(config: ClusterConfig) -> None:
    """End the processes that a dead supervisord left running, so that the next supervisord can start everything again.

    The shepherd itself stays, because it is the parent of the tasks; only its guard is ended. The next guard waits for
    that shepherd, and takes over when the shepherd ends.
    """
    _end_supervisors(config)
    shepherd = processes.shepherd_pid(config)
    _, others, redis = _sorted([process for process in processes.of_cluster(config) if process.pid != shepherd])
    processes.end(others, signal.SIGKILL, KILL_SECONDS)
    _end(redis, REDIS_SECONDS)


def _stop_supervised(config: ClusterConfig, supervisor: Supervisor) -> None:
    try:
        states = supervisor.daemons()
        pids = {state.name: state.pid for state in states if state.pid is not None}
        for name in [name for name in pids if name != REDIS]:
            supervisor.stop_daemon(name)
        processes.wait_gone([pid for name, pid in pids.items() if name != REDIS], TASKS_SECONDS)
        if REDIS in pids:
            supervisor.stop_daemon(REDIS)
            processes.wait_gone([pids[REDIS]], REDIS_SECONDS)
        own = supervisor.pid()
        supervisor.shutdown()
        processes.wait_gone([own], KILL_SECONDS)
    except OSError:
        return  # supervisord died meanwhile; its processes are found in /proc


def _stop_unsupervised(config: ClusterConfig) -> None:
    _end_supervisors(config)
    _, others, redis = _sorted(processes.of_cluster(config))
    _end(others, TASKS_SECONDS)
    _end(processes.tasks_of(config), 1.0)
    _end(redis, REDIS_SECONDS)
    left = [process.pid for process in processes.of_cluster(config)] + processes.tasks_of(config)
    left = processes.end(left, signal.SIGKILL, KILL_SECONDS)
    if left:
        raise CannotStopError(
            f"cluster {config.name}: processes {', '.join(map(str, left))} do not end, even when killed"
        )


def _end_supervisors(config: ClusterConfig) -> None:
    """Kill supervisord before other processes, so that no daemon is started again.

    Repeated, because supervisord may fork during the search: itself, or a daemon that has not begun its program. A
    supervisord that survives KILL is left.
    """
    left: list[int] = []
    while not left and (found := _sorted(processes.of_cluster(config))[0]):
        left = processes.end(found, signal.SIGKILL, KILL_SECONDS)


def _end(pids: Iterable[int], seconds: float) -> None:
    left = processes.end(pids, signal.SIGTERM, seconds)
    processes.end(left, signal.SIGKILL, KILL_SECONDS)


def _sorted(found: list[Process]) -> tuple[list[int], list[int], list[int]]:
    """Return the pids of supervisord, of daemons, and of redis."""
    supervisors = [process.pid for process in found if process.name == SUPERVISOR]
    redis = [process.pid for process in found if process.name == REDIS]
    others = [process.pid for process in found if process.name not in (SUPERVISOR, REDIS)]
    return supervisors, others, redis
