"""`grass cluster failover`: the standby becomes the master, and the old master is fenced first.

If the old master's machine answers, it stops, and the standby waits until it has everything. If not, what the standby
and the nodes last heard of it decides (``failover_check``). Used by ``provisioner``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from grass.api import keyring
from grass.config import ClusterConfig
from grass.errors import ConflictError, GrassError, NotFoundError
from grass.hosts import Host
from grass.hosts.ssh import SshHost
from grass.lines import lines_of
from grass.manifest.on_premises import HostSettings
from grass.model.daemons import MASTER_DAEMONS, REDIS
from grass.network_address import WILDCARDS
from grass.provision.filelock import cluster_lock
from grass.provision.on_premises import first_nodes, old_master, signpost, standby
from grass.provision.on_premises.bundle import make_bundle
from grass.provision.on_premises.create import look, set_up
from grass.provision.on_premises.design import STATE
from grass.provision.on_premises.failover_check import Evidence, Verdict, judged
from grass.provision.on_premises.machines import Machines, load_machines, open_host
from grass.provision.on_premises.masters import Masters, load_masters
from grass.provision.on_premises.restore import config_as_before, settings_as_before
from grass.provision.on_premises.standby_on_host import STAGED, Promotion, Seen
from grass.provision.on_premises.steps import Run, Step, run_steps
from grass.provision.provisioner import Created, Session
from grass.supervision.moved import TERM
from grass.supervision.predecessor import answers
from grass.supervision.standby import MARK
from grass.system import clock
from grass.wire.codec import encode

_CATCHES_UP = 15.0
_ANSWERS = 3.0
_NODES_AT_ONCE = 16
_HEARD = """
now=$(cut -d' ' -f1 /proc/uptime)
for file in /run/grass/"$1"*/master-heard; do [ -s "$file" ] && echo "$now $(cat "$file")"; done
true
"""


def failover(session: Session, *, force: bool) -> tuple[Created, float]:
    """Return what was made, and for how many seconds the new master lacks what the old one acknowledged.

    Raises NotFoundError: there is no standby; ConflictError: the old master lives where it cannot be stopped, or the
    standby is behind, without ``force``; NodesMissingError: the master is ready, and nodes could not be told.
    """
    with cluster_lock(session.home, session.name):
        machines = load_machines(session.name, session.home)
        if machines is None or machines.standby is None:
            raise NotFoundError(
                f"cluster {session.name}: has no standby; `standby: HOST` in its settings makes one, and after a "
                "failover `grass create FILE` with master and standby exchanged"
            )
        with open_host(machines.standby, session.client_dir, session.ask) as host:
            made, behind = _take_over(session, machines, machines.standby, host, force)
        for name in machines.namespaces:
            session.progress(f"{name}: its agent ran on the old master; repeat `grass node add --kubernetes` for it")
        signpost.put_up(session, [machines.master])
        first_nodes.join_again(session)
    return made, behind


def _take_over(
    session: Session, machines: Machines, there: HostSettings, host: SshHost, force: bool
) -> tuple[Created, float]:
    """An earlier call may have promoted the standby already: then only the steps of a master are left."""
    before = look_at(host, session.name)
    needed = before.standby is not None and before.standby.needed
    before = replace(before, standby=None)
    user = keyring.load_profile(session.client_dir).user
    settings = settings_as_before(before, machines, there, user)
    known = look(host, settings, session, make_bundle, lambda *_: None)
    config = config_as_before(before, known.design.config)
    known = replace(known, design=replace(known.design, config=config))
    behind = 0.0
    follows = host.run(["test", "-e", f"{config.home}/{MARK}"], sudo=True).ok
    if follows:
        behind = _checked(session, machines, there, host, config, needed, force)
    masters = load_masters(session.client_dir)
    if follows or not any(each.machine.address == machines.master.address for each in masters.old):
        masters = masters.with_old(machines.master, masters.redis or old_master.redis_of(machines.master, before))
        masters.save(session.client_dir)  # whatever is cut off, the next call fences them
        masters = old_master.fence(session, masters, there.address)
        if follows:
            run_steps(host, [_promotion(config, masters, behind)], session.progress, f"standby {host.name}")
        at = host.run(["cat", "--", f"{config.home}/{TERM}"], sudo=True).check().out
        replace(masters, redis=old_master.redis_of(there, config), term=int(at)).save(session.client_dir)
    outcome, url = set_up(host, settings, session, known, replace(machines, standby=None))
    keyring.save_other(session.client_dir, None)
    return Created(session.name, settings.mode, str(session.folder), url, outcome.done, outcome.unchanged), behind


def _checked(
    session: Session,
    machines: Machines,
    there: HostSettings,
    host: SshHost,
    config: ClusterConfig,
    needed: bool,
    force: bool,
) -> float:
    """Stop the old master if it answers. Return for how many seconds the standby may lack writes. Raises ConflictError,
    and starts the old master again: it lacks some, without ``force``."""
    with old_master.reached(session, machines.master) as old:
        if old is not None:
            verdict = _stopped(session, old, host, config, needed)
        else:
            verdict = _unreached(session, machines, host, config, needed)
        if verdict.why and not (force and verdict.possible):
            if old is not None:
                _start_again(old, session.name)
            advice = "; --force goes on without what it lacks" if verdict.possible else ""
            raise ConflictError(f"standby {there.address}: {verdict.why}; nothing was changed{advice}")
    if verdict.why:
        session.progress(f"standby {there.address}: {verdict.why}; going on, as --force says")
    return verdict.behind


def look_at(host: SshHost, name: str) -> ClusterConfig:
    host.connect()
    host.become_root()
    done = host.run(["cat", f"{STATE}/clusters/{name}/{STAGED}/cluster.json"], sudo=True)
    if not done.ok:
        raise ConflictError(f"{host.name}: is no standby of cluster {name}; repeat `grass create FILE`")
    return ClusterConfig.parse(done.out, f"{host.name}: cluster.json")


def _stopped(session: Session, old: Host, host: SshHost, config: ClusterConfig, needed: bool) -> Verdict:
    """Stop what acknowledges on the old master, and wait until the standby has everything."""
    name = session.name
    if not old.run(["systemctl", "is-active", "--quiet", standby.unit(name, REDIS)]).ok:
        session.progress(f"{old.name}: redis of the old master does not run there")
        return judged(_of_standby(standby.seen(host, config), needed))
    session.progress(f"{old.name}: stopping the old master")
    old.run(["systemctl", "stop", *_writers(name)], sudo=True).check()
    until = clock.steady() + _CATCHES_UP
    while True:
        master, follower = standby.seen(old, config), standby.seen(host, config)
        found = Evidence(
            follower.whole,
            needed=False,
            reached=follower.in_sync and master.in_sync,
            missing=max(0, master.offset - follower.offset),
            silent=follower.silent,
        )
        if found.reached or clock.steady() > until:
            return judged(found)
        clock.sleep(0.2)


def _writers(name: str) -> list[str]:
    return [standby.unit(name, daemon) for daemon in MASTER_DAEMONS]


def _start_again(old: Host, name: str) -> None:
    old.run(["systemctl", "start", f"grass@{name}.target", *_writers(name)], sudo=True)


def _unreached(session: Session, machines: Machines, host: SshHost, config: ClusterConfig, needed: bool) -> Verdict:
    master = machines.master
    for address in {master.address, master.private_address or master.address} - WILDCARDS:
        if answers(address, config.master.api_port, _ANSWERS):
            raise ConflictError(
                f"cluster {session.name}: its master on {address} lives, and cannot be stopped over SSH; stop it there "
                f"first: {old_master.by_hand(session.name)}"
            )
    session.progress(f"{master.address}: the old master does not answer, so it counts as dead")
    heard = _heard(session, machines.nodes)
    return judged(replace(_of_standby(standby.seen(host, config), needed), heard=heard))


def _of_standby(seen: Seen, needed: bool) -> Evidence:
    return Evidence(seen.whole, needed, alone=seen.alone, silent=seen.silent)


def _heard(session: Session, nodes: Mapping[str, HostSettings]) -> list[float]:
    """Return for each node that answers how many seconds ago it heard of the master."""

    def ask(settings: HostSettings) -> Iterator[float]:
        try:
            with open_host(settings, session.client_dir, session.ask) as host:
                said = host.run(["sh", "-c", _HEARD, "heard", session.name], sudo=True, timeout=20).out
        except GrassError:
            return
        for line in lines_of(said):
            now, at = line.split()
            yield float(now) - float(at)

    with ThreadPoolExecutor(_NODES_AT_ONCE) as pool:
        return [seconds for found in pool.map(lambda each: list(ask(each)), nodes.values()) for seconds in found]


def _promotion(config: ClusterConfig, masters: Masters, behind: float) -> Step:
    before = tuple(each.redis for each in masters.old)
    asked = encode(Promotion(str(config.path), before, masters.term, behind)).encode()
    off = ("systemctl", "disable", "--now", "--quiet", standby.unit(config.name))
    return Step("make the replica the master", (Run(off), Run((*standby.ON_HOST, "promote"), stdin=asked, timeout=900)))
