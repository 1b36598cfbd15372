"""Define `grass job diff`: what differs between two runs. Loaded by ``job``. ``differences`` is pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from grass.cli.amounts import NOTHING
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.job_views import View
from grass.cli.output import Result
from grass.cli.table import Column, table
from grass.cli.values import JOB

_RESULT = ("state", "reason", "exit_code", "counts", "restarts", "user", "tags", "priority")
"""Fields of a job's view that say how the run went."""
_OF_RUN = frozenset({"base"})
"""Keys of a specification that say only where the file was."""
Difference = tuple[str, Any, Any]
"""Path, and the value of each run; None: the run has none."""


@click.command(cls=Command)
@click.argument("first", type=JOB)
@click.argument("second", type=JOB)
@pass_invocation
def diff(invocation: Invocation, first: str, second: str) -> None:
    """Show what differs between two runs: specification, nodes and their devices, result of each task, times.

    FIRST and SECOND are names (the latest run) or ids.
    """
    client = invocation.client()
    one, other = (facts(client.job(name), client.tasks(name), client.nodes()) for name in (first, second))
    found = differences(one, other)
    data = [{"path": path, "first": one, "second": other} for path, one, other in found]
    invocation.output.show(
        Result(data, lambda width: lines(first, second, found, width), [path for path, _, _ in found])
    )


def facts(job: View, tasks: Sequence[View], nodes: Sequence[View]) -> dict[str, Any]:
    """Return what is compared of one run."""
    known = {node["name"]: node for node in nodes}
    used = sorted({task["node"] for task in tasks if task["node"] is not None})
    return {
        "specification": job.get("specification", {}),
        "result": {name: _reason(job[name]) if name == "reason" else job[name] for name in _RESULT},
        "seconds": _seconds(job),
        "nodes": {name: _machine(known.get(name)) for name in used},
        "tasks": {task["task"]: _task(task) for task in tasks},
    }


def differences(first: Any, second: Any, path: str = "") -> list[Difference]:
    """Return the paths at which two values differ, in the order of the first one."""
    if first == second:
        return []
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        keys = [*first, *(key for key in second if key not in first)]
        return [found for key in keys if key not in _OF_RUN for found in _under(first, second, key, path)]
    return [(path, first, second)]


def _under(first: Mapping[str, Any], second: Mapping[str, Any], key: str, path: str) -> Iterator[Difference]:
    yield from differences(first.get(key), second.get(key), f"{path}.{key}" if path else key)


def lines(first: str, second: str, found: Sequence[Difference], width: int | None) -> list[str]:
    if not found:
        return [f"{first} and {second}: no difference"]
    columns = (Column("WHAT"), Column(first), Column(second))
    return table(columns, [[path, _shown(one), _shown(other)] for path, one, other in found], width)


def _shown(value: Any) -> str:
    return NOTHING if value is None else value if isinstance(value, str) else str(value)


def _reason(reason: View | None) -> str | None:
    return None if reason is None else str(reason["message"])


def _seconds(view: View) -> float | None:
    if view["started"] is None or view["ended"] is None:
        return None
    return round(float(view["ended"] - view["started"]), 1)


def _task(task: View) -> dict[str, Any]:
    return {
        "state": task["state"],
        "exit_code": task["exit_code"],
        "signal": task["signal"],
        "restarts": task["restarts"],
        "node": task["node"],
        "values": task.get("values"),
        "seconds": _seconds(task),
    }


def _machine(node: View | None) -> dict[str, Any]:
    """Return what of a node may change results: its version, processor and devices."""
    if node is None:
        return {"state": "removed"}
    devices = [device["name"] for device in node["gpus"] or ()]
    return {"version": node["version"], "labels": node["labels"], "gpus": devices}
