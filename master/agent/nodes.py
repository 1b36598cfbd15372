"""The life of a node as the master-agent sees it: its hello, its heartbeats, its silence and its return. No I/O.

Called by the reactor. Silence is measured on the master's steady clock alone, never on a node's clock. Joining and
leaving are in ``membership.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from grass.model.daemons import NODE_DAEMONS
from grass.model.event_kind import EventKind
from grass.model.exhaustive import assert_never
from grass.model.lifecycle import NodeState, check_node
from grass.model.namespace import is_namespace
from grass.model.reasons import Details, Reason, ReasonCode
from grass.model.resources import DEVICE
from grass.wire import codec, version
from grass.wire.daemon_end import DaemonEnd, sentence
from grass.wire.envelope import Undecodable
from grass.wire.gpu import GpuDevice, GpuSample
from grass.wire.heartbeat import Heartbeat
from grass.wire.hello import Hello
from grass.wire.offer_report import OfferReport
from master.agent import tasks
from master.agent.node_run import DeviceRun, NodeRun
from master.agent.step import Step

MOST_RECORDS = 50
"""Node records that heartbeats may write per second. In a large cluster each record is written less often."""
REFUSED_EVERY = 60.0
"""Seconds between events about refused reports of one node."""
_REPORTED = (*NODE_DAEMONS, "share")
"""What a node may report the end of."""
MOST_ENDS = 30
"""Events about ends of one node's daemons in ``ENDS_EVERY`` seconds."""
ENDS_EVERY = 60.0
_AWAY = (NodeState.SILENT, NodeState.LOST)
_WATCHED = (NodeState.READY, NodeState.DRAINING, NodeState.DRAINED, NodeState.QUARANTINED)


def on_hello(step: Step, node: NodeRun, hello: Hello) -> None:
    """Take what a node-agent reports when it starts: the machine's resources, and the result of its probe."""
    if hello.boot_id != node.boot:
        _back(step, node)
    before, now = _models(node.gpus), _models(hello.gpus)
    if before and now and before != now:
        node.speed = None  # it was that of other devices
    node.version, node.api_port, node.gpus = hello.version, hello.api_port, hello.gpus
    node.address, node.boot = hello.address, hello.boot_id
    node.labels, node.path, node.path_note = hello.labels, hello.path, hello.path_note
    node.runtimes, node.default_image = hello.runtimes, hello.default_image
    node.total, node.programs, node.versions = hello.resources, hello.programs, hello.versions
    node.see(None)  # if it sees machines, it reports them next
    offer_devices(node)
    update_devices(node)
    node.unfit = _unfit(step, node, hello)
    node.conditions = hello.conditions
    note_contact(step, node)
    text = f"node {node.name}: node-agent started, version {hello.version}"
    step.event(EventKind.NODE_AGENT_STARTED, text, node=node.name)
    update_readiness(step, node)
    step.touch_node(node)
    step.changes.plan = True


def _models(gpus: Sequence[GpuDevice]) -> set[str]:
    """Return the models of the devices that answer."""
    return {each.name for each in gpus if each.name}


def on_undecodable(step: Step, node: NodeRun, report: Undecodable) -> None:
    """Handle a report in another protocol, or a malformed one: the node gets no new tasks. Its tasks go on."""
    envelope = report.envelope
    note_contact(step, node)
    if envelope.kind == "hello":
        _back(step, node)
        node.version = envelope.version
        node.unfit = _foreign(step, node, envelope.protocol) or Reason(
            ReasonCode.PROTOCOL, f"its hello cannot be read ({report.problem}); see the log of its node-agent"
        )
        update_readiness(step, node)
        step.touch_node(node)
    refuse_report(step, node, envelope.kind, report.problem)


