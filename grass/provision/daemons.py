"""Daemons of a local cluster, and the configuration of `supervisord`, which runs them.

Used by ``local``.
"""

from __future__ import annotations

import os
import resource
import shlex
from collections.abc import Sequence
from pathlib import Path

from grass.config import ClusterConfig
from grass.errors import InputError
from grass.model.daemons import DAEMONS, REDIS, TASK_REDIS, Daemon, Side
from grass.provision import local_namespaces, namespaces
from grass.system import own_program

_STOP_SECONDS = {REDIS: 10, TASK_REDIS: 5}
"""Seconds until KILL. Redis writes its log."""
_MOST_FILES = 65536


def names(config: ClusterConfig) -> list[str]:
    own = [REDIS] if config.redis.embedded else []
    own += ([TASK_REDIS] if config.task_redis else []) + [daemon.name for daemon in _of_grass(config)]
    return own + local_namespaces.program_names(config)


def _of_grass(config: ClusterConfig) -> list[Daemon]:
    """Return the daemons of the master, and of the node that is its machine, if it is one."""
    return [daemon for daemon in DAEMONS if daemon.side is Side.MASTER or config.master.own_node is not None]


def task_redis(config: ClusterConfig, server: str) -> tuple[str, ...]:
    """Return the command of the redis for tasks. It keeps nothing, and listens on this machine only."""
    listening = ("--bind", "127.0.0.1", "--port", str(config.task_redis), "--dir", str(Path(config.home) / "log"))
    return (server, *listening, "--save", "", "--appendonly", "no", "--daemonize", "no")


def supervisord_conf(config: ClusterConfig, redis: list[str], umask: int) -> str:
    """Return supervisord's configuration. All daemons start at once, and each waits for its own requirements.

    ``redis``: the command of the embedded server, empty if the cluster uses the user's own redis. ``umask``: the user's
    umask, for the tasks. ``startsecs=0``: a daemon that ends is started again at once, forever.
    With any other value, supervisord counts ends in quick succession, waits a second longer after each, and finally
    gives up. A cluster whose daemon was killed a few times must not lose this daemon. The cost is one start per second
    while a daemon cannot run at all.
    """
    sections = [_supervisor_sections(config, umask)]
    if redis:
        sections.append(_program(config, REDIS, redis, _STOP_SECONDS[REDIS]))
    if config.task_redis:
        sections.append(_program(config, TASK_REDIS, task_redis(config, redis[0]), _STOP_SECONDS[TASK_REDIS]))
    for daemon in _of_grass(config):
        command = own_program.command(daemon.module, str(config.path))
        sections.append(_program(config, daemon.name, command, daemon.stop_seconds))
    for node in local_namespaces.nodes(config):
        for daemon in namespaces.daemons_of(node.node.kubernetes):
            name = local_namespaces.program_name(daemon, node.node.name)
            sections.append(_program(config, name, local_namespaces.command(daemon, node), daemon.stop_seconds))
    return "\n".join(sections)


def _supervisor_sections(config: ClusterConfig, umask: int) -> str:
    home = Path(config.home)
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = _MOST_FILES if most_files == resource.RLIM_INFINITY else min(_MOST_FILES, most_files)
    return f"""\
[unix_http_server]
file={_plain(config.socket("supervisor"))}
chmod=0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[rpcinterface:watchdog]
supervisor.rpcinterface_factory=grass.supervision.watchdog:attach

[supervisord]
identifier=grass-{config.name}
directory={_plain(home / "log")}
logfile={_plain(home / "log" / "supervisord.log")}
logfile_maxbytes=1MB
logfile_backups=1
pidfile={_plain(home / "supervisord.pid")}
childlogdir={_plain(home / "log")}
minfds={files}
minprocs=1
umask={umask:03o}
"""


def _program(config: ClusterConfig, name: str, command: Sequence[str], stop_seconds: int) -> str:
    log = Path(config.home) / "log" / f"{name}.log"
    return f"""\
[program:{name}]
command={_plain(shlex.join(command))}
autostart=true
autorestart=true
startsecs=0
startretries=1000000
stopsignal=TERM
stopwaitsecs={stop_seconds}
redirect_stderr=true
stdout_logfile={_plain(_plain(log))}
stdout_logfile_maxbytes=5MB
stdout_logfile_backups=2
"""


def _plain(value: str | Path) -> str:
    """Escape a value for supervisord.

    supervisord expands ``%`` in its configuration (twice in the name of a log), and ends a line at `` ;``.
    """
    text = os.fspath(value)
    if "\n" in text or " ;" in text or " #" in text:
        raise InputError(f"the path {text!r} cannot be used in supervisord's configuration; choose another GRASS_HOME")
    return text.replace("%", "%%")
