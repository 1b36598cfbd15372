"""What a new master-agent would know, against what the present one knows. Used by ``world``."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from grass.wire.task_record import TaskRecord
from master.agent.component_run import ComponentRun
from master.agent.node_run import NodeRun
from master.agent.state import Cluster, JobRun

FORGOTTEN = {
    JobRun: {"job", "components", "nodes", "published", "position", "stop_grace", "warnings"},
    ComponentRun: {
        "mean",
        "samples",
        "setbacks",
        "checking",
        "below",
        "released",
        "requeued",
        "entering",
        "tasks",
        "next_index",
        "skipped",
        "informed",
        "members",
        "avoid",
        "errors",
        "excused",
    },
    NodeRun: {
        "seen",
        "seen_wall",
        "usage",
        "written",
        "refused",
        "ends",
        "ends_since",
        "launches",
        "devices",
        "conditions",
    },
}
"""What a new master-agent does not know, or keeps in another form."""
OF_ENDED = ("name", "user", "state", "submitted", "started", "ended", "exit_code", "schedule", "expires", "logs_until")
"""Fields of an ended job that later decisions need."""
MOST = 60
"""Tasks in memory up to which both are compared: it would take long."""


def check_takeover(cluster: Cluster, rebuilt: Cluster) -> None:
    """Check that the store has all that the memory has, and that a rebuild finds it there."""
    assert list(cluster.queue) == list(rebuilt.queue) or set(cluster.queue) == set(rebuilt.queue)
    assert cluster.jobs.keys() == rebuilt.jobs.keys() and cluster.nodes.keys() == rebuilt.nodes.keys()
    assert cluster.schedules == rebuilt.schedules
    assert cluster.leaving == rebuilt.leaving and cluster.live == rebuilt.live
    for job_id, run in cluster.jobs.items():
        other = rebuilt.jobs[job_id]
        if run.state.ended:
            before, after = (tuple(getattr(each, name) for name in OF_ENDED) for each in (run, other))
            assert before == after, f"{job_id}: {before!r}, and after a takeover {after!r}"
            continue
        _same(job_id, run, other)
        assert run.nodes.keys() <= other.nodes.keys(), f"{job_id}: left on {run.nodes}, known {other.nodes}"
        for name, part in run.components.items():
            _same_component(f"{job_id}/{name}", part, other.components[name])
    for name, node in cluster.nodes.items():
        _same(name, node, rebuilt.nodes[name])
        _same_launches(name, node, rebuilt.nodes[name])
        _same_devices(name, node, rebuilt.nodes[name])


def _same(what: str, known: Any, found: Any) -> None:
    for field in fields(known):
        if field.name not in FORGOTTEN[type(known)]:
            before, after = getattr(known, field.name), getattr(found, field.name)
            assert before == after, f"{what}: {field.name} is {before!r}, and after a takeover {after!r}"


def _same_component(what: str, known: ComponentRun, found: ComponentRun) -> None:
    assert dict(known.counts.items()) == dict(found.counts.items()), what
    for field in fields(known):
        if field.name not in FORGOTTEN[ComponentRun] | {"counts"}:
            before, after = getattr(known, field.name), getattr(found, field.name)
            assert before == after, f"{what}: {field.name} is {before!r}, and after a takeover {after!r}"
    assert (known.startable, known.end) == (found.startable, found.end), what
    if known.next_index == found.next_index:
        assert sorted(known.requeued) == sorted(found.requeued), f"{what}: {known.requeued} {found.requeued}"
    assert sorted(known.entering) == sorted(found.entering), f"{what}: {known.entering} {found.entering}"
    assert _begun(known) == _begun(found), f"{what}: {known.tasks} {found.tasks}"
    before, after = (_removed(each) for each in (known, found))
    assert before == after, f"{what}: removed were {before}, and after a takeover {after}"


def _begun(component: ComponentRun) -> dict[int, TaskRecord]:
    return {index: task for index, task in component.tasks.items() if task != TaskRecord()}


def _removed(component: ComponentRun) -> dict[int, TaskRecord]:
    """Return the last records of tasks that were removed, and are not there again."""
    return {index: task for index, task in (component.released or {}).items() if index not in component.tasks}


def _same_launches(what: str, known: NodeRun, found: NodeRun) -> None:
    used = {key: launch for key, launch in known.launches.items() if launch.live}
    assert used.keys() == found.launches.keys(), f"{what}: {known.launches.keys()} {found.launches.keys()}"
    for key, launch in used.items():
        other = found.launches[key]
        for name in ("shape", "width", "tasks", "sent_width", "preempted"):
            before, after = getattr(launch, name), getattr(other, name)
            assert before == after, f"{what} {key}: {name} is {before!r}, and after a takeover {after!r}"


def _same_devices(what: str, known: NodeRun, found: NodeRun) -> None:
    """A device that the node has no more is kept for the tasks that have it, and only in the memory by its model."""
    before, after = (
        {
            number: each if each.present else each.allocated
            for number, each in node.devices.items()
            if each.present or each.allocated
        }
        for node in (known, found)
    )
    assert before == after, f"{what}: {before}, and after a takeover {after}"
