"""Kills daemons of a real cluster at random moments, round after round, and judges what its users see.

.venv/bin/python -m tests.long.kill_matrix --folder DIR [--rounds 70] [--seed N]

In each round four jobs run: an array, tasks that fail once, tasks that are stopped, and a task that prints 20 MB/s.
Meanwhile up to five daemons are killed with ``kill -9``. Then: each attempt that was to start did so once, none did
twice, all exit codes are right, and each line of every log is there once, in order. A short form is in every run of the
tests (``test_kill_matrix.py``); with ``--long`` it is 70 rounds.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from grass.api.client import Client
from grass.errors import ConflictError, UnreachableError
from grass.model.daemons import DAEMONS, REDIS, SHEPHERD, SUPERVISOR
from grass.supervision import processes
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

T = TypeVar("T")
ARRAY, RETRIED, STOPPED = 60, 10, 5
"""Tasks of each job."""
LINE, CHUNK, PAUSE = 1000, 200, 0.01
"""The talking job writes so many lines of so many bytes, and then pauses for so many seconds: 20 MB/s."""
WATCHERS = {SUPERVISOR, "master-agent", "collector"}
"""supervisord and who revives it: not all of them in one round."""
KEEPERS = {SHEPHERD.name, "guard", SUPERVISOR}
"""The shepherd, its guard, and whose end takes the guard along: one of them at most, or nobody keeps exit codes."""
BACK_WITHIN = 60.0
ENDS_WITHIN = 120.0

TALK = """
import sys, time
lines, length, chunk = map(int, sys.argv[1:4])
for first in range(0, lines, chunk):
    numbers = range(first, min(lines, first + chunk))
    sys.stdout.write("".join(f"{number:08d} ".ljust(length - 1, "x") + chr(10) for number in numbers))
    sys.stdout.flush()
    time.sleep(float(sys.argv[4]))
"""


@dataclass(frozen=True)
class Kill:
    """``victim``: a daemon's name; ``shepherd`` is the parent of the tasks, ``guard`` the process above it."""

    after: float
    victim: str


def plan(chance: random.Random) -> list[Kill]:
    """One round's kills in order of time. Pure."""
    names = [REDIS, "guard", SUPERVISOR, *(daemon.name for daemon in DAEMONS)]
    kills: list[Kill] = []
    for victim in chance.sample(names, chance.randint(2, 5)):
        taken = {kill.victim for kill in kills} | {victim}
        if taken >= WATCHERS or len(taken & KEEPERS) > 1:
            continue
        kills.append(Kill(chance.uniform(0, 2.0), victim))
    return sorted(kills, key=lambda kill: kill.after)


