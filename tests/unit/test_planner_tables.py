"""The planner's tables of nodes: what arrays say of all nodes at once, what is said of each, and where tasks belong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from grass.model.job import NODE_LEVEL, GpuNeed, Policy
from grass.model.resources import DEVICE, Resources
from grass.model.runtime import RuntimeName
from master.planning.candidates import Candidates
from master.planning.free_resources import UNLIMITED
from master.planning.free_table import FreeTable
from master.planning.futures import Futures
from master.planning.ledger import NEVER, Ledger
from master.planning.model import Allocation, Demand, Device, Node, Placement, QueuedJob, Shape, Snapshot
from master.planning.node_table import NodeTable, shortage
from master.planning.ranking import BREAKS_A_DEVICE, GPU_WEIGHT, GRAIN, LONGER, BaseScores, Ranking, length_of
from master.planning.reservation import Reservation
from master.planning.survey import Survey, reduced
from master.planning.topology import Topology
from tests.support.planner_worlds import random_view

CORE = Shape(Resources(1000))
WITHOUT = Resources(4000, 8, 1500)
"""Less of the devices than there is: half of one is another cluster's."""


def node(name: str, cores: float = 4, used: float = 0, memory: int = 8, **more: object) -> Node:
    devices = more.pop("devices", ())
    total = Resources(int(cores * 1000), memory, DEVICE * len(devices), *more.pop("rest", ()))  # type: ignore[arg-type, misc]
    return Node(name, total, total - Resources(int(used * 1000)), devices, **more)  # type: ignore[arg-type]


def tables(*nodes: Node, custom: tuple[str, ...] = (), held: tuple[Allocation, ...] = ()) -> FreeTable:
    return FreeTable(Ledger(NodeTable(nodes, custom), held, 0.0))


def runs(on: str, cores: float = 1, count: int = 1, job: str = "run", **more: object) -> Allocation:
    shape = more.pop("shape", Shape(Resources(int(cores * 1000))))
    return Allocation(job, "bob", "t", on, count, shape, **more)  # type: ignore[arg-type]


def job(*demands: Demand, **more: object) -> QueuedJob:
    return QueuedJob("j1", "ann", 1, demands, **more)  # type: ignore[arg-type]


def compare(free: FreeTable, shape: Shape, view: Snapshot) -> None:
    table, ledger = free.table, free.ledger
    need, eligible = table.need(shape), table.eligible(shape)
    counts, fitting, capacities = free.counts(need), free.fitting(need, eligible), table.capacities(need)
    shortages, usable = free.shortages(need), table.usable_devices(need)
    for index, each in enumerate(table.nodes):
        assert eligible[index] == table.is_eligible(shape, index)
        count = ledger.free_on(index).count(need, table.usable(need, index)) if eligible[index] else 0
        assert counts[index] == count and fitting[index] == (count > 0)
        assert capacities[index] >= (count if each.ports >= shape.ports * max(count, 1) else 0)
        assert list(np.flatnonzero(usable[index])) == sorted(need.usable(each.kinds))
        assert not (count and shortages[index] > 0) and shortages[index] >= 0
    for policy, metric in ((Policy.BEST_FIT, "cpu"), (Policy.BALANCED, "memory"), (Policy.COMPACTED, "licences")):
        for seconds in (None, 1.0, 5000.0):
            ranking = Ranking(BaseScores(free), need, policy, metric, length_of(seconds))
            assert ranking.all().tolist() == [ranking.one(index) for index in range(len(table))]


@pytest.mark.parametrize("part", range(4))
def test_what_arrays_say_of_all_nodes_is_what_is_said_of_each(part: int) -> None:
    for seed in range(part, 48, 4):
        view = random_view(seed)
        table = NodeTable(view.nodes, ("licences",))
        free = FreeTable(Ledger(table, view.allocations, view.now))
        for index, each in enumerate(table.nodes):
            assert table.row(index) == table.free[index].tolist()
            assert table.weights_of(index) == tuple(table.weights[index])
            assert table.index_by_name[each.name] == index and table.open[index] == (not each.closed)
        shapes = [demand.shape for queued in view.queue for demand in queued.demands]
        for shape in shapes:
            compare(free, shape, view)
        for shape in shapes:  # the arrays follow what is allocated
            need = table.need(shape)
            for index in range(len(table)):
                if table.is_eligible(shape, index) and free.ledger.count(need, index, None):
                    free.ledger.allocate(need, index, 1, 3.0)
                    break
        for shape in shapes:
            compare(free, shape, view)


