"""`grass node scale` on Azure's Kubernetes: each size has a pool, which may be empty.

Azure works on one pool of a cluster at a time, so pools are changed one after another. A count is noted before Azure is
asked, and one PUT sets it, so the same command continues an interrupted one. Used by ``provisioner``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from grass.azure.aks import Pool, Terms, is_stopped, kubernetes, pool, pool_name
from grass.azure.arm import Arm, failed, state_of
from grass.azure.catalogue import Price, Quota
from grass.azure.faults import AzureError, AzureSlowError, Fault
from grass.azure.finder import obstacles, quotas_of, taken
from grass.azure.resources import ID_TAG, Wanted
from grass.errors import ConflictError, GrassError, InputError, WaitTimeoutError
from grass.manifest.azure_images import obstacles_to, start_of
from grass.manifest.document import Document
from grass.provision.aks.edges import Edges
from grass.provision.aks.look import alternatives, disk_price, size_prices
from grass.provision.aks.machines import Emptying
from grass.provision.aks.metering import look_later
from grass.provision.aks.plan import times
from grass.provision.aks.record import KUBECONFIG, Record, load_record, record_of
from grass.provision.azure.look import Region, Subscription, region_of
from grass.provision.azure.plan import NO_PROMISE, alternatives_text, money, size_text
from grass.provision.filelock import cluster_lock
from grass.provision.provisioner import AddedNode, Scaled, ScaleRequest, Session


@dataclass(frozen=True)
class _Known:
    """All that is gathered before the first change. ``before``: machines of each wanted pool that are there now."""

    arm: Arm
    record: Record
    terms: Terms
    region: Region
    wanted: Mapping[str, Pool]
    before: Mapping[str, int]


def scale(session: Session, edges: Edges, request: ScaleRequest) -> Scaled:
    """Set the number of machines of each size. Raises InputError: nothing was changed, as the subscription does not
    allow it. A pool that failed is in the result."""
    if request.spot:
        raise InputError("--spot: pools of Azure's Kubernetes are regular in this version; use `mode: grass/azure`")
    with cluster_lock(session.home, session.name):
        known = _look(session, edges, request)
        _check(known, request.zone)
        if request.plan is not None:
            for line in _plan(known):
                request.plan(line)
            return Scaled()
        try:
            results = [_set(session, edges, known, name, request) for name in _in_order(known)]
        finally:
            if (record := load_record(session.folder)) is not None:
                look_later(known.arm, record, session, edges)
        return Scaled(
            tuple(AddedNode.failed(f"pool {name}", error) for name, error in results if error is not None),
            lines=tuple(_done(name, known) for name, error in results if error is None),
        )


def _look(session: Session, edges: Edges, request: ScaleRequest) -> _Known:
    record, terms = record_of(session)
    arm = edges.arm(record.endpoint, session)
    each = kubernetes(terms, record.site)
    found = arm.until_settled(each.path, each.kind, each.label)
    if found is None:
        raise ConflictError(f"{each.label}: does not exist; repeat `grass create FILE`")
    if is_stopped(found):
        raise ConflictError(f"{each.label}: is stopped; `grass start {session.name}` starts it")
    region = region_of(arm, Subscription(record.subscription, ""), record.location)
    profiles = {str(one["name"]): one for one in found["properties"]["agentPoolProfiles"]}
    wanted: dict[str, Pool] = {}
    for size, count in request.wanted.items():
        known = region.sizes.get(size.lower()) or region.sizes.get(f"standard_{size.lower()}")
        spelled = known.name if known else size
        name = pool_name(spelled)
        if name in wanted:
            raise InputError(f"{', '.join(request.wanted)}: names a size twice")
        wanted[name] = _pool(name, Pool(spelled, count, request.zone or ""), profiles.get(name), record.id)
    before = {name: int(profiles[name].get("count") or 0) if name in profiles else 0 for name in wanted}
    return _Known(arm, record, terms, region, wanted, before)


def _pool(name: str, like: Pool, profile: Document | None, id: str) -> Pool:
    """Return a pool as it should be. One that is there keeps its zone. Raises ConflictError: it is not ours."""
    if profile is None:
        return like
    if str(profile["vmSize"]).lower() != like.size.lower() or (profile.get("tags") or {}).get(ID_TAG) != id:
        raise ConflictError(f"pool {name}: exists, and Grass did not make it; scale it in the portal")
    zone = next(iter(profile.get("availabilityZones") or ()), "")
    if like.zone and like.zone != zone:
        raise InputError(
            f"--zone: the pool {name} was made {f'in zone {zone}' if zone else 'without a zone'}, and stays so"
        )
    return replace(like, zone=zone)


def _check(known: _Known, zone: str | None) -> None:
    """Raises InputError: the subscription cannot have so many."""
    quotas: Mapping[str, Quota] = known.region.quotas
    found: list[str] = []
    more = {name: like.count - known.before[name] for name, like in known.wanted.items()}
    for name in _in_order(known):
        like = known.wanted[name]
        size = known.region.sizes.get(like.size.lower())
        if size is None:
            if more[name] > 0 or like.count:
                raise InputError(f"Azure has no {like.size} in {known.region.name}\n{_fitting(known, like.size)}")
            continue
        if more[name] > 0:
            found += obstacles(size, quotas, zone, more[name])
            found += obstacles_to(like.size, start_of(like.size))
        quotas = taken(size, quotas, more[name])
    if found:
        raise InputError("\n".join([*found, _fitting(known, next(iter(known.wanted.values())).size)]))


def _in_order(known: _Known) -> list[str]:
    """Return the names of the pools: what is given up comes first, and counts for the rest."""
    return sorted(known.wanted, key=lambda name: known.wanted[name].count - known.before[name])


def _fitting(known: _Known, size: str) -> str:
    return alternatives_text(alternatives(known.region, size, known.arm, system=False))


def _plan(known: _Known) -> Iterator[str]:
    prices = size_prices(known.arm, known.terms.location, {like.size for like in known.wanted.values()})
    disk = disk_price(known.arm, known.terms.location)
    quotas = known.region.quotas
    after: Mapping[str, Quota] = quotas
    for name, like in known.wanted.items():
        before, size = known.before[name], known.region.sizes.get(like.size.lower())
        about = f" ({size_text(size)})" if size else ""
        yield f"pool {name}: {before} → {like.count} machines of {like.size}{about}"
        yield f"  {_price(prices[like.size], disk, like.count)}; not paid while the cluster is stopped"
        if like.count < before:
            yield "  machines with the fewest tasks go, once these have ended"
        if size is not None:
            after = taken(size, after, like.count - before)
    named = [known.region.sizes.get(like.size.lower()) for like in known.wanted.values()]
    for key in dict.fromkeys(quota.name.lower() for size in named if size for quota in quotas_of(size, quotas)):
        one = quotas[key]
        yield f"quota {one.label}: {one.left} of {one.limit} cores are left; {after[key].left} after it"
    yield NO_PROMISE


def _price(machine: Price, disk: Price, count: int) -> str:
    return f"machines {money(times(machine, count))}; their disks {money(times(disk, count))}"


def _set(
    session: Session, edges: Edges, known: _Known, name: str, request: ScaleRequest
) -> tuple[str, GrassError | None]:
    """Set the count of one pool. Return its name, and why it failed."""
    arm, like = known.arm, known.wanted[name]
    each = pool(known.terms, known.record.site, name, like)
    record = load_record(session.folder) or known.record
    found = arm.find(each.path, each.kind.version, each.label)
    if found is None and not like.count:
        return name, None
    if found is not None and known.before[name] <= like.count:
        with suppress(GrassError):
            edges.reopen(session.folder / KUBECONFIG, name)
    if found is not None and state_of(found) == "Succeeded" and found["properties"].get("count") == like.count:
        return name, None
    replace(record, pools={**record.pools, name: like}).save(session.folder)
    try:
        if (surplus := known.before[name] - like.count) > 0:
            wanted = Emptying(name, surplus, request.patience, request.move)
            machines = edges.empty(session.folder / KUBECONFIG, wanted, session.progress)
            if len(machines) == surplus:  # otherwise, Azure chooses
                _give_up(arm, each, machines, like.count)
        _ask(arm, each)
    except (AzureError, WaitTimeoutError) as error:
        if isinstance(error, AzureSlowError):
            raise
        return name, error
    return name, None


def _give_up(arm: Arm, each: Wanted, machines: list[str], count: int) -> None:
    """Remove machines of a pool, which are empty."""

    def has_begun() -> bool:
        return _count(arm, each) == count

    url = arm.url(f"{each.path}/deleteMachines", each.kind.version)
    accepted = arm.request("POST", url, each.label, {"machineNames": machines}, seen=has_begun)
    arm.finish(accepted, f"{each.label}: removing {', '.join(machines)}", usual=each.kind.usual)


def _count(arm: Arm, each: Wanted) -> object:
    """Return how many machines a pool has, once Azure works on it no more."""
    found = arm.until_settled(each.path, each.kind, each.label)
    return found["properties"].get("count") if found is not None and state_of(found) == "Succeeded" else None


def _ask(arm: Arm, each: Wanted) -> None:
    """Let a pool have its count, unless it has; once more if Azure failed."""
    for last in (False, True):
        if _count(arm, each) == each.body["properties"]["count"]:
            return
        try:
            accepted = arm.put(each.kind, each.path, each.body, each.label)
            arm.finish(accepted, f"{each.label}: scaling", usual=each.kind.usual)
        except AzureError as error:
            if last or error.refusal.fault not in (Fault.PERMANENT, Fault.UNSURE):
                raise
            arm.progress(f"{error}; trying once more")
    if _count(arm, each) != each.body["properties"]["count"]:
        raise failed(each.label)


def _done(name: str, known: _Known) -> str:
    like = known.wanted[name]
    machines = "1 machine" if like.count == 1 else f"{like.count} machines"
    return f"pool {name} has {machines} of {like.size}" if like.count else f"pool {name} is empty"
