"""`/v1/node-checks` over a real server: who may check what, which job holds the nodes, and what the verdicts become."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from typing import Any

import pytest

from grass.api.check_run import check_nodes
from grass.errors import ConflictError, InputError, NotAllowedError, NotFoundError
from grass.model.lifecycle import TaskState
from grass.wire.checks import Alone, Measurements, Pair, Problem
from grass.wire.codec import encode as pack
from grass.wire.task_record import TaskRecord
from grass.wire.tickets import TICKET, NodeChecked, StopJob
from grass.wire.usage import NodeSample, TaskSample, UsageSample
from tests.contract.test_api_replies import Checked
from tests.support.api_world import ApiWorld
from tests.support.waiting import wait_until

NODE = {"state": "READY", "address": "10.0.0.1", "resources": {"cpu": 4000, "memory": 8 << 30, "gpu": 2000}}


def put(world: ApiWorld, name: str, **values: Any) -> None:
    world.backend.apply([("HSET", world.keys.nodes, name, pack({**NODE, "name": name, **values}))])


def tickets(world: ApiWorld) -> list[Any]:
    return [TICKET.decode(fields["body"]) for _, fields in world.backend.stream(world.keys.tickets, "0", 100)]


def test_a_check_is_a_job_that_takes_each_node_whole_and_what_it_finds_goes_to_the_master_agent(
    world: ApiWorld,
) -> None:
    put(world, "a", path=["s1"], quarantine={"1": "lost"}, gpus=[{"id": 0}, {"id": 1}])
    put(world, "b", path=["s1"])
    put(world, "c", state="LOST")
    checked = Checked(world, "root")
    client = checked.client
    begun = client.begin_check(level=2)
    assert [(each.name, each.task, each.path, each.gpus) for each in begun.nodes] == [
        ("a", "n0.0", ("s1",), 2),
        ("b", "n1.0", ("s1",), 0),
    ]
    spec = world.store.spec(begun.job)
    assert spec is not None and spec.gang == ("n0", "n1")
    holders = [(each.checks, each.resources.cpu, each.resources.gpu) for each in spec.components.values()]
    assert holders == [("a", 4000, 1000), ("b", 4000, 2000)]

    error = Problem("gpu", "gpu 0: 2 uncorrected ECC errors", 0)
    alone = (Alone("a", times={"matrix": (2.0, 1.5)}), Alone("b", problems=(error,), devices=(0, 1)))
    view = client.finish_check(begun.job, 2, Measurements(alone, (Pair("a", "b", (0.5, 0.4)),)))
    good, bad = view.checks
    assert (good.verdict.state, good.times) == ("good", {"matrix": 1.5, "pair": 0.4})
    assert (bad.verdict.fault, bad.verdict.devices, bad.user) == ("gpu", (0,), "root")
    filed = tickets(world)[1:]
    assert [each.node for each in filed if isinstance(each, NodeChecked)] == ["a", "b"]
    assert [each.id for each in filed if isinstance(each, StopJob)] == [begun.job]
    world.backend.apply([("XADD", world.keys.checks("a"), 0, "body", pack(each)) for each in view.checks])
    assert client.node_checks("a") == [bad, good]
    assert client.release_node("a").node.name == "a"
    assert checked.found == [] and checked.seen == {f"checks.{name}" for name in ("begin", "finish", "list", "release")}


def test_a_fault_between_two_nodes_is_noted_with_these_two(world: ApiWorld) -> None:
    names = ("n1", "n10", "n11", "n2")
    for name in names:
        put(world, name)
    client = world.client("root")
    pairs = [Pair(a, b, (1.0, 1.0)) for a, b in combinations(names, 2) if (a, b) != ("n10", "n11")]
    pairs.append(Pair("n10", "n11", error="no answer within 8 s"))
    begun = client.begin_check(level=2)
    view = client.finish_check(begun.job, 2, Measurements(tuple(map(Alone, names)), tuple(pairs)))
    assert view.between == ("link(n10, n11): n10 and n11: no answer within 8 s",)
    assert [each.verdict.node for each in view.checks if each.between] == ["n10", "n11"]


def test_a_node_whose_task_ended_while_others_were_not_free_is_not_at_fault(world: ApiWorld) -> None:
    put(world, "a")
    put(world, "b")
    with ThreadPoolExecutor(1) as pool:
        check = pool.submit(check_nodes, world.client("root"), ["a", "b"], 1, wait=True)
        wait_until(lambda: tickets(world), 30)
        [job] = [each.id for each in world.client("root").jobs()]
        for task in ("n0.0", "n1.0"):
            record = TaskRecord(state=TaskState.SUCCEEDED, attempt=1)
            world.backend.apply([("HSET", world.keys.tasks(job), task, pack(record))])
        with pytest.raises(ConflictError, match="a task ended that held a node"):
            check.result(30)
    assert not [each for each in tickets(world) if isinstance(each, NodeChecked)]


def test_a_busy_node_is_refused_with_who_uses_it_unless_one_waits_or_only_looks(world: ApiWorld) -> None:
    put(world, "a", tasks=2)
    job = world.client().start({"name": "train", "components": {"w": {"command": "x"}}}).id
    sample = UsageSample(
        at=1.0,
        node=NodeSample(
            cpu=1.0, memory=1, memory_total=2, disk_used=1, disk_total=2, network_sent=0, network_received=0
        ),
        tasks=(TaskSample(key=f"{job}/w.0/1"),),
    )
    world.backend.apply([("XADD", world.keys.node_usage("a"), 0, "body", pack(sample))])
    client = world.client("root")
    with pytest.raises(
        ConflictError, match=r"node a: has 2 task\(s\) \(jobs train of ann\); wait for them with `--wait`"
    ):
        client.begin_check(["a"], 1)
    assert client.begin_check(["a"], 1, wait=True).nodes[0].busy
    looked = client.begin_check(["a"], 0)
    spec = world.store.spec(looked.job)
    assert spec is not None and spec.components["n0"].resources.cpu == 0


@pytest.mark.parametrize(
    ("nodes", "level", "image", "error", "text"),
    [
        (["x"], 0, None, NotFoundError, "node x: not found"),
        (["a", "a"], 0, None, InputError, "nodes: must name each node once"),
        (["a"], 2, None, InputError, "level 2 measures pairs, so it needs at least two nodes"),
        (["a"], 1, "a b", InputError, "image: must be the name of an image, got 'a b'"),
        (["lost"], 0, None, ConflictError, r"nodes\[0\]: node lost: is LOST"),
        (["a", "pods"], 0, None, ConflictError, r"nodes\[1\]: node pods: is a namespace of Kubernetes"),
        (["a"], 3, None, InputError, "level"),
        (["ill"], 1, "torch:1", ConflictError, "node ill: some of its GPUs get no tasks"),
    ],
)
def test_what_cannot_be_checked_is_refused_and_nothing_is_started(
    world: ApiWorld, nodes: list[str], level: Any, image: str | None, error: type[Exception], text: str
) -> None:
    put(world, "a")
    put(world, "lost", state="LOST")
    put(world, "pods", runtimes=["kubernetes"])
    put(world, "ill", gpus=[{"id": 0}, {"id": 1}], quarantine={"1": "lost"})
    with pytest.raises(error, match=text):
        world.client("root").begin_check(nodes, level, image=image)
    assert not tickets(world)


def test_a_node_that_a_check_put_into_quarantine_may_be_checked_and_another_may_not(world: ApiWorld) -> None:
    reason = {"code": "check", "message": "m", "details": {}}
    put(world, "a", state="QUARANTINED", reason=reason)
    put(world, "b", state="QUARANTINED", reason={**reason, "code": "disk"})
    client = world.client("root")
    assert client.begin_check(["a"]).nodes[0].name == "a"
    with pytest.raises(ConflictError, match=r"node b: is QUARANTINED \(m\)"):
        client.begin_check(["b"])


def test_only_administrators_check_and_only_what_is_held_is_judged(world: ApiWorld) -> None:
    put(world, "a")
    put(world, "b")
    with pytest.raises(NotAllowedError):
        world.client().begin_check(["a"])
    with pytest.raises(NotAllowedError):
        world.client().release_node("a")
    client = world.client("root")
    begun = client.begin_check(["a"])
    with pytest.raises(InputError, match=r"measured: b is no node of check"):
        client.finish_check(begun.job, 0, Measurements((Alone("a"), Alone("b"))))
    with pytest.raises(InputError, match=r"measured.alone: must name each node once"):
        client.finish_check(begun.job, 0, Measurements((Alone("a"), Alone("a"))))
    plain = world.client("root").start({"name": "j", "components": {"w": {"command": "x"}}}).id
    with pytest.raises(NotFoundError, match="is no check of nodes"):
        client.finish_check(plain, 0, Measurements((Alone("a"),)))
    world.change_job(begun.job, state="STOPPED")
    with pytest.raises(ConflictError, match="its job has ended"):
        client.finish_check(begun.job, 0, Measurements((Alone("a"),)))
    assert client.node_checks("a") == []
