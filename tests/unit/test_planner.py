"""The planner's answers: where tasks go, and why the others wait."""

from __future__ import annotations

from grass.model.reasons import ReasonCode
from grass.model.resources import DEVICE, Resources
from master.planning.backlog import HORIZON, MOST, depth
from master.planning.planner import plan
from master.planning.view import Demand, JobLimit, NodeView

GIB = 1 << 30
CORE = Resources(1000)


def node(
    name: str, cpu: int = 4, memory: int = 8, gpu: int = 0, used: Resources = CORE * 0, ready: bool = True
) -> NodeView:
    total = Resources(cpu * 1000, memory * GIB, gpu * DEVICE)
    return NodeView(name, total, total - used, ready)


def where(nodes: list[NodeView], *demands: Demand) -> dict[str, int]:
    return {f"{p.demand.component}@{p.node}": p.count for p in plan(nodes, demands).placements}


def reason(nodes: list[NodeView], demand: Demand) -> tuple[ReasonCode, str]:
    found = plan(nodes, [demand]).waiting[demand.job_id, demand.component]
    return found.code, found.message


def test_tasks_go_to_the_node_that_they_fill_best() -> None:
    assert where([node("big", 16), node("small", 2)], Demand("j", "a", 2, CORE)) == {"a@small": 2}


def test_what_does_not_fit_on_one_node_goes_to_the_next() -> None:
    assert where([node("n1", 2), node("n2", 2)], Demand("j", "a", 3, CORE)) == {"a@n1": 2, "a@n2": 1}


def test_earlier_demands_are_served_first_and_nothing_is_given_twice() -> None:
    nodes = [node("n1", 2)]
    assert where(nodes, Demand("j", "a", 1, CORE), Demand("k", "b", 5, CORE)) == {"a@n1": 1, "b@n1": 1}


def test_a_later_smaller_demand_may_use_what_an_earlier_one_cannot() -> None:
    assert where([node("n1", 2)], Demand("j", "a", 1, CORE * 3), Demand("k", "b", 1, CORE)) == {"b@n1": 1}


def test_tasks_that_need_nothing_all_fit() -> None:
    assert where([node("n1", 1)], Demand("j", "a", 5_000, Resources())) == {"a@n1": 5_000}


def test_a_task_too_large_for_every_node_is_told_the_largest() -> None:
    code, message = reason([node("n1", 2), node("n2", 1)], Demand("j", "a", 1, CORE * 8))
    assert (code, message) == (ReasonCode.TOO_LARGE, "needs 8 cpu per task; the largest node has 2")
    code, message = reason([node("n1")], Demand("j", "a", 1, Resources(0, 64 * GIB)))
    assert (code, message) == (ReasonCode.TOO_LARGE, "needs 64GiB memory per task; the largest node has 8GiB")
    assert reason([node("n1")], Demand("j", "a", 1, Resources(gpu=DEVICE)))[1] == (
        "needs 1 gpu per task; the largest node has 0"
    )


def test_two_nodes_that_each_lack_something_else_are_no_node() -> None:
    nodes = [node("cpu", 16, 1), node("memory", 1, 64)]
    code, message = reason(nodes, Demand("j", "a", 1, Resources(8000, 32 * GIB)))
    assert (code, message) == (ReasonCode.TOO_LARGE, "no single node has all of what one task needs")


def test_a_task_without_room_is_told_what_the_nearest_node_lacks() -> None:
    nodes = [node("n1", 4, used=CORE * 4), node("n2", 4, used=CORE * 3)]
    code, message = reason(nodes, Demand("j", "a", 1, CORE * 2))
    assert (code, message) == (ReasonCode.NO_ROOM, "waits for room: needs 2 cpu per task; n2 has 1 cpu free")


def test_without_a_ready_node_the_reason_says_so() -> None:
    assert reason([], Demand("j", "a", 1, CORE))[0] is ReasonCode.NO_NODES
    assert reason([node("n1", ready=False)], Demand("j", "a", 1, CORE))[0] is ReasonCode.NO_NODES


def test_the_job_limit_counts_jobs_that_this_plan_begins() -> None:
    demands = [Demand(job, "a", 1, CORE, queued=True) for job in ("j", "k", "l")]
    result = plan([node("n1", 8)], demands, JobLimit(level=3, running=1))
    assert [placement.demand.job_id for placement in result.placements] == ["j", "k"]
    assert result.waiting["l", "a"].code is ReasonCode.JOB_LIMIT


def test_a_job_that_finds_no_room_takes_no_turn() -> None:
    demands = [Demand("big", "a", 1, CORE * 8, queued=True), Demand("small", "a", 1, CORE, queued=True)]
    result = plan([node("n1", 8, used=CORE)], demands, JobLimit(level=1, running=0))
    assert [placement.demand.job_id for placement in result.placements] == ["small"]


def test_the_backlog_is_bounded_by_time_and_number() -> None:
    assert depth(2, None) == 0
    assert depth(2, HORIZON) == 0
    assert depth(2, HORIZON / 10) == 20
    assert depth(64, 1e-9) == MOST
