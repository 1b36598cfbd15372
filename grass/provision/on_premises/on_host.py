"""Set up a master's own files on its machine: ``python -m grass.provision.on_premises.on_host``, as user `grass`.

A step of `grass create` runs it there, with a ``MasterSetup`` as JSON on stdin. Secrets and the master's private key
are created here and must never leave the machine. Existing files stay. No daemon is restarted here.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from grass.api import keyring, master_certificate, user_files
from grass.config import ClusterConfig, Secrets
from grass.errors import ConflictError
from grass.files.rights import OF_ALL
from grass.network_address import host_and_port
from grass.provision import layout
from grass.provision.backup.restoring import INTERRUPTED
from grass.provision.on_premises.facts import REPLACED_BY
from grass.store import embedded
from grass.store.replica_conf import STANDBY_USER, master_lines
from grass.supervision.standby import MARK as STANDBY
from grass.system import clock
from grass.system.atomic_file import replace_file
from grass.system.entropy import password
from grass.wire.codec import Form

FOLDERS = ("master", "redis", "log", "fluentd")
SHARE_FOLDERS = ("data", "logs", "images", "jobs")
PUBLIC_KEY = "master/key.pub.json"
MOVED_AS = "moved-as"
"""File beside it, if the cluster was moved there: the id of that move."""
STARTED = "started"
"""What the daemons were started from (``services``). Without it, the next step starts all of them again."""


class MasterSetup(msgspec.Struct, frozen=True):
    """Input of the setup.

    ``key``, ``files_key``: the admin's public keys, as a JWK and for files over SSH. ``redis_server``: a path.
    ``samba``: the password of the share, if it was set. ``bundle``: the digest of the bundle; with another digest, the
    whole setup is checked again.
    """

    config: ClusterConfig
    admin: str
    key: keyring.Jwk
    redis_server: str
    samba: str | None
    bundle: str
    files_key: str = ""


_SETUP: Form[MasterSetup] = Form(MasterSetup)


def main(text: str) -> int:
    asked = _SETUP.decode(text)
    config = asked.config
    home = Path(config.home)
    if why := _not_startable(home):
        sys.stderr.write(f"cluster {config.name}: {why}\n")
        return ConflictError.exit_code
    for name in FOLDERS:
        (home / name).mkdir(mode=0o700, exist_ok=True)
    for name in SHARE_FOLDERS:
        (config.data_dir / name).mkdir(mode=0o755, parents=True, exist_ok=True)
    if config.master.node_policy.isolate is not None:
        _folder_of_all(config.data_dir / OF_ALL)
    secrets = _secrets(config, asked.samba)
    if config.tls:
        new = not config.tls_files.authority.exists()
        master_certificate.make(config, clock.wall())
        if new:  # daemons that run still show a certificate of an earlier one
            (home / STARTED).unlink(missing_ok=True)
    _redis(config, secrets, Path(asked.redis_server))
    if config.task_redis_server is not None:
        host, port = host_and_port(config.task_redis_server)
        tls = config.tls_files if config.redis.tls else None
        embedded.write_task_redis(home / "redis", host, port, secrets.redis, tls)
    _keys(config, asked)
    config.save()
    user_files.accept_files_keys(config)
    return 0


def _not_startable(home: Path) -> str:
    """Return why a master must not start from this folder; empty: it may."""
    if (home / INTERRUPTED).exists():
        return "`grass restore` or `grass cluster move` was interrupted; run it again"
    if (home / REPLACED_BY).exists():
        return f"this machine is its master no more: {(home / REPLACED_BY).read_text().strip()} is"
    if (home / STANDBY).exists():
        return "this machine is its standby; `grass cluster failover` makes it the master"
    return ""


def _folder_of_all(folder: Path) -> None:
    """Make the folder that all users read. Accounts of users may write in their own folders there, which their tasks
    make. An earlier version let them write in it as well."""
    folder.mkdir(exist_ok=True)
    with suppress(OSError):  # a share of somebody else's server may have no modes, or another owner
        folder.chmod(0o755)


def _secrets(config: ClusterConfig, samba: str | None) -> Secrets:
    secrets = layout.make_secrets(config, None)
    if config.samba is not None:
        secrets = replace(secrets, samba=samba or secrets.samba or password())
        secrets.save(config.home)
    if config.task_redis_server is not None and embedded.TASKS_USER not in secrets.redis:
        secrets = replace(secrets, redis={**secrets.redis, embedded.TASKS_USER: password()})
        secrets.save(config.home)
    if config.standby is not None and STANDBY_USER not in secrets.redis:
        secrets = replace(secrets, redis={**secrets.redis, STANDBY_USER: password()})
        secrets.save(config.home)
    return secrets


def _redis(config: ClusterConfig, secrets: Secrets, server: Path) -> None:
    assert config.redis.socket is not None and config.redis.host is not None and config.redis.port is not None
    embedded.write_files(
        Path(config.home) / "redis",
        server=embedded.server_at(server),
        socket=Path(config.redis.socket),
        prefix=config.key_prefix,
        node="",
        passwords=secrets.redis,
        tcp=(config.redis.host, config.redis.port),
        tls=config.tls_files if config.redis.tls else None,
        more=master_lines(needed=config.standby.needed or bool(config.standby.witness))
        if config.standby is not None
        else "",
    )


def _keys(config: ClusterConfig, asked: MasterSetup) -> None:
    public = Path(config.home) / PUBLIC_KEY
    if not public.exists():
        key = keyring.create_master_key(config.master_dir)
        replace_file(public, json.dumps(key) + "\n", mode=0o644)  # the next setup keeps what is there, whole or not
    user_files.register_user(config.master_dir, asked.admin, keyring.Role.ADMIN, asked.key, asked.files_key)


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read()))