def refuse_report(step: Step, node: NodeRun, kind: str, problem: str) -> None:
    """Record an event, at most once a minute per node, because a node may send thousands."""
    if step.now - node.refused >= REFUSED_EVERY:
        node.refused = step.now
        step.event(
            EventKind.REPORT_REFUSED,
            f"node {node.name}: report {kind or 'without a kind'} refused; {problem}",
            node=node.name,
        )


def on_daemon_ends(step: Step, node: NodeRun, ends: Sequence[DaemonEnd]) -> None:
    """Record an event of each, of a bounded number in a minute: a node may send thousands."""
    for end in ends[:MOST_ENDS]:
        if end.daemon not in _REPORTED:
            refuse_report(step, node, "daemon-ends", "it names no daemon of a node")
            return
        if step.now - node.ends_since >= ENDS_EVERY:
            node.ends_since, node.ends = step.now, 0
        node.ends += 1
        if node.ends <= MOST_ENDS:
            step.event(EventKind.DAEMON_ENDED, f"node {node.name}: {sentence(end)}", node=node.name)


def cut_off(step: Step, node: NodeRun, problem: str) -> None:
    """Let a node take no more tasks after its access to the store was removed. It is lost like one that is silent."""
    remedy = f"`grass node remove --force {node.name}` and a new join end this"
    node.unfit = Reason(ReasonCode.FLOOD, f"{problem}; its access to the store was removed; {remedy}")
    step.changes.accounts[node.name] = None
    step.event(EventKind.NODE_CUT_OFF, f"node {node.name}: cut off; {node.unfit.message}", node=node.name)
    update_readiness(step, node)
    step.touch_node(node)
    step.changes.plan = True