# nodes


def test_a_table_lists_nodes_by_name_with_their_custom_amounts() -> None:
    seats = (("a", 3), ("b", 4))
    table = NodeTable([node("n2", rest=(5, seats)), node("n1")], ("b", "c"))
    assert [each.name for each in table.nodes] == ["n1", "n2"] and len(table) == 2
    assert table.row(1) == [4000, 8, 0, 5, 10_000, 4, 0] and table.total[1].tolist() == [4000, 8, 0, 5, 10_000, 4, 0]
    assert table.columns == {"cpu": 0, "memory": 1, "gpu": 2, "disk": 3, "ports": 4, "b": 5, "c": 6}
    assert table.weights_of(0) == (GRAIN / 4000, GRAIN / 8, 0.0, 0.0) and table.weights_of(1)[3] == GRAIN / 5


def test_an_empty_node_runs_as_many_tasks_as_it_is_large_whatever_its_ports() -> None:
    devices = tuple(Device(number) for number in range(3))
    table = NodeTable([node("n1", used=4, ports=0, devices=devices), node("n2", closed="draining")], ())

    def empty(shape: Shape, **more: object) -> list[int]:
        return table.capacities(table.need(shape), **more).tolist()  # type: ignore[arg-type]

    assert empty(replace(CORE, ports=2)) == [4, 0]
    assert empty(Shape(Resources(gpu=2000))) == [1, 0] and empty(Shape(Resources(gpu=300))) == [9, 0]
    assert empty(Shape(Resources())) == [UNLIMITED, 0]
    assert empty(CORE, nodes=np.array([False, True])) == [0, 4]
    assert table.fits_empty(table.need(CORE)) and not table.fits_empty(table.need(Shape(Resources(5000))))


def test_nodes_are_in_the_domains_of_their_paths() -> None:
    paths = [("r1", "s1"), ("r1", "s2"), ("r2",), ()]
    table = NodeTable([node(f"n{number}", path=path) for number, path in enumerate(paths)], ())
    numbers, names = table.domains(1)
    assert (numbers.tolist(), names) == ([1, 1, 2, 0], [(), ("r1",), ("r2",)])
    numbers, names = table.domains(2)
    assert (numbers.tolist(), names) == ([1, 2, 3, 0], [(), ("r1", "s1"), ("r1", "s2"), ("r2",)])
    numbers, names = table.domains(NODE_LEVEL)
    assert (numbers.tolist(), names) == ([0, 1, 2, 3], [("n0",), ("n1",), ("n2",), ("n3",)])


@pytest.mark.parametrize(
    ("shape", "why", "able"),
    [
        (replace(CORE, avoid=("n1",)), "named under `avoid`", [False, True]),
        (replace(CORE, away_from=("n2",)), "could not start it lately", [True, False]),
        (replace(CORE, where=(("arch", ("arm", "x")),)), "label arch is not arm or x", [True, False]),
        (replace(CORE, runtime=RuntimeName.DOCKER), "no docker runtime", [False, True]),
        (Shape(Resources(gpu=1500), GpuNeed("a100")), "too few GPUs of the requested model or memory", [False, True]),
        (
            Shape(Resources(gpu=500), GpuNeed(memory=50)),
            "too few GPUs of the requested model or memory",
            [False, False],
        ),
        (Shape(Resources(gpu=1000), GpuNeed(memory=40)), "too few GPUs of the requested model or memory", [True, True]),
    ],
)
def test_a_constraint_says_why_a_node_fails_it(shape: Shape, why: str, able: list[bool]) -> None:
    one, two = Device(0, "NVIDIA A100", 40), Device(1, "NVIDIA A100", 40)
    nodes = [
        node("n1", labels={"arch": "arm"}, devices=(one,)),
        node("n2", devices=(two, one), runtimes=frozenset({"docker"})),
    ]
    table = NodeTable(nodes, ())
    assert [(text, mask.tolist()) for text, mask in table.constraints(shape)] == [(why, able)]
    assert [table.is_eligible(shape, index) for index in range(2)] == able


def test_a_node_that_is_not_known_to_lack_a_program_may_have_it() -> None:
    nodes = [node("n1", programs=frozenset({"mpirun"})), node("n2", programs=frozenset()), node("n3")]
    shape = replace(CORE, programs=("mpirun",), framework="mpi")
    assert NodeTable(nodes, ()).eligible(shape).tolist() == [True, False, True]