@dataclass
class Matrix:
    cluster: LocalCluster
    folder: Path
    """Where tasks leave their marks."""
    lines: int
    """Of the talking job."""
    killed: Counter[str] = field(default_factory=Counter)

    def round(self, number: int, chance: random.Random) -> None:
        """AssertionError: something was lost, repeated or wrong."""
        marks = self.folder / f"marks-{number}"
        marks.mkdir()
        with self.cluster.client() as client:
            names = self._start(client, number, marks)
            began = time.monotonic()
            for kill in plan(chance):
                time.sleep(max(0.0, began + kill.after - time.monotonic()))  # the moment is what the seed chose
                self._kill(kill.victim)
            patiently(lambda: client.stop(names["stopped"]))
            views = {kind: patiently(lambda: client.wait(name, timeout=ENDS_WITHIN)) for kind, name in names.items()}  # noqa: B023
            self._judge(client, names, views, marks)
        wait_until(lambda: set(self.cluster.states().values()) == {"RUNNING"}, BACK_WITHIN, "all daemons", 0.1)

    def _start(self, client: Client, number: int, marks: Path) -> dict[str, str]:
        mark = f'echo "$GRASS_COMPONENT.$GRASS_INDEX/$GRASS_ATTEMPT" >> {marks}/'  # one write, O_APPEND
        ends = "sleep 0.$GRASS_INDEX; exit $((GRASS_INDEX % 3))"
        jobs = {
            "array": component(f"{mark}array; echo $GRASS_INDEX; {ends}", ARRAY),
            "retried": {
                **component(f"{mark}retried; echo $GRASS_ATTEMPT; sleep 0.5; exit $((2 - GRASS_ATTEMPT))", RETRIED),
                "restart": {"policy": "on-failure", "limit": 3, "backoff": 0},
            },
            "stopped": component(f"{mark}stopped; exec sleep 600", STOPPED),
            "talking": component([sys.executable, "-c", TALK, *map(str, (self.lines, LINE, CHUNK, PAUSE))], 1),
        }
        names = {}
        for kind, work in jobs.items():
            names[kind] = f"{kind}-{number}"
            with suppress(ConflictError):  # accepted, though the answer was lost
                patiently(lambda: client.start({"name": names[kind], "components": {"t": work}}))  # noqa: B023
        wait_until(lambda: (marks / "stopped").exists(), 60, "the first task of the job that is to be stopped")
        return names

    def _kill(self, victim: str) -> None:
        pid = self._pid(victim)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.killed[victim] += 1

    def _pid(self, victim: str) -> int | None:
        """None: it does not run now, or is the only keeper of exit codes."""
        if victim not in (SHEPHERD.name, "guard"):
            return self.cluster.pid(victim)
        found = {each.pid: each for each in processes.of_cluster(self.cluster.config) if each.name == SHEPHERD.name}
        shepherd = found.get(processes.shepherd_pid(self.cluster.config) or 0)
        if shepherd is None or shepherd.parent not in found:
            return None
        return shepherd.pid if victim == SHEPHERD.name else shepherd.parent

    def _judge(self, client: Client, names: dict[str, str], views: dict[str, Any], marks: Path) -> None:
        states = {kind: view.state for kind, view in views.items()}
        assert states == {"array": "FAILED", "retried": "SUCCEEDED", "stopped": "STOPPED", "talking": "SUCCEEDED"}
        tasks = {kind: patiently(lambda: client.tasks(name)) for kind, name in names.items()}  # noqa: B023
        ended = [(task.index, task.exit_code, task.attempt) for task in tasks["array"]]
        assert ended == [(index, index % 3, 1) for index in range(ARRAY)]
        ended = [(task.index, task.exit_code, task.attempt) for task in tasks["retried"]]
        assert ended == [(index, 0, 2) for index in range(RETRIED)]
        assert started(marks / "array") == {f"t.{index}/1": 1 for index in range(ARRAY)}
        assert started(marks / "retried") == {f"t.{index}/{n}": 1 for index in range(RETRIED) for n in (1, 2)}
        assert set(started(marks / "stopped").values()) <= {1}
        printed = whole_log(client, names["array"])
        assert sorted(printed) == sorted(str(index) for index in range(ARRAY))
        printed = whole_log(client, names["retried"])
        assert sorted(printed) == ["1"] * RETRIED + ["2"] * RETRIED
        numbers = [int(line[:8]) for line in whole_log(client, names["talking"])]
        assert numbers == list(range(self.lines)), first_difference(numbers)


def component(command: str | list[str], replicas: int) -> dict[str, Any]:
    return {"command": command, "replicas": replicas, "resources": {"cpu": 0.001}}


def started(marks: Path) -> Counter[str]:
    return Counter(marks.read_text().splitlines())


def first_difference(numbers: list[int]) -> str:
    at = next((at for at, number in enumerate(numbers) if at != number), len(numbers))
    return f"of {len(numbers)} lines, line {at} is {numbers[at] if at < len(numbers) else 'missing'}"


def patiently(action: Callable[[], T], seconds: float = 60.0) -> T:
    """Try again while the API is away: it was killed, and its supervisor may have been killed, too."""
    until = time.monotonic() + seconds
    while True:
        try:
            return action()
        except UnreachableError:
            if time.monotonic() > until:
                raise


def whole_log(client: Client, job: str) -> list[str]:
    """Return the lines of a job that has ended, once none is late: the collector may have been killed just before."""
    printed: list[str] = []

    def is_whole() -> bool:
        late: list[bool] = []
        printed[:] = patiently(lambda: [line.text for line in client.logs(job, late=lambda: late.append(True))])
        return not late

    wait_until(is_whole, BACK_WITHIN, f"the whole log of {job}", 0.1)
    return printed


@contextmanager
def matrix(folder: Path, lines: int) -> Iterator[Matrix]:
    cluster = LocalCluster()
    try:
        cluster.create()
        yield Matrix(cluster, folder, lines)
    finally:
        cluster.end()


def run(rounds: int, seed: int, lines: int, folder: Path) -> Counter[str]:
    """Returns how often each daemon was killed. AssertionError names the seed and the round."""
    chance = random.Random(seed)
    with matrix(folder, lines) as ours:
        for number in range(rounds):
            state = plan_text(chance)
            try:
                ours.round(number, chance)
            except Exception as error:
                raise AssertionError(f"seed {seed}, round {number}, {state}: {error}") from error
            print(f"seed {seed}, round {number}: {state}", flush=True)
        return ours.killed


def plan_text(chance: random.Random) -> str:
    """What the next round kills; the chance stays as it is."""
    copy = random.Random()
    copy.setstate(chance.getstate())
    return ", ".join(f"{kill.victim} after {kill.after:.2f} s" for kill in plan(copy))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=70)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--lines", type=int, default=40_000, help="of 1000 bytes, of the talking job")
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder for the marks of the tasks")
    options = parser.parse_args()
    print(dict(run(options.rounds, options.seed, options.lines, options.folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
