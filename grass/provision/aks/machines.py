"""Empties machines of a pool before they go: those with the fewest tasks get no new pods, and their tasks may end.

Used by ``edges``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from grass.errors import GrassError, WaitTimeoutError
from grass.kubernetes import names
from grass.kubernetes.api import ApiServer
from grass.kubernetes.credentials import Credential, Login
from grass.kubernetes.objects import ANY, NODES, PODS
from grass.model.amounts import show_span
from grass.system import clock

POOL = "kubernetes.azure.com/agentpool"
"""Label of a machine: the name of its pool."""
GOING = f"{names.DOMAIN}/going"
"""Annotation of a machine that Grass closed."""
_NODES = "/api/v1/nodes"
_GLANCE = 2.0
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Emptying:
    """Machines that are to go. ``patience``: seconds for their tasks to end; ``move``: after that, tasks start
    elsewhere; otherwise, the machines stay."""

    pool: str
    count: int
    patience: float
    move: bool


def choose(tasks: Mapping[str, int], closed: frozenset[str], count: int) -> list[str]:
    """Return the machines that go: those that take no pods already, then those with the fewest tasks. Pure."""
    return sorted(tasks, key=lambda name: (name not in closed, tasks[name], name))[:count]


def empty(kubeconfig: Path, wanted: Emptying, say: Callable[[str], None]) -> list[str]:
    """Return the names of machines that may go now. Fewer than wanted: Kubernetes does not know the others.

    Raises WaitTimeoutError: their tasks have not ended; they take pods again.
    """
    with closing(ApiServer(Credential(Login(str(kubeconfig)).read))) as server:
        listed = server.get(_NODES, NODES, {"labelSelector": f"{POOL}={wanted.pool}"}).items
        closed = frozenset(each.metadata.name for each in listed if each.spec.unschedulable)
        tasks = _tasks(server)
        here = {each.metadata.name: tasks.get(each.metadata.name, 0) for each in listed}
        chosen = choose(here, closed, wanted.count)
        opened = [name for name in chosen if name not in closed]
        for name in opened:
            _set(server, name, closed=True)
        try:
            _wait(server, chosen, wanted, say)
        except BaseException:
            for name in opened:
                with suppress(GrassError):
                    _set(server, name, closed=False)
            raise
    return chosen


def reopen(kubeconfig: Path, pool: str) -> None:
    """Let machines take pods again that a killed command was about to remove."""
    with closing(ApiServer(Credential(Login(str(kubeconfig)).read))) as server:
        for each in server.get(_NODES, NODES, {"labelSelector": f"{POOL}={pool}"}).items:
            if GOING in each.metadata.annotations:
                _set(server, each.metadata.name, closed=False)


def _wait(server: ApiServer, chosen: list[str], wanted: Emptying, say: Callable[[str], None]) -> None:
    until, told = clock.steady() + wanted.patience, False
    while busy := {name: count for name, count in _tasks(server).items() if name in chosen}:
        if clock.steady() >= until:
            if wanted.move:
                return
            text = ", ".join(f"{name} ({count})" for name, count in sorted(busy.items()))
            raise WaitTimeoutError(
                f"pool {wanted.pool}: tasks on {text} have not ended after {show_span(max(1, wanted.patience))}; its "
                "machines stay. Wait longer with --timeout, or move the tasks with --deadline 0s"
            )
        if not told:
            say(f"pool {wanted.pool}: waiting for {sum(busy.values())} tasks on {', '.join(sorted(busy))}")
        told = True
        clock.sleep(_GLANCE)


def _tasks(server: ApiServer) -> dict[str, int]:
    """Return machine → pods of tasks of Grass that have not ended."""
    found: dict[str, int] = {}
    for pod in server.get("/api/v1/pods", PODS, {"labelSelector": names.JOB}).items:
        if pod.spec.node_name and pod.status.phase not in _ENDED:
            found[pod.spec.node_name] = found.get(pod.spec.node_name, 0) + 1
    return found


def _set(server: ApiServer, name: str, *, closed: bool) -> None:
    mark = {"annotations": {GOING: "yes" if closed else None}}
    server.patch(f"{_NODES}/{name}", {"metadata": mark, "spec": {"unschedulable": closed}}, ANY)
