"""What the master answers to each message of ``/get``. Pure; used by ``answers``.

Each function gets the state, the node that asks, and the message, and returns a message.
"""

from __future__ import annotations

from typing import NamedTuple

from grass_dlrover.members import PS, WORKER, attempt_of
from grass_dlrover.messages import Message
from grass_dlrover.state import CHECK, MOST_NAMES, TRAINING, State

STOPPING = -1
"""The number of waiting nodes that tells an agent in a rendezvous to end."""
_BEGUN, _PENDING = 1, 3
"""Values of ``TrainingStatus``."""


class Node(NamedTuple):
    kind: str
    id: int


def task(state: State, node, message):
    dataset = state.datasets.get(message.dataset_name)
    if dataset is None:
        return Message("Task")
    taken = dataset.take(*node)
    if taken is None:
        return Message("Task") if dataset.finished() else Message("Task", type="WAIT")
    state.changed = True
    number, (start, end, *indices) = taken
    shard = Message("Shard", name=message.dataset_name, start=start, end=end, indices=indices[0] if indices else [])
    return Message("Task", task_id=number, type=dataset.settings["type"], shard=shard)


def shard_checkpoint(state: State, node, message):
    dataset = state.datasets.get(message.dataset_name)
    return Message("ShardCheckpoint", content=dataset.checkpoint() if dataset else "")


def cluster_version(state: State, node, message):
    missing = -1 if (message.task_type, message.version_type) == (WORKER, "RESTORED") else 0
    found = state.versions.get(version_key(message), missing)
    return Message("ClusterVersion", **{**message.fields(), "version": found})


def version_key(message):
    """Return the name of a version. The global one is that of all nodes."""
    if message.version_type == "GLOBAL":
        return "GLOBAL"
    return "%s/%s/%d" % (message.version_type, message.task_type, message.task_id)


def running_nodes(state: State, node, message):
    return Message("RunningNodes", nodes=[each for kind in state.groups for each in _nodes(state, kind)])


def ps_nodes(state: State, node, message):
    group, nodes = state.groups.get(PS), _nodes(state, PS)
    whole = group is None or len(group.members) >= group.desired
    return Message("PsNodes", nodes=nodes, new_ps_ready=whole, ps_failure=not whole)


def _nodes(state: State, kind):
    known = state.addresses.get(kind, {})
    return (
        [
            Message(
                "NodeMeta",
                type=kind,
                id=each.id,
                rank=each.index,
                status="Running",
                addr=known.get(str(each.id), each.address),
            )
            for each in state.groups[kind].members
        ]
        if kind in state.groups
        else []
    )


def join(state: State, node, message):
    rank = message.node_rank if message.node_rank != -1 else node.id
    attempt = attempt_of(message.node_id)
    waits = state.rendezvous(message.rdzv_name)
    number = waits.join(rank, attempt, message.local_world_size)
    if message.rdzv_name == CHECK:
        state.training.clear_waiting()
    state.changed = True
    return Message("RendezvousState", round=number)


def waiting_nodes(state: State, node, message):
    if message.rdzv_name == CHECK and state.done:
        return Message("RendezvousState", waiting_num=STOPPING)
    return Message("RendezvousState", waiting_num=state.rendezvous(message.rdzv_name).restarts(state.workers))


def world(state: State, node, message):
    """The agent's rank is in ``node_id`` here."""
    rank, name = message.node_id, message.rdzv_name
    found = state.rendezvous(name)
    if found.decide(state.workers):
        state.forget_old_rounds(name)
        state.changed = True
    group, members = state.checks.group_of(rank) if name == CHECK else (0, state.training.world_of(rank))
    return Message("RendezvousState", round=found.round, group=group, world=members)


def network_ready(state: State, node, message):
    number = state.checks.round
    nodes, reason = state.checks.failed(state.workers)
    state.changed = state.changed or state.checks.round != number
    return Message("NetworkCheckResult", nodes=nodes, reason=reason)


