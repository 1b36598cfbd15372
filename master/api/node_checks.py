"""`/v1/node-checks`: begin a check of nodes, and judge what was measured.

A check is a job: one task for each node, which goes there alone, through the planner. At levels 1 and 2 it takes the
whole node, so that nothing else runs beside what is measured. The client measures through commands beside these tasks
(``grass.api.check_run``). Used by ``handlers``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from grass.checks.judge import judge
from grass.errors import ConflictError, InputError, NotFoundError
from grass.model.beside import holder
from grass.model.image import full_name
from grass.model.job import Component, Job
from grass.model.key_text import job_of
from grass.model.lifecycle import NodeState
from grass.model.names import is_image_name
from grass.model.namespace import is_namespace
from grass.model.reasons import ReasonCode
from grass.model.resources import DEVICE, Resources
from grass.system.entropy import run_id
from grass.wire.calls import NodeCheckRequest, NodeCheckResult
from grass.wire.checks import Alone, CheckBegun, CheckedView, HeldNode, NodeCheck, NodeChecksView, NodeVerdict, Pair
from grass.wire.job_record import JobRecord
from grass.wire.node_record import NodeRecord
from grass.wire.tickets import NodeChecked, StopJob
from master.api.call import Call, Reply
from master.api.chosen_ids import check_own, check_unused
from master.api.job_changes import find_job
from master.api.nodes import find_node
from master.api.submission import checked_job_id

NAME = "check"
HELD = 600.0
"""Seconds for which a node is held at most, while the client waits for others."""
_STAYS = 5
"""Seconds for which a node is held after the client has let go of it, so that it can be judged until then."""
_SHOWN = 3


def begin(call: Call) -> Reply:
    wanted = call.read(NodeCheckRequest)
    records = _chosen(call, wanted)
    job_id = checked_job_id(wanted.id, NAME) or run_id(NAME)
    components = {f"n{at}": _holder(f"n{at}", record, wanted) for at, record in enumerate(records)}
    together = tuple(components) if wanted.level == 2 else ()
    job = Job(job_id, components, tuple(components), fail_fast=False, gang=together, timeout=HELD)
    check_unused(call, job_id)
    sighting = call.caller.sighting
    assert sighting is not None  # a route of sessions
    now = call.api.wall()
    whole_id = f"{job_id}-{job_id.rpartition('-')[2]}"
    if not call.api.store.submit(
        job, job_id=whole_id, user=call.user, now=now, warnings=(), sighting=sighting, address=call.address
    ):
        check_own(call, whole_id)
    held = (
        HeldNode(
            each.name,
            f"n{at}.0",
            each.address or "127.0.0.1",
            each.path,
            components[f"n{at}"].resources.gpu // DEVICE if wanted.image else len(each.gpus),
            bool(each.tasks),
        )
        for at, each in enumerate(records)
    )
    return Reply(CheckBegun(whole_id, now, tuple(held)), 201)


def finish(call: Call, job: str) -> CheckedView:
    """Judge while the nodes are still held, so that nobody's tasks made them slow."""
    record, result = find_job(call, job), call.read(NodeCheckResult)
    nodes = _held(call, record)
    if record.user != call.user or record.state.ended:
        raise ConflictError(f"check {job}: its job has ended, or is another user's; begin a new check")
    measured = result.measured
    said = [each.node for each in measured.alone]
    if strangers := sorted({*said, *(node for each in measured.pairs for node in (each.a, each.b))} - nodes.keys()):
        raise InputError(f"measured: {strangers[0]} is no node of check {job}")
    if len(said) != len({*said}):
        raise InputError("measured.alone: must name each node once")
    verdicts = judge(measured, {name: each.path for name, each in nodes.items()})
    alone = {each.node: each for each in measured.alone}
    checks = tuple(
        _check(call, result, each, alone[each.node], [one for one in verdicts.between if _names(one, each.node)])
        for each in verdicts.nodes
    )
    for each in checks:
        call.ticket(NodeChecked(each.verdict.node, call.user, each))
    call.ticket(StopJob(record.id, call.user, 0.0))
    return CheckedView(checks, verdicts.between, verdicts.unknown)


def list_checks(call: Call, node: str) -> NodeChecksView:
    find_node(call, node)
    return NodeChecksView(tuple(call.api.store.history.checks(node)))


