"""Nodes on Azure: `grass node scale` makes or removes machines until there are as many as wanted of each size.

A node has no public address: it is reached through the master, and joins as any other host. Names are noted before
Azure is asked, so the same command continues an interrupted one. Used by ``provisioner``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from grass.azure.arm import Arm
from grass.azure.catalogue import Quota, Size, added
from grass.azure.faults import AzureCapacityError, AzureDriverError, AzureQuotaError, AzureSizeError
from grass.azure.finder import obstacles, quotas_of, taken
from grass.azure.resources import Site, Terms, Wanted, machine
from grass.errors import ConflictError, GrassError, InputError, NotFoundError
from grass.manifest.azure_images import obstacles_to
from grass.manifest.document import Document
from grass.manifest.join_file import Offer
from grass.manifest.on_premises import HostSettings, Jump
from grass.model.lifecycle import NodeState
from grass.model.resources import DEVICE
from grass.provision.azure.adopting import adopt
from grass.provision.azure.change import Change, Member, decide
from grass.provision.azure.driver import driver_problem
from grass.provision.azure.edges import Edges
from grass.provision.azure.look import Costs, Region, addresses, alternatives_here, costs
from grass.provision.azure.making import Ended, Making, clear_machines
from grass.provision.azure.metering import look_later, power_of
from grass.provision.azure.plan import NO_PROMISE, alternatives_text, money, size_text
from grass.provision.azure.record import Asked, Record, load_record, note
from grass.provision.filelock import cluster_lock
from grass.provision.on_premises.joining import NotReadyError
from grass.provision.on_premises.machines import Machines, load_machines, unpin
from grass.provision.on_premises.node_add import Adding, Machine, add_machines, remember
from grass.provision.provisioner import AddedNode, Scaled, ScaleRequest, Session

HERE = "localhost"
"""Address of the master on the master."""
_LONGEST_NAME = 64
_JOIN_AT_ONCE = 8
_AWAY = (NodeState.JOINING, NodeState.LOST, NodeState.LEFT)
"""States of nodes that the same command joins again."""
_DOWN = (NodeState.LOST, NodeState.LEFT, NodeState.STOPPED)
"""States of nodes that say nothing of their GPUs now."""


@dataclass(frozen=True)
class Cluster:
    """What is asked of the cluster.

    ``members``: its nodes by name. ``join``: makes machines nodes, with the GPUs that each must see, by name; returns
    one result for each, in order. ``take_out``: removes a node from the cluster, once its tasks have ended.
    """

    members: Callable[[], Mapping[str, Member]]
    join: Callable[[Sequence[HostSettings], Mapping[str, int]], Sequence[AddedNode]]
    take_out: Callable[[str], None]


@dataclass(frozen=True)
class _Known:
    arm: Arm
    record: Record
    terms: Terms
    region: Region
    costs: Mapping[str, Costs]
    wanted: Mapping[str, int]
    change: Change
    members: Mapping[str, Member]
    request: ScaleRequest

    @property
    def site(self) -> Site:
        return self.record.site


def scale(session: Session, edges: Edges, request: ScaleRequest, cluster: Cluster) -> Scaled:
    """Make and remove nodes until there are as many of each size as wanted, or finish an interrupted call.

    Raises InputError: nothing was changed, as the subscription does not allow it. A node that failed is in the result.
    """
    with cluster_lock(session.home, session.name):
        known = _look(session, edges, request, cluster)
        _check(known, request.zone)
        if request.plan is not None:
            for line in _plan(known):
                request.plan(line)
            return Scaled()
        removed, failed = _remove(session, known.arm, known.site, known.change.remove, cluster)
        try:
            results = [*failed, *_add(session, known, cluster)]
            return Scaled(tuple(_with_drivers(known, results, cluster)), removed)
        finally:
            sold = {f"{size} Spot" if request.spot else size: paid for size, paid in known.costs.items()}
            look_later(known.arm, record_of(session), session.folder, edges.wall(), sold)


def remove(session: Session, edges: Edges, name: str, take_out: Callable[[], None]) -> None:
    """Remove one node, with its machine. Raises GrassError: it stays, with the reason."""
    with cluster_lock(session.home, session.name):
        record = record_of(session)
        arm = edges.arm(record.endpoint, session)
        with suppress(NotFoundError):  # an earlier call took it out
            take_out()
        _clear(session, arm, record.site, [name])
        look_later(arm, record_of(session), session.folder, edges.wall(), {})


def is_node(session: Session, name: str) -> bool:
    record = load_record(session.folder)
    return record is not None and name in record.nodes(session.name)


def record_of(session: Session) -> Record:
    """Return the record of a cluster that was made. Raises ConflictError."""
    record = load_record(session.folder)
    if record is None or record.terms is None:
        raise ConflictError(f"cluster {session.name}: creating it was interrupted; repeat `grass create FILE`")
    return record


def _look(session: Session, edges: Edges, request: ScaleRequest, cluster: Cluster) -> _Known:
    record = record_of(session)
    arm = edges.arm(record.endpoint, session)
    record = adopt(session, arm, record)
    assert record.terms is not None
    region = edges.region(arm, record)
    wanted = {named(region, size): count for size, count in request.wanted.items()}
    if len(wanted) < len(request.wanted):
        raise InputError(f"{', '.join(request.wanted)}: names a size twice")
    new_one = Asked("", request.zone or "", spot=request.spot, max_price=request.max_price)
    common = record.terms.machine
    starts = {size: common.start_of(size, record.terms.sizes) for size in wanted}
    like = {size: replace(new_one, size=size, image=one.image, disk=one.disk) for size, one in starts.items()}
    listed = {size: costs(arm, record.location, each.like(common)) for size, each in like.items()}
    members = cluster.members()
    change = decide(session.name, record.nodes(session.name), members, wanted, new_one)
    change = replace(change, keep={**change.keep, **{name: like[change.keep[name].size] for name in change.new}})
    return _Known(arm, record, record.terms, region, listed, wanted, change, members, request)


def named(region: Region, size: str) -> str:
    """Return a size as Azure spells it."""
    found = region.sizes.get(size.lower()) or region.sizes.get(f"standard_{size.lower()}")
    return found.name if found else size


def _check(known: _Known, zone: str | None) -> None:
    """Raises InputError: the subscription cannot have so many."""
    quotas: Mapping[str, Quota] = known.region.quotas
    sizes, spot = known.region.sizes, known.request.spot
    for name in known.change.remove:
        if gone := sizes.get(known.record.machines[name].size.lower()):
            quotas = taken(gone, quotas, -1, spot=spot)
    found: list[str] = []
    for name, wanted in known.wanted.items():
        new = sum(known.change.keep[each].size == name for each in known.change.new)
        size = sizes.get(name.lower())
        if size is None and new:
            text = f"Azure has no {name} in {known.region.name}"
            raise InputError(f"{text}\n{_alternatives(known, name, zone)}")
        if size is not None and new:
            # what cannot be had as Spot is then tried as regular
            problems = [] if known.request.or_regular else list(obstacles(size, quotas, zone, new, spot=spot))
            found += problems
            if problems and (fitting := _most(size, quotas, spot=spot)):
                more = f"{name} {wanted - new + fitting}{_flags(known.request)}"
                found.append(f"{fitting} more of {name} would fit: `grass node scale {more}`")
            found += obstacles_to(name, known.terms.machine.start_of(name, known.terms.sizes))
            quotas = taken(size, quotas, new, spot=spot)
    long = [name for name in known.change.new if len(name) > _LONGEST_NAME]
    found += [f"{name}: a machine's name has at most {_LONGEST_NAME} characters on Azure" for name in long]
    if found:
        raise InputError("\n".join([*found, _alternatives(known, next(iter(known.wanted)), zone)]))


def _most(size: Size, quotas: Mapping[str, Quota], *, spot: bool) -> int:
    if size.refused or (spot and not size.spot):
        return 0
    return max(0, min((quota.left // max(1, size.cores) for quota in quotas_of(size, quotas, spot=spot)), default=0))


def _alternatives(known: _Known, size: str, zone: str | None) -> str:
    return alternatives_text(alternatives_here(known.region, size, zone, known.arm))


def _plan(known: _Known) -> Iterator[str]:
    change = known.change
    for name, asked in known.change.keep.items():
        size = known.region.sizes.get(asked.size.lower())
        about = f" ({size_text(size)})" if size else ""
        state = "is made" if name in change.new else "exists" if name in known.members else "is made and joined"
        member = known.members.get(name)
        state = "exists, and is stopped" if member and member.state is NodeState.STOPPED else state
        zone = f", zone {asked.zone}" if asked.zone else ""
        like = asked.like(known.terms.machine)
        what = f"{asked.sold}{about}, {like.image}, disk of {like.disk} GiB, no public address{zone}"
        yield f"machine {name}: {state}: {what}"
    for name in change.remove:
        tasks = known.members[name].tasks if name in known.members else 0
        yield f"machine {name}: is removed{f', once its {tasks} tasks have ended' if tasks else ''}"
    quotas = known.region.quotas
    after = quotas
    for name in (*change.new, *change.remove):
        asked = change.keep.get(name) or known.record.machines[name]
        if size := known.region.sizes.get(asked.size.lower()):
            after = taken(size, after, 1 if name in change.new else -1, spot=asked.spot)
    for key, quota in after.items():
        if quota != quotas[key]:
            before = quotas[key]
            yield f"quota {quota.label}: {before.left} of {quota.limit} cores are left; {quota.left} after it"
    paid_by = [known.costs[asked.size] for asked in change.keep.values()]
    total = money(added(price for paid in paid_by for price in (paid.machine, paid.disk)))
    yield f"list price of these nodes in US dollars, without taxes, discounts and traffic: {total}"
    for name, paid in known.costs.items():
        yield f"  each {name}: {money(paid.machine)}; its disk: {money(paid.disk)}; both until it is removed"
    if known.request.spot:
        limit = known.request.max_price
        price = "the regular price" if limit is None else f"${limit:g}/hour"
        yield f"Azure may take Spot machines back at any time, also when their price exceeds {price}"
    yield NO_PROMISE


def _remove(
    session: Session, arm: Arm, site: Site, names: Sequence[str], cluster: Cluster
) -> tuple[tuple[str, ...], list[AddedNode]]:
    """Take nodes out of the cluster, then remove their machines at once. Return those that are gone, and failures."""
    out: list[str] = []
    failed: list[AddedNode] = []
    for name in names:
        try:
            with suppress(NotFoundError):
                cluster.take_out(name)
            out.append(name)
        except GrassError as error:
            failed.append(AddedNode.failed(name, error))
    if out:
        try:
            _clear(session, arm, site, out)
        except GrassError as error:
            return (), [*failed, AddedNode.failed(", ".join(out), error)]
    return tuple(out), failed


def _clear(session: Session, arm: Arm, site: Site, names: Sequence[str]) -> None:
    if stays := clear_machines(arm, site, names):
        text = "\n".join(f"  {label}: {why.removeprefix(f'{label}: ')}" for label, why in stays.items())
        raise GrassError(
            f"not all of it could be removed from Azure; what stays may cost money\n{text}\n"
            "when that is mended, repeat the command"
        )
    for name in names:
        remember(session.name, session.client_dir, name, None)
        note(session.folder, name, None)


def _add(session: Session, known: _Known, cluster: Cluster) -> list[AddedNode]:
    """Make the machines that are missing, then join those that are not nodes yet."""
    keep = dict(known.change.keep)
    _clear_vanished(known, session)
    for name in known.change.new:
        note(session.folder, name, keep[name])
    wanted = {name: _wanted(known, name, asked) for name, asked in keep.items()}
    ended = _make(session, known, wanted)
    refused = [name for name in ended if _may_be_regular(keep[name], ended[name])] if known.request.or_regular else []
    # what was refused may exist: only the answer was bad
    if refused := [name for name in refused if not _exists(known, wanted[name])]:
        known.arm.progress(f"{', '.join(refused)}: cannot be had as Spot ({ended[refused[0]]}); making it regular")
        for name in refused:
            keep[name] = replace(keep[name], spot=False, max_price=None, operation="", stands_in=True)
            note(session.folder, name, keep[name])
            wanted[name] = _wanted(known, name, keep[name])
        ended |= _make(session, known, {name: wanted[name] for name in refused})
    failed, hosts = [], []
    for name, found in ended.items():
        if isinstance(found, GrassError):
            failed.append(_failure(known, name, found))
        elif name not in known.members or known.members[name].state in _AWAY:
            private = addresses(known.arm, found, wanted[name].label)[1]
            hosts.append(host_at(session, name, private))
    if failed and not all(isinstance(each, GrassError) for each in ended.values()):
        known.arm.progress(f"{len(failed)} of {len(ended)} machines could not be made; the others go on")
    gpus = {name: size.gpus for name, each in keep.items() if (size := known.region.sizes.get(each.size.lower()))}
    return [*failed, *(_told(known, each) for each in (cluster.join(hosts, gpus) if hosts else ()))]


def _make(session: Session, known: _Known, wanted: Mapping[str, Wanted]) -> Ended:
    zones = {name: size.zones for name, size in known.region.sizes.items()}
    made: list[str] = []

    def new(name: str) -> None:
        remember(session.name, session.client_dir, name, None)  # it had another key

    try:
        return Making(known.arm, known.site, session.folder, zones, new, made).make(list(wanted.values()))
    except KeyboardInterrupt:
        session.progress(f"exists on Azure: {', '.join(made) or 'perhaps what was asked for last'}; {_again(known)}")
        raise
    except GrassError as error:
        error.args = (f"{error}\n{_again(known)}",)
        raise


def _exists(known: _Known, machine: Wanted) -> bool:
    return known.arm.find(machine.path, machine.kind.version, machine.label) is not None


def _may_be_regular(asked: Asked, ended: Document | GrassError) -> bool:
    return asked.spot and isinstance(ended, AzureCapacityError | AzureQuotaError | AzureSizeError)


def _clear_vanished(known: _Known, session: Session) -> None:
    """Remove what is left of Spot machines that Azure took back, before they are made again."""
    before = {name for name, asked in known.change.keep.items() if asked.spot and name not in known.change.new}
    if before and (gone := sorted(before - power_of(known.arm, known.record).keys())):
        session.progress(f"{', '.join(gone)}: is not on Azure any more; removing what is left of it")
        clear_machines(known.arm, known.site, gone)


def _wanted(known: _Known, name: str, asked: Asked) -> Wanted:
    return machine(known.terms, known.site, name, asked.like(known.terms.machine), public=False)


def _failure(known: _Known, name: str, error: GrassError) -> AddedNode:
    text = str(error)
    if isinstance(error, AzureCapacityError | AzureQuotaError | AzureSizeError):
        text += f"\n{_alternatives(known, known.change.keep[name].size, None)}"
    return AddedNode(name, None, f"{text}\n{_again(known)}", error.code, error.exit_code)


def _told(known: _Known, joined: AddedNode) -> AddedNode:
    """Return the result of joining; of a machine that did not join, with what it costs."""
    if joined.error is None or joined.view is not None:
        return joined
    name = joined.label
    paid = money(known.costs[known.change.keep[name].size].machine)
    text = (
        f"{joined.error}\nmachine {name} exists and costs {paid}; {_again(known)}, `grass node remove {name}` ends it"
    )
    return replace(joined, error=text)


def _with_drivers(known: _Known, results: Sequence[AddedNode], cluster: Cluster) -> list[AddedNode]:
    """Return the results, with an error for each node that sees fewer GPUs than its size has, also one that joined
    earlier: it gets no tasks, and `not ready` is all that it says of itself."""
    gpus = {name: size.gpus for name in known.wanted if (size := known.region.sizes.get(name.lower()))}
    if not any(gpus.values()):
        return list(results)
    unsure = {one.label for one in results if one.error is not None and one.code != NotReadyError.code}
    found: dict[str, AddedNode] = {}
    for name, member in cluster.members().items():
        asked = known.change.keep.get(name)
        if asked is None or name in unsure or member.gpus is None or member.state in _DOWN:
            continue
        like = asked.like(known.terms.machine)
        if problem := driver_problem(name, like, gpus.get(like.size, 0), member.gpus):
            found[name] = AddedNode.failed(name, AzureDriverError(f"{problem}; {_again(known)}"))
    return [*(one for one in results if one.label not in found), *found.values()]


def _again(known: _Known) -> str:
    words = " ".join(f"{size} {count}" for size, count in known.wanted.items())
    return f"`grass node scale {words}{_flags(known.request)}` goes on"


def _flags(request: ScaleRequest) -> str:
    price = "" if request.max_price is None else f" --max-price {request.max_price:g}"
    return f" --spot{price}{' --or-regular' if request.or_regular else ''}" if request.spot else ""


def host_at(session: Session, name: str, address: str) -> HostSettings:
    """Return how a new node is reached: through the master, if this is not the master. A key that was pinned at its
    address is of an earlier machine."""
    machines = _machines(session)
    master = machines.master
    through = None if master.address == HERE else Jump(master.address, master.login)
    host = HostSettings(address, master.login, name, through=through)
    if name not in machines.nodes:
        unpin(session.client_dir, host, machines)
    return host


def _machines(session: Session) -> Machines:
    machines = load_machines(session.name, session.home)
    if machines is None:
        raise ConflictError(f"cluster {session.name}: creating it was interrupted; repeat `grass create FILE`")
    return machines


def join(edges: Edges, adding: Adding, hosts: Sequence[HostSettings], gpus: Mapping[str, int]) -> list[AddedNode]:
    """Wait for SSH on each machine, then join those that answer. Return one result for each.

    ``gpus``: what the size of each has. A node that sees fewer gets no tasks until its probe finds all of them.
    """
    session = adding.session

    def reached(host: HostSettings) -> AddedNode | None:
        try:
            edges.reach(host, session)
        except GrassError as error:
            return AddedNode.failed(str(host.name), error)
        return None

    with ThreadPoolExecutor(min(_JOIN_AT_ONCE, len(hosts))) as pool:
        silent = {host.name: failed for host, failed in zip(hosts, pool.map(reached, hosts), strict=True) if failed}
        ready = [host for host in hosts if host.name not in silent]
        machines = [Machine(host, offer_of(host.name, gpus.get(host.name or "", 0))) for host in ready]
        added = add_machines(adding, machines, pool) if machines else []
    return [*silent.values(), *added]


def offer_of(name: str | None, gpus: int) -> Offer:
    return Offer(name=name, gpu=gpus * DEVICE, gpu_of_size=True) if gpus else Offer(name=name)
