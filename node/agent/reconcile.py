"""Decides which attempts to start, stop and forget so that the runtime matches the desired state. Pure: no clock, no
I/O.

Input: the desired state (``reset``, ``apply``) and the runtime's attempts (``listed``, ``ended``), in any order and
any number of times. Output: ``next_actions``. The cost of a call grows with the number of its changes only. An attempt
is started at most once unless ``listed`` proves that the start was lost. Used by ``loop`` and ``starts``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from grass.model.exhaustive import assert_never
from grass.model.job import DEFAULT_GRACE
from grass.wire.desired import DesiredAttempt, DesiredChange
from grass.wire.keys import AttemptKey
from grass.wire.launch import LaunchTemplate

AHEAD = 64
"""Attempts of a launch that the runtime gets beyond its width, so that the next one is there when one ends. The runtime
itself enforces the width."""


class Phase(Enum):
    """The phase of one attempt.

    WAITING: desired, and not yet given to the runtime. ENDED: the runtime still keeps its end.
    """

    WAITING = "waiting"
    STARTED = "started"
    STOPPING = "stopping"
    ENDED = "ended"


@dataclass
class Actions:
    """What to do now, in the order of the fields. ``not_started``: attempts that were stopped before they started. The
    last two are not started."""

    start: list[str] = field(default_factory=list)
    stop: dict[str, float] = field(default_factory=dict)
    forget: list[str] = field(default_factory=list)
    not_started: list[str] = field(default_factory=list)
    ended_before: list[str] = field(default_factory=list)
    """Attempts that ended before the store was restored, by this node's records."""
    unrecorded: list[str] = field(default_factory=list)
    """Attempts that may have run before the store was restored: nobody knows."""


def launch_key(attempt_key: str) -> str:
    """Return the key of an attempt's launch template, as text."""
    return str(AttemptKey.parse(attempt_key).launch)


