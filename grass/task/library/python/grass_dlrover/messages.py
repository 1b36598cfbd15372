"""The messages of DLRover's client: name of each class, with the default of each field.

They are those of ``dlrover.python.common.comm``. The default also says the type of a field, see ``fits``. Used by
``pickles`` and ``answers``.
"""

from __future__ import annotations

MODULE = "dlrover.python.common.comm"


class Message:
    """One message: a name of ``FIELDS``, and its fields as attributes."""

    def __init__(self, kind, **fields):
        self.kind = kind
        self.__dict__.update(_DEFAULTS[kind]())
        self.__dict__.update(fields)

    def fields(self):
        return {name: self.__dict__[name] for name in FIELDS[self.kind]}


class Of:
    """The type of a field that is another message, or (``many``) a list of them."""

    def __init__(self, kind, many=False):
        self.kind, self.many = kind, many

    def make(self):
        return [] if self.many else Message(self.kind)


ANY = object()
"""The type of a field that is bytes, a text, a number, or a dict of these."""
_ANYTHING = {"value": b"", "event_message": ""}
_REQUEST = {"node_id": 0, "local_world_size": 0, "rdzv_name": ""}
_NODE = {"type": "", "addr": "", "memory": 0, "cpu": 0.0, "gpu": 0, "gpu_type": "", "id": 0, "rank": 0, "status": ""}
_VERSION = {"task_type": "", "task_id": 0, "version_type": ""}
FIELDS = {
    "BaseResponse": {"success": False, "data": b""},
    "TaskRequest": {"dataset_name": ""},
    "Shard": {"name": "", "start": 0, "end": 0, "indices": [0]},
    "Task": {"task_id": 0, "shard": Of("Shard"), "type": ANY, "extended_config": {}},
    "GPUStats": {"index": 0, "total_memory_mb": 0, "used_memory_mb": 0, "gpu_utilization": 0},
    "TensorStats": {"variable_count": 0, "total_variable_size": 0, "max_variable_size": 0, "kv_embedding_dims": [0]},
    "OpStats": {
        **{"op_count": 0, "update_op_count": 0, "read_op_count": 0},
        **{"input_fetch_dur": 0, "flops": 0, "op_type": 0},
    },
    "ModelInfo": {
        **{"tensor_stats": Of("TensorStats"), "op_stats": Of("OpStats")},
        **{"instantiation_memory": 0, "activation_memory": 0},
    },
    "ResourceStats": {"memory": 0, "cpu": 0.0, "gpu_stats": Of("GPUStats", many=True)},
    "GlobalStep": {"timestamp": 0, "step": 1, "elapsed_time_per_step": 0.0},
    "HeartBeat": {"timestamp": 0},
    "AtorchEvent": {"timestamp": 0, "target": "", "name": "", "type": "", "step": 0},
    "PreCheckRequest": {"timestamp": 0, "type": "INITIAL"},
    "PreCheckResponse": {"status": "", "reason": ""},
    "DatasetShardParams": {
        **{"batch_size": 0, "num_epochs": 0, "dataset_size": 0, "shuffle": False, "num_minibatches_per_shard": 0},
        **{"dataset_name": "", "task_type": ANY, "storage_type": ""},
    },
    "ShardCheckpointRequest": {"dataset_name": ""},
    "ShardCheckpoint": {"content": ""},
    "TaskResult": {"dataset_name": "", "task_id": 0, "err_message": "", "exec_counters": {}},
    "SyncJoin": {"sync_name": ""},
    "SyncFinish": {"sync_name": ""},
    "SyncBarrier": {"barrier_name": "", "notify": False},
    "PsReady": {},
    "ClusterVersionRequest": _VERSION,
    "ClusterVersion": {**_VERSION, "version": 0},
    "NodeMeta": _NODE,
    "NodeAddress": _NODE,
    "NodeEvent": {
        **{"event_type": "", "event_message": ANY, "event_time": 0.0, "event_elapsed_time": 0.0},
        "node": Of("NodeMeta"),
    },
    "NodeFailure": {"error_data": "", "restart_count": 0, "level": ""},
    "RendezvousParams": {"min_nodes": 0, "max_nodes": 0, "waiting_timeout": 0, "node_unit": 0, "join_timeout": 0},
    "RendezvousRequest": _REQUEST,
    "CommWorldRequest": _REQUEST,
    "JoinRendezvousRequest": {**_REQUEST, "node_rank": -1, "node_ip": ""},
    "WaitingNodeNumRequest": _REQUEST,
    "NetworkReadyRequest": {},
    "StragglerExistRequest": {},
    "NetworkCheckResult": {"nodes": [0], "reason": ""},
    "RendezvousState": {"world": {}, "waiting_num": 0, "round": 0, "group": 0},
    "PsNodesRequest": {},
    "PsNodes": {"nodes": Of("NodeMeta", many=True), "new_ps_ready": False, "ps_failure": False},
    "TrainingStatusRequest": {},
    "TrainingStatus": {"status": 0},
    "RunningNodesRequest": {},
    "RunningNodes": {"nodes": Of("NodeMeta", many=True)},
    "KeyValuePair": {"key": "", "value": ANY, "op": ""},
    "KeyValuePairs": {"kvs": {}, "op": ""},
    "DataLoaderConfig": {
        **{"version": 0, "dataloader_name": "", "last_batch_size": 0},
        **{"batch_size": 0, "num_workers": 0, "pin_memory": 0},
    },
    "OptimizerConfig": {"version": 0, "optimizer_name": "", "learning_rate": 0.0, "weight_decay": 0.0},
    "ParallelConfigRequest": {},
    "CheckHardwareResetRequest": {},
    "ParallelConfig": {"dataloader": Of("DataLoaderConfig"), "optimizer": Of("OptimizerConfig"), "restart": False},
    "NodeCheckpointState": {"step": 0},
    "DiagnosisReportData": {"data_cls": "", "data_content": "", "node_rank": -1},
    "SyncTrainingPort": {"port": 0, "newport": 0},
    "ElasticRunConfigRequest": {},
    "ElasticRunConfig": {"configs": {}},
    "Event": {"event_type": "", "instance": "", "action": "", "msg": "", "labels": {}},
    "DiagnosisAction": {"action_cls": "", "action_content": ""},
    "HeartbeatResponse": {"action": Of("DiagnosisAction")},
}
"""A list has an example of its items. A dict has plain keys and values."""


