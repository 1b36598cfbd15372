"""The desired state of one node: the attempts that should exist there, and its changes. Written by the master-agent.

Hash ``node:<n>:desired``: attempt key → ``DesiredAttempt``; ``node:<n>:launch``: launch key → ``LaunchTemplate``;
``node:<n>:addresses``: job id → text; ``node:<n>:membership``: launch key → ``Membership``. Every change is also one
``DesiredChange`` on the stream ``node:<n>:changes``.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form
from grass.wire.launch import LaunchTemplate
from grass.wire.membership import Membership


class DesiredAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attempt is removed only after its end was committed. A node stops attempts that are not desired."""

    seq: int
    """Position in the starting order of its launch template."""
    ports: dict[str, int] = {}
    """Port name → number."""
    gpus: tuple[tuple[int, int], ...] = ()
    """(device id, thousandths of it) of each device."""
    stop_grace: float | None = None
    """Set: stop it, with TERM to its process group, and KILL after so many seconds. None: run it."""
    notice: str = ""
    """Set: tell it why it is stopped, as its component says, and stop it once it is done."""


class DesiredChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of a node's desired state. Apply it in the order of the fields; applying it twice changes nothing."""

    launch: dict[str, LaunchTemplate] = {}
    """Launch key → its new template."""
    set: dict[str, DesiredAttempt] = {}
    """Attempt key → its new desired state."""
    remove: tuple[str, ...] = ()
    """Attempt keys that the node may forget."""
    drop: tuple[str, ...] = ()
    """Launch keys whose job has ended."""
    addresses: dict[str, str] = {}
    """Job id → the whole text of its addresses file."""
    membership: dict[str, Membership] = {}
    """Launch key → its new membership. A node gets those of all components of a job, also of those that run elsewhere.
    They are gone with the job: when the last launch template of the job is dropped. Empty on the stream."""
    memberships: tuple[str, ...] = ()
    """On the stream: launch keys whose membership is new. The node reads them in the hash. A membership of hundreds of
    members is long, and the stream keeps many changes."""
    let_go: tuple[str, ...] = ()
    """Tasks (``<job id>/<component>.<index>``) whose memory the node keeps no longer. This is said once. After an
    hour without an attempt, nodes do so by themselves."""


DESIRED_ATTEMPT: Form[DesiredAttempt] = Form(DesiredAttempt)
DESIRED_CHANGE: Form[DesiredChange] = Form(DesiredChange)
