"""What every runtime does: the same tests against real processes, real containers and simulated attempts."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from grass.model.reasons import Reason, ReasonCode
from node.runtime.docker.plan import ATTEMPT
from node.runtime.protocol import Launch, Listed, Observed, Runtime, Start, Stop
from tests.doubles.simulated_runtime import SimulatedRuntime
from tests.support.docker_run import DockerRun
from tests.support.engine import IMAGE, require_engine
from tests.support.pod_run import pod_run
from tests.support.shepherd_run import ShepherdRun

PATH = {"PATH": os.environ.get("PATH", os.defpath)}
PROCESS = Launch(["/bin/sleep", "100"], PATH, None, 5.0)
QUICK, SLOW, DEAF = "j-1/quick", "j-1/slow", "j-1/deaf"


class Subject:
    """A runtime that knows three launches: one that ends soon with 3, one that goes on, one that ignores TERM.

    ``stdout`` of an attempt: what the one that ignores TERM prints once it does. ``gone``: nothing of it is left.
    """

    def __init__(
        self,
        runtime: Runtime,
        restart: Callable[[], None],
        plain: Launch = PROCESS,
        *,
        stdout: Callable[[str], str] = lambda key: "up",
        gone: Callable[[str], bool] = lambda key: True,
    ) -> None:
        self.runtime = runtime
        self.restart = restart
        self.plain = plain
        self.stdout = stdout
        self.gone = gone
        self.tells_signals = True
        """Whether it always knows how an attempt ended that it stopped itself: kubelets before 1.22 do not."""
        self.takes_stop_signals = True
        """Whether a launch may name the signal that stops its attempts: pods always get TERM."""
        self.out_of_order = 0
        """By how many places an attempt may begin too early: its pods are made in order, and begin as they can."""
        self.known: dict[str, Observed] = {}
        self.lists = 0
        self.history: list[Observed] = []
        self.wait(lambda: self.lists == 1)
        for name, script in (
            (QUICK, "exit 3"),
            (SLOW, "exec sleep 100"),
            (DEAF, "trap '' TERM; echo up; while :; do sleep 0.02; done"),
        ):
            self.define(name, script)

    def define(self, name: str, script: str = "sleep 0.05; exit 3", width: int | None = None) -> None:
        self.runtime.define({name: self.plain._replace(argv=["/bin/sh", "-c", script], width=width)})

    def start(self, launch: str, *keys: str) -> None:
        self.runtime.start([Start(key, launch, {}) for key in keys])

    def ended(self, *keys: str) -> list[Observed]:
        self.wait(lambda: all(key in self.known and self.known[key].ended is not None for key in keys))
        return [self.known[key] for key in keys]

    def runs(self, key: str) -> Observed:
        self.wait(lambda: key in self.known and self.known[key].since is not None)
        return self.known[key]

    def tells(self, ended: Observed, signal: int) -> bool:
        return ended.signal == signal or (ended.signal is None and not self.tells_signals)

    def relist(self) -> None:
        before = self.lists
        self.restart()
        self.wait(lambda: self.lists > before)

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, self.known
            select.select([self.runtime], [], [], 0.01)
            for event in self.runtime.receive():
                if isinstance(event, Listed):
                    self.lists += 1
                    self.known = {attempt.key: attempt for attempt in event.attempts}
                elif isinstance(event, Observed):
                    self.known[event.key] = event
                    self.history.append(event)


def life(start: Start) -> tuple[float, int]:
    return (0.05, 3) if start.launch not in (SLOW, DEAF) else (1000.0, 0)


@pytest.fixture(params=["process", "docker", pytest.param("pods", marks=pytest.mark.nightly), "simulated"])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    if request.param == "simulated":
        simulated = SimulatedRuntime(life, obstinate=lambda start: start.launch == DEAF)
        yield Subject(simulated, simulated.restart)
        simulated.close()
        return
    if request.param == "pods":
        with pod_run() as run_of_pods:
            plain = PROCESS._replace(runtime="kubernetes", image=IMAGE, env={}, cpu=50, memory=32 << 20)
            pods = Subject(
                run_of_pods.runtime, run_of_pods.cut, plain, stdout=run_of_pods.stdout, gone=run_of_pods.gone
            )
            pods.tells_signals, pods.takes_stop_signals, pods.out_of_order = False, False, 1
            yield pods
            return
    if request.param == "docker":
        require_engine()
        with DockerRun() as containers:
            plain = PROCESS._replace(runtime="docker", image=IMAGE)

            def gone(key: str) -> bool:
                return key not in {each["Config"]["Labels"][ATTEMPT] for each in containers.containers()}

            yield Subject(containers.runtime, containers.cut, plain, stdout=containers.stdout, gone=gone)
        return
    with ShepherdRun() as run:
        subject = Subject(run.runtime, run.kill_shepherd, stdout=run.stdout)
        yield subject
        run.lists, run.known = subject.lists, subject.known


def test_an_attempt_is_seen_to_start_and_to_end(subject: Subject) -> None:
    subject.start(QUICK, "j-1/quick.0/1")
    [ended] = subject.ended("j-1/quick.0/1")
    assert (ended.code, ended.signal, ended.reason, ended.stopping) == (3, None, None, False)
    assert ended.since is not None and ended.sizes == {"stdout": 0, "stderr": 0}
    assert ended.started is not None and ended.ended is not None and ended.started <= ended.ended


def test_an_attempt_that_is_known_is_not_started_again_until_it_is_forgotten(subject: Subject) -> None:
    subject.start(QUICK, "j-1/quick.0/1")
    [first] = subject.ended("j-1/quick.0/1")
    subject.start(QUICK, "j-1/quick.0/1", "j-1/quick.1/1")
    subject.ended("j-1/quick.1/1")
    assert subject.known["j-1/quick.0/1"] == first
    subject.runtime.forget(["j-1/quick.0/1"])
    subject.start(QUICK, "j-1/quick.0/1")
    subject.wait(lambda: subject.known["j-1/quick.0/1"].since != first.since)
    subject.ended("j-1/quick.0/1")


def test_stopping_ends_by_term_and_carries_its_reason(subject: Subject) -> None:
    subject.start(SLOW, "j-1/slow.0/1")
    subject.runs("j-1/slow.0/1")
    reason = Reason(ReasonCode.TIMEOUT, "too long")
    subject.runtime.stop([Stop("j-1/slow.0/1", 20.0, reason), Stop("j-1/unknown.0/1", 1.0)])
    [ended] = subject.ended("j-1/slow.0/1")
    assert (ended.code, ended.reason, ended.stopping) == (None, reason, True)
    assert subject.tells(ended, signal.SIGTERM)


def test_a_launch_names_the_signal_that_stops_it_also_after_it_was_away(subject: Subject) -> None:
    if not subject.takes_stop_signals:
        return
    subject.runtime.define({SLOW: subject.plain._replace(stop_signal=signal.SIGUSR1)})
    subject.start(SLOW, "j-1/slow.0/1")
    subject.runs("j-1/slow.0/1")
    subject.relist()
    subject.runtime.stop([Stop("j-1/slow.0/1", 20.0)])
    [ended] = subject.ended("j-1/slow.0/1")
    assert (ended.code, ended.signal, ended.stopping) == (None, signal.SIGUSR1, True)


def test_who_ignores_term_is_killed_after_the_grace(subject: Subject) -> None:
    subject.start(DEAF, "j-1/deaf.0/1")
    subject.runs("j-1/deaf.0/1")
    subject.wait(lambda: "up" in subject.stdout("j-1/deaf.0/1"))
    subject.runtime.stop([Stop("j-1/deaf.0/1", 0.2)])
    [ended] = subject.ended("j-1/deaf.0/1")
    assert subject.tells(ended, signal.SIGKILL)


def test_no_more_than_the_width_run_at_once_and_the_others_follow_in_order(subject: Subject) -> None:
    subject.define("j-1/array", width=2)
    keys = [f"j-1/array.{index}/1" for index in range(8)]
    subject.start("j-1/array", *keys)
    subject.ended(*keys)
    begun = sorted((subject.known[key].since or 0.0, key) for key in keys)
    assert all(abs(keys.index(key) - place) <= subject.out_of_order for place, (_, key) in enumerate(begun))
    moments = [(seen.started or 0.0, 1) for seen in subject.known.values()]
    moments += [(seen.ended or 0.0, -1) for seen in subject.known.values()]
    running = most = 0
    for _, change in sorted(moments):
        running += change
        most = max(most, running)
    assert most <= 2


def test_a_wider_launch_lets_the_waiting_start(subject: Subject) -> None:
    subject.runtime.define({SLOW: subject.plain._replace(width=1)})
    subject.start(SLOW, "j-1/slow.0/1", "j-1/slow.1/1")
    subject.runs("j-1/slow.0/1")
    subject.runtime.define({SLOW: subject.plain})
    subject.start(SLOW, "j-1/slow.2/1")
    subject.runs("j-1/slow.1/1")
    subject.runs("j-1/slow.2/1")


def test_what_is_stopped_while_it_waits_never_runs(subject: Subject) -> None:
    subject.runtime.define({SLOW: subject.plain._replace(width=1)})
    subject.start(SLOW, "j-1/slow.0/1", "j-1/slow.1/1", "j-1/slow.2/1")
    subject.runs("j-1/slow.0/1")
    reason = Reason(ReasonCode.TIMEOUT, "too long")
    subject.runtime.stop([Stop("j-1/slow.1/1", 5.0, reason)])
    [ended] = subject.ended("j-1/slow.1/1")
    assert (ended.pid, ended.started, ended.code, ended.signal, ended.reason) == (None, None, None, None, reason)
    subject.runtime.stop([Stop("j-1/slow.0/1", 5.0)])
    subject.runs("j-1/slow.2/1")


def test_after_it_was_away_everything_is_listed_running_and_ended(subject: Subject) -> None:
    subject.start(SLOW, "j-1/slow.0/1")
    subject.start(QUICK, "j-1/quick.0/1", "j-1/quick.1/1")
    [ended, _] = subject.ended("j-1/quick.0/1", "j-1/quick.1/1")
    subject.runtime.forget(["j-1/quick.1/1"] * 2)
    running = subject.runs("j-1/slow.0/1")
    subject.start(QUICK, "j-1/quick.2/1")
    subject.ended("j-1/quick.2/1")  # so that the command to forget has arrived
    subject.wait(lambda: subject.gone("j-1/quick.1/1"))
    subject.relist()
    assert set(subject.known) == {"j-1/slow.0/1", "j-1/quick.0/1", "j-1/quick.2/1"}
    assert subject.known["j-1/quick.0/1"] == ended
    assert subject.known["j-1/slow.0/1"] == running
    subject.runtime.stop([Stop("j-1/slow.0/1", 5.0)])
    [stopped] = subject.ended("j-1/slow.0/1")
    assert stopped.stopping and subject.tells(stopped, signal.SIGTERM)
