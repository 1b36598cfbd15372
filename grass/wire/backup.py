"""What a backup says about itself, and what a restore leaves for the daemons (docs/adr/0026-backups.md).

``BackupHeader`` stands before the sealed part of a backup, readable by everybody and authenticated with the rest.
``BackedUp`` is the first member of the sealed part. ``Restored`` is the key ``restored`` of the store.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form


class BackupHeader(msgspec.Struct, frozen=True):
    """The second line of a backup."""

    cluster: str
    """Name of the cluster."""
    mode: str
    """Its kind, as the settings file names it."""
    master: str
    """Id of the master's key: clusters of one name are told apart by it."""
    made: float
    """Seconds since the epoch."""
    grass: str
    """Version that made it."""
    parts: tuple[str, ...]
    """``state``, and by choice ``logs`` and ``data``."""
    salt: str
    """32 hexadecimal digits, from which and the passphrase scrypt makes the keys."""
    cost: int
    """Binary logarithm of scrypt's N; r is 8 and p is 1."""


class BackedUp(msgspec.Struct, frozen=True):
    """What redis held at the moment of the backup, as a redis said that had loaded the copy."""

    keys: int
    """Keys that do not expire."""
    digest: str
    """SHA-256 of the names and digests of these keys, in order of the names."""
    jobs: int
    redis: str
    """Version of the server."""


class Restored(msgspec.Struct, frozen=True):
    """The field ``record`` of the key ``restored``: the store was restored from a backup."""

    made: float
    """When the backup was made, in seconds since the epoch."""
    at: float
    """When it was restored."""
    term: int = 0
    """How often the cluster was restored. Of two masters that were, the one with the higher term is the master."""


BACKUP_HEADER: Form[BackupHeader] = Form(BackupHeader)
BACKED_UP: Form[BackedUp] = Form(BackedUp)
RESTORED: Form[Restored] = Form(Restored)
