"""Replies of the API to machines that join the cluster, and to those who invite them. Sent by the API server."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from grass.wire.codec import Form


class JoinTokenView(msgspec.Struct, frozen=True):
    """A new join token, with its secret. It is shown only now. ``expires``: seconds since the epoch."""

    token: str
    expires: float
    uses: int
    name: str | None


class JoinTokenRow(msgspec.Struct, frozen=True):
    """A join token without its secret. ``id``: by which it is revoked."""

    id: str
    name: str | None
    uses: int
    """Left."""
    by: str
    expires: float
    state: str
    """valid, used, expired or revoked."""
    nodes: tuple[str, ...]
    """Which joined with it."""


class JoinTokensView(msgspec.Struct, frozen=True):
    tokens: tuple[JoinTokenRow, ...]


class JoinTerms(msgspec.Struct, frozen=True):
    """What a join token contains besides its secret: URLs of the API, the thumbprint of the master's key, the digest of
    the bundle, and the cluster's name."""

    urls: tuple[str, ...]
    key: str
    bundle: str
    cluster: str


class CertificateView(msgspec.Struct, frozen=True):
    """A certificate for a node."""

    certificate: str
    """The certificate in PEM form, like ``authority``. Both are empty if the hosts of this cluster have none."""
    authority: str
    redis: bool
    """Whether redis speaks TLS."""


class JoinReach(msgspec.Struct, frozen=True):
    """A TCP address that the machine must be able to reach. ``what``: the name of the service there."""

    what: str
    host: str
    port: int


class NodeSecrets(msgspec.Struct, frozen=True):
    """A node's ``secrets.json``. Of the cluster's secrets it has only the node's own."""

    redis: dict[str, str]
    """Password by redis user: the node's own, and the one of the redis for tasks, if there is one."""
    node_token: str


class ShareServer(msgspec.Struct, frozen=True):
    """The samba server of the master's share, for a node that mounts it."""

    host: str
    port: int
    share: str = "grass"
    user: str = "grass"
    password: str = ""


class JoinedView(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine gets that joins, or asks whether it could: then without ``config``, ``secrets`` and ``share``."""

    cluster: str
    time: float
    reach: tuple[JoinReach, ...] | UnsetType = UNSET
    bundle: str | UnsetType = UNSET
    isolate: tuple[int, int] | UnsetType | None = UNSET
    """First and last user id for accounts of users on a node; None: the cluster does not isolate users."""
    kinds: tuple[str, ...] | UnsetType = UNSET
    """The kinds of machines that the bundle is for, such as ``3.11-x86_64-glibc``."""
    config: dict[str, Any] | UnsetType = UNSET  # Any: grass.config.ClusterConfig without its folders
    """The node's cluster.json. The machine adds its folders."""
    secrets: NodeSecrets | UnsetType = UNSET
    share: ShareServer | UnsetType | None = UNSET
    """Where the share is and how to mount it; None: there is none."""
    number: tuple[int, int] | UnsetType = UNSET
    """Number of the master's notice (``grass.wire.notice``)."""
    standby: tuple[str, ...] | UnsetType = UNSET
    """URLs at which the API would be after a failover."""
    already: bool | UnsetType = UNSET
    """Whether this machine was a node before, and only gets its files again. Its tasks may run."""


JOIN_TOKEN: Form[JoinTokenView] = Form(JoinTokenView)
JOIN_TOKEN_ROW: Form[JoinTokenRow] = Form(JoinTokenRow)
JOIN_TOKENS: Form[JoinTokensView] = Form(JoinTokensView)
JOIN_TERMS: Form[JoinTerms] = Form(JoinTerms)
CERTIFICATE: Form[CertificateView] = Form(CertificateView)
JOINED: Form[JoinedView] = Form(JoinedView)
