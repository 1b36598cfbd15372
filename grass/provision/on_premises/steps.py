"""Steps: actions on a host, as data that pure code builds and ``--plan`` prints; and the runner for them.

A step is *unchanged* when there is nothing to do: its ``check`` ends with 0, and every file of its ``Put``s is there
with the right content, mode and owner. Otherwise the runner carries out all actions of the step, in order. A step that
holds only files and their consequences (`systemctl daemon-reload`) therefore needs no check. A step with commands needs
a check; without one, the step runs every time. Actions run as root on the host, unless an action says ``sudo=False``.
Used by this package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grass.errors import GrassError
from grass.hosts import Host, shown
from grass.model.exhaustive import assert_never

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """A command. ``stdin`` may hold secrets and is never shown. ``timeout`` in seconds."""

    argv: tuple[str, ...]
    stdin: bytes | Path | None = field(default=None, repr=False)
    sudo: bool = True
    timeout: float = 600.0

    def __str__(self) -> str:
        return f"run {shown(self.argv)}"


@dataclass(frozen=True)
class Put:
    """A file with exactly this content (for a local path: that file's content). ``owner``: ``USER:GROUP``."""

    target: str
    content: bytes | Path = field(repr=False)
    mode: int = 0o644
    owner: str = "root:root"

    def __str__(self) -> str:
        return f"write {self.target} (mode {self.mode:o}, {self.owner})"

    def digest(self) -> str:
        if isinstance(self.content, bytes):
            return hashlib.sha256(self.content).hexdigest()
        digest = hashlib.sha256()
        with self.content.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
        return digest.hexdigest()


@dataclass(frozen=True)
class Call:
    """An action that needs more than a single command.

    ``do`` gets the host. ``text`` describes the action for ``--plan``.
    """

    text: str
    do: Callable[[Host], None] = field(repr=False)

    def __str__(self) -> str:
        return self.text


Action = Run | Put | Call


@dataclass(frozen=True)
class Step:
    """A named list of actions.

    ``name``: a short imperative ("install redis-server"). ``hint``: advice for the user when the step fails. ``looks``:
    the step only inspects, so its run does not count as a change.
    """

    name: str
    actions: tuple[Action, ...] = ()
    check: Run | None = None
    hint: str = ""
    looks: bool = False

    def lines(self) -> Iterator[str]:
        """Describe the actions, for ``--plan``."""
        if self.check is not None:
            yield f"unless `{shown(self.check.argv)}`"
        yield from (str(action) for action in self.actions)


class StepFailedError(GrassError):
    """A step failed. The message names host, step, command and output. The same command continues there."""

    code = "step-failed"


@dataclass(frozen=True)
class Outcome:
    """Counts of changed and unchanged steps."""

    done: int
    unchanged: int


def run_steps(
    host: Host, steps: Sequence[Step], progress: Progress, label: str | None = None, *, before: int = 0, after: int = 0
) -> Outcome:
    """Run the steps in order, up to the first failure.

    Raises StepFailedError with host, step, command and its output. ``before``, ``after``: counts of steps that other
    calls run for the same work; they are part of the displayed step numbers.
    """
    changed = 0
    for number, step in enumerate(steps, before + 1):
        prefix = f"{label or host.name}: [{number}/{before + len(steps) + after}] {step.name}"
        try:
            if _nothing_to_do(host, step):
                progress(f"{prefix}: unchanged")
                continue
            if not step.looks:
                progress(f"{prefix} …")
            for action in step.actions:
                _carry_out(host, action)
        except GrassError as error:
            hint = f"\n  {step.hint}" if step.hint else ""
            message = f"{prefix}: failed; the same command again continues here\n  {error}{hint}"
            raise _as_failure(error, message) from error
        changed += not step.looks
        progress(f"{prefix}: {'as it should be' if step.looks else 'done'}")
    return Outcome(changed, len(steps) - changed)


def _as_failure(error: GrassError, message: str) -> StepFailedError:
    """Convert the error, and keep its exit code: an unreachable host is 3, as everywhere."""
    failure = StepFailedError(message)
    failure.exit_code = error.exit_code  # type: ignore[misc]
    return failure


def _carry_out(host: Host, action: Action) -> None:
    match action:
        case Run():
            host.run(action.argv, stdin=action.stdin, sudo=action.sudo, timeout=action.timeout).check()
        case Put():
            host.put(action.content, action.target, action.mode, action.owner, sudo=True)
        case Call():
            action.do(host)
        case _:
            assert_never(action)


def _nothing_to_do(host: Host, step: Step) -> bool:
    puts = [action for action in step.actions if isinstance(action, Put)]
    if step.check is None and not puts:
        return False
    if puts and not _in_place(host, puts):
        return False
    if step.check is None:
        return True
    return host.run(step.check.argv, step.check.stdin, sudo=step.check.sudo, timeout=step.check.timeout).ok


_COMPARE = """
while [ $# -gt 0 ]; do
  [ -f "$1" ] && [ ! -L "$1" ] || exit 1
  [ "$(stat -c '%a %U:%G' -- "$1")" = "$2 $3" ] || exit 1
  printf '%s  %s\\n' "$4" "$1" | sha256sum --check --status || exit 1
  shift 4
done
"""


def _in_place(host: Host, puts: Sequence[Put]) -> bool:
    words = [word for put in puts for word in (put.target, f"{put.mode:o}", put.owner, put.digest())]
    return host.run(["sh", "-c", _COMPARE, "compare", *words], sudo=True).ok


def plan_lines(steps: Sequence[Step], label: str) -> Iterator[str]:
    for number, step in enumerate(steps, 1):
        yield f"{label}: [{number}/{len(steps)}] {step.name}"
        yield from (f"    {line}" for line in step.lines())