def _chosen(call: Call, wanted: NodeCheckRequest) -> list[NodeRecord]:
    """Return the nodes. Raises InputError, NotFoundError; ConflictError for those that cannot be checked now."""
    if wanted.image is not None and not is_image_name(wanted.image):
        raise InputError(f"image: must be the name of an image, got {wanted.image[:100]!r}")
    if len({*wanted.nodes}) < len(wanted.nodes):
        raise InputError("nodes: must name each node once")
    if wanted.nodes:
        records = [find_node(call, name) for name in wanted.nodes]
    else:
        records = [each for each in call.api.store.nodes() if _refusal(each) is None]
    for at, record in enumerate(records):
        if (why := _refusal(record)) is not None:
            raise ConflictError(f"nodes[{at}]: node {record.name}: {why}")
    if not records:
        raise NotFoundError("nodes: no node is READY; `grass node list` shows why")
    if wanted.level == 2 and len(records) < 2:
        raise InputError("nodes: level 2 measures pairs, so it needs at least two nodes; one alone has levels 0 and 1")
    if wanted.image and (hidden := next((each for each in records if each.gpus and _withheld(each)), None)):
        raise ConflictError(
            f"node {hidden.name}: some of its GPUs get no tasks, so that a container sees only the others, by other "
            "numbers; check it without an image"
        )
    busy = [each for each in records if each.tasks]
    if busy and wanted.level and not wanted.wait:
        raise ConflictError("; ".join(_use(call, each) for each in busy[:_SHOWN]) + "; wait for them with `--wait`")
    return records


def _refusal(record: NodeRecord) -> str | None:
    if is_namespace(record.runtimes):
        return (
            "is a namespace of Kubernetes, which chooses the machine of a task; check its machines with their own tools"
        )
    by_check = record.reason is not None and record.reason.code is ReasonCode.CHECK
    if record.state is NodeState.READY or (record.state is NodeState.QUARANTINED and by_check):
        return None
    why = f" ({record.reason.message})" if record.reason else ""
    return f"is {record.state.value}{why}, and accepts no check; only a READY node does"


def _use(call: Call, record: NodeRecord) -> str:
    """Say which jobs use a node, by its newest sample."""
    newest = call.api.store.history.newest(record.name)
    ids = list(dict.fromkeys(job_of(task.key) for task in newest.sample.tasks)) if newest else []
    jobs = [f"{each.name} of {each.user}" for each in call.api.store.runs(ids[:_SHOWN])]
    more = f" (jobs {', '.join(jobs)})" if jobs else ""
    return f"node {record.name}: has {record.tasks} task(s){more}"


def _holder(name: str, record: NodeRecord, wanted: NodeCheckRequest) -> Component:
    """Return the component whose task holds a node: with all that tasks could get there, above level 0."""
    resources = Resources()
    if wanted.level:
        gpus = max(0, record.resources.gpu // DEVICE - len(_withheld(record)))
        resources = Resources(cpu=record.resources.cpu, gpu=gpus * DEVICE)
    image = None if wanted.image is None else full_name(wanted.image)
    return Component(name, holder(_STAYS), resources=resources, image=image, checks=record.name)


def _withheld(record: NodeRecord) -> set[int]:
    """Return the devices that get no tasks."""
    return {each.id for each in record.usage.gpus if each.busy} | record.quarantine.keys()


def _held(call: Call, record: JobRecord) -> dict[str, NodeRecord]:
    spec = call.api.store.spec(record.id)
    names = [each.checks for each in spec.components.values() if each.checks] if spec else []
    if not names:
        raise NotFoundError(f"job {record.name}: is no check of nodes")
    return {each.name: each for each in call.api.store.some_nodes(names)}


def _check(
    call: Call, result: NodeCheckResult, verdict: NodeVerdict, alone: Alone, between: Sequence[str]
) -> NodeCheck:
    times = {name: min(rounds) for name, rounds in alone.times.items() if rounds}
    if best := [min(each.times) for each in _pairs_of(verdict.node, result.measured.pairs) if each.times]:
        times["pair"] = min(best)
    return NodeCheck(
        at=call.api.wall(),
        user=call.user,
        level=result.level,
        verdict=verdict,
        between=tuple(between),
        times=times,
        figures=alone.figures,
        model=alone.model,
    )


def _names(text: str, node: str) -> bool:
    """Return whether a fault between nodes is one of this node. The name of a node may begin that of another."""
    return node in re.findall(r"[A-Za-z0-9._-]+", text)


def _pairs_of(node: str, pairs: Sequence[Pair]) -> list[Pair]:
    return [each for each in pairs if node in (each.a, each.b)]
