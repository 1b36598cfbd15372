"""A node without a machine: the ``Machine`` of simulated attempts, whose conditions the test sets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources
from grass.wire.desired import DesiredAttempt
from grass.wire.heartbeat import NodeUsage
from grass.wire.usage import TaskTotals
from node.agent.machine import Offer
from node.runtime.protocol import Observed

VERSION = "simulated"


class SimulatedMachine:
    """``changed`` is called when its conditions change. ``used``: ports of other programs. Attempts use one core second
    each; those in ``obstinate`` do not end after KILL."""

    visible_gpus = 0

    def __init__(
        self, changed: Callable[[], None], used: Collection[int] = (), obstinate: Collection[str] = ()
    ) -> None:
        self.environment: Mapping[str, str] = {"PATH": "/bin"}
        self._changed = changed
        self._used = used
        self._obstinate = obstinate
        self._conditions: tuple[Reason, ...] = ()
        self._desired: Mapping[str, DesiredAttempt] = {}
        self._stopping: set[str] = set()
        self._cannot_end: dict[str, Reason] = {}
        self.cores = 4
        self.delay = 0.0
        """Of the share."""
        self.lost: Reason | None = None
        """What attempts that succeed have lost."""
        self.known: set[str] = set()
        """Attempts that are not forgotten."""

    def turn(self, *conditions: Reason) -> None:
        """Change its conditions."""
        self._conditions = conditions
        self._changed()

    def seen_after(self) -> float:
        return self.delay

    def start(self, desired: Mapping[str, DesiredAttempt]) -> None:
        self._desired = desired

    def stop(self) -> None:
        self._desired = {}

    def offer(self) -> Offer:
        return Offer(Resources(cpu=self.cores * 1000), labels={"kind": "namespace"}, versions={"simulated": "1"})

    def machines(self) -> None:
        """It is one machine."""

    def usage(self) -> NodeUsage:
        return NodeUsage(cpu=50.0)

    def programs(self) -> tuple[str, ...] | None:
        return ("mpirun",)

    def conditions(self) -> tuple[Reason, ...]:
        return (*self._conditions, *self._cannot_end.values())

    def loss(self, begun: float, ended: float) -> Reason | None:
        return self.lost

    def taken(self, ports: Mapping[str, int]) -> int | None:
        return next((port for port in ports.values() if port in self._used), None)

    def software(self, attempt: Observed) -> dict[str, str]:
        return {"grass": VERSION}

    def listed(self, keys: list[str]) -> None:
        self.known.intersection_update(keys)

    def started(self, attempt: Observed) -> None:
        self.known.add(attempt.key)

    def stopping(self, key: str, grace: float) -> None:
        self._stopping.add(key)

    def cannot_end(self) -> Mapping[str, Reason]:
        stuck = self._stopping.intersection(self._obstinate)
        new = {key: Reason(ReasonCode.STUCK, "it is stuck") for key in stuck if key not in self._cannot_end}
        self._cannot_end.update(new)
        return new

    def totals_at_end(self, attempt: Observed) -> TaskTotals | None:
        self._stopping.discard(attempt.key)
        return TaskTotals(cpu=1.0) if attempt.key in self._desired else None

    def forget(self, keys: list[str]) -> None:
        self.known.difference_update(keys)
