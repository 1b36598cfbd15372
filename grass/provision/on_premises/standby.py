"""The standby of a cluster on several hosts: the steps that make a machine follow the master. Used by ``create``.

A standby is prepared before the master is set up, because the master must know its key. It follows afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from grass.assets import asset
from grass.config import ClusterConfig, StandbyConfig
from grass.errors import ConflictError, InputError
from grass.hosts import Host
from grass.hosts.ssh import SshHost
from grass.manifest.on_premises import HostSettings, OnPremisesSettings, StandbySettings
from grass.model.daemons import REDIS
from grass.network_address import network_address
from grass.provision.on_premises import install, old_master, packages, record
from grass.provision.on_premises.bundle import Bundle
from grass.provision.on_premises.design import STATE, UNIT_FOLDER, VENV, MasterDesign
from grass.provision.on_premises.facts import Facts
from grass.provision.on_premises.machines import open_host
from grass.provision.on_premises.master import Admin, folders_of, made_on_master
from grass.provision.on_premises.master_files import config_files, unit_files
from grass.provision.on_premises.on_host import MasterSetup
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.standby_on_host import SEEN, STAGED, Seen, StandbySetup, TakeOver
from grass.provision.on_premises.steps import Put, Run, Step, run_steps
from grass.provision.provisioner import Session
from grass.supervision.candidate import FOLDER
from grass.supervision.moved import TERM
from grass.supervision.standby import MARK, Following
from grass.system import clock
from grass.wire.codec import encode

ON_HOST = (*install.AS_GRASS, f"{VENV}/bin/python", "-m", "grass.provision.on_premises.standby_on_host")
SERVICE, TAKEOVER = "standby", "takeover"
_TAKEOVER_UNITS = (f"{TAKEOVER}@.path", f"{TAKEOVER}@.service")
_PATIENCE = 120.0
_KEY = """
[ -s "$1/key" ] || ssh-keygen -q -t ed25519 -N '' -C '' -f "$1/key" || exit 1
"""
_IDLE = """
! systemctl is-active --quiet "$@" || exit 1
for unit in "$@"; do ! systemctl is-enabled --quiet "$unit" 2>/dev/null || exit 1; done
"""
_RUNS = """
[ "$(cat "$1" 2>/dev/null)" = "$2" ] || exit 1
systemctl is-active --quiet "$3" && systemctl is-active --quiet "$4"
"""
_TERM = f"""
[ -e "$1/{MARK}" ] || cat "$1/{TERM}" 2>/dev/null
true
"""
_PROGRAMS = "command -v ssh >/dev/null && command -v ssh-keygen >/dev/null"


def unit(name: str, daemon: str = SERVICE) -> str:
    return f"grass-{daemon}@{name}.service"


@dataclass(frozen=True)
class Standby:
    """A machine that is prepared as standby. ``facts``, ``design``: as if it were the master."""

    host: SshHost
    wanted: StandbySettings
    settings: OnPremisesSettings
    facts: Facts
    design: MasterDesign
    bundle: Bundle

    @property
    def config(self) -> ClusterConfig:
        return self.design.config

    def key(self) -> str:
        """Make its key, and return the public half."""
        folder = f"{self.config.home}/{FOLDER}"
        steps = [
            install.record_step(made_on_standby(self.design, self.facts), record.path(self.config.name)),
            *packages_steps(self.design),
            install.user_step(),
            install.folder_step([*folders_of(self.design), (folder, 0o700, "grass:grass")]),
            Step(
                "make the key with which it reads the master",
                (Run((*install.AS_GRASS, "sh", "-c", _KEY, "key", folder)),),
                Run(("test", "-s", f"{folder}/key.pub")),
                "install the client of OpenSSH there",
            ),
        ]
        run_steps(self.host, steps, lambda _: None, self.label)
        return " ".join(self.host.get(f"{folder}/key.pub", sudo=True).decode().split()[:2])

    def forget_witness(self) -> None:
        """Let it ask no witness from now on, until it follows anew: before the master asks another one, or none."""
        name, home = self.config.name, self.config.home
        forget = 'systemctl stop "$1" 2>/dev/null; rm -f -- "$2" && ! systemctl is-active --quiet "$1"'
        staged = f"{home}/{STAGED}/cluster.json"
        self.host.run(["sh", "-c", forget, "forget", unit(name), staged], sudo=True).check()

    @property
    def label(self) -> str:
        return f"standby {self.host.name}"


@contextmanager
def prepared(
    settings: OnPremisesSettings, session: Session, look: Callable[..., tuple[Facts, MasterDesign, Bundle]]
) -> Iterator[Standby | None]:
    """Yield the standby that the settings name, or None. Nothing is changed on it yet. ``look``: as of ``create``.

    Raises InputError and ConflictError: the machine cannot be one."""
    wanted = settings.standby
    if wanted is None:
        yield None
        return
    there = replace(settings, master=wanted.host, standby=None)
    with open_host(wanted.host, session.client_dir, session.ask) as host:
        facts, design, bundle = look(host, there)
        yield Standby(host, wanted, there, facts, design, bundle)


def check_machine(host: SshHost, facts: Facts, name: str, term: int) -> None:
    """``term``: of the last failover that is known here. Raises InputError: the machine is a node, or lacks programs;
    ConflictError: it became the master by itself."""
    said = host.run(["sh", "-c", _TERM, "term", f"{STATE}/clusters/{name}"], sudo=True).out.strip()
    if said.isdigit() and int(said) > term:
        raise ConflictError(
            f"standby {host.name}: took over from the master by itself; `grass cluster failover` makes it known here"
        )
    if facts.config is not None and not facts.config.redis.embedded:
        raise InputError(
            f"standby: {host.name} is a node of cluster {name}; `grass leave` there first, or take another"
        )
    if not host.run(["sh", "-c", _PROGRAMS]).ok:
        raise InputError(f"standby: {host.name} has no ssh and ssh-keygen; install the client of OpenSSH there")


def check_pair(master: MasterDesign, facts: Facts, standby: Standby) -> None:
    """Raises InputError: redis of the standby could not read what the master's sends."""
    if not (master.config.redis.tls and standby.config.redis.tls):
        raise InputError("standby: needs a redis with TLS on both machines; this cluster's was chosen without")
    ours, theirs = dict(facts.tls_servers), dict(standby.facts.tls_servers)
    own, other = ours.get(master.redis_server), theirs.get(standby.design.redis_server)
    if own is not None and other is not None and other[:2] < own[:2]:
        raise InputError(
            f"standby: redis {_dotted(other)} on {standby.host.name} is older than {_dotted(own)} on the master, and "
            "cannot read what that sends; install the same version"
        )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def as_known(standby: Standby, key: str, url: str) -> StandbyConfig:
    return StandbyConfig(standby.wanted.host.address, key, url, standby.wanted.needed, standby.wanted.witness)


