"""The master of DLRover's clients: rounds follow Grass's membership, and a restart after any message loses nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.dlrover_pickles import answered, client_load, library, request

answers, gets, members, reports, state = map(library, ("answers", "gets", "members", "reports", "state"))
pickles = library("pickles")
TRAINING, CHECK = state.TRAINING, state.CHECK


class Master:
    """The master as agents see it. It is restarted after each message."""

    def __init__(self, *ranks: int, least: int = 1) -> None:
        self.kept: Any = None
        self.lines: list[str] = []
        self.least = least
        self.attempts = dict.fromkeys(ranks, 1)
        self.restart()

    def restart(self) -> None:
        def keep(kept: Any) -> None:
            self.kept = json.loads(json.dumps(kept))

        self._answers = answers.Answers(state.State(self.kept), keep, self.lines.append)
        self.see(**self.others) if hasattr(self, "others") else self.see()

    def see(self, **others: Any) -> None:
        self.others = others
        workers = tuple(members.Member(rank, attempt, f"10.0.0.{rank}") for rank, attempt in self.attempts.items())
        self._answers.see({"worker": members.Group(workers, len(workers), self.least), **others})

    def id(self, rank: int) -> int:
        return int(members.node_id(rank, self.attempts.get(rank, 1)))

    def get(self, message: str, rank: int = 0, kind: str = "worker", **fields: Any) -> Any:
        found = answered(self._answers.of("/get", request(message, self.id(rank), kind, **fields)))
        self.restart()
        return found

    def report(self, message: str, rank: int = 0, kind: str = "worker", **fields: Any) -> bool:
        found = client_load(self._answers.of("/report", request(message, self.id(rank), kind, **fields)))
        self.restart()
        return bool(found.success)

    def join(self, *ranks: int, name: str = TRAINING) -> None:
        for rank in ranks:
            self.get(
                "JoinRendezvousRequest", rank, node_id=self.id(rank), node_rank=rank, local_world_size=8, rdzv_name=name
            )

    def world(self, rank: int, name: str = TRAINING) -> dict[int, int]:
        return dict(self.get("CommWorldRequest", rank, node_id=rank, rdzv_name=name).world)

    def waiting(self, name: str = TRAINING) -> int:
        return int(self.get("WaitingNodeNumRequest", rdzv_name=name).waiting_num)

    def checked(self, rank: int, seconds: float, passed: bool = True) -> None:
        kind = reports.PASSED if passed else reports.FAILED
        self.report("NodeEvent", rank, event_type=kind, event_elapsed_time=seconds, node=("NodeMeta", {"rank": rank}))


def test_a_round_begins_once_all_members_have_joined_in_their_order() -> None:
    master = Master(2, 0, 1)
    master.join(0, 1)
    assert master.world(0) == {}
    master.join(2)
    assert list(master.world(0)) == [2, 0, 1], "the order of the membership, which follows the topology"
    assert master.world(1) == {2: 8, 0: 8, 1: 8}
    assert master.waiting() == 0


def test_an_agent_that_joins_again_restarts_the_others() -> None:
    master = Master(0, 1)
    master.join(0, 1)
    assert master.world(0) and master.world(1)
    master.join(1)
    assert master.waiting() == 1
    assert master.world(1) == {}, "it waits for the next round"
    assert master.world(0) == {0: 8, 1: 8}, "an agent that was slow to ask still gets its round"
    master.join(0)
    assert master.world(0) == {0: 8, 1: 8}
    assert master.get("CommWorldRequest", 0, node_id=0, rdzv_name=TRAINING).round == 2


def test_new_members_disturb_nobody_before_all_of_them_have_joined() -> None:
    master = Master(0)
    master.join(0)
    master.world(0)
    master.attempts.update({1: 1, 2: 1})
    master.see()
    master.join(1)
    assert master.waiting() == 0
    master.join(2)
    assert master.waiting() == 2
    master.join(0)
    assert master.world(2) == {0: 8, 1: 8, 2: 8}


def test_a_released_member_restarts_the_others_without_it() -> None:
    master = Master(0, 1, 2)
    master.join(0, 1, 2)
    master.world(0)
    del master.attempts[1]
    master.see()
    assert master.waiting() == 1
    master.join(1)  # it does not know yet
    master.join(0, 2)
    assert master.world(0) == {0: 8, 2: 8}


def test_another_attempt_takes_the_place_of_one_that_was_killed() -> None:
    master = Master(0, 1, least=2)
    master.join(0, 1)
    master.world(0)
    del master.attempts[1]
    master.see()
    assert master.waiting() == 0, "below its least size, the job is queued again"
    master.attempts[1] = 2
    master.see()
    assert master.waiting() == 1
    master.join(0)
    assert master.world(0) == {}
    master.join(1)
    assert master.world(0) == {0: 8, 1: 8}


def test_who_waits_to_train_must_check_again_once_others_join_a_check() -> None:
    master = Master(0, 1)
    master.join(0, 1, name=CHECK)
    assert master.world(0, CHECK) == {0: 8, 1: 8}
    master.join(0)
    master.join(1, name=CHECK)
    assert master.waiting(CHECK) == 1
    master.join(0, name=CHECK)
    assert master.world(1, CHECK) == {0: 8, 1: 8}
    master.join(1)
    assert master.world(1) == {}, "the first one has to join again, after its check"


def test_a_node_that_fails_in_both_rounds_is_the_bad_one() -> None:
    master = Master(0, 1, 2, 3)
    master.join(0, 1, 2, 3, name=CHECK)
    assert [master.world(rank, CHECK) for rank in (0, 1, 3)] == [{0: 8, 1: 8}, {0: 8, 1: 8}, {2: 8, 3: 8}]
    assert master.get("NetworkReadyRequest").reason == "Waiting node"
    for rank, seconds, passed in ((0, 3600, False), (1, 3600, False), (2, 1.0, True), (3, 1.1, True)):
        master.checked(rank, seconds, passed)
    found = master.get("NetworkReadyRequest")
    assert (found.nodes, found.reason) == ([0, 1], "Node Failure")
    assert len(master.get("RunningNodesRequest").nodes) == 4
    master.join(0, 1, 2, 3, name=CHECK)
    assert sorted(master.world(2, CHECK)) == [1, 2], "the fastest with the slowest"
    for rank, seconds, passed in ((0, 1.0, True), (3, 1.0, True), (1, 3600, False), (2, 3600, False)):
        master.checked(rank, seconds, passed)
    assert master.get("NetworkReadyRequest").nodes == [1]
    assert master.get("StragglerExistRequest").nodes == [1]
    assert named(master) == ["node_check_fault=1 step=1"], "after the second round, and once"


def named(master: Master) -> list[str]:
    lines = [line for text in master.lines for line in text.split("\n")]
    return [line.removeprefix("GRASS_METRIC ") for line in lines if line.startswith("GRASS_METRIC")]


def test_a_node_is_named_again_with_another_attempt_and_until_a_check_without_it_is_over() -> None:
    master = Master(0, 1)

    def check(*passed: bool) -> None:
        master.join(0, 1, name=CHECK)
        master.world(0, CHECK)
        for rank, good in enumerate(passed):
            master.checked(rank, 1.0, good)

    check(True, False)
    assert named(master) == []
    check(True, False)
    assert named(master) == ["node_check_fault=1 step=1"]
    master.attempts[1] = 2
    master.see()
    check(False, False)
    check(True, False)
    assert named(master)[1:] == ["node_check_fault=2 step=1"]
    check(True, True)
    assert named(master)[2:] == ["node_check_fault=0 step=1"]


def test_a_check_is_over_for_the_others_when_the_last_one_is_gone() -> None:
    master = Master(0, 1, 2)
    for round_ in range(2):
        master.join(0, 1, 2, name=CHECK)
        master.world(0, CHECK)
        master.checked(0, 1.0)
        master.checked(1, 1.0, passed=False)
        if round_ == 0:
            master.checked(2, 1.0)
    assert named(master) == []
    del master.attempts[2]
    master.see()
    assert named(master) == ["node_check_fault=1 step=1"]


def test_a_check_without_a_fault_ends_after_one_round() -> None:
    master = Master(0, 1, 2)
    assert master.get("NetworkReadyRequest").reason == "Not Initialized"
    master.join(0, 1, 2, name=CHECK)
    assert master.world(0, CHECK) == {0: 8, 1: 8, 2: 8}, "an odd number: three in one group"
    for rank in range(3):
        master.checked(rank, 1.0)
    assert (master.get("NetworkReadyRequest").nodes, master.get("StragglerExistRequest").nodes) == ([], [])
    assert master.kept["checks"]["round"] % 2 == 0


def test_a_node_that_is_gone_is_not_waited_for_in_a_check() -> None:
    master = Master(0, 1)
    master.join(0, 1, name=CHECK)
    master.world(0, CHECK)
    master.checked(0, 1.0)
    assert master.get("StragglerExistRequest").reason == "Waiting node"
    del master.attempts[1]
    master.see()
    assert master.get("StragglerExistRequest").reason == ""
    assert master.get("NetworkReadyRequest").reason == ""


def test_the_store_of_agents_sets_gets_and_adds() -> None:
    master = Master(0)
    assert master.report("KeyValuePair", key="a", value=b"1", op="set")
    assert master.report("KeyValuePairs", kvs={"b": b"2", "c": b"\xff"}, op="set")
    assert master.get("KeyValuePair", key="a", op="get").value == b"1"
    assert master.get("KeyValuePair", key="x", op="get").value == b""
    assert [master.get("KeyValuePair", key="n", value=2, op="add").value for _ in range(2)] == [2, 4]
    assert master.get("KeyValuePairs", kvs={"b": b"", "c": b"", "n": b""}, op="get").kvs == {
        "b": b"2",
        "c": b"\xff",
        "n": 4,
    }
    assert master.get("KeyValuePairs", kvs={"b": b"", "x": b""}, op="get").kvs == {}
    assert not master.report("KeyValuePair", key="a", value=b"1" * 70_000, op="set")


def test_what_agents_stored_for_old_rounds_is_removed() -> None:
    master = Master(0)
    for number in range(1, 6):
        master.join(0)
        master.world(0)
        master.report("KeyValuePair", key=f"{TRAINING}/torch.rendezvous.{TRAINING}.{number}.0/MASTER_ADDR", value=b"a")
    assert len(master.kept["values"]) == 3


def take(master: Master, rank: int = 0) -> Any:
    return master.get("TaskRequest", rank, dataset_name="d")


def dataset(master: Master, **fields: Any) -> None:
    defaults = {"batch_size": 10, "dataset_size": 45, "num_epochs": 1, "num_minibatches_per_shard": 2, "task_type": 1}
    assert master.report("DatasetShardParams", dataset_name="d", **{**defaults, **fields})


@pytest.mark.parametrize("storage", ["table", "text"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_shard_of_each_epoch_is_given_out_once(storage: str, shuffle: bool) -> None:
    master = Master(0, 1)
    for _ in (0, 1):
        dataset(master, num_epochs=2, storage_type=storage, shuffle=shuffle)
    seen = []
    for number in range(6):
        task = take(master, number % 2)
        assert (task.task_id, task.type) == (number, 1)
        seen += task.shard.indices or list(range(task.shard.start, task.shard.end))
        assert master.report("TaskResult", dataset_name="d", task_id=number)
    assert sorted(seen[:45]) == sorted(seen[45:]) == list(range(45))
    assert take(master).type == 0, "the dataset is done"
    assert master.get("TrainingStatusRequest").status == 1


def test_a_shard_comes_back_if_it_fails_or_its_task_is_gone() -> None:
    master = Master(0, 1)
    dataset(master, dataset_size=20)
    first = take(master, 1)
    assert take(master).type == "WAIT", "the other one may fail"
    assert not master.report("TaskResult", 1, dataset_name="d", task_id=first.task_id, err_message="lost")
    again = take(master, 1)
    assert (again.shard.start, again.shard.end, again.task_id) == (0, 20, 1)
    master.attempts[1] = 2
    master.see()
    assert take(master).shard.end == 20
    assert not master.report("TaskResult", dataset_name="d", task_id=99)
    assert "task 0 of d failed: lost" in master.lines[-1]


def test_a_checkpoint_of_shards_brings_back_what_was_not_done() -> None:
    master = Master(0)
    dataset(master)
    for _ in range(2):
        take(master)
    assert master.report("TaskResult", dataset_name="d", task_id=0)
    content = master.get("ShardCheckpointRequest", dataset_name="d").content
    assert json.loads(content) == {"dataset_name": "d", "todo": [[40, 45]], "doing": [[20, 40]], "epoch": 1}
    for _ in range(2):
        take(master)
    assert master.report("ShardCheckpoint", content=content)
    assert [take(master).shard.start for _ in range(2)] == [20, 40]
    assert take(master).type == "WAIT"


def test_versions_addresses_and_parameter_servers_are_remembered() -> None:
    master = Master(0)
    assert master.get("ClusterVersionRequest", task_type="worker", task_id=0, version_type="RESTORED").version == -1
    assert master.report("ClusterVersion", task_type="ps", task_id=1, version_type="LOCAL", version=3)
    assert master.report("ClusterVersion", task_type="worker", task_id=1, version_type="GLOBAL", version=4)
    assert master.get("ClusterVersionRequest", task_type="ps", task_id=1, version_type="LOCAL").version == 3
    assert master.get("ClusterVersionRequest", task_type="ps", task_id=0, version_type="GLOBAL").version == 4
    master.see(ps=members.Group((members.Member(0, 1, "10.1.0.1"), members.Member(1, 1, "10.1.0.2")), 2, 2))
    assert master.report("NodeAddress", type="ps", id=1, addr="10.1.0.2:3333")
    found = master.get("PsNodesRequest")
    assert [each.addr for each in found.nodes] == ["10.1.0.1", "10.1.0.2:3333"]
    assert (found.new_ps_ready, found.ps_failure) == (True, False)
    master.see(ps=members.Group((members.Member(1, 1, "10.1.0.2"),), 2, 2))
    assert master.get("PsNodesRequest").ps_failure


def test_all_workers_must_come_to_a_synchronization() -> None:
    master = Master(0, 1)
    assert not master.report("SyncFinish", sync_name="s")
    assert master.report("SyncJoin", 0, sync_name="s")
    assert not master.report("SyncFinish", sync_name="s")
    assert master.report("SyncJoin", 1, sync_name="s") and master.report("SyncFinish", sync_name="s")
    assert not master.report("SyncBarrier", barrier_name="b")
    assert master.report("SyncBarrier", barrier_name="b", notify=True) and master.report(
        "SyncBarrier", barrier_name="b"
    )


def test_a_checkpoint_in_memory_counts_once_all_nodes_have_the_same_step() -> None:
    master = Master(0, 1)
    master.join(0, 1)
    master.world(0)
    assert [master.report("NodeCheckpointState", rank, step=step) for rank, step in ((0, 1), (1, 2), (0, 2))] == [
        *(False, False),
        True,
    ]


def test_nodes_agree_on_a_port_that_is_free_on_all() -> None:
    master = Master(0, 1)

    def sync(rank: int, port: int) -> tuple[int, int]:
        found = master.get("SyncTrainingPort", rank, port=port)
        return found.port, found.newport

    assert [sync(0, 60_000), sync(1, 60_002)] == [(0, 0), (0, 60_002)]
    assert [sync(0, 60_000), sync(0, 60_002), sync(1, 60_002)] == [(0, 60_002), (0, 0), (60_002, 0)]
    assert sync(0, 1) == (60_002, 0)


def test_after_one_agent_succeeded_none_joins_again() -> None:
    master = Master(0, 1)
    assert master.report("NodeEvent", event_type="SUCCEEDED_EXITED", node=("NodeMeta", {}))
    assert master.waiting(CHECK) == -1


def test_what_the_client_asks_and_reports_besides_is_accepted() -> None:
    master = Master(0)
    assert master.get("ElasticRunConfigRequest").configs == {}
    assert master.get("PreCheckRequest").status == "PASS"
    assert master.get("HeartBeat", timestamp=5).action.action_cls == "NoAction"
    assert not master.get("CheckHardwareResetRequest").restart
    assert master.report("ParallelConfig", dataloader=("DataLoaderConfig", {"batch_size": 7}))
    assert master.get("ParallelConfigRequest").dataloader.batch_size == 7
    for message in ("ResourceStats", "ModelInfo", "GlobalStep", "AtorchEvent", "RendezvousParams", "PsReady"):
        assert master.report(message)
    assert master.report("DiagnosisReportData") and master.report("Event", msg="m") and master.report("NodeFailure")


def test_all_types_of_the_client_have_an_answer() -> None:
    assert (len(gets.GETS), len(reports.REPORTS)) == (19, 22)
    assert {*gets.GETS, *reports.REPORTS} <= set(library("messages").FIELDS)


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("/get", b"{", "no request of DLRover"),
        ("/get", b"[" * 100_000, "no request of DLRover"),
        ("/get", b'{"node_id": 0, "node_type": "worker", "data": "!"}', "no request of DLRover"),
        ("/get", request("ResourceStats"), "ResourceStats of /get, which DLRover 0.6.1 does not send"),
        ("/else", request("HeartBeat"), "HeartBeat of /else"),
        ("/get", request("WaitingNodeNumRequest", rdzv_name="x"), "the rendezvous x"),
        ("/report", request("DatasetShardParams", dataset_name="d", batch_size=0), "dataset d: a batch size of 0"),
        ("/report", request("ShardCheckpoint", content="x"), "ShardCheckpoint with a field that cannot be"),
    ],
)
def test_a_request_that_cannot_be_is_refused_and_changes_nothing(path: str, body: bytes, problem: str) -> None:
    master = Master(0)
    with pytest.raises(pickles.Refused, match=problem.replace(".", r"\.")):
        master._answers.of(path, body)
    assert master.kept is None
