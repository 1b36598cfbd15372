"""The planner's answers: where tasks go, what is kept and stopped for others, and why the rest waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grass.model import feasibility
from grass.model.job import NODE_LEVEL, GpuNeed, Policy
from grass.model.reasons import ReasonCode
from grass.model.resources import DEVICE, Resources
from grass.model.runtime import RuntimeName
from master.planning.backlog import HORIZON, MOST, depth
from master.planning.decide import decide
from master.planning.model import Allocation, Demand, Device, Node, QueuedJob, Shape, Snapshot

GIB = 1 << 30


def node(name: str, cpu: float = 4, memory: int = 8, gpu: int = 0, used: float = 0, **more: object) -> Node:
    total = Resources(int(cpu * 1000), memory * GIB, gpu * DEVICE)
    devices = more.pop("devices", tuple(Device(each) for each in range(gpu)))
    return Node(name, total, total - Resources(int(used * 1000)), devices, **more)  # type: ignore[arg-type]


_OF_SHAPE = ("where", "avoid", "runtime", "ports", "has_image", "not_in_pods", "share_helps")


def tasks(count: int = 1, cpu: float = 1, memory: float = 0, gpu: float = 0, name: str = "t", **more: object) -> Demand:
    amounts = Resources(int(cpu * 1000), int(memory * GIB), int(gpu * DEVICE))
    fields = {key: more.pop(key) for key in _OF_SHAPE if key in more}
    shape = Shape(amounts, more.pop("kind", GpuNeed()), **fields)  # type: ignore[arg-type]
    return Demand(name, count, shape, **more)  # type: ignore[arg-type]


def job(number: int, *demands: Demand, user: str = "ann", **more: object) -> QueuedJob:
    return QueuedJob(f"j{number}", user, number, demands, **more)  # type: ignore[arg-type]


def runs(name: str, on: str, cpu: float, count: int = 1, **more: object) -> Allocation:
    return Allocation(name, "bob", "t", on, count, Shape(Resources(int(cpu * 1000))), **more)  # type: ignore[arg-type]


def where(nodes: list[Node], *queue: QueuedJob, held: tuple[Allocation, ...] = (), **more: object) -> dict[str, int]:
    placements = decide(Snapshot(nodes, queue, held, **more)).placements  # type: ignore[arg-type]
    found: dict[str, int] = {}
    for placement in placements:
        key = f"{placement.job}@{placement.node}"
        found[key] = found.get(key, 0) + placement.count
    return found


def why(
    nodes: list[Node], *queue: QueuedJob, held: tuple[Allocation, ...] = (), **more: object
) -> tuple[ReasonCode, str]:
    """Of the last job in the queue."""
    last = queue[-1]
    view = Snapshot(nodes, queue, held, **more)  # type: ignore[arg-type]
    reason = decide(view).waiting[last.id, last.demands[0].component]
    return reason.code, reason.message


def test_tasks_go_to_the_node_that_they_fill_best() -> None:
    assert where([node("big", 16), node("small", 2)], job(1, tasks(2))) == {"j1@small": 2}


def test_tasks_go_where_it_is_busy_as_long_anyway_so_that_other_nodes_become_empty() -> None:
    nodes = [node("full", 4, used=3), node("long", 4, used=1), node("none", 1)]
    held = (runs("a", "full", 3, ends=60.0), runs("b", "long", 1, ends=36_000.0))
    assert where(nodes, job(1, tasks(), seconds=18_000.0), held=held) == {"j1@long": 1}
    assert where(nodes, job(1, tasks(), seconds=30.0), held=held) == {"j1@full": 1}
    assert where(nodes, job(1, tasks()), held=(*held, runs("c", "long", 0, ends=None))) == {"j1@long": 1}


def test_what_does_not_fit_on_one_node_goes_to_the_next() -> None:
    assert where([node("n1", 2), node("n2", 2)], job(1, tasks(3))) == {"j1@n1": 2, "j1@n2": 1}


def test_tasks_that_need_nothing_all_fit() -> None:
    assert where([node("n1", 1)], job(1, tasks(5_000, cpu=0))) == {"j1@n1": 5_000}


def test_the_policies_do_different_things_with_the_same_job() -> None:
    nodes = [node("n1", 8, used=6), node("n2", 8, used=2), node("n3", 8)]

    def by(policy: Policy) -> dict[str, int]:
        return where(nodes, job(1, tasks(4), policy=policy, metric="cpu"))

    assert by(Policy.BEST_FIT) == {"j1@n1": 2, "j1@n2": 2}
    assert by(Policy.COMPACTED) == {"j1@n1": 2, "j1@n2": 2}
    assert by(Policy.BALANCED) == {"j1@n2": 1, "j1@n3": 3}


def test_every_task_gets_its_own_devices_and_shares_are_packed() -> None:
    queue = job(1, tasks(3, gpu=0.5)), job(2, tasks(1, gpu=1)), job(3, tasks(1, gpu=0.25))
    plan = decide(Snapshot([node("n1", 16, gpu=3)], queue))
    devices = [shares for placement in plan.placements for shares in placement.devices]
    assert devices == [((0, 500),), ((0, 500),), ((1, 500),), ((2, 1000),), ((1, 250),)]


def test_a_device_that_others_use_takes_nothing_and_kinds_are_told_apart() -> None:
    free = Device(1, "Tesla V100", 32 * GIB), Device(2, "NVIDIA A100", 40 * GIB)
    devices = (Device(0, "NVIDIA A100", 80 * GIB, busy="eve"), *free)
    nodes = [node("n1", 16, gpu=3, devices=devices)]
    plan = decide(Snapshot(nodes, [job(1, tasks(2, gpu=1, kind=GpuNeed("a100")))]))
    assert [placement.devices for placement in plan.placements] == [(((2, 1000),),)]
    code, _ = why(nodes, job(1, tasks(gpu=1, kind=GpuNeed("H100"))))
    assert code is ReasonCode.CONSTRAINTS
    said = "waits for free resources: n1: gpu 0 is used by eve, not by a task of this cluster"
    assert why(nodes, job(1, tasks(gpu=1, kind=GpuNeed("a100", 50 * GIB)))) == (ReasonCode.NO_FREE_RESOURCES, said)


@pytest.mark.parametrize(
    ("demand", "place"),
    [
        (tasks(where=(("arch", ("arm64",)),)), "j1@n2"),
        (tasks(avoid=("n1", "n3")), "j1@n2"),
        (tasks(runtime=RuntimeName.DOCKER), "j1@n3"),
        (tasks(ports=3), "j1@n2"),
    ],
)
def test_constraints_choose_the_node(demand: Demand, place: str) -> None:
    nodes = [
        node("n1", 1, ports=2),
        node("n2", 2, labels={"arch": "arm64"}),
        node("n3", 4, ports=2, runtimes=frozenset({"docker", "process"})),
    ]
    assert where(nodes, job(1, demand)) == {place: 1}


def test_tasks_are_spread_packed_and_kept_together() -> None:
    nodes = [node(f"n{number}", path=(f"rack{number // 2}",)) for number in range(4)]
    assert where(nodes, job(1, tasks(4, spread=NODE_LEVEL))) == {f"j1@n{number}": 1 for number in range(4)}
    assert where(nodes, job(1, tasks(2, spread=1))) == {"j1@n0": 1, "j1@n2": 1}
    assert where(nodes, job(1, tasks(6, pack=1))) == {"j1@n0": 4, "j1@n1": 2}
    queue = job(1, tasks(5, pack=1)), job(2, tasks(3), tasks(2, 2, name="u"), together=1)
    assert {key for key in where(nodes, *queue) if key.startswith("j2")} == {"j2@n2", "j2@n3"}


def test_a_gang_starts_whole_or_not_at_all() -> None:
    nodes = [node("n1", 4), node("n2", 4)]
    gang = job(1, tasks(3, 2, gang=True), tasks(2, 1, name="u", gang=True))
    assert sum(where(nodes, gang).values()) == 5
    assert where([node("n1", 4), node("n2", 3)], gang) == {}


def namespace(name: str = "ns", image: bool = False, **more: object) -> Node:
    return node(name, 64, 64, runtimes=frozenset({"kubernetes"}), without_image=image, **more)  # type: ignore[arg-type]


def test_a_task_without_an_image_goes_to_a_namespace_only_if_that_has_one_for_it() -> None:
    bare = job(1, tasks(has_image=False))
    assert where([namespace()], bare) == {}
    assert why([namespace()], bare) == (
        ReasonCode.CONSTRAINTS,
        "no node matches its constraints: ns: needs an image there",
    )
    assert where([namespace(image=True)], bare) == where([namespace()], job(1, tasks())) == {"j1@ns": 1}
    assert where([node("n1", 2, used=1), namespace()], job(1, tasks(3, has_image=False))) == {"j1@n1": 1}
    message = why([node("n1", 1, used=1), namespace()], bare)[1]
    assert message == "waits for free resources: n1: 1 cpu short; ns: needs an image there"


def test_what_grass_adds_to_a_pod_counts_so_that_no_more_are_placed_than_a_namespace_has() -> None:
    def sized(cpu: int, memory: int = 8 * GIB) -> Node:
        return replace(namespace(image=True), total=Resources(cpu, memory), free=Resources(cpu, memory))

    many, gang = job(1, tasks(8, cpu=1)), job(1, tasks(4, cpu=1, gang=True))
    assert where([sized(4000)], many) == {"j1@ns": 3}  # each takes 1.1 cores
    assert where([sized(4400)], many) == where([sized(4400)], gang) == {"j1@ns": 4}
    assert where([sized(4000)], gang) == {} and where([sized(4000), node("n1", 1)], gang) == {"j1@ns": 3, "j1@n1": 1}
    assert where([sized(4000, GIB)], job(1, tasks(8, cpu=0))) == {"j1@ns": 8}
    mixed = [*(replace(sized(4000), name=f"ns{n}") for n in range(10)), *(node(f"n{n}", 4, used=4) for n in range(10))]
    assert sum(where(mixed, job(1, tasks(100, cpu=1))).values()) == 30
    assert sum(where(mixed, job(1, tasks(400, cpu=0, memory=0.1, runtime=RuntimeName.KUBERNETES))).values()) == 400
    message = "no single node has everything that one task needs; starts now with 3.9 cpu"
    assert why([sized(4000)], job(1, tasks(cpu=4)))[1] == message


def test_what_pods_cannot_have_keeps_a_task_off_namespaces() -> None:
    picky = job(1, tasks(2, not_in_pods="pods have no share"))
    assert where([namespace(), node("n1", 8)], picky) == {"j1@n1": 2}
    assert "ns: pods have no share" in why([namespace()], picky)[1]


def test_what_needs_a_share_goes_to_a_namespace_that_has_one() -> None:
    of_share = job(1, tasks(2, not_in_pods="pods have no share", share_helps=True))
    with_share = replace(namespace(), labels={"share": "team-data"})
    assert where([namespace()], of_share) == {} and where([with_share], of_share) == {"j1@ns": 2}
    assert where([with_share], job(1, tasks(2, not_in_pods="pods have whole GPUs only"))) == {}


@pytest.mark.parametrize(("runtime", "place"), [(RuntimeName.PROCESS, "n1"), (RuntimeName.KUBERNETES, "ns")])
def test_a_runtime_that_a_task_asks_for_tells_machines_and_namespaces_apart(runtime: RuntimeName, place: str) -> None:
    nodes = [node("n1", 8), namespace(image=True)]
    assert where(nodes, job(1, tasks(2, runtime=runtime))) == {f"j1@{place}": 2}


@pytest.mark.parametrize("kind", [GpuNeed("A100"), GpuNeed(memory=16 * GIB)])
def test_gpus_of_unknown_model_are_not_taken_for_what_a_task_asks_for(kind: GpuNeed) -> None:
    there = namespace(gpu=2)
    assert where([there], job(1, tasks(gpu=1))) == {"j1@ns": 1}
    code, message = why([there], job(1, tasks(gpu=1, kind=kind)))
    assert code is ReasonCode.CONSTRAINTS and message.endswith("ns: too few GPUs of the requested model or memory")


def test_a_gang_that_waits_says_whether_it_can_ever_start() -> None:
    nodes = [node("n1", 4), node("n2", 6, used=2)]
    code, message = why(nodes, job(1, tasks(5, 2, gang=True)))
    assert (code, message) == (ReasonCode.GANG, "gang starts together; 4 of 5 tasks fit now")
    code, message = why(nodes, job(1, tasks(6, 2, gang=True)))
    assert code is ReasonCode.GANG
    assert message.startswith("gang cannot start: its 6 tasks start together, and the cluster holds only 5 of them")
    devices = [node("n1", 8, gpu=2)]
    assert "holds only 2" in why(devices, job(1, tasks(3, gpu=1, gang=True)))[1]
    assert "holds only 4" in why(devices, job(1, tasks(5, gpu=0.5, gang=True)))[1]


def test_a_gang_is_kept_the_nodes_that_are_free_together_first_and_only_those() -> None:
    nodes = [node("n1", used=4), node("n2", used=4), node("n3")]
    held = runs("a", "n1", 4, ends=100.0), runs("b", "n2", 4, ends=200.0)
    gang = job(1, tasks(3, 4, gang=True))
    plan = decide(Snapshot(nodes, [gang], held))
    assert plan.waiting["j1", "t"].details["starts_in"] == 200.0
    assert where(nodes, gang, job(2, tasks(1, 4), seconds=200.0), held=held) == {"j2@n3": 1}
    assert where(nodes, gang, job(2, tasks(1, 4), seconds=201.0), held=held) == {}
    soon = runs("a", "n1", 4, stopping=True, preemptible=True), held[1]
    assert where(nodes, job(1, tasks(2, 4, gang=True)), job(2, tasks(1, 4), seconds=1.0), held=soon) == {}


def test_without_time_limits_estimates_say_what_fits_before_a_reservation() -> None:
    nodes, wide = [node("n1", used=3)], job(1, tasks(cpu=4))
    held = (runs("a", "n1", 3, expected=100.0),)
    assert where(nodes, wide, job(2, tasks(), expected=100.0), held=held) == {"j2@n1": 1}
    assert where(nodes, wide, job(2, tasks(), expected=101.0), held=held) == {}
    assert where(nodes, wide, job(2, tasks()), held=held) == {}
    assert where(nodes, wide, job(2, tasks(), seconds=101.0, expected=9.0), held=held) == {}
    plan = decide(Snapshot(nodes, [wide], held))
    reason = plan.waiting["j1", "t"]
    assert plan.estimated == {"j1": 100.0} and reason.details["starts_about"] == 100.0
    assert "starts_in" not in reason.details
    assert reason.message.endswith("would start in about 1m40s, by how long tasks took before")


def test_what_an_estimate_gave_does_not_count_for_a_job_that_is_late_nor_after_it_has_passed() -> None:
    nodes, queue = [node("n1", used=3)], (job(1, tasks(cpu=4)), job(2, tasks(), expected=1.0))
    held = (runs("a", "n1", 3, expected=100.0),)
    assert where(nodes, *queue, held=held) == {"j2@n1": 1}
    assert where(nodes, *queue, held=held, late=["j1"]) == {}
    assert where(nodes, *queue, held=held, now=100.0) == {}
    assert decide(Snapshot(nodes, queue, held, late=["j1"])).estimated["j1"] is None


def test_a_start_that_time_limits_promise_is_not_delayed_by_a_wrong_estimate() -> None:
    nodes, queue = [node("n1", used=3)], (job(1, tasks(cpu=4)), job(2, tasks(), expected=1.0))
    assert where(nodes, *queue, held=(runs("a", "n1", 3, ends=100.0),)) == {}
    plan = decide(Snapshot(nodes, queue, (runs("a", "n1", 3, ends=100.0),)))
    assert plan.estimated["j1"] is None and plan.waiting["j1", "t"].details["starts_in"] == 100.0


def test_under_the_job_limit_a_job_that_is_expected_to_be_gone_leaves_the_first_one_its_turn() -> None:
    nodes, wide = [node("n1", used=3)], job(1, tasks(cpu=4))
    held = (runs("a", "n1", 3, expected=100.0),)
    for expected, found in ((100.0, {"j2@n1": 1}), (101.0, {}), (None, {})):
        queue = wide, job(2, tasks(), expected=expected)
        assert where(nodes, *queue, held=held, job_limit=2, running=1) == found


def test_a_gang_is_kept_as_few_nodes_as_possible() -> None:
    nodes, held = [node("n1", 2), node("n2", 4, used=4)], (runs("a", "n2", 4, ends=100.0),)
    assert where(nodes, job(1, tasks(4, gang=True)), job(2, tasks(2)), held=held) == {"j2@n1": 2}


def test_a_gang_in_one_rack_is_kept_nodes_of_that_rack_alone() -> None:
    nodes = [node("n0", used=4, path=("a",)), node("n1", path=("a",)), node("n2", path=("b",))]
    held = (runs("x", "n0", 4, ends=100.0),)
    queue = job(1, tasks(2, 4, gang=True, pack=1)), job(2, tasks(2, 4))
    assert where(nodes, *queue, held=held) == {"j2@n2": 1}


def test_a_gang_whose_tasks_fit_only_on_what_is_kept_for_a_job_waits_behind_it() -> None:
    nodes, held = [node("n1", used=2)], (runs("a", "n1", 2),)
    queue = job(1, tasks(1, 4)), job(2, tasks(2, gang=True))
    assert why(nodes, *queue, held=held) == (ReasonCode.BEHIND, feasibility.behind("job j1"))


def test_priority_then_who_has_least_then_age() -> None:
    one = [node("n1", 1)]
    assert where(one, job(1, tasks()), job(2, tasks(), priority=1)) == {"j2@n1": 1}
    assert where(one, job(1, tasks()), job(2, tasks(), user="bob")) == {"j1@n1": 1}
    assert where(one, job(1, tasks()), job(2, tasks(), user="bob"), usage={"ann": 5.0}) == {"j2@n1": 1}
    mine = Allocation("x", "ann", "t", "n9", 1, Shape(Resources(1000)))
    assert where(one, job(1, tasks()), job(2, tasks(), user="bob"), held=(mine,)) == {"j2@n1": 1}


def test_users_take_turns() -> None:
    queue = [job(number, tasks(), user="ann") for number in range(4)] + [job(9, tasks(), user="bob")]
    assert where([node("n1", 2)], *queue) == {"j0@n1": 1, "j9@n1": 1}


def test_a_quota_limits_what_a_user_holds_and_keeps_the_turn_of_the_larger_job() -> None:
    nodes, quota = [node("n1", 16)], {"cpu": 4000}
    both = job(1, tasks(9)), job(2, tasks(9), user="bob")
    assert where(nodes, *both, quotas={"ann": quota}) == {"j1@n1": 4, "j2@n1": 9}
    mine = Allocation("x", "ann", "t", "n1", 2, Shape(Resources(1000)))
    queue = job(1, tasks(1, 3)), job(2, tasks(1, 1))
    assert where(nodes, *queue, held=(mine,), default_quota=quota) == {}
    code, message = why(nodes, *queue[:1], held=(mine,), default_quota=quota)
    assert code is ReasonCode.QUOTA
    assert message == "waits for quota: ann may use 4 cpu, uses 2 cpu, and this needs 3 cpu"
    _, message = why(nodes, job(1, tasks(1, 6)), default_quota=quota)
    assert message == "needs more than the quota: ann may use 4 cpu, and this needs 6 cpu at once"


def test_new_jobs_of_a_user_who_keeps_too_much_in_the_share_wait() -> None:
    kept = {"ann": {"space": 3 << 30, "files": 10}, "bob": {"space": 3 << 30, "files": 10}}
    limits: dict[str, object] = {
        "quotas": {"ann": {"space": 2 << 30}},
        "default_quota": {"files": 10},
        "kept_files": kept,
    }
    both = job(1, tasks(2)), job(2, tasks(2), user="bob")
    assert where([node("n1", 16)], *both, **limits) == {"j2@n1": 2}
    code, message = why([node("n1", 16)], both[0], **limits)
    assert code is ReasonCode.QUOTA
    assert message == (
        "waits for quota: ann may keep 2GiB in the share, and keeps 3GiB; remove some with `grass data remove`"
    )
    [reason] = decide(Snapshot([node("n1", 16)], both[:1], **limits)).waiting.values()  # type: ignore[arg-type]
    assert reason.details == {"resource": "space", "quota": 2 << 30, "used": 3 << 30}
    assert where([node("n1", 16)], replace(both[0], begun=True), **limits) == {"j1@n1": 2}


def test_the_job_limit_counts_jobs_that_this_plan_begins() -> None:
    queue = [job(number, tasks()) for number in (1, 2, 3)]
    assert where([node("n1", 8)], *queue, job_limit=3, running=1) == {"j1@n1": 1, "j2@n1": 1}
    assert why([node("n1", 8)], *queue, job_limit=3, running=1)[0] is ReasonCode.JOB_LIMIT


def test_a_job_that_begins_with_a_part_of_its_tasks_takes_one_turn() -> None:
    queue = job(1, tasks(3, cpu=2)), job(2, tasks())
    nodes = [node("n1", 5)]
    assert where(nodes, *queue, job_limit=2) == {"j1@n1": 2, "j2@n1": 1}
    assert where(nodes, *queue, job_limit=1) == {"j1@n1": 2}


def test_a_job_that_could_not_begin_keeps_a_turn_from_those_that_may_still_run_when_it_starts() -> None:
    nodes, held = [node("n1", used=3)], (runs("a", "n1", 3, ends=100.0),)

    def behind(seconds: float | None) -> ReasonCode | None:
        queue = job(1, tasks(1, 4), seconds=50.0), job(2, tasks(), seconds=seconds)
        reason = decide(Snapshot(nodes, queue, held, job_limit=1)).waiting.get(("j2", "t"))
        return None if reason is None else reason.code

    assert behind(100.0) is None
    assert behind(100.5) is ReasonCode.JOB_LIMIT and behind(None) is ReasonCode.JOB_LIMIT


def test_a_job_of_which_one_task_began_has_its_turn() -> None:
    nodes, held = [node("n1", 4), node("n2", 4, used=2)], (runs("a", "n2", 2, ends=100.0),)
    assert where(nodes, job(1, tasks(2, 3)), job(2, tasks()), held=held, job_limit=2) == {"j1@n1": 1, "j2@n1": 1}


def test_behind_a_blocked_job_goes_only_what_is_gone_in_time_or_fits_beside_it() -> None:
    nodes, held = [node("n1", 8, used=6)], (runs("x", "n1", 6, ends=10.0),)
    head = job(1, tasks(1, 8))
    assert where(nodes, head, job(2, tasks()), held=held) == {}
    assert where(nodes, head, job(2, tasks(), seconds=10.0), held=held) == {"j2@n1": 1}
    assert where(nodes, head, job(2, tasks(), seconds=11.0), held=held) == {}
    assert where(nodes, job(1, tasks(1, 7)), job(2, tasks()), held=held) == {"j2@n1": 1}
    assert why(nodes, head, job(2, tasks()), held=held) == (
        ReasonCode.BEHIND,
        "a task would fit now, but could delay job j1, which is served first",
    )
    assert why(nodes, head, held=held)[1].endswith("starts within 10s, by the time limits of running jobs")


def test_what_is_being_emptied_for_a_job_is_promised_to_it_and_goes_to_no_user_who_has_had_less() -> None:
    half = [node("n1", 4, used=2)]
    held = (runs("run", "n1", 2, ends=60.0),)
    large, small = job(1, tasks(cpu=4)), job(2, tasks(cpu=2), user="cy")
    kept = decide(Snapshot(half, [large], held)).reserved
    assert kept == ("j1",)
    before = Snapshot(half, [large, small], held, {"ann": 5.0})
    assert [placement.job for placement in decide(before).placements] == ["j2"]
    promised = replace(large, reservation_rank=1)
    after = decide(replace(before, queue=[promised, small]))
    assert not after.placements and after.reserved == ("j1",)
    assert where(half, promised, replace(small, priority=1), held=held) == {"j2@n1": 1}
    assert where([node("n1", 4)], promised, small, usage={"ann": 5.0}) == {"j1@n1": 1}


def test_nothing_is_promised_where_nothing_is_free_yet_so_the_turn_may_change() -> None:
    nodes, held = [node("n1", 4, used=4)], (runs("run", "n1", 4, ends=60.0),)
    assert decide(Snapshot(nodes, [job(1, tasks(cpu=4))], held)).reserved == ()


def test_nothing_is_promised_when_nobody_knows_when_it_will_be_free() -> None:
    held = (runs("run", "n1", 2),)
    assert decide(Snapshot([node("n1", 4, used=2)], [job(1, tasks(cpu=4))], held)).reserved == ()


def test_without_time_limits_the_nearest_node_is_kept_for_a_large_job() -> None:
    nodes = [node("n1", 8, used=6), node("n2", 8, used=2)]
    held = runs("x", "n1", 6), runs("y", "n2", 2)
    queue = job(1, tasks(1, 8)), *(job(number, tasks()) for number in range(2, 9))
    assert where(nodes, *queue, held=held) == {"j2@n1": 1, "j3@n1": 1}


def test_what_runs_on_forever_is_not_counted_on_by_a_plan_that_places_it() -> None:
    nodes = [node("n1", 8)]
    queue = job(1, tasks(1, 6)), job(2, tasks(1, 4)), job(3, tasks(1, 2))
    assert where(nodes, *queue) == {"j1@n1": 1, "j3@n1": 1}  # 6 come free at once, so 2 are never short
    assert where(nodes, queue[0], job(2, tasks(1, 8)), queue[2]) == {"j1@n1": 1}


def test_the_fewest_tasks_of_the_lowest_priority_are_stopped_and_only_if_that_helps() -> None:
    nodes = [node("n1", used=4), node("n2", used=4)]
    small, large = runs("small", "n1", 1, 4, preemptible=True), runs("large", "n2", 4, preemptible=True)
    plan = decide(Snapshot(nodes, [job(1, tasks(1, 3), priority=5)], (small, large)))
    assert [(each.job, each.count, each.beneficiary) for each in plan.evictions] == [("large", 1, "j1")]
    assert plan.waiting["j1", "t"].code is ReasonCode.PREEMPTING
    assert plan.waiting["j1", "t"].details == {"jobs": ["large"], "tasks": 1}
    assert not decide(Snapshot(nodes, [job(1, tasks(1, 3))], (small, large))).evictions
    fixed = runs("large", "n2", 4), runs("small", "n1", 1, 2, preemptible=True), runs("other", "n1", 1, 2)
    assert not decide(Snapshot(nodes, [job(1, tasks(1, 3), priority=5)], fixed)).evictions


def test_tasks_are_stopped_on_the_node_that_has_them_whatever_runs_on_others() -> None:
    nodes = [node("n1", used=4), node("n2", used=4)]
    held = runs("low", "n1", 4, preemptible=True), runs("high", "n2", 4, preemptible=True, priority=9)
    plan = decide(Snapshot(nodes, [job(1, tasks(1, 3), priority=5)], held))
    assert [each.job for each in plan.evictions] == ["low"]


def test_nothing_is_stopped_where_that_would_not_be_enough() -> None:
    nodes = [node("n1", used=4), node("n2", used=4)]
    held = runs("low", "n1", 1, preemptible=True), runs("high", "n1", 3), runs("low2", "n2", 4, preemptible=True)
    plan = decide(Snapshot(nodes, [job(1, tasks(1, 4), priority=5)], held))
    assert [each.job for each in plan.evictions] == ["low2"]


def test_where_more_than_two_have_to_stop_the_largest_that_need_not_is_kept() -> None:
    singles = [runs(name, "n1", cpu, preemptible=True) for name, cpu in (("a", 2), ("b", 1), ("c", 1))]
    gangs = [
        runs(name, "n1", cpu, count, preemptible=True, gang=True) for name, cpu, count in (("g", 1, 3), ("h", 1.25, 4))
    ]
    plan = decide(Snapshot([node("n1", 12, used=12)], [job(1, tasks(1, 9), priority=5)], (*singles, *gangs)))
    assert [each.job for each in plan.evictions] == ["a", "b", "c", "h"]


def test_what_is_being_stopped_is_not_stopped_again_nor_given_to_others() -> None:
    nodes = [node("n1", used=3)]
    held = runs("low", "n1", 1, 3, preemptible=True, stopping=True), runs("low2", "n1", 0, 1, preemptible=True)
    plan = decide(Snapshot(nodes, [job(1, tasks(1, 4), priority=5), job(2, tasks())], held))
    assert not plan.evictions and not plan.placements
    assert plan.waiting["j1", "t"].code is ReasonCode.PREEMPTING


def test_a_gang_finds_its_places_also_when_its_small_tasks_need_what_only_one_node_has() -> None:
    """Largest first would fill n2 with what n1 could hold, and leave no cpu beside its licences."""
    licences = Resources(4000, custom=(("licences", 2),))
    nodes = [node("n1", 2), Node("n2", licences, licences)]
    licensed = Demand("licensed", 2, Shape(Resources(500, custom=(("licences", 1),))), gang=True)
    assert where(nodes, job(1, tasks(4, gang=True), licensed)) == {"j1@n1": 1, "j1@n2": 5}


def test_a_gang_is_stopped_whole() -> None:
    nodes = [node("n1", used=4), node("n2", used=4)]
    gang = [runs("g", name, 4, preemptible=True, gang=True) for name in ("n1", "n2")]
    plan = decide(Snapshot(nodes, [job(1, tasks(), priority=1)], gang))
    assert [(each.node, each.count) for each in plan.evictions] == [("n1", 1), ("n2", 1)]


def test_a_task_too_large_for_every_node_is_told_the_largest() -> None:
    nodes = [node("n1", 2), node("n2", 1)]
    code, message = why(nodes, job(1, tasks(1, 8)))
    assert code is ReasonCode.TOO_LARGE
    assert message == "needs 8 cpu per task; the largest node has 2; starts now with 2 cpu"
    assert why(nodes, job(1, tasks(1, 1, gpu=1)))[1] == "needs 1 gpu per task; the largest node has 0"
    apart = [node("cpu", 16, 1), node("memory", 1, 64)]
    assert why(apart, job(1, tasks(1, 8, 32)))[1].startswith("no single node has everything that one task needs")


def test_a_task_without_room_is_told_what_the_nodes_lack_and_what_would_start() -> None:
    nodes = [node("n1", memory=8), node("n2", memory=6), node("n3", memory=9), node("n4", memory=64, closed="draining")]
    code, message = why(nodes, job(1, tasks(1, 1, memory=10)))
    assert code is ReasonCode.NO_NODES and "n4: draining" in message
    others = [node("n1", memory=6), node("n2", memory=9, used=1), node("n3", used=4, memory=64), node("n4", 1, 64)]
    first = tasks(1, 0, memory=6, avoid=("n2", "n3", "n4")), tasks(1, 0, memory=9, avoid=("n3", "n4"), name="u")
    queue = job(1, *first), job(2, tasks(1, 2, memory=6))
    held = runs("x", "n2", 1), runs("y", "n3", 4)
    assert why(others, *queue, held=held) == (
        ReasonCode.NO_FREE_RESOURCES,
        "waits for free resources: 2 nodes: not enough memory (nearest: n1, 6GiB short); n3: 2 cpu short; "
        "n4: too small; starts now with 1 cpu",
    )
    code, message = why([node("n1", used=3), node("n2", used=4)], job(1, tasks(1, 2)))
    assert message == "waits for free resources: 2 nodes: not enough cpu (nearest: n1, 1 short); starts now with 1 cpu"


def test_without_a_ready_node_the_reason_says_so() -> None:
    assert why([], job(1, tasks()))[0] is ReasonCode.NO_NODES
    assert why([node("n1", closed="not heard for 12 s")], job(1, tasks())) == (
        ReasonCode.NO_NODES,
        "no node that is large enough accepts tasks now: n1: not heard for 12 s",
    )


def test_the_backlog_is_bounded_by_time_and_number() -> None:
    assert depth(2, None) == 0
    assert depth(2, HORIZON) == 0
    assert depth(2, HORIZON / 10) == 20
    assert depth(64, 1e-9) == MOST


def of_machines(*machines: dict[str, str], **labels: str) -> Node:
    return node("ns", runtimes=frozenset({"kubernetes"}), machines=machines, labels={"kubernetes": "lab", **labels})


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ((("disk", ("ssd",)),), True),
        ((("disk", ("hdd", "ssd")), ("zone", ("a",))), True),
        ((("disk", ("ssd",)), ("zone", ("b",))), False),  # no machine has both
        ((("disk", ("ssd",)), ("zone", ("a", "b"))), True),
        ((("disk", ("nvme",)),), False),
        ((("kubernetes", ("lab",)), ("zone", ("b",))), True),
        ((("kubernetes", ("other",)),), False),
        ((("site", ("x",)),), False),
    ],
)
def test_labels_that_a_namespace_has_not_itself_are_those_of_one_of_its_machines(
    asked: tuple[tuple[str, tuple[str, ...]], ...], fits: bool
) -> None:
    seen = of_machines({"disk": "ssd", "zone": "a", "kubernetes": "m", "site": "x"}, {"zone": "b"}, site="y")
    assert where([seen], job(1, tasks(where=asked))) == ({"j1@ns": 1} if fits else {})
    if asked[0][0] not in ("kubernetes",):
        assert where([of_machines()], job(1, tasks(where=asked))) == {}  # they are not seen


def test_a_namespace_has_more_devices_than_it_may_use() -> None:
    devices = tuple(Device(number, "A100" if number < 2 else "T4") for number in range(6))
    seen = node("ns", gpu=3, devices=devices, runtimes=frozenset({"kubernetes"}))
    assert where([seen], job(1, tasks(5, cpu=0.1, gpu=1))) == {"j1@ns": 3}
    assert where([seen], job(1, tasks(5, cpu=0.1, gpu=1, kind=GpuNeed("A100")))) == {"j1@ns": 2}
    assert where([seen], job(1, tasks(5, cpu=0.1, gpu=1, kind=GpuNeed("H100")))) == {}
