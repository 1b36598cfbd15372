"""`grass create` of a cluster on Azure: look, decide, make what is missing, wait for SSH, then as with any other host.

Each step is one PUT with a fixed name, and looks first at what is there. So the same command continues an interrupted
one. Used by ``provisioner``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from grass.azure.arm import Arm, failed, operation_url, state_of
from grass.azure.faults import AzureCapacityError, AzureError, AzureForbiddenError, AzureLoginError, Fault
from grass.azure.resources import BODY_TAG, Kind, Wanted, in_zone, is_ours, wanted
from grass.errors import ConflictError, GrassError, InputError, UnreachableError
from grass.files.key import key_pair
from grass.hosts.ssh import KNOWN_HOSTS
from grass.manifest.azure import AzureSettings
from grass.manifest.document import Document
from grass.manifest.on_premises import HostSettings
from grass.mode_file import write_mode
from grass.provision.azure.clear import OF_MACHINE, clear
from grass.provision.azure.delete import fixed_items
from grass.provision.azure.edges import Edges
from grass.provision.azure.look import Facts, alternatives, look, own_address, subscription_of
from grass.provision.azure.plan import alternatives_text, cost_lines, plan_lines, problems
from grass.provision.azure.record import Record, load_record
from grass.provision.filelock import cluster_lock
from grass.provision.on_premises.machines import MACHINES
from grass.provision.provisioner import Created, Session
from grass.system.tree_removal import remove_tree

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
    return list(plan_lines(settings, known.facts, things, known.sources, known.record.id))


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
        known.record.save(session.folder)
        with _explained(settings, session, known, new=new) as made:
            address = _make(settings, session, known, key, made)
            host = _host(settings, session, address)
            try:
                edges.reach(host, session)
            except UnreachableError as error:
                raise UnreachableError(f"{error}; {_boot_log(settings, known)}") from error
    with _explained(settings, session, known, new=False, made=made):
        return edges.install(replace(settings, master=host), session)


def _look(settings: AzureSettings, session: Session, edges: Edges) -> _Known:
    cloud, before = settings.cloud, load_record(session.folder)
    arm = Arm(edges.send(cloud.endpoint), cloud.endpoint, edges.clock, session.progress)
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


def _make(settings: AzureSettings, session: Session, known: _Known, key: str, made: list[str]) -> str:
    """Make what is missing. Return the public address of the machine."""
    arm, site = known.arm, known.record.site
    for namespace in known.facts.unregistered:
        arm.register(f"/subscriptions/{site.subscription}", namespace, namespace)
    *others, machine = wanted(settings, site, known.sources, key)
    for each in others:
        _ensure(arm, each, site.id, made, use_existing=settings.cloud.use_existing_group)
    if known.record.machine_zone:
        machine = in_zone(machine, known.record.machine_zone)
    there = _machine(arm, machine, known, session.folder, settings, made)
    return _address(arm, there, machine.label)


def _ensure(arm: Arm, each: Wanted, id: str, made: list[str], *, use_existing: bool) -> None:
    """Make a resource unless it is there as it should be. ``made``: gets what is the cluster's, once Azure accepted it.

    Raises ConflictError: somebody else has made one with this name meanwhile.
    """
    found = arm.find(each.path, each.kind.version, each.label)
    if found is not None and state_of(found) == "Deleting":
        found = arm.until_settled(each.path, each.kind, f"{each.label}, which is being deleted")
    if found is not None and not is_ours(found, id):
        if each.kind is Kind.GROUP and use_existing:
            return
        raise ConflictError(f"{each.label}: exists, and Grass did not make it; choose another name")
    if found is not None:
        made.append(each.label)
        if state_of(found) == "Succeeded" and _same(found, each):
            return
    if found is not None and each.kind is Kind.RULES:
        arm.progress(f"{each.label}: SSH is let in from other addresses than before")
    accepted = arm.put(each.kind, each.path, each.body, each.label)
    if found is None:
        made.append(each.label)
    arm.finish(accepted, each.label, usual=each.kind.usual)
    if found is None:
        arm.progress(f"{each.label}: made")


def _same(found: Document, each: Wanted) -> bool:
    tags = found.get("tags")
    return isinstance(tags, dict) and tags.get(BODY_TAG) == each.body["tags"][BODY_TAG]


def _machine(
    arm: Arm, machine: Wanted, known: _Known, folder: Path, settings: AzureSettings, made: list[str]
) -> Document:
    """Return the machine. Make it if need be; one that failed is removed with its disk and card first."""
    found = _settled(arm, machine, folder)
    if found is not None and not is_ours(found, known.record.id):
        raise ConflictError(f"{machine.label}: exists, and Grass did not make it; choose another name")
    if found is not None and state_of(found) == "Succeeded":
        made.append(machine.label)
        if not _same(found, machine):
            raise GrassError(
                f"{machine.label}: exists with other settings of `master` or `ssh`, which a machine keeps; take them "
                f"back in the file, or `grass delete {settings.name}` first"
            )
        return found
    if found is not None:
        _remove_failed(arm, machine, known, settings, made)
    try:
        return _put_machine(arm, machine, folder, made)
    except AzureCapacityError as error:
        _remove_failed(arm, machine, known, settings, made)
        zone = _other_zone(known.facts, settings)
        if zone is None:
            raise
        arm.progress(f"{error}; trying zone {zone}")
        replace(_current(folder), machine_zone=zone).save(folder)
        machine = in_zone(machine, zone)
    except AzureError:
        _remove_failed(arm, machine, known, settings, made)
        raise
    try:
        return _put_machine(arm, machine, folder, made)
    except AzureError:
        _remove_failed(arm, machine, known, settings, made)
        raise


def _settled(arm: Arm, machine: Wanted, folder: Path) -> Document | None:
    """Return the machine as an earlier call left it, once Azure works on it no more."""
    found = arm.find(machine.path, machine.kind.version, machine.label)
    if found is None or state_of(found) == "Succeeded":
        return found
    operation = _current(folder).operation
    if operation:
        try:
            arm.follow(operation, machine.label, usual=machine.kind.usual)
        except AzureError as error:
            arm.progress(f"{error}")
            return (
                None
                if error.refusal.fault is Fault.GONE
                else arm.find(machine.path, machine.kind.version, machine.label)
            )
    return arm.until_settled(machine.path, machine.kind, machine.label)


def _put_machine(arm: Arm, machine: Wanted, folder: Path, made: list[str]) -> Document:
    for stale in (KNOWN_HOSTS, MACHINES):  # a new machine has new keys and maybe another address
        (folder / "client" / stale).unlink(missing_ok=True)
    accepted = arm.put_new(machine.kind, machine.path, machine.body, machine.label)
    made.append(machine.label)
    replace(_current(folder), operation=operation_url(accepted)).save(folder)
    try:
        arm.finish(accepted, machine.label, usual=machine.kind.usual)
    except AzureError as error:
        if error.refusal.fault is not Fault.UNSURE:
            raise
        arm.progress(f"{error}; trying SSH")
    found = arm.until_settled(machine.path, machine.kind, machine.label)
    if found is None:
        raise failed(machine.label)
    return found


def _remove_failed(arm: Arm, machine: Wanted, known: _Known, settings: AzureSettings, made: list[str]) -> None:
    """Remove a machine that Azure failed to make, with disk, card and address. One that was refused does not exist."""
    found = arm.find(machine.path, machine.kind.version, machine.label)
    if found is None or state_of(found) == "Succeeded":
        return
    arm.progress(f"{machine.label}: Azure failed to make it; removing it")
    site = known.record.site
    if stays := clear(arm, site, fixed_items(settings.name, site), OF_MACHINE):
        raise GrassError("\n".join(["a machine that failed could not be removed:", *stays.values()]))
    if machine.label in made:
        made.remove(machine.label)


def _other_zone(facts: Facts, settings: AzureSettings) -> str | None:
    size = facts.size(settings.machine.size)
    zones = [zone for zone in (size.zones if size else ()) if zone != settings.machine.zone]
    return zones[0] if zones else None


def _current(folder: Path) -> Record:
    record = load_record(folder)
    assert record is not None, "it is saved before anything is made"
    return record


def _address(arm: Arm, machine: Document, what: str) -> str:
    """Return the public address of a machine: of its first card."""
    try:
        card = machine["properties"]["networkProfile"]["networkInterfaces"][0]["id"]
        first = arm.get(card, Kind.CARD.version, f"network card of {what}")["properties"]["ipConfigurations"][0]
        public = first["properties"]["publicIPAddress"]["id"]
        found = arm.get(public, Kind.ADDRESS.version, f"address of {what}")["properties"]["ipAddress"]
    except (KeyError, IndexError, TypeError) as error:
        raise GrassError(f"{what}: has no public address; `grass delete` removes it, then create it again") from error
    return str(found)


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
