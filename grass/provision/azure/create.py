"""`grass create` of a cluster on Azure: look, decide, make what is missing, wait for SSH, then as with any other host.

Each step is one PUT with a fixed name, and looks first at what is there. So the same command continues an interrupted
one. Used by ``provisioner``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from grass.azure.arm import Arm
from grass.azure.faults import AzureError, AzureForbiddenError, AzureLoginError
from grass.azure.resources import Kind, Wanted, in_zone, is_ours, principal_of, routes, terms_of, wanted
from grass.errors import ConflictError, GrassError, InputError, UnreachableError
from grass.files.key import key_pair
from grass.hosts.ssh import KNOWN_HOSTS
from grass.manifest.azure import AzureSettings, Nat
from grass.manifest.document import Document
from grass.manifest.on_premises import HostSettings
from grass.mode_file import write_mode
from grass.provision.azure.edges import Edges
from grass.provision.azure.ensuring import ensure
from grass.provision.azure.identity import OF_PLAN, ensure_identity, has_role, say_role
from grass.provision.azure.kinds import kinds_in
from grass.provision.azure.look import Facts, addresses, alternatives, look, own_address, subscription_of
from grass.provision.azure.making import Making
from grass.provision.azure.metering import look_later
from grass.provision.azure.plan import alternatives_text, cost_lines, plan_lines, problems
from grass.provision.azure.record import Asked, Record, load_record, note
from grass.provision.azure.setup import setup_of
from grass.provision.filelock import cluster_lock
from grass.provision.on_premises.machines import MACHINES
from grass.provision.provisioner import Created, Session
from grass.system.tree_removal import remove_tree
from grass.wire.codec import indented

_REFUSALS = (AzureError, AzureForbiddenError, AzureLoginError)
_KEY = "azure_key"
"""File of the key pair that Grass makes, in ``client/``."""
_SAMPLE_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5"


@dataclass(frozen=True)
class _Known:
    """All that is gathered before the first change."""

    arm: Arm
    facts: Facts
    record: Record
    sources: tuple[str, ...]


def plan(settings: AzureSettings, session: Session, edges: Edges) -> list[str]:
    """Return what ``create`` would make, leave and cost. Makes nothing. Raises InputError: it does not fit, with what
    does."""
    known = _look(settings, session, edges)
    _check(settings, known)
    things = wanted(settings, known.record.site, known.sources, _SAMPLE_KEY)
    lines = list(plan_lines(settings, known.facts, things, known.sources, known.record.id))
    if wants_identity(settings):
        principal = principal_of(known.facts.found.get(Kind.MACHINE, {})) or OF_PLAN
        lines += say_role(known.record.site, principal).split("\n")
    return lines


def create(settings: AzureSettings, session: Session, edges: Edges) -> Created:
    """Make the machine and make it a master, or finish an interrupted call.

    Raises InputError: nothing was made; AzureError and others, whose text says what exists and what it costs.
    """
    with cluster_lock(session.home, session.name):
        known = _look(settings, session, edges)
        _check(settings, known)
        key = _public_key(settings, session)
        new = not session.folder.exists()
        session.client_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = key or key_pair(session.client_dir / _KEY)
        write_mode(session.folder, settings.mode)
        replace(known.record, terms=terms_of(settings, key)).save(session.folder)
        with _explained(settings, session, known, new=new) as made:
            address, principal = _make(settings, session, known, key, made)
            _meter(session, edges, settings, known)
            host = _host(settings, session, address)
            try:
                edges.reach(host, session)
            except UnreachableError as error:
                raise UnreachableError(f"{error}; {_boot_log(settings, known)}") from error
    with _explained(settings, session, known, new=False, made=made):
        created = edges.install(
            replace(settings, master=host, autoscaler=_autoscaler(known, settings, session, principal)), session
        )
    if principal and not has_role(known.arm, known.record.site, principal):
        session.progress(say_role(known.record.site, principal))
    return created


def _look(settings: AzureSettings, session: Session, edges: Edges) -> _Known:
    cloud, before = settings.cloud, load_record(session.folder)
    arm = edges.arm(cloud.endpoint, session)
    subscription = subscription_of(arm, cloud.subscription)
    fresh = Record(subscription.id, cloud.resource_group, cloud.location, edges.mark(), cloud.endpoint)
    if before is not None and _where(before) != _where(fresh):
        raise ConflictError(
            f"cluster {session.name}: exists in the group {before.group} in {before.location} of the subscription "
            f"{before.subscription}; `grass delete {session.name}` removes it, or choose another name"
        )
    try:
        facts = look(settings, arm, subscription)
    except AzureError as error:
        if before is None:
            raise InputError(str(error)) from error
        raise
    sources = settings.ssh_from or (f"{own_address(arm)}/32",)
    return _Known(arm, facts, before or fresh, sources)


def _where(record: Record) -> tuple[str, str, str, str]:
    return record.endpoint, record.subscription.lower(), record.group.lower(), record.location


def _check(settings: AzureSettings, known: _Known) -> None:
    """Raises InputError, or AzureError's kind of failure if something exists already."""
    found = problems(settings, known.facts, known.record.id)
    if not found:
        return
    text = "\n".join(found)
    if any(each.startswith(("master.size", "cloud.location")) for each in found):
        text = f"{text}\n{alternatives_text(alternatives(settings, known.arm, known.facts))}"
    exists = [each for each in known.facts.found.values() if is_ours(each, known.record.id)]
    if exists:
        raise GrassError(f"{text}\n{_exists(settings, known, [str(each.get('name')) for each in exists])}")
    raise InputError(text)