def stragglers(state: State, node, message):
    nodes, reason = state.checks.stragglers(state.workers)
    return Message("NetworkCheckResult", nodes=nodes, reason=reason)


def value(state: State, node, message):
    """Return a value of the agents' store, or add to it."""
    if message.op != "add":
        return Message("KeyValuePair", key=message.key, value=state.values.get(message.key, b""))
    before = state.values.get(message.key, 0)
    after = (before if isinstance(before, int) else 0) + int(message.value)
    state.put(message.key, after)
    return Message("KeyValuePair", key=message.key, value=after)


def values(state: State, node, message):
    """Return all of them, or none: the client asks again until all are there."""
    found = {key: state.values.get(key, b"") for key in message.kvs}
    return Message("KeyValuePairs", kvs={} if b"" in found.values() else found)


def training_status(state: State, node, message):
    return Message(
        "TrainingStatus", status=_BEGUN if any(each.next_id for each in state.datasets.values()) else _PENDING
    )


def parallel_config(state: State, node, message):
    if not state.tuning:
        return Message("ParallelConfig")
    loader, optimizer = (Message(kind, **state.tuning[kind]) for kind in ("DataLoaderConfig", "OptimizerConfig"))
    return Message("ParallelConfig", dataloader=loader, optimizer=optimizer)


def hardware_reset(state: State, node, message):
    return Message("ParallelConfig")


def training_port(state: State, node, message):
    """Agree on one port that is free on all nodes, as DLRover does for Ascend devices: all must name the same one."""
    ports = state.ports
    if ports["agreed"]:
        return Message("SyncTrainingPort", port=ports["agreed"])
    if message.port < ports["from"]:
        return Message("SyncTrainingPort", newport=ports["from"])
    seen = dict(map(tuple, ports["seen"]))
    if node.id in seen or len(seen) < MOST_NAMES:
        seen[node.id] = message.port
    members = {each.id for each in state.workers.members}
    named = {port for each, port in seen.items() if each in members}
    state.changed = True
    if members <= set(seen) and len(named) == 1:
        state.ports = {"agreed": message.port, "from": 0, "seen": []}
        return Message("SyncTrainingPort", port=message.port)
    if members and members <= set(seen):
        state.ports = {"agreed": 0, "from": max(named), "seen": []}
        return Message("SyncTrainingPort", newport=max(named))
    state.ports = {**ports, "seen": sorted(seen.items())}
    return Message("SyncTrainingPort")


def run_config(state: State, node, message):
    return Message("ElasticRunConfig")


def pre_check(state: State, node, message):
    """Grass has checks of its own (``check: before``), which are over when a task starts."""
    return Message("PreCheckResponse", status="PASS")


def heartbeat(state: State, node, message):
    """Grass restarts tasks, not agents: there is never an action."""
    return Message("HeartbeatResponse", action=Message("DiagnosisAction", action_cls="NoAction", action_content="{}"))


GETS = {
    "TaskRequest": task,
    "ShardCheckpointRequest": shard_checkpoint,
    "ClusterVersionRequest": cluster_version,
    "RunningNodesRequest": running_nodes,
    "JoinRendezvousRequest": join,
    "WaitingNodeNumRequest": waiting_nodes,
    "NetworkReadyRequest": network_ready,
    "StragglerExistRequest": stragglers,
    "CommWorldRequest": world,
    "KeyValuePair": value,
    "KeyValuePairs": values,
    "PsNodesRequest": ps_nodes,
    "TrainingStatusRequest": training_status,
    "ParallelConfigRequest": parallel_config,
    "CheckHardwareResetRequest": hardware_reset,
    "SyncTrainingPort": training_port,
    "ElasticRunConfigRequest": run_config,
    "PreCheckRequest": pre_check,
    "HeartBeat": heartbeat,
}
RENDEZVOUS = (TRAINING, CHECK)