class Reconciliation:
    """Compares what is desired with what runs. ``next_actions`` returns what to do, each action once."""

    def __init__(self) -> None:
        self.entries: dict[str, DesiredAttempt] = {}
        self.launches: dict[str, LaunchTemplate] = {}
        self._phases: dict[str, Phase] = {}
        self._waiting: dict[str, list[tuple[int, str]]] = {}
        self._running: dict[str, int] = {}
        """Launch key → number of attempts that the runtime has and that have not ended."""
        self._to_fill: set[str] = set()
        """Launch keys with attempts that may start now."""
        self._stop_before_start: set[str] = set()
        """WAITING attempts that must be stopped."""
        self._actions = Actions()
        self._listed = False
        self._past: set[str] = set()
        """Attempts that ended before the store was restored."""
        self._incomplete = False
        """Whether an attempt of the restored desired state that is neither known nor in ``_past`` may have run."""
        self._holding = False

    # desired state after a restore

    def remember(self, ended: Iterable[str], *, complete: bool = True, hold: bool = True) -> None:
        """The store was restored: what it desires is old. Call it before the first ``reset``.

        ``ended``: attempts that ended on this node, by its records. ``complete``: these go back to the backup.
        ``hold``: until ``release``, attempts that are not desired run on: the master may desire them again.
        """
        self._past = set(ended)
        self._incomplete = not complete
        self._holding = hold

    def note_past(self, key: str) -> None:
        """Note the end of an attempt that nobody has desired yet."""
        if self._holding:
            self._past.add(key)

    @property
    def holding(self) -> bool:
        return self._holding

    def release(self) -> tuple[list[str], set[str]]:
        """Stop the attempts that were not desired again. Return them, and those whose ends nobody asked for."""
        self._holding = False
        left = [key for key, phase in self._phases.items() if phase is Phase.STARTED and key not in self.entries]
        for key in left:
            self._stop(key)
        return left, set(self._past)

    def _doubt(self, known: set[str]) -> None:
        """After a restore: those attempts that were desired already, and that are unknown here, are not started."""
        if not self._incomplete:
            return
        self._incomplete = False
        for key, phase in self._phases.items():
            if phase is Phase.WAITING and key not in known:
                self._phases[key] = Phase.ENDED
                self._actions.unrecorded.append(key)

    # desired state

    def reset(self, entries: Mapping[str, DesiredAttempt], launches: Mapping[str, LaunchTemplate]) -> None:
        """Replace the whole desired state."""
        for key in [key for key in self.entries if key not in entries]:
            self._remove(key)
        self.launches = dict(launches)
        for key, entry in entries.items():
            self._set(key, entry)
        self._to_fill.update(self._waiting)

    def apply(self, change: DesiredChange) -> None:
        """Take a change of the desired state."""
        self.launches.update(change.launch)
        self._to_fill.update(change.launch)
        for key, entry in change.set.items():
            self._set(key, entry)
        for key in change.remove:
            self._remove(key)
        for name in change.drop:
            self.launches.pop(name, None)

    def _set(self, key: str, entry: DesiredAttempt) -> None:
        before = self.entries.get(key)
        self.entries[key] = entry
        match self._phases.get(key):
            case None:
                self._wait(key)
            case Phase.WAITING:
                if entry.stop_grace is not None:
                    self._stop_before_start.add(key)
            case Phase.STARTED | Phase.STOPPING:
                how = before and (before.stop_grace, before.notice)
                if entry.stop_grace is not None and how != (entry.stop_grace, entry.notice):
                    self._stop(key)
            case Phase.ENDED:
                pass
            case phase:
                assert_never(phase)

    def _wait(self, key: str) -> None:
        name = launch_key(key)
        if key in self._past:
            self._past.discard(key)
            self._phases[key] = Phase.ENDED
            self._actions.ended_before.append(key)
            return
        self._phases[key] = Phase.WAITING
        if self.entries[key].stop_grace is not None:
            self._stop_before_start.add(key)
            return
        heapq.heappush(self._waiting.setdefault(name, []), (self.entries[key].seq, key))
        self._to_fill.add(name)

    def _remove(self, key: str) -> None:
        before = self.entries.pop(key, None)
        match self._phases.get(key):
            case Phase.WAITING:
                del self._phases[key]  # its entry in the heap is skipped later
            case Phase.STARTED:
                self._stop(key)
            case Phase.STOPPING if before is not None and before.notice:
                self._stop(key)  # what it does before it is stopped has no time left
            case Phase.ENDED:
                del self._phases[key]
                self._actions.forget.append(key)
            case Phase.STOPPING | None:
                pass
            case phase:
                assert_never(phase)

    def _stop(self, key: str) -> None:
        entry = self.entries.get(key)
        grace = entry.stop_grace if entry else None
        self._phases[key] = Phase.STOPPING
        self._actions.stop[key] = self.grace(key) if grace is None else grace

    # state of the runtime

    def listed(self, attempts: Iterable[tuple[str, bool, bool]]) -> None:
        """Replace what is known of the runtime by its list of (key, has ended, is stopping)."""
        self._listed = True
        self._running.clear()
        known = set()
        for key, ended, stopping in attempts:
            known.add(key)
            self._observe(key, ended, stopping)
        running = (Phase.STARTED, Phase.STOPPING)
        for key in [key for key, phase in self._phases.items() if phase in running and key not in known]:
            del self._phases[key]
            if key in self.entries:
                self._wait(key)  # the request to start it was lost
        self._doubt(known)
        self._to_fill.update(self._waiting)

    def _observe(self, key: str, ended: bool, stopping: bool) -> None:
        entry = self.entries.get(key)
        if ended:
            self._phases[key] = Phase.ENDED
            if entry is None:
                self._remove(key)
            return
        name = launch_key(key)
        self._running[name] = self._running.get(name, 0) + 1
        self._phases[key] = Phase.STOPPING if stopping else Phase.STARTED
        if not stopping and (not self._holding if entry is None else entry.stop_grace is not None):
            self._stop(key)

    def note_end(self, key: str) -> None:
        """Note that an attempt has ended, or could not start."""
        phase = self._phases.get(key)
        if phase is Phase.ENDED:
            return
        self._phases[key] = Phase.ENDED
        if phase in (Phase.STARTED, Phase.STOPPING):
            name = launch_key(key)
            self._running[name] -= 1
            self._to_fill.add(name)
        if key not in self.entries:
            self._remove(key)

    def running(self) -> list[str]:
        """Return the attempts that were given to the runtime and have not ended."""
        return [key for key, phase in self._phases.items() if phase in (Phase.STARTED, Phase.STOPPING)]

    def grace(self, key: str) -> float:
        """Return the seconds between TERM and KILL of an attempt that is stopped before its job says so."""
        template = self.launches.get(launch_key(key))
        return template.component.grace if template else DEFAULT_GRACE

    def handed_over(self) -> list[str]:
        """Return the attempts that were given to the runtime and neither stopped nor ended."""
        return [key for key, phase in self._phases.items() if phase is Phase.STARTED]

    # actions

    def next_actions(self) -> Actions:
        """Return the actions that are due, once. None before the first ``listed``."""
        if not self._listed:
            return Actions()
        for key in self._stop_before_start:
            if self._phases.get(key) is Phase.WAITING:
                self._phases[key] = Phase.ENDED
                self._actions.not_started.append(key)
        self._stop_before_start.clear()
        for name in self._to_fill:
            self._fill(name)
        self._to_fill.clear()
        actions, self._actions = self._actions, Actions()
        actions.forget = list(dict.fromkeys(actions.forget))  # a key is twice in it if the runtime was listed twice
        if len(actions.start) > 1:
            actions.start.sort(key=lambda key: self.entries[key].seq)
        return actions

    def _fill(self, name: str) -> None:
        """Start waiting attempts of a launch, lowest ``seq`` first, up to its width and ``AHEAD``."""
        waiting, template = self._waiting.get(name), self.launches.get(name)
        if not waiting:
            return
        if template is None:
            return
        width = template.width
        while waiting:
            seq, key = waiting[0]
            if self._phases.get(key) is not Phase.WAITING or self.entries[key].seq != seq:
                heapq.heappop(waiting)
            elif width is None or self._running.get(name, 0) < width + AHEAD:
                heapq.heappop(waiting)
                self._phases[key] = Phase.STARTED
                self._running[name] = self._running.get(name, 0) + 1
                self._actions.start.append(key)
            else:
                break
        if not waiting:
            self._waiting.pop(name)
