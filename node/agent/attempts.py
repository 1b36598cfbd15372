"""What the node-agent does for each attempt, from its start to its removal: log, time limits, readiness, files.

Called by the loop only, in its thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from grass.model.job import DEFAULT_GRACE, Ready
from grass.model.reasons import Reason, ReasonCode
from grass.model.secrets import is_secret
from grass.node_config import NodeHome
from grass.system import clock
from grass.system.bounded_file import UnfitFileError, read_end
from grass.wire.desired import DesiredAttempt
from grass.wire.launch import LaunchTemplate
from grass.wire.task_events import Ended
from grass.wire.usage import TaskTotals
from node.agent import environment
from node.agent.check import Check
from node.agent.folders import Removal, attempts_on_disk
from node.agent.log_source import KEPT_END
from node.agent.readiness import Readiness
from node.agent.shipper import Shipper
from node.causes.cause import cause_of
from node.runtime.attempts import Folders
from node.runtime.protocol import Observed, Stop
from node.runtime.registry import kind
from node.runtime.timers import Timers

FOLLOW_AFTER = 0.05
"""Seconds after its start until the output of an attempt is followed: a shorter attempt without output costs
nothing."""
REMOVE_EVERY = 0.2
"""Seconds for which removals are collected into one batch."""
_NO_OUTPUT = {"stdout": 0, "stderr": 0}


class Attempts:
    """What the agent keeps for each attempt of this node.

    ``stop`` is called for an attempt that exceeded its time limit, ``soon`` with the seconds until then, if its
    component has a notice. ``base``: the environment that tasks inherit.
    """

    def __init__(
        self,
        config: NodeHome,
        shipper: Shipper,
        readiness: Readiness,
        timers: Timers,
        removal: Removal,
        stop: Callable[[Stop], None],
        soon: Callable[[Stop, float], None],
        base: Mapping[str, str],
    ) -> None:
        self._soon = soon
        self._config = config
        self._shipper = shipper
        self._readiness = readiness
        self._timers = timers
        self._removal = removal
        self._stop = stop
        self._base = base
        self._folders = Folders(str(config.node_dir / "attempts"))
        self._alive: dict[str, LaunchTemplate | None] = {}
        """Running attempts and their templates."""
        self._pids: dict[str, int | None] = {}
        self._ready: set[str] = set()
        """Running attempts whose readiness check has passed."""
        self._followed: set[str] = set()
        self._released: set[str] = set()
        """Attempts whose files are removed once their log is shipped."""
        self._to_remove: list[str] = []

    def resume(self, known: Mapping[str, Observed], desired: Mapping[str, DesiredAttempt]) -> None:
        """After a restart: go on shipping what is on disk, and remove what is neither known nor desired."""
        for key in attempts_on_disk(self._config):
            attempt = known.get(key)
            if attempt is not None and attempt.ended is None:
                self._follow(key)
            elif attempt is None and key not in desired:
                self._log_ended(key, self._folders.sizes(key))
                self.release(key)

    def relisted(self) -> None:
        """Forget which attempts run: the runtime lists everything again, and ``started`` is called for each."""
        self._alive.clear()

    def started(self, attempt: Observed, entry: DesiredAttempt | None, template: LaunchTemplate | None) -> bool:
        """Begin to look after a running attempt. Return False if it was known to run."""
        key, since = attempt.key, attempt.since
        if key in self._alive or since is None:
            return False
        self._alive[key] = template
        self._pids[key] = attempt.pid
        self._timers.at(since + FOLLOW_AFTER, lambda: self._follow_if_alive(key))
        if template and template.component.timeout is not None:
            limit = template.component.timeout
            self._timers.at(since + limit, lambda: self._over(key, f"ran longer than its limit of {limit:g} s"))
            if template.component.notice is not None:
                lead = min(limit, template.component.notice.seconds)
                self._timers.at(since + limit - lead, lambda: self._over_soon(key, limit, lead))
        if template and template.component.ready and entry and entry.stop_grace is None:
            self._readiness.watch(self._check(attempt, entry, template, template.component.ready))
        return True

    def running(self) -> Mapping[str, LaunchTemplate | None]:
        return self._alive

    def pid(self, key: str) -> int | None:
        """Return the first process of a running attempt, as this machine numbers it."""
        return self._pids.get(key)

    def runs(self, key: str) -> bool:
        return key in self._alive

    def end_streams(self, attempt: Observed) -> dict[str, int]:
        """Return where its streams will end for readers of its log."""
        self._alive.pop(attempt.key, None)
        self._pids.pop(attempt.key, None)
        self._ready.discard(attempt.key)
        self._readiness.drop(attempt.key)
        return self._log_ended(attempt.key, attempt.sizes or {})

    def cause(self, attempt: Observed, template: LaunchTemplate | None) -> str:
        """Return in one line what the output of an attempt that failed by itself says of why; empty: nothing."""
        failed = attempt.signal is not None or attempt.code not in (0, None)
        if not failed or attempt.stopping or attempt.started is None or not any((attempt.sizes or {}).values()):
            return ""
        secrets = {**self._base, **(template.component.env | dict(template.component.shell) if template else {})}
        hidden = {value for name, value in secrets.items() if is_secret(name)}
        for name in ("stderr", "stdout"):  # of a pod, all is standard output
            with suppress(OSError, UnfitFileError):
                end = read_end(self._folders.path(attempt.key, name), KEPT_END)
                if cause := cause_of(end, attempt.code, hidden, only_errors=name == "stdout"):
                    return cause
        return ""

    def ready(self, key: str) -> None:
        """Note that its readiness check has passed: it reads the output no more."""
        if key in self._alive:
            self._ready.add(key)
            if key in self._followed:
                self._follow(key)

    def not_ready(self, key: str, failure: str) -> None:
        """Stop the attempt: its readiness check did not pass in time."""
        template = self._alive.get(key)
        if template and template.component.ready:
            self._over(key, f"not ready after {template.component.ready.timeout or 0:g} s: {failure}")

    def release(self, key: str) -> None:
        """Remove the files of an ended attempt once its log is shipped. The master has noted its end."""
        if key in self._followed and not self._shipper.complete(key):
            self._released.add(key)
            return
        if not self._to_remove:
            self._timers.at(clock.steady() + REMOVE_EVERY, self._remove)
        self._to_remove.append(key)

    def shipped(self, key: str) -> None:
        """Note that its log is complete at the collector."""
        if key in self._released:
            self._released.discard(key)
            self.release(key)

    def _remove(self) -> None:
        keys, self._to_remove = self._to_remove, []
        for key in self._followed.intersection(keys):
            self._shipper.forget(key)
        self._followed.difference_update(keys)
        self._removal.attempts(keys)

    def _follow_if_alive(self, key: str) -> None:
        if key in self._alive:
            self._follow(key)

    def _follow(self, key: str) -> None:
        if key not in self._followed:
            self._followed.add(key)
            self._shipper.follow(key, self._folders.job(key), self._folders.prefix(key))
        if template := self._alive.get(key):
            ready = template.component.ready
            searched = ready is not None and ready.log is not None and key not in self._ready
            self._shipper.bound(key, template.component.output_limit, searched=searched)

    def _log_ended(self, key: str, sizes: dict[str, int]) -> dict[str, int]:
        if any(sizes.values()):
            self._follow(key)
        return self._shipper.ship_to_end(key, sizes) if key in self._followed else sizes

    def _over(self, key: str, message: str) -> None:
        if key in self._alive:
            template = self._alive[key]
            grace = template.component.grace if template else DEFAULT_GRACE
            self._stop(Stop(key, grace, Reason(ReasonCode.TIMEOUT, message)))

    def _over_soon(self, key: str, limit: float, lead: float) -> None:
        if template := self._alive.get(key):
            message = f"reached its limit of {limit:g} s; it was told {lead:g} s before"
            self._soon(Stop(key, template.component.grace, Reason(ReasonCode.TIMEOUT, message)), lead)

    def _check(self, attempt: Observed, entry: DesiredAttempt, template: LaunchTemplate, ready: Ready) -> Check:
        key = attempt.key
        launch = environment.launch(self._config, template, self._base)
        scratch = self._folders.scratch(key)
        command = environment.argv(ready.command) if ready.command is not None else []
        inside = kind(launch.runtime).inside(self._config, key, command, launch)
        return Check(
            key=key,
            ready=ready,
            since=attempt.since or clock.steady(),
            address=self._config.node.address,
            ports=entry.ports,
            outputs=[self._folders.path(key, name) for name in ("stdout", "stderr")],
            argv=command,
            env={**launch.env, **environment.attempt_env(key, template, entry, 0), "GRASS_SCRATCH": scratch},
            cwd=launch.cwd or scratch,
            inside=inside,
        )


def ended_event(
    attempt: Observed, sizes: dict[str, int], usage: TaskTotals | None, software: dict[str, str], cause: str = ""
) -> Ended:
    """Return the report of an attempt's end. ``sizes``: last offset of each stream. ``usage``: what it used."""
    return Ended(
        key=attempt.key,
        at=attempt.ended or clock.wall(),
        code=attempt.code,
        signal=attempt.signal,
        reason=attempt.reason,
        started=attempt.started,
        sizes=sizes or _NO_OUTPUT,
        stopped=attempt.stopping,
        usage=usage,
        software=None if attempt.started is None else software,
        cause=cause,
        log_gaps=attempt.log_gaps,
    )


def not_started_event(key: str, reason: Reason | None) -> Ended:
    """Return the end of an attempt that never started."""
    return Ended(key=key, at=clock.wall(), reason=reason, sizes=_NO_OUTPUT, stopped=reason is None)