def wants_identity(settings: AzureSettings) -> bool:
    return settings.autoscale is not None and settings.autoscale.on_master


def _autoscaler(known: _Known, settings: AzureSettings, session: Session, principal: str) -> str:
    """Return what the autoscaler on the master reads; empty: there is none."""
    record, policy = load_record(session.folder), settings.autoscale
    if not principal or record is None or record.terms is None or policy is None:
        return ""
    kinds = kinds_in(known.facts.region, known.arm, record, policy)
    return indented(setup_of(record, policy, kinds, known.facts.region, principal))


def _make(settings: AzureSettings, session: Session, known: _Known, key: str, made: list[str]) -> tuple[str, str]:
    """Make what is missing. Return the public address of the machine, and the id of its identity."""
    arm, site = known.arm, known.record.site
    for namespace in known.facts.unregistered:
        arm.register(f"/subscriptions/{site.subscription}", namespace, namespace)
    *others, master = wanted(settings, site, known.sources, key)
    for each in others:
        ensure(arm, each, site.id, made, use_existing=settings.cloud.use_existing_group)
    there = _master(arm, master, known, session.folder, settings, made)
    public, private = addresses(arm, there, master.label)
    if not public:
        raise GrassError(f"{master.label}: has no public address; `grass delete` removes it, then create it again")
    principal = ensure_identity(arm, master, there, wanted=wants_identity(settings))
    if settings.nat is Nat.GATEWAY:
        return public, principal
    # nodes leave through the master; its address is known only now
    ensure(arm, routes(terms_of(settings, key), site, private), site.id, made, use_existing=False)
    return public, principal


def _meter(session: Session, edges: Edges, settings: AzureSettings, known: _Known) -> None:
    if (record := load_record(session.folder)) is not None:
        prices = {settings.machine.size: known.facts.costs}
        look_later(known.arm, record, session.folder, edges.wall(), prices)


def _master(
    arm: Arm, master: Wanted, known: _Known, folder: Path, settings: AzureSettings, made: list[str]
) -> Document:
    """Return the machine of the master. Make it if need be."""

    def new(_: str) -> None:
        for stale in (KNOWN_HOSTS, MACHINES):  # a new machine has new keys and maybe another address
            (folder / "client" / stale).unlink(missing_ok=True)

    size = settings.machine.size
    noted = known.record.machines.get(master.name) or Asked(size)
    note(folder, master.name, noted)
    if noted.zone:
        master = in_zone(master, noted.zone)
    zones = {name: found.zones for name, found in known.facts.region.sizes.items()}
    found = Making(arm, known.record.site, folder, zones, new, made).make([master])[master.name]
    if isinstance(found, GrassError):
        raise found
    return found


def _public_key(settings: AzureSettings, session: Session) -> str | None:
    """Return the key of the file, or that beside the private key; None: Grass makes one. Raises InputError."""
    if settings.public_key is not None or settings.master.login.key is None:
        return settings.public_key
    beside = Path(f"{settings.master.login.key}.pub").expanduser()
    try:
        kind, blob = beside.read_text().split()[:2]
    except (OSError, ValueError) as error:
        raise InputError(f"ssh.key: the public key {beside} cannot be read; write it in `ssh.public_key`") from error
    return f"{kind} {blob}"


def _host(settings: AzureSettings, session: Session, address: str) -> HostSettings:
    login = settings.master.login
    if settings.public_key is None and login.key is None:
        login = replace(login, key=str(session.client_dir / _KEY))
    return replace(settings.master, address=address, login=login)


@contextmanager
def _explained(
    settings: AzureSettings, session: Session, known: _Known, *, new: bool, made: Sequence[str] = ()
) -> Iterator[list[str]]:
    """Add to an error what exists and what it costs. If nothing does, it is an InputError, and no folder is left."""
    done = list(made)
    try:
        yield done
    except GrassError as error:
        if not done and isinstance(error, _REFUSALS):
            if new:
                remove_tree(session.folder)
            if isinstance(error, AzureError):
                raise InputError(str(error)) from error
        else:
            _append(error, _exists(settings, known, done))
        raise
    except KeyboardInterrupt:
        session.progress(_exists(settings, known, done))
        raise


def _append(error: GrassError, text: str) -> None:
    error.args = (f"{error}\n{text}",)


def _exists(settings: AzureSettings, known: _Known, made: Sequence[str]) -> str:
    there = ", ".join(made) or "perhaps what was asked for last"
    price = next(cost_lines(known.facts.costs, settings.machine.size))
    return (
        f"exists on Azure: {there} ({price}, once the machine runs); `grass create FILE` continues, "
        f"`grass delete {settings.name}` removes it"
    )


def _boot_log(settings: AzureSettings, known: _Known) -> str:
    group, name = known.record.group, f"{settings.name}-master"
    return (
        f"is {', '.join(known.sources)} still the address of this machine? How {name} started is shown by "
        f"`az vm boot-diagnostics get-boot-log -g {group} -n {name}`"
    )