def packages_steps(design: MasterDesign) -> list[Step]:
    if not design.packages:
        return []
    noted = record.path(design.config.name)
    return [
        packages.fetch_step(design.packages, design.packager),
        packages.install_step(design.packages, design.packager, noted),
    ]


def made_on_standby(design: MasterDesign, facts: Facts) -> Made:
    made = made_on_master(design, facts)
    name = design.config.name
    own = Made(
        units=(unit(name), *(f"grass-{TAKEOVER}@{name}.{kind}" for kind in ("path", "service"))),
        files=tuple(f"{UNIT_FOLDER}/grass-{each}" for each in (f"{SERVICE}@.service", *_TAKEOVER_UNITS)),
    )
    return record.merged(made, record.claim(own, facts.there, facts.records))


def follow(standby: Standby, master: ClusterConfig, host_key: str, key: str, admin: Admin, session: Session) -> None:
    """Have the machine follow the master, which knows it. ``key``: id of the master's key."""
    assert master.files is not None and master.redis.port is not None
    redis = network_address(master.redis.host or "", master.redis.port)
    following = Following(master.address, master.files.port, redis, 0, logs=master.samba is not None)
    server, config = standby.design.redis_server, standby.config
    own = MasterSetup(config, admin.name, admin.key, server, None, standby.bundle.digest, admin.files_key)
    takeover = TakeOver(own, standby.design.units)
    setup = encode(StandbySetup(config, following, host_key, server, key, takeover)).encode()
    run_steps(standby.host, follow_steps(standby, setup), session.progress, standby.label)
    wait_in_step(standby.host, standby.config, _PATIENCE)