def test_devices_that_others_use_or_that_are_in_quarantine_are_withheld() -> None:
    free, busy, lost = Device(0, "A100"), Device(1, "A100", busy="eve"), Device(2, "V100", quarantine="lost")
    table = NodeTable([node("n1", devices=(lost, busy, free)), node("n2", devices=(free,))], ())
    assert table.devices.tolist() == [[1000, 0, 0], [1000, 0, 0]]
    assert table.withheld(table.need(Shape(Resources(gpu=1000)))).tolist() == [2, 0]
    assert table.withheld(table.need(Shape(Resources(gpu=1000), GpuNeed("A100")))).tolist() == [1, 0]


# ranking


def test_a_length_is_rounded_up_to_a_power_of_the_square_root_of_two() -> None:
    assert [length_of(seconds) for seconds in (0.0, 1.0, 2.0, 4.0)] == [1.0, 1.0, 2.0, 4.0]
    assert length_of(2.5) == pytest.approx(2**1.5) and length_of(3.0) == 4.0
    assert length_of(None) == length_of(NEVER) == length_of(NEVER * 2) == NEVER


def test_best_fit_leaves_the_least_and_prefers_nodes_that_are_busy_as_long() -> None:
    free = tables(node("n1", 4, used=1), node("n2", 4, used=2), held=(runs("n1", ends=1000.0),))

    def score(index: int, seconds: float | None, policy: Policy = Policy.BEST_FIT, metric: str = "cpu") -> float:
        return Ranking(BaseScores(free), free.table.need(CORE), policy, metric, length_of(seconds)).one(index)

    assert score(0, 500.0) == pytest.approx(GRAIN * (0.5 + 1))
    assert score(1, 500.0) == pytest.approx(GRAIN * (0.25 + 1) + LONGER)
    assert score(1, 3000.0) == pytest.approx(GRAIN * (0.25 + 1) + 4 * LONGER)
    assert (score(0, 1.0, Policy.BALANCED), score(0, 1.0, Policy.COMPACTED)) == (-3000.0, 3000.0)
    assert score(0, 1.0, Policy.BALANCED, "unknown") == 0.0


def test_gpus_weigh_most_and_a_share_prefers_a_device_that_is_shared() -> None:
    free = tables(node("n1", devices=(Device(0), Device(1, free=700))), node("n2", devices=(Device(0), Device(1))))

    def score(index: int, gpu: int) -> float:
        need = free.table.need(Shape(Resources(gpu=gpu)))
        return Ranking(BaseScores(free), need, Policy.BEST_FIT, "cpu", 1.0).one(index)

    assert score(0, 1000) == pytest.approx(GRAIN * (2 + GPU_WEIGHT / 2) + LONGER)
    assert score(0, 700) == pytest.approx(GRAIN * (2 + GPU_WEIGHT * 0.65) + LONGER)
    assert score(0, 800) == pytest.approx(GRAIN * (2 + GPU_WEIGHT * 0.6) + LONGER + BREAKS_A_DEVICE)
    assert score(1, 700) == pytest.approx(GRAIN * (2 + GPU_WEIGHT * 0.65) + LONGER + BREAKS_A_DEVICE)


@pytest.mark.parametrize(
    ("policy", "metric", "step", "fills"),
    [
        (Policy.BEST_FIT, "cpu", 1.0, True),
        (Policy.BALANCED, "cpu", 1000.0, False),
        (Policy.BALANCED, "memory", 0.0, False),
        (Policy.BALANCED, "unknown", 1.0, False),
        (Policy.COMPACTED, "cpu", 1000.0, True),
    ],
)
def test_under_the_balanced_policy_each_task_makes_its_node_worse(
    policy: Policy, metric: str, step: float, fills: bool
) -> None:
    free = tables(node("n1"))
    ranking = Ranking(BaseScores(free), free.table.need(CORE), policy, metric, 1.0)
    assert (ranking.step, ranking.fills) == (step, fills)


def test_scores_of_many_nodes_follow_what_is_allocated() -> None:
    free = tables(*(node(f"n{number:03}") for number in range(100)))
    need = free.table.need(CORE)
    ranking = Ranking(BaseScores(free), need, Policy.BEST_FIT, "cpu", 1.0)
    for count in (1, 2, 70):
        for index in range(count):
            free.ledger.allocate(need, index, 1, 60.0)
        assert ranking.all().tolist() == [ranking.one(index) for index in range(100)]