def offer_devices(node: NodeRun) -> None:
    """Set which devices the node offers: the first ones it has, as many as its limit allows. A namespace offers all of
    its machines, because Kubernetes chooses; its limit counts as one of its resources.

    A device that is not offered any more gets no new tasks, and is forgotten once no task uses it."""
    known = {device.id: device for device in node.gpus}
    most = len(known) if is_namespace(node.runtimes) else node.total.gpu // DEVICE
    offered = sorted(known)[:most] if known else range(node.total.gpu // DEVICE)
    for device in node.devices.values():
        device.present = False
    for number in offered:
        device = node.devices.setdefault(number, DeviceRun())
        device.present = True
        listed = known.get(number) or GpuDevice(number)
        device.model, device.memory = listed.name, listed.memory
    node.devices = {number: device for number, device in node.devices.items() if device.present or device.allocated}


def on_heartbeat(step: Step, node: NodeRun, heartbeat: Heartbeat) -> None:
    """Take a heartbeat. It must cost little: the record is written only at times, and planning is rarely needed."""
    node.usage = heartbeat.usage
    before = node.conditions
    node.conditions = heartbeat.conditions
    note_contact(step, node)
    if node.conditions != before:
        update_readiness(step, node)
    if heartbeat.programs not in (None, node.programs):
        node.programs = heartbeat.programs
        step.touch_node(node)
        step.changes.plan = True
    if changed := update_devices(node):
        for message in filter(None, changed):
            step.event(EventKind.GPU_QUARANTINE, message, node=node.name)
        step.touch_node(node)
        step.changes.plan = True
    if step.now - node.written >= max(1.0, len(step.cluster.nodes) / MOST_RECORDS):
        node.written = step.now
        step.changes.nodes[node.name] = node


def on_offer(step: Step, node: NodeRun, report: OfferReport) -> None:
    """Take what a namespace offers now, and its machines, as its agent sees them."""
    node.see(report.machines)
    note_contact(step, node)
    if (node.total, node.gpus) != (report.resources, report.gpus):
        node.total, node.gpus = report.resources, report.gpus
        offer_devices(node)
    step.touch_node(node)
    step.changes.plan = True


def update_devices(node: NodeRun) -> list[str]:
    """Update from the node's usage, and its checks, who uses its devices and which are in quarantine.

    Return one text for each change: the message of an event, or empty where users need no event."""
    new: list[str] = []
    samples = {seen.id: seen for seen in node.usage.gpus}
    for number, device in node.devices.items():
        seen = samples.get(number) or GpuSample(number)
        quarantine = _quarantine_reason(node, seen)
        if device.quarantine != quarantine:
            change = f"in quarantine; {quarantine}" if quarantine else "out of quarantine; it gets tasks again"
            new.append(f"node {node.name}, gpu {seen.id}: {change}")
        if device.busy != (seen.busy or ""):
            new.append("")
        device.quarantine, device.busy = quarantine, seen.busy or ""
    return new


def _quarantine_reason(node: NodeRun, seen: GpuSample) -> str:
    """Return why the device must be in quarantine, or an empty text.

    A device that does not answer leaves quarantine when it answers. One with ECC errors leaves it when it is reset,
    which sets the count to 0, or when an administrator accepts the errors (``accept_ecc_errors``)."""
    if seen.error:
        return seen.error
    if (found := node.bad_devices.get(seen.id)) is not None:
        return found
    errors = seen.ecc or 0
    known = node.forgiven.get(seen.id, 0)
    if known > errors:
        known = node.forgiven[seen.id] = errors
    if errors <= known:
        return ""
    return (
        f"{errors - known} uncorrected ECC error{'s' if errors - known > 1 else ''}; reset it, or uncordon {node.name}"
    )


def accept_ecc_errors(node: NodeRun) -> bool:
    """Release devices that are in quarantine for ECC errors. Return whether there were new errors to accept."""
    known = dict(node.forgiven)
    for seen in node.usage.gpus:
        if seen.ecc:
            node.forgiven[seen.id] = seen.ecc
    update_devices(node)
    return known != node.forgiven


def note_contact(step: Step, node: NodeRun) -> None:
    """Record that the node sent something. A SILENT or LOST node comes back."""
    node.seen = step.now
    node.seen_wall = step.wall
    if node.state not in _AWAY:
        return
    if node.state is NodeState.LOST:
        tasks.adopt(step, node)
    move(step, node, NodeState.READY, None)
    if node.drain is not None:
        move(step, node, NodeState.DRAINING, None)
    update_readiness(step, node)


def _back(step: Step, node: NodeRun) -> None:
    """Let a STOPPED node take part again: its machine was turned on. While it is turned off, it still sends something
    of the boot before."""
    if node.state is NodeState.STOPPED:
        move(step, node, NodeState.READY, None)
        if node.drain is not None:
            move(step, node, NodeState.DRAINING, None)


def extend_contact(step: Step, seconds: float) -> None:
    """Do not count as silence of the nodes a time in which the master-agent itself could not listen."""
    for node in step.cluster.nodes.values():
        node.seen = min(step.now, node.seen + seconds)


def check_silence(step: Step) -> None:
    """Mark nodes as SILENT or LOST that have sent nothing for too long. Called once a second."""
    limits = step.limits
    for node in step.cluster.nodes.values():
        silence = step.now - node.seen
        if silence > limits.silent_after and node.state in _WATCHED:
            message = f"silent for {silence:.0f} s; its tasks go on, and are replaced after {limits.lost_after:g} s"
            move(step, node, NodeState.SILENT, Reason(ReasonCode.NODE_LOST, message))
        elif node.state is NodeState.SILENT and silence > limits.lost_after:
            message = f"node {node.name} was silent for {silence:.0f} s"
            reason = Reason(ReasonCode.NODE_LOST, message, {"node": node.name})
            move(step, node, NodeState.LOST, reason)
            tasks.lose(step, node, reason)


def move(step: Step, node: NodeRun, state: NodeState, reason: Reason | None, user: str = "") -> None:
    """Change the node's state, with an event. ``user``: who asked for it. Raises for a transition that is not legal."""
    check_node(node.state, state)
    node.state, node.reason = state, reason
    text = f"node {node.name}: {state.value}" + (f"; {reason.message}" if reason else "")
    drain = node.drain if state in (NodeState.DRAINING, NodeState.DRAINED) else None
    who, address = (drain.user, drain.address) if drain else (user, step.asked.get(user, ""))
    step.event(EventKind(f"node-{state.value.lower()}"), text, who, node=node.name, address=address)
    step.touch_node(node)
    step.changes.plan = True  # tasks may go there now; or those that wait for the node let others go first


def _foreign(step: Step, node: NodeRun, protocol: int) -> Reason | None:
    own = step.limits.version or ""
    message = version.mismatch(f"node {node.name}", protocol, node.version, own)
    if message is None:
        return None
    details = Details(protocol=protocol, version=node.version, master_protocol=version.PROTOCOL, master=own)
    return Reason(ReasonCode.PROTOCOL, message, details)


def _unfit(step: Step, node: NodeRun, hello: Hello) -> Reason | None:
    """Return why a node must not get tasks, from its hello, or None."""
    foreign = _foreign(step, node, hello.protocol)
    if foreign is not None:
        return foreign
    reported, wanted, probe = hello.version, step.limits.version, hello.probe
    if wanted is not None and reported != wanted:
        message = f"runs Grass {reported or 'of an unknown version'}, the master {wanted}; install {wanted} on the node"
        return Reason(ReasonCode.VERSION, message, {"version": reported, "master": wanted})
    if wanted is not None and hello.revision != version.REVISION:
        message = (
            f"runs another build of Grass {reported} (protocol {hello.protocol}.{hello.revision}) than the master "
            f"(protocol {version.PROTOCOL}.{version.REVISION}); install the master's on the node"
        )
        return Reason(ReasonCode.VERSION, message, {"version": reported, "master": wanted})
    if probe is None:
        wants = node.digest and node.state is NodeState.JOINING
        return Reason(ReasonCode.PROBE, "has not passed its probe yet") if wants else None
    if probe.passed:
        return None
    failed = [check for check in probe.checks if not check.ok]
    text = "; ".join(f"{check.name}: {check.message}" for check in failed)
    return Reason(ReasonCode.PROBE, f"its probe failed: {text}", {"checks": codec.builtins(failed)})


def update_readiness(step: Step, node: NodeRun) -> None:
    """Make a node that is fit for tasks READY. Keep one that is not JOINING, or quarantine it."""
    unfit = node.unfit or node.condemned
    if unfit is None and node.conditions:
        unfit = Reason(node.conditions[0].code, "; ".join(each.message for each in node.conditions))
    match node.state:
        case NodeState.JOINING if unfit is not None:
            if node.reason != unfit:
                node.reason = unfit
                step.event(EventKind.NODE_JOINING, f"node {node.name}: still JOINING; {unfit.message}", node=node.name)
                step.touch_node(node)
        case NodeState.READY if unfit is not None:
            move(step, node, NodeState.QUARANTINED, unfit)
        case NodeState.QUARANTINED if unfit is not None and node.reason != unfit:
            node.reason = unfit
            step.event(EventKind.NODE_QUARANTINED, f"node {node.name}: QUARANTINED; {unfit.message}", node=node.name)
            step.touch_node(node)
            step.changes.plan = True
        case NodeState.JOINING | NodeState.QUARANTINED if unfit is None and node.boot:
            move(step, node, NodeState.READY, None)
            if node.drain is not None:
                move(step, node, NodeState.DRAINING, None)
        case NodeState.JOINING | NodeState.READY | NodeState.QUARANTINED:
            pass  # its state is right already
        case (
            NodeState.SILENT
            | NodeState.LOST
            | NodeState.DRAINING
            | NodeState.DRAINED
            | NodeState.STOPPED
            | NodeState.LEFT
        ):
            pass  # it gets no tasks in these states, fit or not
        case _:
            assert_never(node.state)
