"""Random clusters for the planner, each from one seed: small, crowded, and with every feature of a snapshot."""

from __future__ import annotations

import random
from dataclasses import replace

from grass.model.job import NODE_LEVEL, GpuNeed, Policy
from grass.model.resources import DEVICE, Resources
from grass.model.runtime import RuntimeName
from master.planning.model import Allocation, Demand, Device, DeviceShares, Node, QueuedJob, Shape, Snapshot

USERS = ("ann", "bob", "cy")


def random_view(seed: int) -> Snapshot:
    dice = random.Random(seed)
    plain = dice.random() < 0.4  # no constraints and no topology: the oracle can check most in these cases
    nodes = [_node(dice, number, plain) for number in range(dice.choice([0, 1, 1, 2, 2, 3, 3, 4, 5, 6]))]
    limits = dice.choice(["none", "all", "some"])
    held, nodes = _occupied(dice, nodes, limits)
    queue = [_job(dice, number, plain, limits, held) for number in range(dice.randint(1, 7))]
    if not plain:
        nodes, queue = _with_namespaces(random.Random(f"namespaces {seed}"), nodes, queue)
    queue = _promised(random.Random(f"promises {seed}"), list({job.id: job for job in queue}.values()))
    if dice.random() < 0.5:
        queue = [replace(job, demands=job.demands[:1]) for job in queue]
    quota = {"cpu": dice.choice([1000, 2000, 4000]), "gpu": dice.choice([0, 1000, 2000])}
    begun = {each.job for each in held}
    return Snapshot(
        nodes,
        queue,
        held,
        {user: dice.choice([0.0, 1.0, 5.0]) for user in USERS if dice.random() < 0.5},
        {"ann": quota} if dice.random() < 0.3 else {},
        {"licences": 1} if dice.random() < 0.2 else {},
        dice.choice([None, None, None, len(begun) + dice.randint(0, 3)]),
        len(begun),
    )


_IN_POD = {"runtime": RuntimeName.KUBERNETES}


def _with_namespaces(
    dice: random.Random, nodes: list[Node], queue: list[QueuedJob]
) -> tuple[list[Node], list[QueuedJob]]:
    """Make some nodes namespaces, and give some tasks no image, or what pods cannot have."""
    kinds = (frozenset({"kubernetes"}), False), (frozenset({"kubernetes"}), True)
    chosen = [dice.choice((None, None, *kinds)) for _ in nodes]
    nodes = [
        node
        if kind is None
        else replace(
            node,
            runtimes=kind[0],
            without_image=kind[1],
            labels={**node.labels, **dice.choice(({}, {"share": "claim"}))},
        )
        for node, kind in zip(nodes, chosen, strict=True)
    ]
    found = []
    for job in queue:
        of_share = {"not_in_pods": "no share", "share_helps": dice.random() < 0.5}
        what = dice.choice([{}, {}, {"has_image": False}, of_share, _IN_POD, {"away_from": ("n1",)}])
        demands = tuple(replace(each, shape=replace(each.shape, **what)) for each in job.demands)
        found.append(replace(job, demands=demands))
    return nodes, found


def _promised(dice: random.Random, queue: list[QueuedJob]) -> list[QueuedJob]:
    """Give some jobs reservations of an earlier plan."""
    chosen = dice.sample(range(len(queue)), dice.choice([0, 0, 1, min(2, len(queue))]))
    numbers = {place: number for number, place in enumerate(chosen)}
    return [replace(job, reservation_rank=numbers.get(index)) for index, job in enumerate(queue)]


def shuffled(snapshot: Snapshot, seed: int) -> Snapshot:
    """Return the same cluster in another order."""
    dice = random.Random(seed)

    def mixed(items):  # type: ignore[no-untyped-def]
        items = list(items)
        dice.shuffle(items)
        return items

    nodes = [
        replace(n, devices=tuple(mixed(n.devices)), labels=dict(mixed(n.labels.items()))) for n in mixed(snapshot.nodes)
    ]
    return replace(
        snapshot,
        nodes=nodes,
        queue=mixed(snapshot.queue),
        allocations=mixed(snapshot.allocations),
        usage=dict(mixed(snapshot.usage.items())),
        quotas={user: dict(mixed(quota.items())) for user, quota in mixed(snapshot.quotas.items())},
    )


def _node(dice: random.Random, number: int, plain: bool) -> Node:
    gpus = dice.choice([0, 0, 1, 2, 4])
    licences = (("licences", dice.randint(1, 2)),) if dice.random() < 0.2 else ()
    total = Resources(
        dice.choice([1, 2, 4, 8]) * 1000, dice.choice([2, 4, 8]), gpus * DEVICE, dice.choice([0, 4]), licences
    )
    models = ["A100", "V100"]
    devices = tuple(
        Device(
            each,
            dice.choice(models),
            dice.choice([16, 40]),
            busy="eve" if dice.random() < 0.08 else "",
            quarantine="lost" if dice.random() < 0.05 else "",
        )
        for each in range(gpus)
    )
    return Node(
        f"n{number}",
        total,
        total,
        devices,
        {} if plain else {"arch": dice.choice(["x86_64", "aarch64"])},
        () if plain else (dice.choice(["r1", "r2"]), dice.choice(["s1", "s2"]))[: dice.choice([1, 2, 2])],
        frozenset({"process"}) if plain or dice.random() < 0.6 else frozenset({"process", "docker"}),
        closed="" if dice.random() < 0.88 else dice.choice(["draining", "not heard for 12 s"]),
        ports=dice.choice([0, 1, 3, 100, 100]),
    )