def test_the_best_nodes_follow_what_others_allocate_once_they_are_listed() -> None:
    free = tables(node("n0", 4), node("n1", 5), node("n2", 6))
    need = free.table.need(CORE)
    found = Candidates(free, need, Ranking(BaseScores(free), need, Policy.BALANCED, "cpu", 1.0))
    free.ledger.allocate(need, 2, 3, None)
    order = []
    for index, count in found.best(None):
        order.append((index, count))
        free.ledger.allocate(need, index, count, None)
    assert order == [(1, 5), (0, 4), (2, 3)]


def test_a_shortage_is_a_sum_of_parts_of_what_a_task_needs() -> None:
    free = tables(node("n0", used=3), node("n1", memory=1), node("n2", used=3, memory=1))
    assert free.shortages(free.table.need(Shape(Resources(2000, 4)))).tolist() == [0.5, 0.75, 1.25]


def test_what_is_not_needed_is_not_short_even_where_more_is_used_than_there_is() -> None:
    assert shortage(np.array([-5, 5]), 0).tolist() == [0, 0]
    assert shortage(np.array([-5, 5]), 2).tolist() == [7, -3]


# futures


def test_what_is_free_soon_counts_tasks_that_were_told_to_stop_and_when_empty_all() -> None:
    held = runs("n1", 1, 2, stopping=True), runs("n1", 1, job="other"), runs("n2"), runs("gone")
    free = tables(node("n1", 4, used=3), node("n2", 4, used=1))
    futures = Futures(free, held, 0.0)
    assert futures.stopping == {0}
    assert (futures.free_soon(0).row[0], futures.free_when_empty(0).row[0]) == (3000, 4000)
    assert (futures.free_soon(1).row[0], futures.free_when_empty(1).row[0]) == (3000, 4000)
    assert free.ledger.free_on(0).row[0] == 1000
    left = futures.free_soon(0)
    left.row[0] = 7
    futures.reserve(0, left, "j1")
    assert futures.free_soon(0).row[0] == 7 and futures.free_soon(0) is not left
    assert free.ledger.reservations == {0: [Reservation(0.0, left, "j1", preempted=True)]} and free.ledger.log == [0]
    again = left.copy()
    futures.reserve(0, again, "j2")
    assert len(free.ledger.reservations[0]) == 1 and free.ledger.reservations[0][0].free is again


def test_devices_of_tasks_become_free_except_those_that_others_use() -> None:
    devices = Device(4, free=0), Device(2, free=0, busy="eve"), Device(7, free=200)
    free = tables(node("n1", devices=devices))
    given = (((4, 1000),), ((2, 1000),), ((7, 800),))
    held = runs("n1", 1, 3, devices=given, shape=Shape(Resources(1, gpu=1000)))
    futures = Futures(free, [held], 0.0)
    assert futures.free_when_empty(0).devices == [0, 1000, 1000]
    left = free.ledger.free_on(0).copy()
    futures.release(left, 0, held, 1, first=2)
    assert left.devices == [0, 0, 1000] and left.row[0] == 4001


def test_what_this_plan_places_is_in_the_future_with_its_end() -> None:
    free = tables(node("n1"))
    futures = Futures(free, [], 50.0)
    demand = Demand("w", 2, CORE)
    for seconds, ends in ((10.0, 60.0), (None, None)):
        placement = Placement("j1", "w", "n1", 2, (((0, 500),),))
        futures.add([(job(demand, seconds=seconds, priority=3), demand, 0, placement)])
        wanted = Allocation("j1", "ann", "w", "n1", 2, CORE, (((0, 500),),), 3, ends=ends)
        assert futures.allocations[0][-1] == wanted


def test_a_node_that_is_reserved_for_a_job_before_is_not_reserved_again() -> None:
    free = tables(node("n1"), node("n2"), node("n3", closed="x"))
    futures = Futures(free, [], 0.0)
    row = free.ledger.free_on(0)
    free.ledger.reservations[0] = [Reservation(0.0, row, "j", preempted=True)]
    assert futures.unreserved(CORE, None).tolist() == [True, True, False]
    free.ledger.reservations[0].append(Reservation(0.0, row, "k"))
    assert futures.unreserved(CORE, None).tolist() == [False, True, False]
    assert futures.unreserved(CORE, np.array([True, False, True])).tolist() == [False, False, False]