def follow_steps(standby: Standby, setup: bytes) -> list[Step]:
    design, home, name = standby.design, standby.config.home, standby.config.name
    files = [*unit_files(design, SERVICE), *config_files(design)]
    for each in _TAKEOVER_UNITS:
        files.append(Put(f"{UNIT_FOLDER}/grass-{each}", asset(f"deploy/systemd/grass-{each}").read_bytes()))
    digest = hashlib.sha256(setup + standby.bundle.digest.encode()).hexdigest()
    mine = (unit(name, REDIS), unit(name))
    rest = [each for each in (*old_master.units(name),) if each not in mine]
    done = f"{home}/{FOLDER}/made"
    start = 'systemctl enable --quiet "$@" && systemctl restart "$@"'
    path = f"grass-{TAKEOVER}@{name}.path"
    there = '[ "$(cat "$1" 2>/dev/null)" = "$2" ] && [ -s "$3" ]'
    mark = Put(done, f"{digest}\n".encode(), 0o600, "grass:grass")
    stop = 'for u in "$@"; do systemctl disable --now "$u" 2>/dev/null; done; true'
    return [
        *install.bundle_steps(standby.bundle, design.python),
        install.command_step(),
        Step(
            "stop what only a master runs",
            (Run(("sh", "-c", stop, "stop", *rest)),),
            Run(("sh", "-c", _IDLE, "idle", *rest)),
        ),
        Step("write units and configuration", (*folders_for(files), *files, Run(("systemctl", "daemon-reload")))),
        Step(
            "read what the master has, and make the replica's configuration",
            (Run(("sh", "-c", stop, "stop", *mine)), Run((*ON_HOST, "set-up"), stdin=setup)),
            Run(("sh", "-c", there, "check", done, digest, f"{home}/{MARK}")),
            "sshd of the master must let the user grass in with a key, and forward a port (AllowTcpForwarding)",
        ),
        Step(
            "start the replica and the standby",
            (Run(("sh", "-c", start, "start", f"grass@{name}.target", *mine, path)), mark),
            Run(("sh", "-c", _RUNS, "check", done, digest, *mine)),
        ),
        install.old_versions_step(),
    ]


def folders_for(files: list[Put]) -> tuple[Run, ...]:
    folders = sorted({put.target.rpartition("/")[0] for put in files if ".service.d/" in put.target})
    return (Run(("mkdir", "-p", "--", UNIT_FOLDER, *folders)),)


def seen(host: Host, config: ClusterConfig) -> Seen:
    """Return how far a standby or a master is. Raises CommandFailedError: its redis does not answer."""
    done = host.run([*ON_HOST, "look"], stdin=str(config.path).encode(), sudo=True, timeout=60).check()
    return SEEN.decode(done.out)


def wait_in_step(host: Host, config: ClusterConfig, seconds: float) -> None:
    """Raises ConflictError: the replica does not come up. A large store goes on, and `grass status` tells when it is
    in step."""
    until = clock.steady() + seconds
    while True:
        state = seen(host, config)
        if state.in_sync and state.whole:
            return
        if clock.steady() > until:
            raise ConflictError(
                f"standby {host.name}: is not in step after {seconds:g} s; `grass status` tells when it is, and "
                f"`journalctl -u grass-standby@{config.name} -u grass-redis@{config.name}` on it says why it is not"
            )
        clock.sleep(0.5)


def host_of(settings: OnPremisesSettings) -> HostSettings | None:
    return settings.standby.host if settings.standby is not None else None
