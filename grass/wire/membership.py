"""The membership of a component: a versioned, ordered list of the tasks that work together.

Hash ``node:<n>:membership``: launch key → ``Membership``. Written by the master-agent for every node that runs a part
of the job, in the step that changes it. So tasks keep their last membership while the master is away.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task of the component that belongs to the present generation."""

    task: str
    """``<component>.<index>``."""
    attempt: int
    node: str
    address: str
    """Where others reach it: the address of its node, or of its pod. Empty: its pod has none yet."""
    slots: int
    """Workers that it offers: its GPUs, the framework's option ``slots``, or 1."""
    rank: int
    """Its position in ``members``, from 0."""
    ports: dict[str, int] = {}
    """Port name → number."""
    api_port: int = 0
    """Port of the node-api-server of its node."""
    node_address: str = ""
    """Address of its node where ``address`` is another one; empty: it is the same."""


class Membership(msgspec.Struct, frozen=True):
    """Who works together now."""

    generation: int
    """Grows with every change of the members."""
    epoch: int
    """The fence of the master-agent that made it. Grows with every restart of the master-agent."""
    desired: int
    """The size that the component should have."""
    min: int
    """The least size that it may have. Its job is queued again below it."""
    max: int
    """The largest size that it may have."""
    unit: int
    """Sizes are multiples of it."""
    members: tuple[Member, ...] = ()
    """By rank: in the order of topology paths, then of indexes. A task that succeeded stays a member."""


MEMBERSHIP: Form[Membership] = Form(Membership)