def test_the_allocations_of_a_node_are_in_an_order_of_their_own() -> None:
    held = [runs("n1", job=name, count=count) for name, count in (("b", 1), ("a", 2), ("a", 1))]
    for order in (held, held[::-1]):
        found = Futures(tables(node("n1")), order, 0.0).allocations[0]
        assert [(each.job, each.count) for each in found] == [("a", 1), ("a", 2), ("b", 1)]
    assert [each.job for each in Futures(tables(node("n1")), held[:2], 0.0).allocations[0]] == ["a", "b"]


# topology


def racks(*free_cores: int) -> tuple[FreeTable, list[str]]:
    nodes = [node(f"n{at}", 8, used=8 - free, path=(f"r{at // 2}",)) for at, free in enumerate(free_cores)]
    return tables(*nodes), [each.name for each in nodes]


def test_a_spread_fills_the_domain_with_the_fewest_tasks_first() -> None:
    free, _ = racks(3, 3, 3, 3)
    held = [runs("n0", job="j1", count=2)]
    topology, demand = Topology(free, held), Demand("t", 4, CORE, spread=1)
    counts, scores = topology.counts(free.table.need(CORE), None, None), np.array([0.0, 1.0, 2.0, 1.0])
    assert topology.spread(job(demand), demand, counts, scores, 3, []) == [0, 3, 0]
    assert topology.spread(job(demand, begun=True), demand, counts, scores, 3, []) == [3, 3, 0]
    assert topology.spread(job(demand), demand, counts, scores, 2, [(3, 1)]) == [0, 0]
    assert topology.spread(job(demand), demand, np.array([1, 0, 1, 0]), scores, 9, []) == [0, 2]


def test_equal_nodes_of_a_domain_are_filled_in_their_order() -> None:
    free, _ = racks(*[1] * 100)
    demand = Demand("t", 100, CORE, spread=0)
    scores = np.arange(100) % 2.0
    order = Topology(free, []).spread(job(demand), demand, np.ones(100, np.int64), scores, 100, [])
    assert order == [*range(0, 100, 2), *range(1, 100, 2)]


def test_of_domains_that_hold_as_much_of_a_job_the_tightest_for_all_its_tasks_is_tried_first() -> None:
    free, _ = racks(6, 0, 3, 0)
    for index, memory in ((0, 4), (2, 3)):
        free.ledger.allocate(free.table.need(Shape(Resources(memory=memory))), index, 1, None)
    two = job(Demand("a", 1, CORE), Demand("b", 1, Shape(Resources(memory=1))), together=1)
    assert [mask.tolist().index(True) for mask in Topology(free, []).domains_for(two)] == [2, 0]


def test_a_pack_goes_to_its_domain_the_tightest_that_holds_all_or_the_one_that_holds_most() -> None:
    free, _ = racks(3, 3, 2, 2)
    demand = Demand("t", 4, CORE, pack=1)
    topology = Topology(free, [runs("n1", job="j1")])
    counts = topology.counts(free.table.need(CORE), None, None)

    def chosen(
        most: int, placed: list[tuple[int, int]], begun: bool = False, counts: np.ndarray = counts
    ) -> list[bool] | None:  # type: ignore[type-arg]
        mask = topology.packed_into(job(demand, begun=begun), demand, counts, most, placed)
        return None if mask is None else mask.tolist()

    first, second = [True, True, False, False], [False, False, True, True]
    assert chosen(4, []) == second and chosen(5, []) == first and chosen(7, []) == first
    assert chosen(4, [], begun=True) == first and chosen(7, [(2, 1)]) == second
    assert chosen(4, [], counts=np.zeros(4, np.int64)) is None


def test_counts_leave_out_reservations_and_what_is_outside() -> None:
    free, _ = racks(3, 3)
    rest = free.ledger.free_on(0).copy()
    rest.row[0] = 1000
    free.ledger.reservations[0] = [Reservation(60.0, rest, "j9")]
    topology, need = Topology(free, []), free.table.need(CORE)
    assert topology.counts(need, None, None).tolist() == [1, 3]
    assert topology.counts(need, 60.0, None).tolist() == [3, 3]
    assert topology.counts(need, None, np.array([True, False])).tolist() == [1, 0]


