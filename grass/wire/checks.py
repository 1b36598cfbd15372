"""Checks of nodes: what they measured, and what follows from it. In calls, tickets and records.

Used by ``grass.checks``, which decides, and by the client, the API server and the master-agent. Times are seconds.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from grass.wire.codec import Form

Level = Literal[0, 1, 2]
Cause = Literal["gpu", "host", "nic"]
Short = Annotated[str, Meta(max_length=500)]
MOST_NODES = 256
"""Nodes of one check."""
MOST_PROBLEMS = 50
"""Problems of one node, and times of each."""
MOST_FIGURES = 500
"""Of one node: six of each GPU, and some of the host."""
Times = Annotated[tuple[float, ...], Meta(max_length=MOST_PROBLEMS)]


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that is wrong with a node, found on the node itself."""

    cause: Cause
    text: Short
    device: int | None = None
    """The device that is meant. None: the node as a whole."""
    grave: bool = True
    """Whether the node or the device must get no tasks. Otherwise it is only shown."""


class Alone(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one node measured by itself: levels 0 and 1."""

    node: str
    model: Short = ""
    """Of its GPUs, or of its processor. Only times of equal models are compared."""
    problems: Annotated[tuple[Problem, ...], Meta(max_length=MOST_PROBLEMS)] = ()
    times: Annotated[dict[Short, Times], Meta(max_length=MOST_FIGURES)] = {}
    """Level 1: name of a measurement, such as ``matrix`` or ``matrix gpu3`` → its seconds in each round."""
    figures: Annotated[dict[Short, float], Meta(max_length=MOST_FIGURES)] = {}
    """What else was measured, by name with its unit."""
    devices: tuple[int, ...] = ()
    """The GPUs that took part."""


class Pair(msgspec.Struct, frozen=True, omit_defaults=True):
    """What two nodes measured together: level 2."""

    a: str
    b: str
    times: Times = ()
    """Seconds of each round."""
    error: Short = ""
    """Why there are none. Empty: there are."""


class Measurements(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that a check measured."""

    alone: Annotated[tuple[Alone, ...], Meta(max_length=MOST_NODES)] = ()
    pairs: Annotated[tuple[Pair, ...], Meta(max_length=MOST_NODES * 16)] = ()


class NodeVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a check says of one node."""

    node: str
    state: Literal["good", "bad", "unknown"]
    """``unknown``: it may be at fault, and more nodes are needed to tell."""
    fault: str = ""
    """Such as ``gpu``, ``nic`` or, if it is one of them, ``nic(a) or link(a, b)``."""
    evidence: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()
    """The GPUs that are at fault, if the rest of the node is good."""


class Verdicts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What follows from the measurements of a check."""

    nodes: tuple[NodeVerdict, ...]
    between: tuple[str, ...] = ()
    """Faults between nodes: ``link(a, b): …``, ``switch(rack1): …``. They are no node's own."""
    unknown: tuple[str, ...] = ()
    """What cannot be told, and what to do."""


class NodeCheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One check of one node, as it is kept. In the stream ``node:<n>:checks``; the newest also in the node's record."""

    at: float
    """When it ended: seconds since the epoch."""
    user: str
    level: Level
    verdict: NodeVerdict
    between: tuple[str, ...] = ()
    """Faults between nodes in which this node has a part."""
    times: dict[str, float] = {}
    """Name of a measurement → the better of its rounds, in seconds. ``pair`` is the best of level 2."""
    figures: dict[str, float] = {}
    model: Short = ""
    """Of its GPUs, or of its processor, if level 1 was measured."""


class ProbeRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to the program that measures on a node: one line on its stdin."""

    do: Literal["look", "load", "serve", "meet"]
    """Level 0, level 1, and the two sides of a pair."""
    address: str = ""
    """Of the node itself."""
    devices: int = 0
    """How many GPUs it should have."""
    alone: bool = True
    """Whether no tasks are there."""
    peer: str = ""
    """Address of the node that serves."""
    port: int = 0
    """Where it serves."""
    token: str = ""
    """By which the two know each other."""
    seconds: float = 0.0
    """How long they may take."""


class ProbeAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of the program: one line on its stdout."""

    failed: str = ""
    """Why there is no other answer."""
    problems: tuple[Problem, ...] = ()
    times: dict[str, tuple[float, ...]] | tuple[float, ...] = {}
    """Of level 1 by name, of a pair by round."""
    figures: dict[str, float] = {}
    model: str = ""
    devices: tuple[int, ...] = ()
    clock: float = 0.0
    """The node's clock: seconds since the epoch."""
    port: int = 0
    error: str = ""
    """Why a pair could not measure."""


class HeldNode(msgspec.Struct, frozen=True):
    """A node that is to be checked, and the task that holds it."""

    name: str
    task: str
    """Such as ``n0.0``."""
    address: str
    """At which other nodes reach it."""
    path: tuple[str, ...]
    """Topology, from the outside in."""
    gpus: int
    """Devices that it had when its node-agent started."""
    busy: bool
    """Whether it has tasks, beside which only level 0 is measured."""


class CheckBegun(msgspec.Struct, frozen=True):
    """A check may begin once the job's tasks run."""

    job: str
    """Id of the job that holds the nodes."""
    at: float
    """The master's clock: seconds since the epoch."""
    nodes: tuple[HeldNode, ...]


class CheckedView(msgspec.Struct, frozen=True):
    """The verdicts of a check."""

    checks: tuple[NodeCheck, ...]
    between: tuple[str, ...]
    """Faults between nodes."""
    unknown: tuple[str, ...]
    """What cannot be told, and what to do."""


class NodeChecksView(msgspec.Struct, frozen=True):
    """The kept checks of one node, newest first."""

    checks: tuple[NodeCheck, ...]


NODE_CHECK: Form[NodeCheck] = Form(NodeCheck)
CHECK_BEGUN: Form[CheckBegun] = Form(CheckBegun)
CHECKED: Form[CheckedView] = Form(CheckedView)
NODE_CHECKS: Form[NodeChecksView] = Form(NodeChecksView)
