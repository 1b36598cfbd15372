"""What a redis needs to be followed by a standby, or to follow: lines of its configuration, and its users.

Used by ``grass.provision.on_premises`` and tests.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from grass.system.private_file import write_private
from grass.tls_files import TlsFiles

STANDBY_USER = "standby"
"""User of the master's redis, as which the replica logs in."""
STANDBY_RIGHTS = "resetkeys resetchannels -@all +psync +replconf +ping"
_MOST_LAG = 5
_SILENT = 10


def master_lines(*, needed: bool) -> str:
    """``needed``: refuse writes without a replica that answered within seconds."""
    least = f"min-replicas-to-write 1\nmin-replicas-max-lag {_MOST_LAG}\n" if needed else ""
    return f"repl-ping-replica-period 1\nrepl-timeout {_SILENT}\nrepl-backlog-size 64mb\n{least}"


def replica_lines(port: int, password: str, tls: TlsFiles | None) -> str:
    """``port``: where the master's redis is reached, as 127.0.0.1. A replica keeps its data until it has all new ones.
    ``tls``: this host's certificates; None: in plain text, for tests."""
    text = f"replicaof 127.0.0.1 {port}\nmasteruser {STANDBY_USER}\nmasterauth {password}\n"
    text += f"replica-read-only yes\nrepl-diskless-load disabled\nrepl-timeout {_SILENT}\n"
    if tls is not None:
        text += f'tls-replication yes\ntls-ca-cert-file "{tls.authority}"\n'
        text += f'tls-cert-file "{tls.host}"\ntls-key-file "{tls.host}"\ntls-protocols "TLSv1.3"\n'
    return text


def write_replica_users(path: Path, admin: str) -> None:
    """Write the users of a replica: only ``admin``, with this password. Nobody decides anything there."""
    digest = hashlib.sha256(admin.encode()).hexdigest()
    write_private(path, f"user default off resetpass ~* &* +@all\nuser admin on #{digest} ~* &* +@all\n")
