"""`grass create` of a cluster on several hosts: connect, inspect, decide, carry out, call the new API from here.

Used by ``provisioner``. ``restore`` makes a master with the same pieces.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from grass.api import keyring
from grass.config import ClusterConfig
from grass.errors import ConflictError, GrassError, UnreachableError
from grass.files.access import FilesAccess
from grass.files.key import FILES_KEY, files_key
from grass.hosts.ssh import KNOWN_HOSTS, SshHost
from grass.manifest.on_premises import ApiWay, HostSettings, OnPremisesSettings
from grass.mode_file import write_mode
from grass.network_address import WILDCARDS, network_address
from grass.provision.filelock import cluster_lock
from grass.provision.layout import user_name
from grass.provision.on_premises import on_host, standby
from grass.provision.on_premises.bundle import Bundle, make_bundle, planned_bundle
from grass.provision.on_premises.delete import clean_master
from grass.provision.on_premises.design import MasterDesign, design
from grass.provision.on_premises.facts import Facts, gather, look_for_image
from grass.provision.on_premises.first_nodes import join_nodes, offer_of
from grass.provision.on_premises.log_damage import log_damage
from grass.provision.on_premises.machines import Machines, load_machines, open_host
from grass.provision.on_premises.master import Admin, master_steps
from grass.provision.on_premises.masters import load_masters
from grass.provision.on_premises.node_plan import PlannedMaster, plan_node
from grass.provision.on_premises.node_upgrade import lacked_by_nodes, upgrade_of
from grass.provision.on_premises.requirements import AZURE
from grass.provision.on_premises.services import why_not
from grass.provision.on_premises.standby import Standby
from grass.provision.on_premises.steps import Outcome, Step, plan_lines, run_steps
from grass.provision.provisioner import Created, Session
from grass.system import clock

_CLOCKS_APART = 60.0
_WITNESS_ANSWERS = 30.0


@dataclass(frozen=True)
class Known:
    """Facts, design and bundle: all data that is gathered before the first change."""

    facts: Facts
    design: MasterDesign
    bundle: Bundle


def create(settings: OnPremisesSettings, session: Session) -> Created:
    """Set up the master and join its nodes, or finish an interrupted call. Return when the API answers.

    Raises ConflictError (the name is taken), InputError (missing requirements), UnreachableError, StepFailedError.
    """
    client = session.client_dir
    with cluster_lock(session.home, session.name), kept_if_touched(session.folder) as touch:
        _check_name(settings, session)
        client.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open_host(settings.master, client, session.ask) as host:
            known = look(host, settings, session, make_bundle, partial(_check_own, session))
            with standby.prepared(settings, session, partial(_look_at_standby, session)) as follower:
                known = _followed(known, follower, touch)
                machines = load_machines(session.name, session.home) or Machines(settings.master)
                machines = _without_former_standby(session, settings, machines)
                if follower is not None and (first := _before_it_is_needed(known)) is not None:
                    set_up(host, settings, session, first, machines)
                    _follow(host, follower, first, session)
                outcome, url = set_up(host, settings, session, known, machines)
                if follower is not None:
                    _follow(host, follower, known, session)
                    _remember_standby(follower, settings, client)
                else:
                    keyring.save_other(client, None)
        was = known.facts.config
        config = known.design.config
        for line in lacked_by_nodes(was, config):
            session.progress(f"{session.name}: {line}")
        plain_before = was is not None and not was.tls
        upgrade = upgrade_of(was, config)
        join_nodes(session, settings, str(config.share), known.bundle.digest, upgrade=upgrade, again=plain_before)
        if settings.standby is not None and settings.standby.witness:
            _check_witness(session, settings.standby.witness)
    return Created(session.name, settings.mode, str(session.folder), url, outcome.done, outcome.unchanged)


def _check_witness(session: Session, name: str) -> None:
    """Raises UnreachableError: the cluster is ready, but the standby would not take over by itself."""
    from grass.api.client import Client

    until = clock.steady() + _WITNESS_ANSWERS
    with Client(session.name, home=session.home) as client:
        while (view := client.status().standby) is None or view.witness != name or view.why:
            if clock.steady() > until:
                why = view.why if view is not None and view.why else "the master does not know it yet"
                raise UnreachableError(
                    f"standby.witness: {why}; the cluster is ready, and its standby does not take over by itself until "
                    f"the master reaches node {name}"
                )
            clock.sleep(0.5)


def _look_at_standby(
    session: Session, host: SshHost, settings: OnPremisesSettings
) -> tuple[Facts, MasterDesign, Bundle]:
    def check(host: SshHost, facts: Facts) -> None:
        standby.check_machine(host, facts, settings.name, load_masters(session.client_dir).term)

    known = look(host, settings, session, make_bundle, check)
    return known.facts, known.design, known.bundle


def _followed(known: Known, follower: Standby | None, touch: Callable[[], None]) -> Known:
    """Return what is known of the master, which knows its standby then. From here on, something is changed."""
    if follower is not None:
        standby.check_pair(known.design, known.facts, follower)
    touch()
    if follower is None:
        return known
    url = api_url(follower.settings, follower.config)
    told = replace(known.design.config, standby=standby.as_known(follower, follower.key(), url))
    was = known.facts.config
    if was is not None and was.standby is not None and was.standby.witness not in ("", follower.wanted.witness):
        follower.forget_witness()
    return replace(known, design=replace(known.design, config=told))


def _before_it_is_needed(known: Known) -> Known | None:
    """Return a master that does not need its standby yet: one that does would refuse all writes until it follows. None:
    it follows already, or is never needed."""
    config, was = known.design.config, known.facts.config
    follows = was is not None and was.standby == config.standby
    if config.standby is None or follows or not (config.standby.needed or config.standby.witness):
        return None
    told = replace(config, standby=replace(config.standby, needed=False, witness=""))
    return replace(known, design=replace(known.design, config=told))


def _follow(host: SshHost, follower: Standby, known: Known, session: Session) -> None:
    key = keyring.load_client(session.client_dir).master().thumbprint()
    admin = admin_of(follower.settings, session.client_dir)
    standby.follow(follower, known.design.config, host.server_key(), key, admin, session)


def _without_former_standby(session: Session, settings: OnPremisesSettings, machines: Machines) -> Machines:
    """Remove Grass from a machine that the settings no longer name as the standby."""
    former, wanted = machines.standby, standby.host_of(settings)
    if former is not None and (wanted is None or wanted.endpoint != former.endpoint):
        clean_master(session, former)
    return replace(machines, standby=wanted)


def _remember_standby(follower: Standby, settings: OnPremisesSettings, client: Path) -> None:
    """Save how this machine reaches the API after a failover."""
    way = _tunnel_of(follower.host, client) if settings.api is ApiWay.TUNNEL else None
    profile = keyring.load_profile(client)
    keyring.save_other(client, replace(profile, url=api_url(follower.settings, follower.config), tunnel=way))


def set_up(
    host: SshHost,
    settings: OnPremisesSettings,
    session: Session,
    known: Known,
    machines: Machines,
    state: Sequence[Step] = (),
) -> tuple[Outcome, str]:
    """Make the machine the master, and call its API. Return the URL, too. ``machines``: those of the cluster before.
    ``state``: as of ``master_steps``."""
    client = session.client_dir
    admin = admin_of(settings, client)
    write_mode(session.folder, settings.mode)
    replace(machines, master=settings.master).save(client)
    steps = master_steps(known.design, known.facts, known.bundle, admin, settings.samba_password, state)
    outcome = run_steps(host, steps, session.progress, _label(host))
    url = remember(host, settings, known.design.config, admin, client)
    call_api(host, known.design, session, settings, url)
    return outcome, url


def plan(settings: OnPremisesSettings, session: Session) -> list[str]:
    """Return the steps of ``create`` as lines. Changes nothing on any machine, and fetches nothing.

    Which nodes would be upgraded is known only if the packages of Grass are in the local cache.
    """
    client = session.client_dir
    with cluster_lock(session.home, session.name), kept_if_touched(session.folder):
        _check_name(settings, session)
        client.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open_host(settings.master, client, session.ask) as host:
            known = look(host, settings, session, planned_bundle, partial(_check_own, session))
            admin = Admin(settings.admin or user_name(), {}, "")
            steps = master_steps(known.design, known.facts, known.bundle, admin, settings.samba_password)
            lines = list(_described(host, known, steps))
        if settings.standby is not None:
            lines.append(f"standby {settings.standby.host.address}: follows the master, by the steps of a master")
        return [*lines, *_planned_nodes(settings, known, session)]


def _planned_nodes(settings: OnPremisesSettings, known: Known, session: Session) -> Iterator[str]:
    config, bundle = known.design.config, known.bundle
    master = PlannedMaster(config, settings.master, api_url(settings, config), bundle.digest, bundle.nodes)
    nodes = settings.nodes if settings.join_after_create else ()
    for node in nodes:
        yield from plan_node(session, master, node.host, offer_of(node, settings, str(config.share)))
    listed = {node.host.endpoint for node in nodes}
    for name, host in _nodes_before(session).items():
        if host.endpoint not in listed and name != host.endpoint:
            yield from plan_node(session, master, host, None)


def _described(host: SshHost, known: Known, steps: list[Step]) -> Iterator[str]:
    facts = known.facts
    yield f"{_label(host)} ({host.access}): {facts.os_name}, {facts.machine}, {known.design.target}"
    yield from plan_lines(steps, _label(host))


def _label(host: SshHost) -> str:
    return host.name if host.name == "master" else f"master {host.name}"


def _check_name(settings: OnPremisesSettings, session: Session) -> None:
    name = session.name
    if (session.folder / "cluster.json").exists():
        raise ConflictError(f"cluster {name} exists on this machine; `grass delete {name}` ends it")
    before = load_machines(name, session.home)
    if before is not None and before.master.address != settings.master.address:
        raise ConflictError(
            f"cluster {name} exists with the master {before.master.address}; `grass delete {name}` ends it, "
            "or give the new one another name"
        )


def look(
    host: SshHost,
    settings: OnPremisesSettings,
    session: Session,
    bundled: Callable[..., Bundle],
    check: Callable[[SshHost, Facts], None],
) -> Known:
    """Return all that is known before the first change. ``check`` raises what forbids this machine."""
    label, progress = _label(host), session.progress
    progress(f"{label}: connecting to {host.access}")
    host.connect()
    host.become_root()
    facts, image = gather(host, settings.name), settings.fluentd_image
    if image is not None and facts.docker:
        facts = replace(facts, image=look_for_image(host, image))
    if abs(facts.time - clock.wall()) > _CLOCKS_APART:
        progress(f"{label}: its clock differs from this machine's clock by {abs(facts.time - clock.wall()):.0f} s")
    check(host, facts)
    decided = design(settings, facts, host.server_address(), host.server_key())
    extras = (AZURE,) if settings.autoscaler else ()
    bundle = bundled(decided.target, session.home / "cache", progress, machines=settings.machines, extras=extras)
    return Known(facts, decided, bundle)


def _check_own(session: Session, host: SshHost, facts: Facts) -> None:
    if facts.config is not None and not (session.client_dir / "user.pem").exists():
        raise ConflictError(
            f"{host.name} is already the master of a cluster {session.name} of another user; choose another "
            f"name, or ask an administrator of that cluster for access"
        )


def admin_of(settings: OnPremisesSettings, client: Path) -> Admin:
    """Create the administrator's keys. Both private keys are created on this machine and stay here."""
    return Admin(settings.admin or user_name(), keyring.user_key(client), files_key(client))


