"""The life of a node as the master-agent sees it: it says hello, it is heard or not, it comes back. No I/O.

Silence is judged by the master's own steady clock alone; a node's clock is never looked at. Who lets a node in and out:
``membership.py``.
"""

from __future__ import annotations

from grass.model.lifecycle import NodeState, check_node
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import DEVICE
from grass.wire import codec, version
from grass.wire.envelope import Undecodable
from grass.wire.gpu import GpuDevice, GpuSample
from grass.wire.heartbeat import Heartbeat
from grass.wire.hello import Hello
from master.agent import tasks
from master.agent.state import DeviceRun, NodeRun
from master.agent.step import Step

MOST_RECORDS = 50
"""Node records that heartbeats may write in a second: a large fleet's are shown a little later."""
REFUSED_EVERY = 60.0
"""Seconds between events that tell of refused reports of one node."""
_AWAY = (NodeState.SILENT, NodeState.LOST)
_WATCHED = (NodeState.READY, NodeState.DRAINING, NodeState.DRAINED, NodeState.QUARANTINED)


def on_hello(step: Step, node: NodeRun, hello: Hello) -> None:
    """The node-agent started: what the machine has, and whether it passed its probe."""
    node.version, node.api_port, node.gpus = hello.version, hello.api_port, hello.gpus
    node.address, node.boot = hello.address, hello.boot_id
    node.labels, node.path, node.runtimes = hello.labels, hello.path, hello.runtimes
    node.total = hello.resources
    set_devices(node)
    look_at_devices(node)
    node.unfit = _unfit(step, node, hello)
    node.conditions = hello.conditions
    heard(step, node)
    judge(step, node)
    step.touch_node(node)
    step.changes.plan = True


def on_undecodable(step: Step, node: NodeRun, said: Undecodable) -> None:
    """It speaks another protocol, or nonsense: it is there, but gets no tasks. Its tasks go on."""
    envelope = said.envelope
    heard(step, node)
    if envelope.kind == "hello":
        node.version = envelope.version
        node.unfit = _foreign(step, node, envelope.protocol) or Reason(
            ReasonCode.PROTOCOL, f"its hello cannot be read ({said.problem}); see the log of its node-agent"
        )
        judge(step, node)
        step.touch_node(node)
    refuse_report(step, node, envelope.kind, said.problem)


def refuse_report(step: Step, node: NodeRun, kind: str, problem: str) -> None:
    """Told once a minute for each node: it may send thousands."""
    if step.now - node.refused >= REFUSED_EVERY:
        node.refused = step.now
        step.event(
            "report-refused", f"{node.name}: report {kind or 'without a kind'} refused: {problem}", node=node.name
        )