def test_a_job_whose_tasks_are_together_tries_large_domains_first_then_those_where_most_fit() -> None:
    free, _ = racks(2, 2, 3, 3, 0, 0)
    two = job(Demand("t", 5, CORE), together=1)
    assert [mask.tolist().index(True) for mask in Topology(free, []).domains_for(two)] == [2, 0]
    small = job(Demand("t", 3, CORE), together=1)
    assert [mask.tolist().index(True) for mask in Topology(free, []).domains_for(small)] == [0, 2]
    there = Topology(free, [runs("n5", job="j1")])
    assert [mask.tolist() for mask in there.domains_for(replace(two, begun=True))] == [[False] * 4 + [True] * 2]
    sizes = tables(node("n0", 2, path=("r0",)), node("n1", 8, used=7, path=("r1",)))
    assert [
        mask.tolist().index(True) for mask in Topology(sizes, []).domains_for(job(Demand("t", 3, CORE), together=1))
    ] == [1, 0]


def test_what_is_reserved_for_a_blocked_job_is_in_the_domain_where_most_fit_now() -> None:
    free, _ = racks(2, 2, 3, 3, 0, 0)
    topology, plain = Topology(free, [runs("n5", job="j1")]), Demand("t", 6, CORE)
    assert topology.to_reserve(job(plain), None) is None and topology.to_reserve(job(plain, together=1), plain) is None

    def first(mask: object) -> int:
        return mask.tolist().index(True)  # type: ignore[attr-defined, no-any-return]

    assert first(topology.to_reserve(job(plain, together=1), None)) == 2
    packed = replace(plain, pack=1)
    assert first(topology.to_reserve(job(packed), packed)) == 2
    assert first(topology.to_reserve(job(packed, begun=True), packed)) == 4
    assert first(topology.to_reserve(job(replace(packed, count=1)), replace(packed, count=1))) == 0
    sizes = tables(node("n0", 4, path=("r0",)), node("n1", 8, used=7, path=("r1",)))
    gang = replace(packed, gang=True)
    assert first(Topology(sizes, []).to_reserve(job(gang), gang)) == 1
    assert first(Topology(sizes, []).to_reserve(job(packed), packed)) == 0
    one = tables(node("n0", 1, path=("r0",)), node("n1", 8, used=8, path=("r1",)))
    assert first(Topology(one, []).to_reserve(job(packed), packed)) == 0  # the first task may start there


# surveys


def test_a_survey_groups_nodes_by_the_first_cause() -> None:
    nodes = [
        node("n1", used=4),
        node("n2", used=3.5),
        node("n3", memory=1),
        node("n4", closed="draining"),
        node("n5", 1),
    ]
    survey = Survey(tables(*nodes), Shape(Resources(2000, 2), avoid=("n3",)))
    assert [(group.count, group.why, group.nearest) for group in survey.groups][:2] == [
        (2, "not enough cpu", "n2"),
        (1, "draining", "n4"),
    ]
    assert survey.matching.tolist() == [True, True, False, True, True] and survey.capacity == 6
    assert survey.large.tolist() == [True, True, False, True, False] and not survey.any_fitting
    assert survey.fits(frozenset()) == ("cpu", 1000) and survey.fits(frozenset({4})) == ("cpu", 500)


@pytest.mark.parametrize(
    ("shape", "one", "fits"),
    [
        (Shape(Resources(disk=9 << 20)), node("n1", rest=(5 << 20,)), ("disk", 5 << 20)),
        (Shape(Resources(cpu=1000), ports=9), node("n1", ports=5), None),  # a task needs the ports that it names
        (Shape(Resources(gpu=500)), node("n1", devices=(Device(0, free=300),)), None),
        (Shape(Resources(gpu=2000)), replace(node("n1", devices=(Device(0), Device(1))), free=WITHOUT), ("gpu", 1000)),
    ],
)
def test_a_survey_suggests_an_amount_that_can_be_asked_for(
    shape: Shape, one: Node, fits: tuple[str, int] | None
) -> None:
    assert Survey(tables(one), shape).fits(frozenset()) == fits


def test_an_amount_is_reduced_and_the_others_stay() -> None:
    whole = Resources(1, 2, 3, 4, (("a", 5), ("b", 6)))
    assert reduced(whole, "gpu", 0) == replace(whole, gpu=0) and reduced(whole, "disk", 9) == replace(whole, disk=9)
    assert dict(reduced(whole, "a", 7).custom) == {"a": 7, "b": 6} and reduced(whole, "a", 7).cpu == 1
