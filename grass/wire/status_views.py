"""The reply of the API about the whole cluster. The rules of ``views`` apply. Sent by the API server."""

from __future__ import annotations

import msgspec

from grass.model.isolation import Isolation
from grass.model.lifecycle import JobState, NodeState
from grass.wire.cloud import CloudView
from grass.wire.codec import Form
from grass.wire.standby import StandbyView


class StoreTrouble(msgspec.Struct, frozen=True):
    """Why the store refuses writes."""

    code: str
    message: str


class DiskView(msgspec.Struct, frozen=True):
    """The space of a disk, in bytes. ``free``: for programs that are not root's."""

    holds: str
    """What is on it: ``state``, ``logs``, or ``state and logs``."""
    free: int
    total: int


class StatusView(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster in numbers, and who is asking."""

    cluster: str
    mode: str
    version: str
    protocol: int
    """What the server speaks."""
    time: float
    user: str
    role: str
    jobs: dict[JobState, int]
    nodes: dict[NodeState, int]
    store: StoreTrouble | None
    """Why the store refuses writes."""
    isolation: Isolation
    """Whether tasks of different users are isolated from each other on the nodes."""
    disks: tuple[DiskView, ...] = ()
    """Those on which the master keeps the cluster's state and logs."""
    revision: int = 0
    """The server's ``grass.wire.version.REVISION``."""
    standby: StandbyView | None = None
    """None: the cluster has none."""
    cloud: CloudView | None = None
    """None: it is in no cloud, or nobody has told anything of it."""


STATUS: Form[StatusView] = Form(StatusView)
