"""What `grass create` and `grass cluster failover` run on the standby's machine, as user `grass`, or on a master's.

    set-up     read ``StandbySetup``; make this machine a standby
    look       read the path of ``cluster.json``; print ``Seen``, of a standby or of a master
    promote    read ``Promotion``; make the replica a master, and fence the old one if its redis answers

Called as ``python -m grass.provision.on_premises.standby_on_host ACTION``. Errors go to standard error, with their exit
code.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import closing
from pathlib import Path

import msgspec

from grass.api import master_certificate
from grass.config import ClusterConfig, Secrets
from grass.errors import ConflictError, GrassError, UnreachableError
from grass.network_address import host_and_port
from grass.provision import ports
from grass.provision.backup.restoring import INTERRUPTED, key_in
from grass.provision.on_premises.facts import REPLACED_BY
from grass.provision.on_premises.on_host import FOLDERS, SHARE_FOLDERS, STARTED, MasterSetup
from grass.store import embedded
from grass.store.connect import open_backend
from grass.store.keys import RECORD, Keys
from grass.store.replica_conf import STANDBY_USER, replica_lines, write_replica_users
from grass.supervision import predecessor
from grass.supervision.candidate import ELECTED, FOLDER
from grass.supervision.moved import MOVED_TO, TERM
from grass.supervision.standby import FOLLOWING, HEARD, HEARD_FORM, MARK, STATE, Following, Heard, pull
from grass.system import clock
from grass.system.private_file import write_private
from grass.system.usable_resources import usable_memory
from grass.wire.backup import Restored
from grass.wire.codec import Form, encode

STAGED = f"{FOLDER}/master"
"""What was read of the master, in the cluster's folder."""
_FIRST = 120.0
_SETTLES = 600.0
_ANSWERS = 3.0
_ASIDE = "replaced-"
_STATE = ("appendonlydir", "appendonly.aof", "dump.rdb")


class TakeOver(msgspec.Struct):
    """What a standby needs to become the master by itself: the setup of a master there, the names of its units."""

    setup: MasterSetup
    units: tuple[str, ...]


class StandbySetup(msgspec.Struct):
    """Input of ``set_up``. ``config``: as of the master that this machine can become. ``host_key``: of the master's
    sshd, as ``TYPE BASE64``. ``following``: with port 0. ``server``: path of the redis server. ``key``: id of the
    master's key."""

    config: ClusterConfig
    following: Following
    host_key: str
    server: str
    key: str
    takeover: TakeOver


class Seen(msgspec.Struct, frozen=True):
    """How far a standby or a master is. ``offset``: of what redis has. ``in_sync``: a standby: whether its link to the
    master is up; a master: whether a replica has all that it has. ``whole``: whether a replica has ever had everything.
    ``alone``: whether somebody on the master acknowledged without the standby then. ``silent``: for how many seconds
    the standby may lack writes; None: unknown. ``state_age``: the same for its files."""

    standby: bool
    offset: int
    in_sync: bool
    whole: bool
    alone: bool = False
    silent: float | None = None
    state_age: float | None = None


class Promotion(msgspec.Struct):
    """Input of ``promote``. ``predecessors``: host and port of the redis of each old master that could not be stopped.
    ``term``: the highest that is known. ``behind``: seconds that the standby lacked."""

    path: str
    predecessors: tuple[str, ...]
    term: int
    behind: float


TAKEOVER: Form[TakeOver] = Form(TakeOver)
SETUP: Form[StandbySetup] = Form(StandbySetup)
SEEN: Form[Seen] = Form(Seen)
PROMOTION: Form[Promotion] = Form(Promotion)


def set_up(asked: StandbySetup) -> None:
    """Raises ConflictError: the folder is of another cluster; UnreachableError: the master cannot be read."""
    config = asked.config
    home = Path(config.home)
    if key_in(home) not in ("", asked.key):
        raise ConflictError(f"{home}: is of another cluster {config.name}; `grass delete` it, or take another machine")
    if (home / INTERRUPTED).exists():
        raise ConflictError(f"cluster {config.name}: `grass restore` was interrupted here; run it again")
    for name in (*FOLDERS, FOLDER, STAGED):
        (home / name).mkdir(mode=0o700, exist_ok=True)
    for name in SHARE_FOLDERS:
        (config.data_dir / name).mkdir(mode=0o755, parents=True, exist_ok=True)
    following = msgspec.structs.replace(asked.following, port=_port(home))
    name = asked.following.address
    if asked.following.ssh_port != 22:
        name = f"[{name}]:{asked.following.ssh_port}"
    write_private(home / FOLDER / "known_hosts", f"{name} {asked.host_key}\n")
    if why := pull(config, following, STATE, home / STAGED, _FIRST):
        raise UnreachableError(f"{following.address}: the standby cannot read the master over SSH: {why}")
    if not (home / MARK).exists():
        _put_aside(home)
    take_over_files(home)
    (home / "tls" / "host.pem").unlink(missing_ok=True)
    master_certificate.make(config, clock.wall())
    _write_replica(config, following, Path(asked.server))
    config.save()
    write_private(home / FOLDER / "takeover.json", encode(asked.takeover))
    for stale in (
        ELECTED,
        STARTED,
        "made",
        REPLACED_BY,
        MOVED_TO,
        predecessor.PREDECESSOR,
    ):  # of a time when this machine was the master
        (home / stale).unlink(missing_ok=True)
    write_private(home / MARK, encode(following))