def _shape(dice: random.Random, plain: bool) -> Shape:
    gpu = dice.choice([0, 0, 0, 0, 250, 500, 1000, 1000, 2000])
    custom = (("licences", 1),) if dice.random() < 0.1 else ()
    amounts = Resources(
        dice.choice([0, 250, 500, 1000, 1000, 2000, 4000]),
        dice.choice([0, 0, 1, 2, 4, 5]),
        gpu,
        dice.choice([0, 0, 0, 1, 3]),
        custom,
    )
    if plain:
        return Shape(amounts)
    return Shape(
        amounts,
        GpuNeed(dice.choice([None, "a100", "V100"]), dice.choice([0, 0, 40])) if gpu else GpuNeed(),
        dice.choice([0, 0, 0, 1, 2]),
        (("arch", ("x86_64",)),) if dice.random() < 0.15 else (),
        ("n0",) if dice.random() < 0.1 else (),
        dice.choice([None, None, None, None, RuntimeName.DOCKER]),
    )


def _occupied(dice: random.Random, nodes: list[Node], limits: str) -> tuple[list[Allocation], list[Node]]:
    """Return running tasks, and the nodes with the resources that remain beside them."""
    held: list[Allocation] = []
    left = []
    for node in nodes:
        free, ports = node.free, node.ports
        devices = {device.id: device.free for device in node.devices if not (device.busy or device.quarantine)}
        for _ in range(dice.choice([0, 1, 2, 3, 5])):
            shape = replace(_shape(dice, True), ports=dice.choice([0, 0, 1]))
            shares = _take(devices, shape.resources.gpu)
            if shares is None or not shape.resources.fits(free) or shape.ports > ports:
                continue
            free, ports = free - shape.resources, ports - shape.ports
            for device, share in shares:
                devices[device] -= share
            number = dice.randint(0, 3)  # the same job may have tasks on several nodes
            ends = {"none": None, "all": float(dice.randint(1, 9)), "some": dice.choice([None, 2.0, 7.0])}[limits]
            held.append(
                Allocation(
                    f"run{number}",
                    USERS[number % 3],
                    dice.choice("ab"),
                    node.name,
                    1,
                    shape,
                    (shares,) if shares else (),
                    number // 2,
                    number in (0, 2),
                    ends,
                    dice.random() < 0.1,
                    number == 2,
                )
            )
        busy = {device.id: 0 for device in node.devices if device.busy or device.quarantine}
        left.append(
            replace(
                node,
                free=free,
                ports=ports,
                devices=tuple(replace(d, free={**devices, **busy}[d.id]) for d in node.devices),
            )
        )
    return held, left


def _take(devices: dict[int, int], gpu: int) -> DeviceShares | None:
    if gpu >= DEVICE:
        whole = [device for device, free in devices.items() if free == DEVICE][: gpu // DEVICE]
        return tuple((device, DEVICE) for device in whole) if len(whole) == gpu // DEVICE else None
    if gpu:
        return next((((device, gpu),) for device, free in devices.items() if free >= gpu), None)
    return ()


def _job(dice: random.Random, number: int, plain: bool, limits: str, held: list[Allocation]) -> QueuedJob:
    demands = []
    for name in "abc"[: dice.choice([1, 1, 1, 2, 3])]:
        levels = [None, None, None, None] if plain else [None, None, 1, 2, NODE_LEVEL]
        spread = dice.choice(levels)
        pack = dice.choice(levels) if spread is None else None
        count = dice.choice([1, 1, 1, 2, 3, 6])
        demands.append(Demand(name, count, _shape(dice, plain), spread, pack, dice.random() < 0.25))
    again = [each for each in held if not each.stopping]
    if again and dice.random() < 0.1:  # some task of a running job waits again
        mine = dice.choice(again)
        job, user, priority, begun = mine.job, mine.user, mine.priority, True
    else:
        job, user, priority, begun = f"j{number}", dice.choice(USERS), dice.choice([0, 0, 0, 1, 2]), False
    return QueuedJob(
        job,
        user,
        number,
        tuple(demands),
        priority,
        begun,
        dice.choice([Policy.BEST_FIT, Policy.BEST_FIT, Policy.BALANCED, Policy.COMPACTED]),
        dice.choice(["cpu", "memory", "gpu", "licences"]),
        None if plain or dice.random() < 0.85 else dice.choice([1, NODE_LEVEL]),
        {"none": None, "all": float(dice.randint(1, 12)), "some": dice.choice([None, 1.0, 6.0])}[limits],
    )