def _defaults(kind):
    plain = {
        name: default
        for name, default in FIELDS[kind].items()
        if not isinstance(default, (Of, dict, list)) and default is not ANY
    }
    dicts = [name for name, default in FIELDS[kind].items() if isinstance(default, dict)]
    lists = [name for name, default in FIELDS[kind].items() if isinstance(default, list)]
    others = [(name, default) for name, default in FIELDS[kind].items() if isinstance(default, Of)]
    anything = [name for name, default in FIELDS[kind].items() if default is ANY]

    def make():
        made = dict(plain)
        made.update({name: {} for name in dicts})
        made.update({name: [] for name in lists})
        made.update({name: default.make() for name, default in others})
        made.update({name: _ANYTHING.get(name, 0) for name in anything})
        return made

    return make


_DEFAULTS = {kind: _defaults(kind) for kind in FIELDS}
_SCALARS = (str, bytes, bool, int, float)


def fits(value, default):
    """Return whether a value may be in a field. A number may be of any kind, and None may replace what is plain."""
    if isinstance(default, Of):
        if default.many:
            return isinstance(value, list) and all(
                isinstance(each, Message) and each.kind == default.kind for each in value
            )
        return isinstance(value, Message) and value.kind == default.kind
    if value is None:
        return True
    if default is ANY:
        return isinstance(value, _SCALARS) or (isinstance(value, dict) and fits(value, {}))
    if isinstance(default, list):
        return isinstance(value, list) and all(fits(each, default[0]) for each in value)
    if isinstance(default, dict):
        return isinstance(value, dict) and all(isinstance(each, _SCALARS) for each in value.values())
    if isinstance(default, (bool, int, float)):
        return isinstance(value, (bool, int, float))
    return isinstance(value, type(default))
