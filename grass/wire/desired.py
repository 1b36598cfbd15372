"""The desired state of one node: the attempts that should exist there, and changes of it. Written by the master-agent.

Hash ``node:<n>:desired``: attempt key → ``DesiredAttempt``; ``node:<n>:launch``: launch key → ``LaunchTemplate``;
``node:<n>:addresses``: job id → text. Every change is also one ``DesiredChange`` on the stream ``node:<n>:changes``.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form
from grass.wire.launch import LaunchTemplate


class DesiredAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attempt is removed only after its end was committed. One that exists on a node and is not desired is
    stopped there."""

    seq: int
    """Order of starting among the attempts of a launch template."""
    ports: dict[str, int] = {}
    """Port name → number."""
    gpus: tuple[tuple[int, int], ...] = ()
    """(device id, thousandths of it) of each device."""
    stop_grace: float | None = None
    """Set: stop it, with TERM to its process group and KILL after so many seconds. None: it should run."""


class DesiredChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """To be applied in the order of the fields. Applying one twice changes nothing."""

    launch: dict[str, LaunchTemplate] = {}
    """Launch key → its template from here on."""
    set: dict[str, DesiredAttempt] = {}
    """Attempt key → what it should be from here on."""
    remove: tuple[str, ...] = ()
    """Attempt keys that the node may forget."""
    drop: tuple[str, ...] = ()
    """Launch keys whose job has ended."""
    addresses: dict[str, str] = {}
    """Job id → the whole text of its addresses file."""


DESIRED_ATTEMPT: Form[DesiredAttempt] = Form(DesiredAttempt)
DESIRED_CHANGE: Form[DesiredChange] = Form(DesiredChange)