def set_devices(node: NodeRun) -> None:
    """The devices that the node offers: the first of those it has. One that it has no more is free of new tasks."""
    known = {device.id: device for device in node.gpus}
    offered = sorted(known)[: node.total.gpu // DEVICE] if known else range(node.total.gpu // DEVICE)
    for device in node.devices.values():
        device.present = False
    for number in offered:
        device = node.devices.setdefault(number, DeviceRun())
        device.present = True
        listed = known.get(number) or GpuDevice(number)
        device.model, device.memory = listed.name, listed.memory
    node.devices = {number: device for number, device in node.devices.items() if device.present or device.held}


def on_heartbeat(step: Step, node: NodeRun, heartbeat: Heartbeat) -> None:
    """Costs little: the record is written now and then, and planning looks only when something about it changed."""
    node.usage = heartbeat.usage
    before = node.conditions
    node.conditions = heartbeat.conditions
    heard(step, node)
    if node.conditions != before:
        judge(step, node)
    if changed := look_at_devices(node):
        for message in filter(None, changed):
            step.event("gpu-quarantine", message, node=node.name)
        step.touch_node(node)
        step.changes.plan = True
    if step.now - node.written >= max(1.0, len(step.cluster.nodes) / MOST_RECORDS):
        node.written = step.now
        step.changes.nodes[node.name] = node


def look_at_devices(node: NodeRun) -> list[str]:
    """Who uses its devices, and which are in quarantine, as its usage says. Returns what is new, if it is an event."""
    new: list[str] = []
    for seen in node.usage.gpus:
        device = node.devices.get(seen.id)
        if device is None:
            continue
        ill = _illness(node, seen)
        if device.ill != ill:
            told = f"is in quarantine: {ill}" if ill else "is out of quarantine"
            new.append(f"gpu {seen.id} of {node.name} {told}")
        if device.busy != (seen.busy or ""):
            new.append("")
        device.ill, device.busy = ill, seen.busy or ""
    return new


def _illness(node: NodeRun, seen: GpuSample) -> str:
    """A device that does not answer is back when it does. Errors of its memory stay until it was reset, which sets
    their count to 0, or an administrator forgives them (``forgive``)."""
    if seen.error:
        return seen.error
    errors = seen.ecc or 0
    known = node.forgiven.get(seen.id, 0)
    if known > errors:
        known = node.forgiven[seen.id] = errors
    if errors <= known:
        return ""
    return (
        f"{errors - known} uncorrected ECC error{'s' if errors - known > 1 else ''}; reset it, or uncordon {node.name}"
    )


def forgive(node: NodeRun) -> bool:
    """Take its devices out of quarantine as far as that was for errors of their memory. False: there were none."""
    known = dict(node.forgiven)
    for seen in node.usage.gpus:
        if seen.ecc:
            node.forgiven[seen.id] = seen.ecc
    look_at_devices(node)
    return known != node.forgiven


def heard(step: Step, node: NodeRun) -> None:
    """Anything that a node sends shows that it is there."""
    node.seen = step.now
    node.seen_wall = step.wall
    if node.state not in _AWAY:
        return
    if node.state is NodeState.LOST:
        tasks.adopt(step, node)
    move(step, node, NodeState.READY, None)
    if node.drain is not None:
        move(step, node, NodeState.DRAINING, None)
    judge(step, node)
    step.changes.plan = True


def excuse(step: Step, seconds: float) -> None:
    """The master-agent itself heard nobody for so long: that was no silence of theirs."""
    for node in step.cluster.nodes.values():
        node.seen = min(step.now, node.seen + seconds)


def watch(step: Step) -> None:
    """Notice nodes that were not heard for too long. Once a second."""
    limits = step.limits
    for node in step.cluster.nodes.values():
        silence = step.now - node.seen
        if silence > limits.silent_after and node.state in _WATCHED:
            message = f"not heard for {silence:.0f} s; its tasks go on, it is given up after {limits.lost_after:g} s"
            move(step, node, NodeState.SILENT, Reason(ReasonCode.NODE_LOST, message))
        elif node.state is NodeState.SILENT and silence > limits.lost_after:
            reason = Reason(ReasonCode.NODE_LOST, f"node {node.name} was not heard for {silence:.0f} s")
            move(step, node, NodeState.LOST, reason)
            tasks.lose(step, node, reason)
            step.changes.plan = True


def move(step: Step, node: NodeRun, state: NodeState, reason: Reason | None) -> None:
    check_node(node.state, state)
    node.state, node.reason = state, reason
    text = f"{node.name} is {state.value}" + (f": {reason.message}" if reason else "")
    step.event(f"node-{state.value.lower()}", text, node=node.name)
    step.touch_node(node)


def _foreign(step: Step, node: NodeRun, protocol: int) -> Reason | None:
    own = step.limits.version or ""
    message = version.mismatch(f"node {node.name}", protocol, node.version, own)
    if message is None:
        return None
    details = {"protocol": protocol, "version": node.version, "master_protocol": version.PROTOCOL, "master": own}
    return Reason(ReasonCode.PROTOCOL, message, details)


def _unfit(step: Step, node: NodeRun, hello: Hello) -> Reason | None:
    """Why a node that said hello takes no tasks."""
    foreign = _foreign(step, node, hello.protocol)
    if foreign is not None:
        return foreign
    said, wanted, probe = hello.version, step.limits.version, hello.probe
    if wanted is not None and said != wanted:
        message = f"runs Grass {said or 'of an unknown version'}, the master {wanted}; install {wanted} on it"
        return Reason(ReasonCode.VERSION, message, {"version": said, "master": wanted})
    if probe is None:
        wants = node.digest and node.state is NodeState.JOINING
        return Reason(ReasonCode.PROBE, "has not passed its probe yet") if wants else None
    if probe.passed:
        return None
    failed = [check for check in probe.checks if not check.ok]
    text = "; ".join(f"{check.name}: {check.message}" for check in failed)
    return Reason(ReasonCode.PROBE, f"its probe failed: {text}", {"checks": codec.builtins(failed)})


def judge(step: Step, node: NodeRun) -> None:
    """A node that is fit becomes READY; one that is not stays out, or takes nothing more."""
    unfit = node.unfit
    if unfit is None and node.conditions:
        unfit = Reason(node.conditions[0].code, "; ".join(each.message for each in node.conditions))
    match node.state:
        case NodeState.JOINING if unfit is not None:
            if node.reason != unfit:
                node.reason = unfit
                step.event("node-joining", f"{node.name} stays JOINING: {unfit.message}", node=node.name)
                step.touch_node(node)
        case NodeState.READY if unfit is not None:
            move(step, node, NodeState.QUARANTINED, unfit)
        case NodeState.QUARANTINED if unfit is not None and node.reason != unfit:
            node.reason = unfit
            step.event("node-quarantined", f"{node.name} is QUARANTINED: {unfit.message}", node=node.name)
            step.touch_node(node)
        case NodeState.JOINING | NodeState.QUARANTINED if unfit is None and node.boot:
            move(step, node, NodeState.READY, None)
            if node.drain is not None:
                move(step, node, NodeState.DRAINING, None)
            step.changes.plan = True
        case _:
            pass
