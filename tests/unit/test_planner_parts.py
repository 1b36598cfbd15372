"""The parts of the planner, each by itself: shares and quotas of users, the order of jobs, what is free."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from grass.model.job import GpuNeed, Policy
from grass.model.namespace import POD_COST
from grass.model.resources import DEVICE, Resources
from master.planning.fair_shares import FairShares
from master.planning.free_resources import UNLIMITED, FreeResources
from master.planning.lanes import Lanes
from master.planning.ledger import NEVER, Ledger
from master.planning.model import Allocation, Demand, Device, Node, QueuedJob, Shape, Snapshot
from master.planning.need import COLUMNS, Need
from master.planning.node_table import NodeTable
from master.planning.quotas import Quotas, limited_amounts
from master.planning.reservation import Reservation

ALL = Resources(1000, 200, 30, 4, (("licences", 5),))
COLUMN = {name: column for column, name in enumerate((*COLUMNS, "licences"))}


def holds(user: str, resources: Resources, count: int = 1, **more: object) -> Allocation:
    return Allocation("j", user, "t", "n1", count, Shape(resources), **more)  # type: ignore[arg-type]


def job(number: int, *demands: Demand, user: str = "ann", **more: object) -> QueuedJob:
    return QueuedJob(f"j{number}", user, number, demands or (wants(),), **more)  # type: ignore[arg-type]


def wants(resources: Resources = ALL, count: int = 1) -> Demand:
    return Demand("t", count, Shape(resources))


def device_node(*devices: Device, name: str = "n1", **more: object) -> Node:
    total = Resources(8000, 100, DEVICE * len(devices))
    return Node(name, total, total, devices, **more)  # type: ignore[arg-type]


# shares


@pytest.mark.parametrize(
    ("used", "part"),
    [
        (Resources(cpu=2000), 0.25),
        (Resources(memory=150), 0.5),
        (Resources(gpu=1500), 0.75),
        (Resources(disk=9), 0.9),
        (Resources(custom=(("licences", 3),)), 0.6),
        (Resources(custom=(("unknown", 3),)), 0.0),
        (Resources(1000, 150), 0.5),
    ],
)
def test_the_dominant_share_is_the_largest_part_of_one_resource_of_all_nodes(used: Resources, part: float) -> None:
    half = Resources(4000, 150, 1000, 5, (("licences", 2),))
    nodes = [Node("n1", half, half), Node("n2", half + Resources(gpu=0, custom=(("licences", 1),)), half)]
    shares = FairShares(Snapshot(nodes, (), [holds("ann", used)]))
    assert shares.dominant("ann") == pytest.approx(part)
    assert shares.dominant("bob") == 0.0


def test_the_only_one_of_its_kind_is_all_of_it() -> None:
    one = Resources(custom=(("licences", 1),))
    assert FairShares(Snapshot([Node("n1", one, one)], (), [holds("ann", one)])).dominant("ann") == 1.0


def test_fair_share_adds_the_part_of_past_use_to_the_dominant_share() -> None:
    nodes = [Node("n1", Resources(8000, 1), Resources(8000, 1))]
    shares = FairShares(Snapshot(nodes, (), [holds("ann", Resources(2000))], usage={"ann": 1.0, "bob": 3.0}))
    assert shares.fair_share("ann") == 0.25 + 0.25
    assert shares.fair_share("bob") == 0.75
    assert shares.fair_share("cy") == 0.0
    assert FairShares(Snapshot(nodes, (), usage={"ann": 0.0})).fair_share("ann") == 0.0
    assert FairShares(Snapshot(nodes, (), usage={"ann": 0.5})).fair_share("ann") == 1.0


@pytest.mark.parametrize("counted_first", [False, True])
def test_what_this_plan_places_counts_as_what_runs(counted_first: bool) -> None:
    shares = FairShares(Snapshot([], (), [holds("ann", ALL, 2), holds("ann", Resources(1)), holds("bob", ALL)]))
    if counted_first:
        shares.allocated("ann")
    shares.add("ann", ALL, 3)
    shares.add("cy", Resources(7), 1)
    assert shares.allocated("ann") == {"cpu": 5001, "memory": 1000, "gpu": 150, "disk": 20, "licences": 25}
    assert shares.allocated("cy") == {"cpu": 7, "memory": 0} and set(shares.allocated("cy")) == {"cpu", "memory"}
    assert shares.allocated("bob")["cpu"] == 1000


# quotas


def quotas(
    quota: dict[str, int] | None = None, held: tuple[Allocation, ...] = (), user: str = "ann", **more: object
) -> Quotas:
    view = Snapshot([], (), held, quotas={user: quota} if quota is not None else {}, **more)  # type: ignore[arg-type]
    return Quotas(view, FairShares(view))


def test_a_quota_leaves_as_many_tasks_as_its_scarcest_resource() -> None:
    shape = Shape(ALL)
    assert quotas({"cpu": 4999, "memory": 600}).remaining("ann", shape) == 3
    assert quotas({"cpu": 4999, "memory": 1000}).remaining("ann", shape) == 4
    assert quotas({"cpu": 4999}, (holds("ann", ALL, 2),)).remaining("ann", shape) == 2
    assert quotas({"cpu": 999}, (holds("ann", ALL, 2),)).remaining("ann", shape) == 0
    assert quotas({"gpu": 0}).remaining("ann", Shape(Resources(1))) == UNLIMITED
    assert quotas().remaining("ann", shape) == UNLIMITED
    assert quotas({"cpu": 1}, user="bob", default_quota={"cpu": 2000}).remaining("ann", shape) == 2


def test_what_waits_for_quota_keeps_its_part_of_it() -> None:
    limits = quotas({"cpu": 5000}, (holds("ann", ALL),))
    before = limits.reserved("ann")
    limits.reserve("ann", [wants(count=2)])
    assert limits.remaining("ann", Shape(ALL)) == 2
    assert limits.reserved("ann") == Counter(cpu=2000)
    assert limits.allows("ann", [wants(count=2)]) and not limits.allows("ann", [wants(count=2), wants(Resources(1))])
    limits.reserve("ann", [wants(count=6)])  # more than the quota can ever allow
    assert limits.reserved("ann") == Counter(cpu=2000)
    kept = limits.reserved("ann")
    limits.reserve("ann", [wants()])
    assert (limits.reserved("ann"), kept) == (Counter(cpu=3000), Counter(cpu=2000))
    limits.restore("ann", before)
    assert limits.remaining("ann", Shape(ALL)) == 4


def test_a_quota_that_everything_fits_exactly_allows_it() -> None:
    limits = quotas({"cpu": 3000, "memory": 600}, (holds("ann", ALL),))
    assert limits.could("ann", [wants(count=3)]) and not limits.could("ann", [wants(count=3), wants()])
    assert limits.allows("ann", [wants(count=2)]) and not limits.allows("ann", [wants(count=3)])
    assert limits.allows("ann", [wants(Resources(disk=9), 9)])
    assert quotas({"cpu": 3000, "memory": 599}).could("ann", [wants(count=3)]) is False


def test_a_quota_limits_what_it_names_and_a_task_needs() -> None:
    shape = Shape(ALL)
    assert limited_amounts({"memory": 1, "cpu": 1, "files": 3}, shape) == [("cpu", 1000), ("memory", 200)]
    assert limited_amounts({"cpu": 1, "disk": 0}, Shape(Resources(memory=1))) == []


def test_files_in_the_share_have_limits_of_their_user() -> None:
    limits = quotas({"files": 3}, kept_files={"ann": {"files": 4, "space": 9}, "bob": {"files": 9}})
    assert limits.too_many_files("ann") == "files" and limits.kept("ann") == {"files": 4, "space": 9}
    assert limits.too_many_files("bob") == "" and limits.kept("cy") == {}


# lanes


def order(*queue: QueuedJob, share: dict[str, float] | None = None) -> list[str]:
    shares = share or {}
    return [each.id for each, _ in Lanes(queue, lambda user: shares.get(user, 0.0)).in_order()]


def test_jobs_come_by_priority_then_kept_reservation_then_share_then_age() -> None:
    low, high = job(1, priority=1), job(2, priority=2)
    kept = [job(number, priority=1, reservation_rank=rank) for number, rank in ((3, 1), (4, 0))]
    assert order(low, high, *kept) == ["j2", "j4", "j3", "j1"]
    ann, bob = job(1), job(2, user="bob")
    assert order(ann, bob) == ["j1", "j2"]
    assert order(ann, bob, share={"ann": 0.1}) == ["j2", "j1"]
    assert order(ann, bob, share={"ann": 0.1, "bob": 0.2}) == ["j1", "j2"]


def test_jobs_of_one_place_come_by_id_and_in_any_order_of_the_queue() -> None:
    same = [replace(job(7), id=name) for name in ("b", "a")]
    assert order(*same) == ["a", "b"]
    assert order(job(3), job(1), job(2)) == ["j1", "j2", "j3"]
    kinds = [job(3), job(1, wants(Resources(5))), job(2)]
    assert order(*kinds) == ["j1", "j2", "j3"]
    assert order() == [] and order(job(0)) == ["j0"]


def test_users_take_turns_by_what_they_have_at_that_moment() -> None:
    taken: Counter[str] = Counter()
    queue = [job(1), job(2), job(3, user="bob"), job(4, user="bob")]
    served = []
    for each, _ in Lanes(queue, lambda user: float(taken[user])).in_order():
        served.append(each.id)
        taken[each.user] += 1
    assert served == ["j1", "j3", "j2", "j4"]


def test_the_shares_of_users_are_not_counted_for_one_user_alone() -> None:
    def share(user: str) -> float:
        raise AssertionError(user)

    assert [each.id for each, _ in Lanes([job(1), job(2)], share).in_order()] == ["j1", "j2"]


def test_a_lane_that_is_closed_gives_the_job_served_last_and_those_behind_it() -> None:
    lanes = Lanes([job(1), job(2), job(3), job(4, wants(Resources(5)))], lambda user: 0.0)
    served, closed = [], []
    for each, lane in lanes.in_order():
        served.append(each.id)
        if each.id == "j2":
            closed = [left.id for left in lane.close()]
    assert (served, closed) == (["j1", "j2", "j4"], ["j2", "j3"])
    (first, lane) = next(iter(Lanes([job(1), job(2)], lambda user: 0.0).in_order()))
    assert [left.id for left in lane.close()] == ["j1", "j2"] and first.id == "j1"


def test_the_lanes_name_the_custom_resources_of_all_jobs() -> None:
    seats = Resources(custom=(("seats", 1), ("licences", 1)))
    assert Lanes([job(1, wants(), wants(seats)), job(2, user="bob")], lambda user: 0.0).custom() == [
        "licences",
        "seats",
    ]
    assert Lanes([], lambda user: 0.0).custom() == []


# free resources of a node


def need(resources: Resources, gpu: GpuNeed | None = None) -> Need:
    return Need(Shape(resources, gpu or GpuNeed()), COLUMN)


def test_a_copy_and_the_smaller_of_two_are_independent() -> None:
    free = FreeResources([4, 8], [1000, 300], pods=True)
    other = free.copy()
    other.row[0], other.devices[1] = 1, 900
    assert (free.row, free.devices, other.pods) == ([4, 8], [1000, 300], True)
    least = free.minimum(other)
    assert (least.row, least.devices, least.pods) == ([1, 8], [1000, 300], True)


def test_so_many_tasks_fit_as_the_scarcest_amount_allows() -> None:
    free = FreeResources([4000, 10, 2000, 0, 7, 3], [1000, 1000])
    assert free.count(need(Resources(1000, 2)), ()) == 4
    assert free.count(need(Resources(1000, 4)), ()) == 2
    assert free.count(need(Resources(custom=(("licences", 2),))), ()) == 1
    assert free.count(need(Resources()), ()) == UNLIMITED
    assert free.count(need(Resources(5000)), ()) == 0
    assert FreeResources([-1000, 0, 0, 0, 0, 0], []).count(need(Resources(1000)), ()) == 0


def test_a_pod_takes_more_than_its_task_asks_for() -> None:
    wanted, cost = need(Resources(1000)), POD_COST.cpu
    free = FreeResources([2 * 1000 + cost, 10 * POD_COST.memory, 0, 0, 0, 0], [], pods=True)
    assert free.count(wanted, ()) == 1 and FreeResources(free.row, []).count(wanted, ()) == 2
    free.allocate(wanted, 1)
    assert free.row[:2] == [1000, 9 * POD_COST.memory]
    space = Resources(2000 + cost, 10 * POD_COST.memory)
    books = ledger(Node("n1", space, space, runtimes=frozenset({"kubernetes"})))
    assert books.count(books.table.need(Shape(Resources(1000))), 0, None) == 1


def test_gpus_fit_by_devices_whole_ones_or_shares() -> None:
    free = FreeResources([9000, 9, 9000, 0, 0, 0], [1000, 600, 1000, -200, 1000])
    assert free.count(need(Resources(gpu=1000)), (0, 1, 2)) == 2
    assert free.count(need(Resources(gpu=2000)), (0, 1, 2, 4)) == 1
    assert free.count(need(Resources(gpu=1000)), ()) == 0
    assert free.count(need(Resources(gpu=300)), (0, 1, 3)) == 3 + 2
    assert free.count(need(Resources(gpu=1)), (3,)) == 0
    assert FreeResources([1000, 9, 9000, 0, 0, 0], [700]).count(need(Resources(1000, gpu=1000)), (0,)) == 0
    assert FreeResources([0, 0, 1000, 0, 0, 0], [1000, 1000]).count(need(Resources(gpu=500)), (0, 1)) == 2


def test_a_task_takes_the_first_whole_devices_or_a_share_of_the_fullest_that_has_enough() -> None:
    free = FreeResources([0, 0, 9000, 0, 0, 0], [1000, 300, 700, 1000, 1000])
    assert free.choose(need(Resources(gpu=2000)), (3, 1, 0, 4)) == ((3, 1000), (0, 1000))
    assert free.choose(need(Resources(gpu=500)), (0, 1, 2)) == ((2, 500),)
    assert free.choose(need(Resources(gpu=300)), (0, 1, 2)) == ((1, 300),)
    assert free.choose(need(Resources(1)), (0, 1)) == ()
    free.reserve(need(Resources(1, gpu=500)), (0, 1, 2), 2)
    assert (free.row[:3], free.devices) == ([-2, 0, 8000], [500, 300, 200, 1000, 1000])
    free.reserve(need(Resources(1)), (), 3)
    assert (free.row[0], free.devices) == (-5, [500, 300, 200, 1000, 1000])
    free.move(((1, 300), (2, 100)), 1)
    assert free.devices == [500, 600, 300, 1000, 1000]


# ledger


def ledger(*nodes: Node, held: tuple[Allocation, ...] = (), now: float = 0.0) -> Ledger:
    return Ledger(NodeTable(nodes, ()), held, now)


def test_a_node_is_busy_until_the_last_of_its_tasks_must_have_ended() -> None:
    nodes = [replace(device_node(), name=f"n{number}") for number in (1, 2, 3)]
    first = holds("ann", ALL, ends=70.0), holds("ann", ALL, ends=50.0), replace(holds("ann", ALL), node="n2")
    assert ledger(*nodes, held=first, now=10.0).busy == [60.0, NEVER, 0.0]
    assert ledger(*nodes, held=(holds("ann", ALL, ends=5.0),), now=10.0).busy == [0.0, 0.0, 0.0]
    assert ledger(*nodes, held=(holds("ann", ALL, ends=10.5),), now=10.0).busy == [0.5, 0.0, 0.0]


def test_an_allocation_takes_amounts_and_devices_and_makes_its_node_busy() -> None:
    books = ledger(
        device_node(Device(5), Device(3, free=400), Device(9, busy="eve")), replace(device_node(), name="n2")
    )
    wanted = books.table.need(Shape(Resources(1000, 10, gpu=300)))
    assert books.allocate(wanted, 0, 2, 60.0) == (((3, 300),), ((5, 300),))
    free = books.free_on(0)
    assert (free.row[:3], free.devices) == ([6000, 80, 3 * DEVICE - 600], [100, 700, 0])
    assert (books.busy, books.log, books.last) == ([60.0, 0.0], [0], [0, -1])
    plain = books.table.need(Shape(Resources(1)))
    assert books.allocate(plain, 0, 1, 30.0) == () and books.busy == [60.0, 0.0]
    books.allocate(plain, 1, 1, None)
    assert (books.busy[1], books.log, books.last) == (NEVER, [0, 0, 1], [1, 2])


def test_a_reservation_leaves_its_rest_to_tasks_that_are_not_gone_in_time() -> None:
    books = ledger(device_node())
    rest = books.free_on(0).copy()
    rest.row[0] = 1000
    books.reservations[0] = [Reservation(60.0, rest, "j9")]
    wanted = books.table.need(Shape(Resources(1000)))
    assert [books.count(wanted, 0, seconds) for seconds in (60.0, 60.5, None)] == [8, 1, 1]
    books.allocate(wanted, 0, 1, 60.0)
    assert (books.free_on(0).row[0], rest.row[0]) == (7000, 1000)
    books.allocate(wanted, 0, 1, None)
    assert (books.free_on(0).row[0], rest.row[0]) == (6000, 0)


def test_a_task_that_is_gone_in_time_uses_a_device_that_is_reserved() -> None:
    books = ledger(device_node(Device(7)))
    rest = books.free_on(0).copy()
    rest.devices[0] = 0
    books.reservations[0] = [Reservation(60.0, rest, "j9")]
    wanted = books.table.need(Shape(Resources(gpu=400)))
    assert (books.count(wanted, 0, 30.0), books.count(wanted, 0, None)) == (2, 0)
    assert books.allocate(wanted, 0, 1, 30.0) == (((7, 400),),)


def test_what_was_allocated_since_the_mark_is_undone_and_the_rest_stays() -> None:
    books = ledger(device_node(Device(0)))
    wanted = books.table.need(Shape(Resources(1000, gpu=200)))
    outer = books.begin()
    books.allocate(wanted, 0, 1, 10.0)
    inner = books.begin()
    books.allocate(wanted, 0, 2, 50.0)
    books.roll_back(inner)
    assert (books.free_on(0).row[0], books.free_on(0).devices, books.busy) == (7000, [800], [10.0])
    inner = books.begin()
    books.allocate(wanted, 0, 1, 20.0)
    books.commit()
    books.roll_back(outer)
    assert (books.free_on(0).row[0], books.free_on(0).devices, books.busy) == (8000, [1000], [0.0])
    assert books.last == [len(books.log) - 1]
    books.allocate(wanted, 0, 1, 10.0)
    mark = books.begin()
    books.roll_back(mark)
    assert books.free_on(0).row[0] == 7000
    again = books.begin()
    books.allocate(wanted, 0, 1, 10.0)
    books.commit()
    assert again == 0 and books.begin() == 0


def test_a_policy_and_a_time_make_jobs_of_another_kind() -> None:
    kinds = [job(1), job(2, priority=1), job(3, policy=Policy.BALANCED), job(4, metric="gpu"), job(5, seconds=3.0)]
    kinds += [
        job(6, together=1),
        job(7, begun=True),
        job(8, reservation_rank=0),
        job(9, user="bob"),
        job(10, wants(count=2)),
    ]
    assert len({each.set_kind() for each in kinds}) == len(kinds)
    assert job(1).set_kind() == job(2).set_kind()
    spread = replace(wants(), spread=1), replace(wants(), pack=1)
    for each in spread:
        assert job(1, each, begun=True).set_kind() != job(2, each, begun=True).set_kind()
        assert job(1, each).set_kind() == job(2, each).set_kind()
    assert job(1, begun=True, together=1).set_kind() != job(2, begun=True, together=1).set_kind()
    assert job(1, begun=True).set_kind() == job(2, begun=True).set_kind()
