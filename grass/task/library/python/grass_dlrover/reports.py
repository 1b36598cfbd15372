"""What the master does with each message of ``/report``. Pure; used by ``answers``.

Each function gets the state, the node that reports, and the message. It returns whether it succeeded, which the client
sees; or that, and a line for the log of the master.
"""

from __future__ import annotations

import json

from grass_dlrover.gets import version_key
from grass_dlrover.members import Member, attempt_of
from grass_dlrover.shards import Dataset, settings_of
from grass_dlrover.state import MOST_NAMES, State

PASSED, FAILED = "NODE_CHECK_SUCCEEDED", "NODE_CHECK_FAILED"
SUCCEEDED = "SUCCEEDED_EXITED"
_SHOWN = 2000


def dataset(state: State, node, message):
    """Make a dataset. Each worker reports it, and the first one counts."""
    name = message.dataset_name
    if name in state.datasets or len(state.datasets) >= MOST_NAMES:
        return name in state.datasets
    state.datasets[name] = Dataset(settings_of(message, name))
    state.changed = True
    return True, "dataset %.100s: %d records" % (name, message.dataset_size or 0)


def restore_shards(state: State, node, message):
    checkpoint = json.loads(message.content)
    found = state.datasets.get(str(checkpoint.get("dataset_name")))
    if found is None:
        return False
    found.restore(checkpoint)
    state.changed = True
    return True


def task_result(state: State, node, message):
    found = state.datasets.get(message.dataset_name)
    passed = not message.err_message
    if found is None or not found.done(message.task_id, passed):
        return False
    state.changed = True
    return passed, None if passed else _line(
        node, "task %s of %s failed: %s", message.task_id, message.dataset_name, message.err_message
    )


def cluster_version(state: State, node, message):
    key = version_key(message)
    if key not in state.versions and len(state.versions) >= MOST_NAMES:
        return False
    state.versions[key] = message.version
    state.changed = True
    return True


def address(state: State, node, message):
    known = state.addresses.setdefault(message.type, {})
    if len(known) >= MOST_NAMES or len(state.addresses) > 16:
        return False
    known[str(message.id)] = message.addr
    state.changed = True
    return True


def node_event(state: State, node, message):
    kind, rank = message.event_type, message.node.rank
    if kind in (PASSED, FAILED):
        state.checks.report(rank, kind == PASSED, float(message.event_elapsed_time or 0.0))
        state.changed = True
        result = "passed" if kind == PASSED else "failed"
        line = "node check: rank %d %s in %.1f s" % (rank, result, message.event_elapsed_time or 0.0)
        return True, "\n".join([line, *state.judge()])
    if kind == SUCCEEDED:
        state.done = state.changed = True
    return True, _line(node, "%s", kind)


def step(state: State, node, message):
    state.step = message.step
    return True


def join_sync(state: State, node, message):
    """The first one names who must come: all workers of this moment."""
    name = message.sync_name
    if name not in state.syncs:
        if len(state.syncs) >= MOST_NAMES:
            return False
        state.syncs[name] = [[node.kind, each.id] for each in state.workers.members]
    state.syncs[name] = [each for each in state.syncs[name] if each != list(node)]
    state.changed = True
    return True


def sync_finished(state: State, node, message):
    return not state.syncs.get(message.sync_name, [None])


def barrier(state: State, node, message):
    name = message.barrier_name
    if not message.notify:
        return name in state.barriers
    if name not in state.barriers:
        state.barriers = [*state.barriers[-MOST_NAMES:], name]
        state.changed = True
    return True


def failure(state: State, node, message):
    return True, _line(node, "%s after %s restarts: %s", message.level, message.restart_count, message.error_data)


def put(state: State, node, message):
    return state.put(message.key, message.value)


def put_all(state: State, node, message):
    return all([state.put(key, each) for key, each in message.kvs.items()])


def tuning(state: State, node, message):
    state.tuning = {each.kind: each.fields() for each in (message.dataloader, message.optimizer)}
    state.changed = True
    return True


def saved_step(state: State, node, message):
    """Return whether all nodes of the round have a checkpoint of the same step in their memory."""
    world = state.training.world
    alive = {Member(rank, attempt).id for rank, (attempt, _) in world.items()}
    state.saved_steps = {each: at for each, at in state.saved_steps.items() if each in alive}
    state.saved_steps[node.id] = message.step
    state.changed = True
    return len(set(state.saved_steps.values())) == 1 and len(state.saved_steps) == len(world)


def event(state: State, node, message):
    return True, _line(node, "%s %s: %s", message.event_type, message.action, message.msg)


def nothing(state: State, node, message):
    """Accept a report that Grass needs not: it measures tasks itself."""
    return True


def _line(node, text, *values):
    """Return a line for the log, of bounded length."""
    about = text % tuple(str(each)[:_SHOWN] for each in values)
    return "%s (attempt %d): %s" % ("%s %d" % (node.kind, node.id % 1_000_000), attempt_of(node.id), about)


REPORTS = {
    "DatasetShardParams": dataset,
    "ResourceStats": nothing,
    "ModelInfo": nothing,
    "GlobalStep": step,
    "ShardCheckpoint": restore_shards,
    "TaskResult": task_result,
    "ClusterVersion": cluster_version,
    "NodeAddress": address,
    "NodeEvent": node_event,
    "AtorchEvent": nothing,
    "SyncJoin": join_sync,
    "SyncFinish": sync_finished,
    "SyncBarrier": barrier,
    "NodeFailure": failure,
    "RendezvousParams": nothing,
    "PsReady": nothing,
    "KeyValuePair": put,
    "KeyValuePairs": put_all,
    "ParallelConfig": tuning,
    "NodeCheckpointState": saved_step,
    "DiagnosisReportData": nothing,
    "Event": event,
}
