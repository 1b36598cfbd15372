"""One readiness check: a port answers, a command ends with 0, or a line of the log matches. Run by ``readiness``."""

from __future__ import annotations

import math
import subprocess
from dataclasses import dataclass, field

from grass.backoff import Backoff
from grass.errors import GrassError
from grass.model.expression import compiled
from grass.model.job import Ready
from node.agent.child_programs import ChildProgram, ChildPrograms
from node.agent.line_search import GrowingFile
from node.runtime.kind import Inside
from node.runtime.reach import answers

FIRST_WAIT, LONGEST_WAIT = 0.03, 1.0
PROBE_TIMEOUT = 10.0
"""Seconds that one attempt of the check may take."""
NO_MATCH = "no line of its output matches its check"


@dataclass(eq=False)
class Check:
    """The check of one attempt. ``since``: steady time of its start. ``ports``: name → number. ``outputs``: paths of
    its stdout and stderr."""

    key: str
    ready: Ready
    since: float
    address: str
    ports: dict[str, int]
    outputs: list[str]
    argv: list[str]
    env: dict[str, str]
    cwd: str
    inside: Inside | None = None
    """For an attempt in a container: runs the command inside, and knows whether its ports answer."""
    pause: Backoff = field(default_factory=lambda: Backoff(FIRST_WAIT, LONGEST_WAIT, 1.5))
    """Waits between two tries."""
    deadline: float = math.inf
    """Steady time at which it must have passed."""
    failed: str = ""
    """Why the last try did not pass."""
    reported: str = ""
    """The failure that was reported last."""
    _files: dict[str, GrowingFile] = field(default_factory=dict)
    _running: ChildProgram | None = None
    _cancelled: bool = False

    def allow(self, now: float) -> None:
        """Set the deadline. After a restart of the agent, the check still gets time for at least one try."""
        timeout = self.ready.timeout
        if timeout is not None:
            self.deadline = max(self.since + timeout, now + min(timeout, PROBE_TIMEOUT))

    def failure(self, programs: ChildPrograms) -> str:
        """Try once. Return why it does not pass, for people; empty when it passes."""
        if self.ready.port is not None:
            return self._port_failure()
        if self.ready.command is not None:
            if self.inside:
                return self.inside.failure(PROBE_TIMEOUT, lambda: self._cancelled)
            return self._command_failure(programs)
        return self._log_failure()

    def cancel(self) -> None:
        """End a try that is running, for good."""
        self._cancelled = True
        running = self._running
        if running is not None:
            running.kill()

    def _port_failure(self) -> str:
        name = self.ready.port or ""
        port = self.ports[name]
        try:
            found = self.inside.answers(port) if self.inside else None
        except GrassError as error:
            return f"the address of its container is unknown: {error}"
        if found is None:
            found = answers((self.address, "127.0.0.1"), port)
        return "" if found else f"nothing listens on its port {name} ({port})"

    def _wait(self, running: ChildProgram) -> int | None:
        self._running = running
        if self._cancelled:  # set by `cancel` before it looks at `_running`, so one of the two threads kills
            running.kill()
        return running.wait(PROBE_TIMEOUT)

    def _command_failure(self, programs: ChildPrograms) -> str:
        nothing = subprocess.DEVNULL
        try:
            running = programs.start(
                self.argv, env=self.env, cwd=self.cwd, stdin=nothing, stdout=nothing, stderr=nothing
            )
        except (OSError, ValueError) as error:
            return f"its check cannot run {self.argv[0]}: {getattr(error, 'strerror', None) or error}"
        code = self._wait(running)
        if code is None:
            return f"its check did not end within {PROBE_TIMEOUT:g} s"
        ended = f"with exit code {code}" if code > 0 else f"by signal {-code}"
        return f"its check ended {ended}" if code else ""

    def _log_failure(self) -> str:
        try:
            expression = compiled(self.ready.log or "")
        except ValueError as error:  # another version of Grass accepted the job
            return f"its check is not a valid regular expression: {error}"
        for path in self.outputs:
            try:
                if self._files.setdefault(path, GrowingFile(path)).matches(expression):
                    return ""
            except FileNotFoundError:
                continue
            except OSError as error:
                return f"its output cannot be read: {error.strerror}"
        return NO_MATCH
