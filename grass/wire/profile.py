"""The file ``client/profile.json``: where a cluster is, and who this user is there. Written by `grass create`."""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form


class Tunnel(msgspec.Struct, frozen=True):
    """How the API is reached if only SSH is open to the master."""

    address: str
    username: str
    port: int
    key: str | None = None
    """Path of the private key."""
    known_hosts: str | None = None
    """Path of the file with the pinned host keys."""


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user's way to a cluster."""

    cluster: str
    url: str
    """URL of the API; with a ``tunnel``, as seen from the master's host."""
    user: str
    key_id: str
    """Thumbprint of the user's public key (RFC 7638)."""
    tunnel: Tunnel | None = None


PROFILE: Form[Profile] = Form(Profile)
