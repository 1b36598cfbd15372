"""Judges a plan without the planner's code: task by task and node by node, by trying everything that is possible.

Each function raises AssertionError with what is wrong. ``judge`` calls them all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import combinations
from typing import Any

from grass.model.job import NODE_LEVEL
from grass.model.reasons import ReasonCode
from grass.model.resources import Resources
from master.planning.model import Allocation, Demand, Eviction, Node, Plan, QueuedJob, Shape, Snapshot

NEVER = float("inf")


def taken_by(shape: Shape, node: Node) -> dict[str, int]:
    """Return what a task takes of a node; a pod takes what Grass adds to it, too."""
    in_pod = Resources(cpu=100, memory=32 << 20) if "kubernetes" in node.runtimes else Resources()
    return {**(shape.resources + in_pod).amounts(), "ports": shape.ports}


class Place:
    """Bookkeeping of one node in the oracle: a dict of amounts and a dict of devices."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.amounts = {**node.free.amounts(), "ports": node.ports}
        self.devices = {device.id: device.offered for device in node.devices}
        self.known = {device.id: device for device in node.devices}

    def suits(self, shape: Shape) -> bool:
        node = self.node
        if node.name in (*shape.avoid, *shape.away_from) or (shape.runtime and shape.runtime not in node.runtimes):
            return False
        if not (shape.has_image or node.without_image):
            return False
        helped = shape.share_helps and "share" in node.labels
        if shape.not_in_pods and "kubernetes" in node.runtimes and not helped:
            return False
        if any(node.labels.get(label) not in values for label, values in shape.where):
            return False
        if node.programs is not None and any(each not in node.programs for each in shape.programs):
            return False
        gpu = shape.resources.gpu
        if gpu and (shape.gpu.model or shape.gpu.memory):
            return len([each for each in self.known if self.will_do(each, shape)]) >= max(1, gpu // 1000)
        return True

    def will_do(self, device: int, shape: Shape) -> bool:
        have, want = self.known[device], shape.gpu
        return have.memory >= want.memory and (want.model is None or want.model.lower() in have.model.lower())

    def holds_when_empty(self, shape: Shape) -> bool:
        total = self.node.total.amounts()
        able = [each for each in self.known if self.will_do(each, shape)]
        enough = len(able) >= max(1, shape.resources.gpu // 1000) or not shape.resources.gpu
        return enough and all(total.get(n, 0) >= a for n, a in taken_by(shape, self.node).items() if a and n != "ports")

    def devices_for(self, shape: Shape) -> tuple[tuple[int, int], ...] | None:
        gpu = shape.resources.gpu
        if not gpu:
            return ()
        if gpu < 1000:
            able = [d for d, free in self.devices.items() if free >= gpu and self.will_do(d, shape)]
            return ((min(able, key=lambda d: (self.devices[d], d)), gpu),) if able else None
        able = [d for d, free in self.devices.items() if free == 1000 and self.will_do(d, shape)]
        return tuple((d, 1000) for d in able[: gpu // 1000]) if len(able) >= gpu // 1000 else None

    def lacks(self, shape: Shape) -> dict[str, int]:
        wanted = taken_by(shape, self.node)
        return {n: a - self.amounts.get(n, 0) for n, a in wanted.items() if a and a > self.amounts.get(n, 0)}

    def fits(self, shape: Shape) -> bool:
        """Return whether one more task fits now."""
        open_ = not self.node.closed
        return open_ and self.suits(shape) and not self.lacks(shape) and self.devices_for(shape) is not None

    def book(self, shape: Shape, devices: tuple[tuple[int, int], ...]) -> None:
        for name, amount in taken_by(shape, self.node).items():
            if amount:
                self.amounts[name] = self.amounts.get(name, 0) - amount
                assert self.amounts[name] >= 0, f"{self.node.name} is over its {name}"
        for device, share in devices:
            self.devices[device] -= share
            assert self.devices[device] >= 0, f"device {device} of {self.node.name} is given twice"

    def free(self, shape: Shape, devices: tuple[tuple[int, int], ...]) -> None:
        for name, amount in taken_by(shape, self.node).items():
            self.amounts[name] = self.amounts.get(name, 0) + amount
        for device, share in devices:
            if device in self.devices and not (self.known[device].busy or self.known[device].quarantine):
                self.devices[device] += share

    def squeeze(self, shape: Shape, devices: tuple[tuple[int, int], ...]) -> None:
        """Take the amounts and devices, even if they are not free."""
        for name, amount in taken_by(shape, self.node).items():
            self.amounts[name] = self.amounts.get(name, 0) - amount
        for device, share in devices:
            self.devices[device] -= share

    def fill(self, shape: Shape, most: int) -> int:
        """Book up to ``most`` tasks that fit."""
        placed = 0
        while placed < most and self.fits(shape):
            self.book(shape, self.devices_for(shape) or ())
            placed += 1
        return placed


def places(snapshot: Snapshot) -> dict[str, Place]:
    return {node.name: Place(node) for node in snapshot.nodes}


def demand_of(snapshot: Snapshot, job: str, component: str) -> tuple[QueuedJob, Demand]:
    found = next(
        each for each in snapshot.queue if each.id == job and any(d.component == component for d in each.demands)
    )
    return found, next(demand for demand in found.demands if demand.component == component)


def judge(snapshot: Snapshot, plan: Plan) -> None:
    after = capacity(snapshot, plan)
    left = everything_is_answered(snapshot, plan)
    gangs(snapshot, left)
    topology(snapshot, plan)
    limits(snapshot, plan)
    evictions(snapshot, plan)
    reasons(snapshot, plan, after, left)
    order(snapshot, plan, left)


def capacity(snapshot: Snapshot, plan: Plan) -> dict[str, Place]:
    """Check that nothing is allocated twice, and only to matching tasks. Return the remaining resources."""
    after = places(snapshot)
    for placement in plan.placements:
        _, demand = demand_of(snapshot, placement.job, placement.component)
        place, shape = after[placement.node], demand.shape
        assert placement.count > 0
        assert not place.node.closed, "a closed node took a task"
        assert place.suits(shape), "a node that does not suit took a task"
        gpu = shape.resources.gpu
        assert len(placement.devices) == (placement.count if gpu else 0)
        for number in range(placement.count):
            devices = placement.devices[number] if gpu else ()
            assert sum(share for _, share in devices) == gpu
            assert len({device for device, _ in devices}) == len(devices) == (max(1, gpu // 1000) if gpu else 0)
            assert all(place.will_do(device, shape) for device, _ in devices), "a device of the wrong kind"
            place.book(shape, devices)
    return after


def everything_is_answered(snapshot: Snapshot, plan: Plan) -> dict[tuple[str, str], int]:
    placed: Counter[tuple[str, str]] = Counter()
    for placement in plan.placements:
        placed[placement.job, placement.component] += placement.count
    left = {}
    for job in snapshot.queue:
        for demand in job.demands:
            key = job.id, demand.component
            assert placed[key] <= demand.count
            if placed[key] < demand.count:
                left[key] = demand.count - placed[key]
    assert set(left) == set(plan.waiting), "a task without a place has no reason, or one with a place has"
    return left


def gangs(snapshot: Snapshot, left: dict[tuple[str, str], int]) -> None:
    for job in snapshot.queue:
        gang = [demand for demand in job.demands if demand.gang]
        whole = [left.get((job.id, demand.component), 0) == 0 for demand in gang]
        none = [left.get((job.id, demand.component), 0) == demand.count for demand in gang]
        assert all(whole) or all(none), f"{job.id}: a gang in parts"


def domain(node: Node, level: int) -> object:
    return node.name if level == NODE_LEVEL else node.path[:level]


def topology(snapshot: Snapshot, plan: Plan) -> None:
    nodes = {node.name: node for node in snapshot.nodes}
    for job in snapshot.queue:
        mine = [p for p in plan.placements if p.job == job.id]
        before = [held for held in snapshot.allocations if held.job == job.id] if job.begun else []
        if job.together is not None and mine:
            level = job.together
            new = {domain(nodes[p.node], level) for p in mine}
            assert len(new) == 1, "not together"
            old = {domain(nodes[held.node], level) for held in before}
            assert not old or new <= old, "not together with those that run"
        for demand in job.demands:
            own = [p for p in mine if p.component == demand.component]
            if demand.pack is not None and own:
                assert len({domain(nodes[p.node], demand.pack) for p in own}) == 1, "not packed"


def limits(snapshot: Snapshot, plan: Plan) -> None:
    started = {p.job for p in plan.placements if not demand_of(snapshot, p.job, p.component)[0].begun}
    assert snapshot.job_limit is None or not started or snapshot.running + len(started) <= snapshot.job_limit, (
        "over the job limit"
    )
    for user in {job.user for job in snapshot.queue}:
        quota = snapshot.quotas.get(user, snapshot.default_quota)
        held = holdings(snapshot, user)
        for placement in plan.placements:
            job, demand = demand_of(snapshot, placement.job, placement.component)
            if job.user == user:
                amounts = (demand.shape.resources * placement.count).amounts()
                held.update(amounts)
                for name, limit in quota.items():
                    assert not amounts.get(name) or held[name] <= limit, f"{user} is over the quota of {name}"


def holdings(snapshot: Snapshot, user: str) -> Counter[str]:
    held: Counter[str] = Counter()
    for each in snapshot.allocations:
        if each.user == user:
            held.update((each.shape.resources * each.count).amounts())
    return held


def evictions(snapshot: Snapshot, plan: Plan) -> None:
    jobs = {job.id: job for job in snapshot.queue}
    taken: Counter[tuple[str, str, str]] = Counter()
    for eviction in plan.evictions:
        victims = _held(snapshot, eviction.job, eviction.component, eviction.node)
        taken[eviction.job, eviction.component, eviction.node] += eviction.count
        for held in victims:
            assert held.preemptible and held.priority < jobs[eviction.beneficiary].priority, "not to be evicted"
        assert taken[eviction.job, eviction.component, eviction.node] <= sum(held.count for held in victims)
    for job in {eviction.job for eviction in plan.evictions}:
        mine = [held for held in snapshot.allocations if held.job == job and not held.stopping]
        if any(held.gang for held in mine):
            evicted = sum(eviction.count for eviction in plan.evictions if eviction.job == job)
            assert evicted == sum(held.count for held in mine), "a gang evicted in part"
    served = {eviction.beneficiary for eviction in plan.evictions}
    if len(served) == 1:
        (job,) = served
        if len(jobs[job].demands) == 1 and not jobs[job].demands[0].pack and jobs[job].together is None:
            _worth_it(snapshot, plan, jobs[job])


def _held(snapshot: Snapshot, job: str, component: str, node: str) -> list[Allocation]:
    return [
        held
        for held in snapshot.allocations
        if (held.job, held.component, held.node) == (job, component, node) and not held.stopping
    ]


def _victims(snapshot: Snapshot, eviction: Eviction) -> list[Allocation] | None:
    """Return the victims; None: any of several different tasks, which cannot be told apart from outside."""
    mine = _held(snapshot, eviction.job, eviction.component, eviction.node)
    if not eviction.devices:
        return mine[: eviction.count] if eviction.count >= len(mine) else None
    if not all(held.devices for held in mine):
        return None
    wanted = Counter(eviction.devices)
    if any(len({held.shape for held in mine if held.devices[0] == each}) > 1 for each in wanted):
        return None
    mine = [held for held in mine if wanted[held.devices[0]] > 0 and not wanted.subtract([held.devices[0]])]
    return mine[: eviction.count]


def _worth_it(snapshot: Snapshot, plan: Plan, job: QueuedJob) -> None:
    """Check that the beneficiary fits once the victims have ended; and for one task alone, that no fewer suffice."""
    demand = job.demands[0]
    if plan.waiting.get((job.id, demand.component)) is None:
        raise AssertionError("evicted for a job that waits for nothing")
    reason = plan.waiting[job.id, demand.component]
    found = [_victims(snapshot, eviction) for eviction in plan.evictions]
    victims = [held for each in found for held in each or ()]
    if None in found:
        return
    assert len(victims) == sum(eviction.count for eviction in plan.evictions)
    placed = sum(p.count for p in plan.placements if p.job == job.id)
    room = _room_without(snapshot, plan, victims, demand, before=None)
    if demand.gang:
        assert room >= demand.count, "evicted for a gang that then does not fit"
    elif reason.code is ReasonCode.PREEMPTING:
        assert room >= demand.count - placed, "evicted, and it does not fit then"
    else:
        assert room >= 1, "evicted for nothing"
    gang = any(held.gang for held in victims)
    if demand.count == 1 and len(victims) > 1 and not gang and job is first_in_order(snapshot):
        able = [
            h
            for h in snapshot.allocations
            if h.preemptible and not h.stopping and h.priority < job.priority and not h.gang
        ]
        for few in combinations(able, len(victims) - 1):
            assert not _room_without(snapshot, plan, list(few), demand, before=job), "fewer victims would have done"


def first_in_order(snapshot: Snapshot) -> QueuedJob | None:
    return in_order(snapshot, Plan())[0] if snapshot.queue else None


def _room_without(
    snapshot: Snapshot, plan: Plan, victims: list[Allocation], demand: Demand, before: QueuedJob | None
) -> int:
    """Return how many tasks fit when the victims and all stopping tasks have ended.

    The count is beside the placements of the plan, or beside none of the placements.
    """
    then = places(snapshot) if before is not None else capacity(snapshot, plan)
    for held in [*victims, *(held for held in snapshot.allocations if held.stopping)]:
        if held.node in then:
            for number in range(held.count):
                then[held.node].free(held.shape, held.devices[number] if held.devices else ())
    return sum(place.fill(demand.shape, demand.count) for place in then.values())


def waits_for_room(snapshot: Snapshot, plan: Plan, job_id: str) -> bool:
    """Whether a job that has not begun waits, but not for its turn: a turn may be kept for it."""
    return any(
        key[0] == job_id and not demand_of(snapshot, *key)[0].begun and reason.code is not ReasonCode.JOB_LIMIT
        for key, reason in plan.waiting.items()
    )


def reasons(  # noqa: C901 — one case for each reason
    snapshot: Snapshot, plan: Plan, after: dict[str, Place], left: dict[tuple[str, str], int]
) -> None:
    for key in left:
        job, demand = demand_of(snapshot, *key)
        reason = plan.waiting[key]
        shape = demand.shape
        room = [name for name, place in after.items() if place.fits(shape)]
        suited = [place for place in after.values() if place.suits(shape)]
        large = [place for place in suited if place.holds_when_empty(shape)]
        ready = [place for place in large if not place.node.closed]
        where = f"{key}: {reason.code.value}: {reason.message}"
        apart = demand.pack is not None or job.together is not None
        match reason.code:
            case ReasonCode.NO_NODES:
                assert not ready and (large or not snapshot.nodes), where
            case ReasonCode.CONSTRAINTS:
                assert snapshot.nodes and not suited, where
            case ReasonCode.TOO_LARGE:
                assert suited and (not large or demand.gang), where
            case ReasonCode.NO_FREE_RESOURCES:
                assert not room or apart, where
            case ReasonCode.BEHIND:
                assert room, where
            case ReasonCode.GANG if "capacity" in reason.details:
                holds = sum(_empty(place).fill(shape, demand.count) for place in large)
                assert demand.gang and holds == reason.details["capacity"] < demand.count, where
            case ReasonCode.GANG:
                assert room and demand.gang, where
                gang = [each for each in job.demands if each.gang]
                if len(gang) == 1 and not apart and not demand.spread:
                    fits = sum(_copy(place).fill(shape, demand.count) for place in after.values())
                    assert fits < demand.count or len(left) > 1, where
            case ReasonCode.QUOTA:
                _quota(snapshot, plan, job, demand, where)
            case ReasonCode.JOB_LIMIT:
                begun = {p.job for p in plan.placements if not demand_of(snapshot, p.job, p.component)[0].begun}
                assert snapshot.job_limit is not None and not job.begun, where
                kept = sum(waits_for_room(snapshot, plan, other) for other in {key[0] for key in left} - begun)
                assert snapshot.running + len(begun) + kept >= snapshot.job_limit, where
            case ReasonCode.PREEMPTING:
                mine = any(eviction.beneficiary == job.id for eviction in plan.evictions)
                assert mine or any(h.stopping for h in snapshot.allocations) or plan.evictions, where
            case _:
                raise AssertionError(f"an odd reason: {where}")
        _details(reason.details, shape, after, where)


def _copy(place: Place) -> Place:
    other = Place(place.node)
    other.amounts, other.devices = dict(place.amounts), dict(place.devices)
    return other


def _empty(place: Place) -> Place:
    """Return the node as it would be open and without tasks."""
    node = place.node
    devices = tuple(replace(device, free=1000, busy="", quarantine="") for device in node.devices)
    return Place(replace(node, free=node.total, devices=devices, ports=10_000, closed=""))


def _details(details: dict[str, Any], shape: Shape, after: dict[str, Place], where: str) -> None:
    """Check that the details about the nodes are true."""
    groups = details.get("nodes", [])
    if groups:
        assert sum(group["count"] for group in groups) == sum(not p.fits(shape) for p in after.values()), where
    for group in groups:
        place = after[group["nearest"]]
        assert not place.fits(shape), where
        if "resource" not in group:
            unsuited = not place.suits(shape) or not place.holds_when_empty(shape)
            assert place.node.closed == group["why"] or unsuited or _if_well(place, shape), where
        elif group["resource"] != "gpu":
            assert place.lacks(shape)[group["resource"]] == group["short"], where
        else:
            lacks = place.lacks(shape).get("gpu", 0)
            assert lacks == group["short"] or (place.devices_for(shape) is None and group["short"] > 0), where
    if "fits" in details:
        smaller = Shape(
            Resources.from_wire(details["fits"]), shape.gpu, shape.ports, shape.where, shape.avoid, shape.runtime
        )
        assert smaller.resources != shape.resources and smaller.resources.fits(shape.resources), where
        assert any(place.fits(smaller) for place in after.values()), f"{where}: that does not fit either"


def _if_well(place: Place, shape: Shape) -> bool:
    """Return whether the node withholds devices (in quarantine, or used by others), and has enough with them."""
    withheld = [number for number, device in place.known.items() if device.quarantine or device.busy]
    other = _copy(place)
    other.devices.update({number: 1000 for number in withheld})
    return bool(withheld) and bool(shape.resources.gpu) and other.devices_for(shape) is not None


def _quota(snapshot: Snapshot, plan: Plan, job: QueuedJob, demand: Demand, where: str) -> None:
    quota = snapshot.quotas.get(job.user, snapshot.default_quota)
    held = holdings(snapshot, job.user)
    for placement in plan.placements:
        other, wanted = demand_of(snapshot, placement.job, placement.component)
        if other.user == job.user:
            held.update((wanted.shape.resources * placement.count).amounts())
    needs: Counter[str] = Counter()
    for each in [each for each in job.demands if each.gang] if demand.gang else [demand]:
        count = each.count if demand.gang else 1
        needs.update((each.shape.resources * count).amounts())
    over = any(needs[name] and held[name] + needs[name] > limit for name, limit in quota.items())
    earlier = any(
        o.user == job.user and o.id != job.id
        for o in snapshot.queue
        for d in o.demands
        if (o.id, d.component) in plan.waiting
    )
    mine = any((job.id, d.component) in plan.waiting for d in job.demands if d is not demand)
    assert over or earlier or mine, where


def in_order(snapshot: Snapshot, plan: Plan) -> list[QueuedJob]:
    """Return the queue by priority, then kept reservations, then the user with the least use.

    Use is past use and the dominant share of allocated and placed resources.
    """
    whole: Counter[str] = Counter()
    for node in snapshot.nodes:
        whole.update(node.total.amounts())
    held = {job.user: holdings(snapshot, job.user) for job in snapshot.queue}
    past = sum(snapshot.usage.values())
    rest = list(snapshot.queue)
    found = []
    while rest:
        highest = max(job.priority for job in rest)

        def turn(job: QueuedJob) -> tuple[bool, int, float, int, str]:
            now = max((a / whole[n] for n, a in held[job.user].items() if whole[n]), default=0.0)
            share = (snapshot.usage.get(job.user, 0.0) / past if past else 0.0) + now
            return job.reservation_rank is None, job.reservation_rank or 0, share, job.position, job.id

        job = min((job for job in rest if job.priority == highest), key=turn)
        rest.remove(job)
        found.append(job)
        for placement in plan.placements:
            if placement.job == job.id and any(d.component == placement.component for d in job.demands):
                _, demand = demand_of(snapshot, job.id, placement.component)
                held[job.user].update((demand.shape.resources * placement.count).amounts())
    return found


def order(snapshot: Snapshot, plan: Plan, left: dict[tuple[str, str], int]) -> None:
    """Check that nobody takes what earlier jobs could have had, and that nobody delays the first unplaced job."""
    jobs = in_order(snapshot, plan)
    now = places(snapshot)
    placed = defaultdict(list)
    for placement in plan.placements:
        placed[placement.job].append(placement)
    for number, job in enumerate(jobs):
        for placement in placed[job.id]:
            _, demand = demand_of(snapshot, job.id, placement.component)
            for at in range(placement.count):
                now[placement.node].book(demand.shape, placement.devices[at] if placement.devices else ())
        missing = [d for d in job.demands if (job.id, d.component) in left]
        codes = {plan.waiting[job.id, demand.component].code for demand in missing}
        if not missing or codes <= {
            ReasonCode.QUOTA,
            ReasonCode.JOB_LIMIT,
            ReasonCode.TOO_LARGE,
            ReasonCode.CONSTRAINTS,
            ReasonCode.NO_NODES,
        }:
            continue
        single = [d for d in missing if not d.gang and d.pack is None and job.together is None]
        for demand in single:
            if plan.waiting[job.id, demand.component].code in (ReasonCode.QUOTA, ReasonCode.JOB_LIMIT):
                continue
            assert not any(p.fits(demand.shape) for p in now.values()), f"{job.id}.{demand.component} was passed over"
        plain = missing[0].pack is None and job.together is None
        if len(missing) == 1 and plain and ReasonCode.PREEMPTING not in codes:
            _not_delayed(snapshot, plan, jobs[: number + 1], job, missing[0], left[job.id, missing[0].component])
        return


def _not_delayed(
    snapshot: Snapshot, plan: Plan, before: list[QueuedJob], job: QueuedJob, demand: Demand, count: int
) -> None:
    lower = [p for p in plan.placements if demand_of(snapshot, p.job, p.component)[0] not in before]
    if plan.evictions or any(held.stopping for held in snapshot.allocations):
        return
    if all(held.ends is not None for held in snapshot.allocations) and all(
        o.seconds is not None for o in snapshot.queue
    ):
        alone, beside = (
            _starts(snapshot, plan, before, demand, count),
            _starts(snapshot, plan, snapshot.queue, demand, count),
        )
        if demand.gang:
            alone, beside = [max(alone)], [max(beside)]
        assert all(b <= a for a, b in zip(alone, beside, strict=True)), f"{job.id} is delayed: {alone} → {beside}"
    elif (
        count == 1
        and all(o.seconds is None for o in snapshot.queue)
        and all(h.ends is None for h in snapshot.allocations)
        and lower
    ):
        kept = [name for name in places(snapshot) if _kept(snapshot, plan, before, demand.shape, name)]
        assert kept or not _some_day(snapshot, plan, before, demand.shape), f"{job.id}: no node is kept for it"


def _running(
    snapshot: Snapshot, plan: Plan, jobs: list[QueuedJob]
) -> list[tuple[float, str, Shape, tuple[tuple[int, int], ...]]]:
    """Return (ends, node, shape, devices) of every task on a node once the plan is carried out for these jobs."""
    running = []
    for held in snapshot.allocations:
        for at in range(held.count):
            ends = NEVER if held.ends is None else held.ends
            running.append((ends, held.node, held.shape, held.devices[at] if held.devices else ()))
    for placement in plan.placements:
        job, demand = demand_of(snapshot, placement.job, placement.component)
        if job in jobs:
            for at in range(placement.count):
                ends = NEVER if job.seconds is None else job.seconds
                running.append((ends, placement.node, demand.shape, placement.devices[at] if placement.devices else ()))
    return running


def _starts(snapshot: Snapshot, plan: Plan, jobs: list[QueuedJob], demand: Demand, count: int) -> list[float]:
    """Return when each waiting task starts if every task runs to its limit and nothing else arrives."""
    now = places(snapshot)
    for placement in plan.placements:
        job, other = demand_of(snapshot, placement.job, placement.component)
        if job in jobs:
            for at in range(placement.count):
                now[placement.node].book(other.shape, placement.devices[at] if placement.devices else ())
    starts: list[float] = []
    events = sorted(_running(snapshot, plan, jobs), key=lambda event: event[0])
    for number, (ends, node, shape, devices) in enumerate(events):
        now[node].free(shape, devices)
        if number + 1 < len(events) and events[number + 1][0] == ends:
            continue
        if demand.gang:
            room = sum(_copy(place).fill(demand.shape, count) for place in now.values())
            if room >= count:
                return [ends] * count
        else:
            for place in now.values():
                starts += [ends] * place.fill(demand.shape, count - len(starts))
    return starts + [NEVER] * (count - len(starts))


def _some_day(snapshot: Snapshot, plan: Plan, before: list[QueuedJob], shape: Shape) -> bool:
    """Return whether a task would fit somewhere if all tasks had ended."""
    now = places(snapshot)
    for placement in plan.placements:
        job, other = demand_of(snapshot, placement.job, placement.component)
        if job in before:
            for at in range(placement.count):
                now[placement.node].book(other.shape, placement.devices[at] if placement.devices else ())
    for _, node, ending, devices in _running(snapshot, plan, before):
        now[node].free(ending, devices)
    return any(place.fits(shape) for place in now.values())


def _kept(snapshot: Snapshot, plan: Plan, before: list[QueuedJob], shape: Shape, name: str) -> bool:
    """Whether, whichever tasks end on a node, the waiting one fits there as soon as it would without the lower jobs."""
    node = next(node for node in snapshot.nodes if node.name == name)
    here = [task for task in _running(snapshot, plan, before) if task[1] == name]
    everything = [task for task in _running(snapshot, plan, list(snapshot.queue)) if task[1] == name]
    mine = here[sum(held.count for held in snapshot.allocations if held.node == name) :]
    lower = everything[len(here) - len(mine) :]
    for task in mine:
        lower.remove(task)
    could = False
    for size in range(len(here) + 1):
        for ended in combinations(here, size):
            alone = Place(node)
            for _, _, ending, devices in mine:
                alone.book(ending, devices)
            for _, _, ending, devices in ended:
                alone.free(ending, devices)
            if alone.fits(shape):
                could = True
                for _, _, other, devices in lower:
                    alone.squeeze(other, devices)
                if not alone.fits(shape):
                    return False
    return could