def _nodes_before(session: Session) -> dict[str, HostSettings]:
    before = load_machines(session.name, session.home)
    return dict(before.nodes) if before else {}


def remember(host: SshHost, settings: OnPremisesSettings, config: ClusterConfig, admin: Admin, client: Path) -> str:
    """Pin the master's public key, which comes over SSH, and save the client's files."""
    master_key = json.loads(host.get(f"{config.home}/{on_host.PUBLIC_KEY}", sudo=True))
    known_hosts, access = str(client / KNOWN_HOSTS), host.access
    tunnel = _tunnel_of(host, client) if settings.api is ApiWay.TUNNEL else None
    url = api_url(settings, config)
    profile = keyring.Profile(config.name, url, admin.name, str(admin.key["kid"]), tunnel)
    keyring.save_profile(client, profile, master_key)
    FilesAccess(access.address, access.port, "grass", str(client / FILES_KEY), known_hosts).save(client)
    return url


def _tunnel_of(host: SshHost, client: Path) -> dict[str, str | int | None]:
    access = host.access
    return {
        "address": access.address,
        "username": access.username,
        "port": access.port,
        "key": str(Path(access.key).expanduser().absolute()) if access.key else None,
        "known_hosts": str(client / KNOWN_HOSTS),
    }


def api_url(settings: OnPremisesSettings, config: ClusterConfig) -> str:
    bind = config.master.api_host
    everywhere = bind in WILDCARDS
    host = settings.master.address if everywhere and settings.api is ApiWay.DIRECT else bind
    if everywhere and settings.api is ApiWay.TUNNEL:
        host = config.address
    return f"http://{network_address(host, config.master.api_port)}"


