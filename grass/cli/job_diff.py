"""Define `grass job diff`: what differs between two runs. Loaded by ``job``. ``differences`` is pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET, structs

from grass.cli.command import Command
from grass.cli.diff_text import in_words
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import JOB
from grass.wire.codec import builtins, encode

if TYPE_CHECKING:
    from grass.model.reasons import Reason
    from grass.wire.job_details import JobDetails
    from grass.wire.job_views import TaskView
    from grass.wire.node_views import NodeView

_OF_RUN = frozenset({"base"})
"""Keys of a specification that say only where the file was."""
Difference = tuple[str, Any, Any]
"""Path, and the value of each run; None: the run has none."""


@click.command(cls=Command)
@click.argument("first", type=JOB)
@click.argument("second", type=JOB)
@pass_invocation
def diff(invocation: Invocation, first: str, second: str) -> None:
    """Show what differs between two runs. Compares specification, files and nodes, and each task's image, GPU driver,
    result and time.

    Versions are those that the tasks ran with; labels and devices of nodes are the present ones.

    FIRST and SECOND are names (the latest run) or ids. Files are those that commands name, by their digests at the
    submission: in the job's folder on a cluster of this machine, and below $GRASS_DATA. A rerun has only the latter.
    """
    client = invocation.client()
    jobs = comparable(client.job(first), client.job(second))
    one, other = (facts(job, client.tasks(job.id), client.nodes()) for job in jobs)
    found = differences(asdict(one), asdict(other))
    data = [{"path": path, "first": one, "second": other} for path, one, other in found]
    raw = [[path, "" if one is None else _shown(one), "" if two is None else _shown(two)] for path, one, two in found]
    invocation.output.show(
        Result(
            data,
            lambda _: lines(first, second, found),
            [path for path, _, _ in found],
            lambda: (["path", "first", "second"], raw),
        )
    )


@dataclass(frozen=True)
class TaskFacts:
    state: str
    exit_code: int | None
    signal: int | None
    restarts: int
    node: str | None
    values: dict[str, str] | None
    """Its values of `matrix`, or its entry."""
    image: str | None
    """Digest."""
    driver: str | None
    """Version of the GPU driver."""
    seconds: float | None


@dataclass(frozen=True)
class NodeFacts:
    """What of a node may change results: versions when the run's tasks started there, and its devices now."""

    state: str | None = None
    """``removed``: its labels and devices are not known."""
    version: str | None = None
    """Of Grass."""
    kernel: str | None = None
    labels: dict[str, str] | None = None
    gpus: list[str] | None = None


@dataclass(frozen=True)
class RunFacts:
    """What is compared of one run. Its fields are the first words of the paths."""

    specification: Mapping[str, object]
    result: Mapping[str, object]
    """Some fields of the job's view."""
    seconds: float | None
    nodes: dict[str, NodeFacts]
    tasks: dict[str, TaskFacts]


def facts(job: JobDetails, tasks: Sequence[TaskView], nodes: Sequence[NodeView]) -> RunFacts:
    known = {node.name: node for node in nodes}
    used = sorted({task.node for task in tasks if task.node is not None})
    return RunFacts(
        specification={} if job.specification is UNSET else json.loads(encode(job.specification)),
        result={
            "state": job.state.value,
            "reason": _reason(job.reason),
            "exit_code": job.exit_code,
            "counts": builtins(job.counts),
            "restarts": job.restarts,
            "user": job.user,
            "tags": job.tags,
            "priority": job.priority,
        },
        seconds=_seconds(job),
        nodes={name: _node(known.get(name), _software(tasks, name)) for name in used},
        tasks={task.task: _task(task) for task in tasks},
    )


def comparable(first: JobDetails, second: JobDetails) -> tuple[JobDetails, JobDetails]:
    """Return the views of two jobs without digests that only one of them can have.

    The specification of a rerun has no digests of files outside of the share, because no client sent them.
    """
    if (first.rerun_of is None) == (second.rerun_of is None):
        return first, second
    one, other = (set(_files(job)) for job in (first, second))
    lone = {name for name in one ^ other if not name.startswith("$GRASS_DATA/")}
    return _without_files(first, lone), _without_files(second, lone)


def _files(job: JobDetails) -> Mapping[str, str]:
    return {} if job.specification is UNSET else job.specification.files


def _without_files(job: JobDetails, names: set[str]) -> JobDetails:
    if not names or job.specification is UNSET:
        return job
    kept = {name: digest for name, digest in job.specification.files.items() if name not in names}
    return structs.replace(job, specification=replace(job.specification, files=kept))


def differences(first: Any, second: Any, path: str = "") -> list[Difference]:
    """Return the paths at which two values differ, in the order of the first one."""
    if first == second:
        return []
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        keys = [*first, *(key for key in second if key not in first)]
        return [found for key in keys if key not in _OF_RUN for found in _under(first, second, key, path)]
    return [(path, first, second)]


def _under(first: Mapping[str, object], second: Mapping[str, object], key: str, path: str) -> Iterator[Difference]:
    yield from differences(first.get(key), second.get(key), f"{path}.{key}" if path else key)


def lines(first: str, second: str, found: Sequence[Difference]) -> list[str]:
    return in_words(first, second, found) if found else [f"{first} and {second}: no difference"]


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _reason(reason: Reason | None) -> str | None:
    return None if reason is None else reason.message


def _seconds(view: JobDetails | TaskView) -> float | None:
    if view.started is None or view.ended is None:
        return None
    return round(float(view.ended - view.started), 1)


def _task(task: TaskView) -> TaskFacts:
    software = task.software or {}
    return TaskFacts(
        state=task.state.value,
        exit_code=task.exit_code,
        signal=task.signal,
        restarts=task.restarts,
        node=task.node,
        values=None if task.values is UNSET else task.values,
        image=software.get("image"),
        driver=software.get("driver"),
        seconds=_seconds(task),
    )


def _software(tasks: Sequence[TaskView], node: str) -> Mapping[str, str]:
    """Return what the last task that started on the node ran with."""
    there = [task for task in tasks if task.node == node and task.software]
    return max(there, key=lambda task: task.started or 0.0).software or {} if there else {}


def _node(node: NodeView | None, software: Mapping[str, str]) -> NodeFacts:
    version, kernel = software.get("grass"), software.get("kernel")
    if node is None:
        return NodeFacts("removed", version, kernel)
    return NodeFacts(None, version, kernel, node.labels, [device.name for device in node.gpus or ()])
