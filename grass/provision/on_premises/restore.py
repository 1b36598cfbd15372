"""`grass restore FILE --on HOST`: a new master from a backup, by the steps of `grass create`; its nodes join again.

Nothing outside of a scratch folder of this machine changes until the whole file is proven here, the old master is known
to be dead, and the machine is known to be fit. Used by ``grass.cli.backup``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from grass.api import keyring
from grass.config import ClusterConfig
from grass.errors import ConflictError, InputError, NotFoundError
from grass.hosts import Host
from grass.hosts.ssh import KNOWN_HOSTS
from grass.manifest.isolation import IsolationSettings
from grass.manifest.on_premises import (
    SAMBA_PORT,
    TASK_REDIS_PORT,
    ApiWay,
    Collector,
    HostSettings,
    OnPremisesSettings,
)
from grass.mode_file import read_mode
from grass.model.isolation import UIDS, Isolation
from grass.network_address import WILDCARDS, host_and_port
from grass.provision.backup import restoring
from grass.provision.backup.sealed_file import AlteredError
from grass.provision.backup.unpacking import Unpacked, scratch_folder, unpack
from grass.provision.filelock import cluster_lock
from grass.provision.on_premises import first_nodes, old_master, signpost
from grass.provision.on_premises.backup import on_host
from grass.provision.on_premises.backup_on_host import OF_CLIENT, RESTORED_FROM, Restore
from grass.provision.on_premises.bundle import make_bundle
from grass.provision.on_premises.create import kept_if_touched, look, set_up
from grass.provision.on_premises.design import STATE
from grass.provision.on_premises.facts import Facts
from grass.provision.on_premises.machines import MACHINES, Machines, load_machines, machines_in, open_host
from grass.provision.on_premises.masters import Masters, load_masters
from grass.provision.on_premises.node_hosts import host_of
from grass.provision.on_premises.old_master import Found
from grass.provision.on_premises.steps import Call, Run, Step
from grass.provision.provisioner import Created, Session
from grass.supervision.moved import TERM
from grass.system.private_file import write_private
from grass.wire.backup import BackupHeader
from grass.wire.codec import encode


@dataclass(frozen=True)
class Request:
    """What the user wants.

    ``on``: the machine of the new master, ``[USER@]HOST[:PORT]``. ``key``, ``become``: as of ``NodeRequest``.
    ``replaced``: put the state of a master that is there, and does not run, aside."""

    file: Path
    passphrase: str
    on: str
    key: str | None = None
    become: str | None = None
    replaced: bool = False


def restore(request: Request, session: Session) -> tuple[Created, float]:
    """Make the new master, and have the nodes join it. Also return when the backup was made.

    Raises ConflictError: the old master lives, or the machine has a state or another cluster; what ``unpack`` raises;
    NodesMissingError: the master is ready, and nodes could not be told.
    """
    client = session.client_dir
    header = on_premises(request.file)
    with cluster_lock(session.home, session.name), kept_if_touched(session.folder) as touch:
        _check_client(session, header)
        session.progress(f"reading the backup of {session.name}")
        with _proven(request, session) as unpacked:
            before = restoring.configuration(unpacked.home, session.name)
            machines = _machines(session, unpacked)
        on = host_of(request.on, request.key, request.become, machines.master.login)
        settings = settings_as_before(before, machines, on, _user(session))
        old = None if settings.master.address == machines.master.address else machines.master
        old_master.check_dead(session, old, before)
        masters = load_masters(client)
        with open_host(settings.master, client, session.ask) as host:
            target = _Target(header, request, masters)
            known = look(host, settings, session, make_bundle, target.check)
            config = config_as_before(before, known.design.config)
            known = replace(known, design=replace(known.design, config=config))
            touch()
            if old is not None:
                masters = masters.with_old(old, masters.redis or old_master.redis_of(old, before))
            masters = replace(masters, restoring=header.salt)
            masters.save(client)  # whatever is cut off, the next call fences them
            masters = old_master.fence(session, masters, settings.master.address)
            state = target.steps(config, known.design.redis_server, known.design.units, masters)
            masters = replace(masters, redis=old_master.redis_of(on, config))
            masters.save(client)
            outcome, url = set_up(host, settings, session, known, machines, state)
            there = host.run(["cat", "--", f"{config.home}/{TERM}"], sudo=True).out
            masters = replace(masters, term=max(masters.term, int(there.strip() or 0)))
        for name in machines.namespaces:
            session.progress(f"{name}: its agent ran on the old master; repeat `grass node add --kubernetes` for it")
        replace(masters, restoring="", moving="").save(client)
        signpost.put_up(session, [old] if old is not None else [])
        first_nodes.join_again(session)
    made = Created(session.name, settings.mode, str(session.folder), url, outcome.done, outcome.unchanged)
    return made, header.made


def on_premises(file: Path) -> BackupHeader:
    """Return the header of a backup of a cluster on several hosts. Raises InputError."""
    header = restoring.header_of(file)
    if header.mode != OnPremisesSettings.mode:
        raise InputError(f"{file}: is of a cluster of mode {header.mode}; --on is for clusters on several hosts")
    return header


def _check_client(session: Session, header: BackupHeader) -> None:
    """Raises ConflictError: this machine knows another cluster of this name."""
    name, mode = session.name, read_mode(session.folder)
    if mode not in (None, header.mode):
        raise ConflictError(f"cluster {name}: exists here with the mode {mode}, and the backup has {header.mode}")
    pinned = session.client_dir / "master.pub.json"
    if pinned.exists() and keyring.load_client(session.client_dir).master().thumbprint() != header.master:
        raise ConflictError(
            f"cluster {name}: the one that this machine knows is another one than that of the backup; use another "
            f"GRASS_HOME, or remove it first with `grass delete {name}`"
        )


def _user(session: Session) -> str | None:
    """Return who this user is in the cluster; None: nobody is known here."""
    try:
        return keyring.load_profile(session.client_dir).user
    except NotFoundError:
        return None


@contextmanager
def _proven(request: Request, session: Session) -> Iterator[Unpacked]:
    """Yield the content of the file. Every byte of the file is proven then."""
    with scratch_folder(session.home / f".restore-{session.name}") as scratch:
        yield unpack(request.file, request.passphrase, scratch / "content", only_state=True)


def _machines(session: Session, unpacked: Unpacked) -> Machines:
    """Return how to reach the machines: as this machine knows it, otherwise as the one did that made the backup."""
    if (here := load_machines(session.name, session.home)) is not None:
        return here
    kept = unpacked.home / OF_CLIENT
    if not (kept / MACHINES).exists():
        raise AlteredError("the backup does not say how to reach the machines; take another one")
    if (kept / KNOWN_HOSTS).exists():
        write_private(session.client_dir / KNOWN_HOSTS, (kept / KNOWN_HOSTS).read_text())
    return machines_in(kept)


def settings_as_before(
    before: ClusterConfig, machines: Machines, wanted: HostSettings, admin: str | None
) -> OnPremisesSettings:
    """Return the settings by which `create` would make a master like the one before, on the machine ``wanted``."""
    redis_port, same = before.redis.port, wanted.endpoint == machines.master.endpoint
    assert redis_port is not None and before.collector is not None, "hosts reach redis and the collector by network"
    everywhere = before.master.api_host in WILDCARDS
    tasks = before.task_redis_server
    share = None if before.samba is not None else str(before.data_dir.parent)
    isolate = before.master.node_policy.isolate
    return OnPremisesSettings(
        name=before.name,
        master=machines.master if same else wanted,
        admin=admin,
        api=ApiWay.DIRECT if everywhere else ApiWay.TUNNEL,
        api_port=before.master.api_port,
        redis_port=redis_port,
        collector=Collector.BUILTIN if before.collector_asks else Collector.FLUENTD,
        collector_port=host_and_port(before.collector)[1],
        share=share,
        isolation=IsolationSettings(Isolation.USER if isolate else Isolation.NONE, isolate or UIDS),
        samba_port=before.samba.port if before.samba is not None else SAMBA_PORT,
        task_redis=before.task_redis if tasks else None,
        task_redis_port=host_and_port(tasks)[1] if tasks else TASK_REDIS_PORT,
    )


def config_as_before(before: ClusterConfig, now: ClusterConfig) -> ClusterConfig:
    """Return the configuration of the backup, with the addresses of the new machine."""
    return replace(
        before,
        redis=now.redis,
        master=replace(before.master, api_host=now.master.api_host),
        collector=now.collector,
        task_redis_server=now.task_redis_server,
        files=now.files,
        samba=now.samba,
    )


def check_target(host: str, facts: Facts, found: Found, header: BackupHeader, *, replaced: bool) -> None:
    """Raises InputError and ConflictError: the machine cannot become the master of this backup."""
    name = header.cluster
    if facts.config is not None and not facts.config.redis.embedded:
        raise InputError(f"{host}: is a node of cluster {name}; `grass leave` there first, or take another machine")
    if found.key not in ("", header.master):
        raise ConflictError(f"{host}: is the master of another cluster {name}; `grass delete` it, or take another")
    if found.state and found.restored_from == header.salt and not replaced:
        return  # the same restore was interrupted later, and goes on
    if found.lives:
        raise ConflictError(f"cluster {name}: its master on {host} lives, and a restore would end it")
    if found.state and not replaced and not found.interrupted:
        what = "`grass create FILE` starts it again"
        if found.replaced_by:
            what = f"{found.replaced_by} took over from it"
        raise ConflictError(
            f"cluster {name}: {host} has its state; {what}, and `grass restore --replace` puts that state aside and "
            "takes the backup's"
        )


class _Target:
    """The machine of the new master."""

    def __init__(self, header: BackupHeader, request: Request, masters: Masters) -> None:
        self._header, self._request = header, request
        self._unfinished = masters.restoring == header.salt
        self._replaced = request.replaced

    def check(self, host: Host, facts: Facts) -> None:
        found = old_master.look(host, self._header.cluster)
        if self._unfinished and found.restored_from == self._header.salt:
            self._replaced = False  # it has replaced what was there
        check_target(host.name, facts, found, self._header, replaced=self._replaced)

    def steps(self, config: ClusterConfig, server: str, units: tuple[str, ...], masters: Masters) -> list[Step]:
        home, file = config.home, f"{STATE}/clusters/.{config.name}.grass-backup"
        before = tuple(each.redis for each in masters.old)
        asked = Restore(file, self._request.passphrase, config, server, self._replaced, before, masters.term)

        def do(host: Host) -> None:
            on_host(host, "restore", encode(asked))

        there = '[ "$(cat "$1" 2>/dev/null)" = "$2" ] && [ -e "$3" ]'
        words = ("check", f"{home}/{RESTORED_FROM}", self._header.salt, f"{home}/redis/appendonlydir")
        check = None if self._replaced else Run(("sh", "-c", there, *words))
        stop = Run(("sh", "-c", 'systemctl stop "$@" 2>/dev/null || true', "stop", *units))
        return [
            Step(
                "put the state of the backup in place",
                (
                    stop,
                    Call(f"write {file}", lambda host: host.put(self._request.file, file, 0o600, "grass:grass", True)),
                    Call(f"prove it there, and move its content to {home}", do),
                ),
                check,
            )
        ]