def _port(home: Path) -> int:
    """Return the port of the link, the one from before if there is one."""
    if (home / MARK).exists():
        return FOLLOWING.decode((home / MARK).read_bytes()).port
    return ports.free("127.0.0.1", home, set())


def _put_aside(home: Path) -> None:
    """Keep what a master had that this machine was: its last seconds may be nowhere else."""
    old = [home / "redis" / name for name in _STATE if (home / "redis" / name).exists()]
    if old:
        aside = home / f"{_ASIDE}{int(clock.wall())}"
        aside.mkdir(mode=0o700)
        for path in old:
            path.rename(aside / path.name)


def take_over_files(home: Path) -> None:
    """Copy what was read of the master to where a master has it. Its own settings stay those of this machine."""
    staged = home / STAGED
    shutil.copytree(staged / "master", home / "master", dirs_exist_ok=True)
    for path in (home / "master" / "users").glob("*.json"):
        if not (staged / "master" / "users" / path.name).exists():
            path.unlink()  # a user who was removed
    for name in ("secrets.json", "tls/ca.pem", "tls/ca.key", "redis/users.acl"):
        (home / name).parent.mkdir(mode=0o700, exist_ok=True)
        write_private(home / name, (staged / name).read_text())


def _write_replica(config: ClusterConfig, following: Following, server: Path) -> None:
    folder, secrets = Path(config.home) / "redis", Secrets.load(config.home)
    write_replica_users(folder / "replica.acl", secrets.redis["admin"])
    text = embedded.conf_text(
        folder=folder,
        socket=Path(config.redis.socket or ""),
        acl_file=folder / "replica.acl",
        version=embedded.server_at(server).version,
        memory=usable_memory(),
    )
    tls = config.tls_files if config.redis.tls else None
    write_private(folder / "redis.conf", text + replica_lines(following.port, secrets.redis[STANDBY_USER], tls))


def look(path: str) -> Seen:
    """Raises UnreachableError: redis does not answer."""
    config = ClusterConfig.load(path)
    standby = (Path(config.home) / MARK).exists()
    with closing(open_backend(config, Secrets.load(config.home), "admin")) as backend:
        info = backend.replication()
        if not standby:
            reached = any(each.online and each.offset >= info.offset for each in info.replicas)
            return Seen(False, info.offset, reached, True)
        whole = backend.get(Keys(config.key_prefix).format) is not None and not backend.writes_first_log()
        heard, now = _heard(config), clock.steady()
        return Seen(
            True,
            info.offset,
            info.linked,
            whole,
            bool(backend.hgetall(Keys(config.key_prefix).alone)),
            now - heard.redis if heard.redis else None,
            now - heard.state if heard.state else None,
        )


def _heard(config: ClusterConfig) -> Heard:
    try:
        return HEARD_FORM.decode((Path(config.runtime_dir) / HEARD).read_bytes())
    except (OSError, GrassError):
        return Heard()


def promote(asked: Promotion) -> None:
    """Make the replica a master, with a record that nodes compare with what they know (ADR 26), and which tells this
    store from the old one. It may be repeated."""
    config = ClusterConfig.load(asked.path)
    home, now = Path(config.home), clock.wall()
    secrets = Secrets.load(config.home)
    with closing(open_backend(config, secrets, "admin")) as backend:
        backend.promote()
        until = clock.steady() + _SETTLES
        while backend.writes_first_log():
            if clock.steady() > until:
                raise UnreachableError(f"redis has not written its log within {_SETTLES:g} s; try again")
            clock.sleep(0.1)
        keys = Keys(config.key_prefix)
        term = max(asked.term, predecessor.term_of(backend, keys.restored)) + 1
        record = encode(Restored(made=now - asked.behind, at=now, term=term))
        backend.apply([("HSET", keys.restored, RECORD, record), ("DEL", keys.alone, keys.consent)])
    (home / TERM).write_text(f"{term}\n")
    predecessor.write(home, asked.predecessors, config)
    for address in predecessor.listed(home):
        host, port = host_and_port(address)
        if predecessor.answers(host, port, _ANSWERS):
            sys.stderr.write(f"{_fenced(config, host, port)}\n")
    take_over_files(home)
    for name in (STARTED, "made"):
        (home / name).unlink(missing_ok=True)
    (home / MARK).unlink()


def _fenced(config: ClusterConfig, host: str, port: int) -> str:
    """Return what was done. A machine that hangs accepts connections and answers nothing: it counts as dead, and the
    new master-agent fences it once it goes on."""
    try:
        return predecessor.fence(config, host, port)
    except UnreachableError as error:
        return f"the old master at {host} hangs, and is fenced once it goes on: {error}"


def main(action: str, text: str) -> int:
    try:
        if action == "set-up":
            set_up(SETUP.decode(text))
        elif action == "promote":
            promote(PROMOTION.decode(text))
        else:
            sys.stdout.write(encode(look(text.strip())))
    except (GrassError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code if isinstance(error, GrassError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.stdin.read()))