def call_api(host: SshHost, decided: MasterDesign, session: Session, settings: OnPremisesSettings, url: str) -> None:
    """Check that the API is reachable from here; the last step checked that it listens. Calls retry by themselves."""
    from grass.api.client import Client

    try:
        with Client(session.name, home=session.home) as client:
            client.status()
    except UnreachableError as error:
        raise UnreachableError(_unready(host, decided, settings, url, error)) from error


def _unready(host: SshHost, decided: MasterDesign, settings: OnPremisesSettings, url: str, error: GrassError) -> str:
    if damage := log_damage(host, str(decided.config.path)):
        return damage
    down = [unit for unit in decided.units if not host.run(["systemctl", "is-active", "--quiet", unit], sudo=True).ok]
    if down:
        return f"the API of {decided.config.name} does not answer\n{why_not(host, down, str(error))}"
    firewall = (
        "" if settings.api is ApiWay.TUNNEL else "; if a firewall is in between, open that port or use `api: tunnel`"
    )
    return f"every daemon on {host.name} runs, but the API does not answer this machine at {url} ({error}){firewall}"


class kept_if_touched:
    """Remove a new cluster folder if the call that created it failed before any change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._keep = folder.exists()

    def __enter__(self) -> Callable[[], None]:
        return self._touch

    def __exit__(self, *_: object) -> None:
        if not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _touch(self) -> None:
        self._keep = True
