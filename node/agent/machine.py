"""The interface between the node-agent's loop and what its tasks run on.

``ThisMachine`` and the tests' simulated machine pass the same contract tests (``tests/contract/test_machine.py``). A
node that is no machine, such as a namespace of Kubernetes, is another implementation. Used by ``loop``, ``starts``,
``hello`` and ``this_machine``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from grass.model.reasons import Reason
from grass.model.resources import Resources
from grass.wire.desired import DesiredAttempt
from grass.wire.gpu import GpuDevice
from grass.wire.heartbeat import NodeUsage
from grass.wire.hello import Probe
from grass.wire.machines import Machines
from grass.wire.usage import TaskTotals
from node.agent.place import NOWHERE, Place
from node.runtime.protocol import Observed


class Offer(NamedTuple):
    """What a node has, whatever its settings say. ``probe`` None: none is required. ``place``: as a command says."""

    resources: Resources
    gpus: Sequence[GpuDevice] = ()
    labels: Mapping[str, str] = {}
    versions: Mapping[str, str] = {}
    probe: Probe | None = None
    place: Place = NOWHERE


class Machine(Protocol):
    """What a node offers, in which condition it is, and what attempts use on it.

    The loop says which attempts start, are stopped and end; a machine decides nothing about them. It calls one method
    at a time, except ``offer`` and ``programs``, which any thread may call.
    """

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment that processes inherit here."""

    @property
    def visible_gpus(self) -> int:
        """Return how many GPUs a task sees here unless its environment names some."""

    def start(self, desired: Mapping[str, DesiredAttempt]) -> None:
        """Begin to measure, once the node's folder exists. Afterwards ``conditions`` are known.

        ``desired``: the desired attempts by key, which the loop keeps up to date."""

    def stop(self) -> None:
        """End the threads, without waiting for them."""

    def offer(self) -> Offer:
        """Return what the node has."""

    def machines(self) -> Machines | None:
        """Return the machines behind it, and what runs on each. None: it is no namespace, or they may not be seen."""

    def usage(self) -> NodeUsage:
        """Return what is used of it now, by its tasks and all other programs together."""

    def programs(self) -> tuple[str, ...] | None:
        """Return which programs of frameworks processes find here. None: not known yet."""

    def conditions(self) -> tuple[Reason, ...]:
        """Return why nothing may start here now. The loop is woken when that changes."""

    def loss(self, begun: float, ended: float) -> Reason | None:
        """Return what an attempt that succeeded may have lost between these steady times."""

    def seen_after(self) -> float:
        """Return for how many seconds a task may not see in the share what another node has just made there."""

    def taken(self, ports: Mapping[str, int]) -> int | None:
        """Return the first of these ports that another program uses."""

    def software(self, attempt: Observed) -> dict[str, str]:
        """Return what an attempt runs with, besides its own files."""

    def listed(self, keys: list[str]) -> None:
        """Note which attempts exist: all that the runtime knows."""

    def started(self, attempt: Observed) -> None:
        """Note that an attempt runs; also called again for one that is known to run."""

    def stopping(self, key: str, grace: float) -> None:
        """Note that an attempt gets TERM now, and KILL after ``grace`` seconds at the latest."""

    def cannot_end(self) -> Mapping[str, Reason]:
        """Look which attempts have not ended after KILL. They are also among the ``conditions`` until the next look.
        Return those whose reason is new."""

    def totals_at_end(self, attempt: Observed) -> TaskTotals | None:
        """Note that an attempt has ended. Return what it used in all; None: that is not known, or it is not desired."""

    def forget(self, keys: list[str]) -> None:
        """Forget attempts whose end the master has noted."""
