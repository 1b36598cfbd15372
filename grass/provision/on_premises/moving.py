"""`grass cluster move --to HOST`: the master goes to another machine, while tasks run. Used by ``provisioner``.

While the old master works, the new machine is set up, and most of the files are copied. Then the old one stops, what
has changed since is copied, both sides are compared, and the old one is fenced: from this moment on the new one is the
master. Until then the old one goes on whenever anything fails, by itself if this command is killed. Afterwards the same
command goes on. So one master writes at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from grass.api import keyring
from grass.config import ClusterConfig
from grass.errors import ConflictError, InputError, NotFoundError, UnreachableError
from grass.hosts.ssh import SshHost
from grass.manifest.on_premises import HostSettings, OnPremisesSettings
from grass.model.amounts import show_memory
from grass.model.daemons import REDIS
from grass.provision.filelock import cluster_lock
from grass.provision.layout import user_name
from grass.provision.on_premises import (
    copying,
    first_nodes,
    handover,
    namespace_moves,
    namespace_nodes,
    namespace_steps,
    old_master,
    signpost,
)
from grass.provision.on_premises.backup import checked
from grass.provision.on_premises.bundle import make_bundle, planned_bundle
from grass.provision.on_premises.create import Known, admin_of, call_api, look, remember
from grass.provision.on_premises.design import STATE, VENV
from grass.provision.on_premises.facts import Facts, gather
from grass.provision.on_premises.handover import Handed
from grass.provision.on_premises.install import AS_GRASS
from grass.provision.on_premises.machines import Machines, open_host
from grass.provision.on_premises.master import master_steps
from grass.provision.on_premises.masters import Masters, load_masters
from grass.provision.on_premises.mirror import Places
from grass.provision.on_premises.move_checks import check_cluster, check_target
from grass.provision.on_premises.moved_in import MOVED_FROM, MovedIn
from grass.provision.on_premises.namespace_steps import OwnNamespace
from grass.provision.on_premises.node_hosts import host_of
from grass.provision.on_premises.restore import config_as_before, settings_as_before
from grass.provision.on_premises.steps import Run, Step, plan_lines, run_steps
from grass.provision.provisioner import Moved, MoveRequest, Session
from grass.system import clock
from grass.system.entropy import request_id
from grass.wire.codec import encode

_PASSES = 5
_TASK_REDIS = "the redis for tasks moves with what it has; its connections break, and it answers nobody for this time"
_KEEP = (*AS_GRASS, f"{VENV}/bin/python", "-m", "grass.provision.on_premises.task_redis_kept")
_LITTLE = 8 << 20
"""Bytes: a pass that copied less is the last one while the old master works."""


@dataclass(frozen=True)
class _Side:
    """One of the two machines."""

    host: SshHost
    machine: HostSettings
    places: Places


@dataclass(frozen=True)
class _Move:
    """What is known before the first change. ``handed``: how far an earlier call came."""

    session: Session
    machines: Machines
    old: _Side
    new: _Side
    before: ClusterConfig
    known: Known
    settings: OnPremisesSettings
    units: tuple[str, ...]
    handed: Handed
    namespaces: dict[str, OwnNamespace]

    @property
    def config(self) -> ClusterConfig:
        return self.known.design.config

    def steps(self, id: str) -> tuple[list[Step], list[Step]]:
        """Return the steps while the old master works, and those once it is fenced."""
        placed = _place_step(self, id)
        admin = admin_of(self.settings, self.session.client_dir)
        steps = master_steps(self.known.design, self.known.facts, self.known.bundle, admin, None, [placed])
        at = steps.index(placed)
        return steps[:at], steps[at:]


def move(request: MoveRequest, session: Session, machines: Machines) -> Moved:
    """Move the master. Raises InputError and ConflictError: the machine cannot become the master, or nodes are away;
    UnreachableError; NotFencedError: the old master goes on; NodesMissingError: nodes could not be told."""
    with cluster_lock(session.home, session.name):
        masters = load_masters(session.client_dir)
        wanted = host_of(request.to, request.key, request.become, machines.master.login)
        if wanted.address == machines.master.address:
            return _told(request, session, machines, masters)
        with (
            open_host(machines.master, session.client_dir, session.ask) as old_host,
            open_host(wanted, session.client_dir, session.ask) as new_host,
        ):
            found = _look(request, session, machines, _reached(old_host, session.name), new_host, wanted)
            stopped = 0.0
            if request.plan is not None:
                for line in _planned(found):
                    request.plan(line)
                return Moved(session.name, "")
            id = found.handed.id
            if not found.handed.new:
                id = request_id()
                replace(masters, moving=wanted.address).save(session.client_dir)
                stopped = _hand_over(found, id)
            began = clock.steady()
            url = _take_over(found, id)
            away = stopped and stopped + clock.steady() - began  # a repeated call does not know when it began
        session.progress(f"cluster {session.name}: its master is {wanted.address}")
        signpost.put_up(session, [machines.master])
        _tell_nodes(session)
    return Moved(session.name, url, away)


def _told(request: MoveRequest, session: Session, machines: Machines, masters: Masters) -> Moved:
    """Finish a move whose new master works, and whose nodes may not know it yet."""
    if masters.moving != machines.master.address:
        raise InputError(f"--to {request.to}: is the master already; name another machine")
    if request.plan is None:
        _tell_nodes(session)
    else:
        for line in _nodes_planned(machines):
            request.plan(line)
    return Moved(session.name, keyring.load_profile(session.client_dir).url)


def _tell_nodes(session: Session) -> None:
    try:
        namespace_nodes.join_again(session)
    finally:
        first_nodes.join_again(session)
    replace(load_masters(session.client_dir), moving="").save(session.client_dir)


def _reached(host: SshHost, name: str) -> SshHost:
    """Connect to the old master. Raises UnreachableError."""
    try:
        host.connect()
        host.become_root()
    except UnreachableError as error:
        raise UnreachableError(
            f"{error}\n  the master of cluster {name} has to answer while it is moved; if its machine is gone, "
            "`grass restore FILE --on HOST` makes a new one"
        ) from error
    return host


def _look(
    request: MoveRequest,
    session: Session,
    machines: Machines,
    old: SshHost,
    new: SshHost,
    wanted: HostSettings,
) -> _Move:
    """Look at both machines, and refuse what cannot work. Changes nothing."""
    name = session.name
    facts = gather(old, name)
    before = facts.config
    if before is None or not before.redis.embedded:
        raise NotFoundError(f"{old.name}: is no master of cluster {name}")
    handed = handover.look(old, name)
    if handed.new not in ("", wanted.address):
        raise ConflictError(f"{old.name}: its cluster is being moved to {handed.new}; finish that: --to {handed.new}")
    namespaces = namespace_steps.known(facts, name)
    units = handover.units(old, name, namespace_moves.units(namespaces, name))
    if not handed.new and f"grass-{REDIS}@{name}.service" not in units:
        raise ConflictError(f"{old.name}: the master does not run, nor start at boot; `grass create FILE` starts it")
    if handed.stopped and not handed.new and request.plan is None:
        session.progress(f"{old.name}: an interrupted move had stopped it; it goes on first")
        handover.go_on(old, name, units)
    settings = settings_as_before(before, machines, wanted, _user(session))
    key = old_master.look(old, name).key

    def check(host: SshHost, there: Facts) -> None:
        check_target(host.name, name, there, old_master.look(host, name), key, handed)

    bundled = make_bundle if request.plan is None else planned_bundle
    known = look(new, settings, session, bundled, check)
    config = config_as_before(before, known.design.config)
    known = replace(known, design=replace(known.design, config=config))
    shared = before.samba is not None
    there = _Side(old, machines.master, Places(before.home, str(before.share) if shared else ""))
    staged = f"{STATE}/clusters/.move-{name}"
    here = _Side(new, wanted, Places(staged, str(config.share) if shared else ""))
    found = _Move(session, machines, there, here, before, known, settings, units, handed, namespaces)
    if not handed.new:
        check_cluster(session, machines, before, facts, nodes_later=request.nodes_later)
    return found


def _hand_over(found: _Move, id: str) -> float:
    """Set the new machine up, copy everything, and fence the old master. Return for how long it is stopped by then."""
    session, old, new = found.session, found.old, found.new
    prepare, _ = found.steps(id)
    copying.check_share(new.host, new.places, found.known.facts, session.name)
    run_steps(new.host, prepare, session.progress, f"new master {new.host.name}")
    namespaces = session.name, found.namespaces
    namespace_moves.prepare(old.host, new.host, found.known.facts, *namespaces, session.progress)
    _copy_while_it_works(found)
    if found.before.task_redis_server is not None:
        session.progress(f"{old.host.name}: {_TASK_REDIS}")
        checked(old.host, old.host.run((*_KEEP, f"{old.places.home}/cluster.json"), sudo=True))
    began = clock.steady()
    session.progress(f"{old.host.name}: the old master stops")
    with handover.stopped(session, old.host, old.machine, found.units):
        stopped = clock.steady()
        size = copying.copy(old.host, old.places.still, new.host, new.places.still)
        copying.compare(old.host, old.places.still, new.host, new.places.still)
        namespace_moves.copy(old.host, new.host, *namespaces)
        copied = clock.steady()
        handover.fence(old.host, session.name, new.machine.address, id, found.units)
    session.progress(
        f"{old.host.name}: fenced; it stopped in {stopped - began:.1f} s, {show_memory(size)} that had changed were "
        f"copied and compared in {copied - stopped:.1f} s"
    )
    return clock.steady() - began


def _copy_while_it_works(found: _Move) -> None:
    session, old, new = found.session, found.old, found.new
    for number in range(1, _PASSES + 1):
        began = clock.steady()
        size = copying.copy(old.host, old.places, new.host, new.places)
        seconds = clock.steady() - began
        session.progress(f"{new.host.name}: copied {show_memory(size)} in {seconds:.1f} s, while the old master works")
        if number > 1 and size < _LITTLE:
            return


def _place_step(found: _Move, id: str) -> Step:
    home, config = found.config.home, found.config
    before = old_master.redis_of(found.old.machine, found.before)
    asked = MovedIn(found.new.places.home, config, id, before)
    words = (*AS_GRASS, f"{VENV}/bin/python", "-m", "grass.provision.on_premises.moved_in")
    there = '[ "$(cat "$1" 2>/dev/null)" = "$2" ] && [ ! -e "$3" ]'
    check = Run(("sh", "-c", there, "check", f"{home}/{MOVED_FROM}", id, f"{home}/restoring"))
    return Step(
        "put the state of the old master in place", (Run(words, stdin=encode(asked).encode(), timeout=60.0),), check
    )


def _take_over(found: _Move, id: str) -> str:
    """Start the new master, and use it from here. Return its URL."""
    session, new, client = found.session, found.new, found.session.client_dir
    _, start = found.steps(id)
    run_steps(new.host, start, session.progress, f"new master {new.host.name}")
    admin = admin_of(found.settings, client)
    url = remember(new.host, found.settings, found.config, admin, client)
    replace(found.machines, master=new.machine).save(client)
    masters = replace(load_masters(client), redis=old_master.redis_of(new.machine, found.config))
    masters.without(new.machine.address).save(client)
    call_api(new.host, found.known.design, session, found.settings, url)
    return url


def _planned(found: _Move) -> Iterator[str]:
    old, new, id = found.old, found.new, found.handed.id or "ID"
    prepare, start = found.steps(id)
    yield f"new master {new.host.name} ({new.host.access}): {found.known.facts.os_name}, {found.known.facts.machine}"
    yield from plan_lines(prepare, f"new master {new.host.name}")
    share = f" and {old.places.share}" if old.places.share else ""
    yield f"copy {old.places.home}{share} from {old.host.name} to {new.host.name}, while the old master works"
    if found.before.task_redis_server is not None:
        yield f"{old.host.name}: {_TASK_REDIS}"
    yield f"{old.host.name}: stop {', '.join(found.units)}; from here on the cluster answers nobody; tasks go on"
    yield "copy what has changed since, and compare both sides"
    for name in found.namespaces:
        yield f"{name}: copy the folder of its agent, which goes on at {new.machine.address}; its pods run on"
    yield f"{old.host.name}: disable these units, and mark its folder: its master is {new.machine.address}"
    yield from plan_lines(start, f"new master {new.host.name}")
    yield from _nodes_planned(found.machines)


def _nodes_planned(machines: Machines) -> Iterator[str]:
    for node in machines.nodes:
        yield f"{node}: join again, at the new address; its tasks go on"


def _user(session: Session) -> str:
    with suppress(NotFoundError):
        return keyring.load_profile(session.client_dir).user
    return user_name()
