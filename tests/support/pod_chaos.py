"""Attempts in pods while the network, the API server and the agent fail in many ways, chosen by a seed."""

from __future__ import annotations

import random
import select
import time
from collections.abc import Callable

from grass.model.reasons import Reason, ReasonCode
from node.runtime.protocol import Launch, Listed, Observed, Start, Stop
from tests.support import kubernetes
from tests.support.api_gateway import Asked, Fault
from tests.support.engine import IMAGE
from tests.support.pod_run import PodRun

LINES = 40
STOPPED = Reason(ReasonCode.USER_STOPPED, "stopped by chaos")
_TOMBSTONE = 1.0
_SECONDS = 50.0
_PLAIN = Launch([], {}, None, 1.0, runtime="kubernetes", image=IMAGE, cpu=10, memory=16 << 20)
_WRITES = f"i=0; while [ $i -lt {LINES} ]; do echo line $i; echo line $i again >&2; i=$((i+1)); sleep 0.03; done"


def script(code: int) -> str:
    """Return a task that says who it is, writes lines to both streams, and ends with ``code``."""
    return f"echo I am $GRASS_KEY; {_WRITES}; exit {code}"


def written(key: str) -> list[str]:
    """Return the lines of the task's log, sorted: the streams mix."""
    return sorted([f"I am {key}", *(f"line {n}{more}" for n in range(LINES) for more in ("", " again"))])


def faults(choose: random.Random) -> list[Fault]:
    """Return faults of all kinds, each of which meets a few requests."""

    def meets(method: str, part: str) -> Callable[[Asked], bool]:
        return lambda asked: asked.method == method and part in asked.path and choose.random() < 0.4

    def times() -> int:
        return choose.randint(1, 3)

    found = []
    for method in ("POST", "DELETE", "PATCH"):
        found += [
            Fault(meets(method, "/pods"), times(), carried_out=True),
            Fault(meets(method, "/pods"), times(), choose.choice((500, 503, 504)), carried_out=True),
            Fault(meets(method, "/pods"), times(), choose.choice((429, 500)), retry_after=choose.randint(0, 1)),
            Fault(meets(method, "/pods"), times()),
        ]
    found += [
        Fault(meets("GET", "/pods/g-"), times(), choose.choice((None, 429, 500))),
        Fault(meets("GET", "watch=true"), times(), after_bytes=choose.randint(0, 9000)),
        Fault(meets("GET", "watch=true"), times(), choose.choice((429, 500))),
        Fault(meets("GET", "/log?"), times(), after_bytes=choose.randint(0, 1500)),
        Fault(meets("GET", "/log?"), times(), choose.choice((None, 429, 500))),
    ]
    choose.shuffle(found)
    return found


class Chaos:
    """Plays the kube-agent: what it wants is started, stopped and forgotten, whatever happens in between."""

    def __init__(self, run: PodRun, seed: int) -> None:
        self.run = run
        self.choose = random.Random(seed)
        self.name = f"chaos-{seed}"
        self.codes = {f"{self.name}/t{number}.0/1": number for number in range(3)}
        self.stops = {f"{self.name}/slow.{number}/1" for number in range(2)}
        self.ends: dict[str, set[tuple[int | None, int | None, Reason | None]]] = {}
        self.begun: set[str] = set()
        self.published: list[tuple[int, str]] = []
        """The generation of the agent, and the attempt, of each end that it was told."""
        self.generation = 0
        self.stopping = False
        self.open()

    def play(self) -> None:
        self.run.gateway.faults = faults(self.choose)
        until = time.monotonic() + _SECONDS
        moments = iter(sorted(self.choose.uniform(0.3, 8.0) for _ in range(6)))
        began, moment = time.monotonic(), next(moments)
        while set(self.ends) != {*self.codes, *self.stops}:
            assert time.monotonic() < until, self.state()
            self.turn()
            if moment is not None and time.monotonic() - began > moment:
                self.disturb()
                moment = next(moments, None)
            if not self.stopping and self.stops & self.begun:
                self.stopping = True
                self.stop()

    def disturb(self) -> None:
        what = self.choose.choice(("cut", "shut", "agent"))
        if what == "cut":
            self.run.gateway.cut()
        elif what == "shut":
            self.run.gateway.shut = True
            self.run.gateway.cut()
            after = time.monotonic() + self.choose.uniform(0.1, 1.5)
            while time.monotonic() < after:
                self.turn()
            self.run.gateway.shut = False
        else:
            self.open()

    def open(self, width: int | None = None) -> None:
        """Be the next agent. ``width``: how many attempts of a launch may run at once."""
        self.run.runtime.close()
        self.runtime = self.run.runtime = self.run.open(_TOMBSTONE)
        self.generation += 1
        self._define(width)

    def turn(self) -> None:
        select.select([self.runtime], [], [], 0.02)
        for event in self.runtime.receive():
            if isinstance(event, Listed):
                for each in event.attempts:
                    self.observe(each)
                known = {each.key for each in event.attempts}
                wanted = {*self.codes, *self.stops} - known - set(self.ends)
                self.runtime.start([Start(each, _launch(each), {"GRASS_KEY": each}) for each in sorted(wanted)])
                if self.stopping:
                    self.stop()
            elif isinstance(event, Observed):
                if event.ended is not None:
                    self.published.append((self.generation, event.key))
                self.observe(event)

    def observe(self, each: Observed) -> None:
        if not each.key.startswith(f"{self.name}/"):
            return
        if each.since is not None:
            self.begun.add(each.key)
        if each.ended is not None:
            self.ends.setdefault(each.key, set()).add((each.code, each.signal, each.reason))

    def stop(self) -> None:
        self.runtime.stop([Stop(each, 1.0, STOPPED) for each in self.stops])

    def forget(self) -> None:
        """Forget all, and wait until nothing is left in the namespace."""
        self.runtime.forget(sorted(self.ends))
        self.until(lambda: not self.left())

    def until(self, condition: Callable[[], object], seconds: float = _SECONDS) -> None:
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, self.state()
            self.turn()

    def state(self) -> str:
        """Return what the runtime knows, the pods that are left, and the last requests, for a person."""
        known = [vars(each) for each in self.runtime._attempts.values() if each.ended is None]
        return "\n".join(map(str, [self.ends, *known, self.left(), *self.run.gateway.asked[-60:]]))

    def left(self) -> list[str]:
        pods = self.run.server.get(self.run.place.path, kubernetes.ANY)["items"]
        found = [each["metadata"]["annotations"]["grass-cluster.org/attempt"] for each in pods]
        return [each for each in found if each.startswith(f"{self.name}/")]

    def _define(self, width: int | None) -> None:
        launches = {_launch(key): ["/bin/sh", "-c", script(code)] for key, code in self.codes.items()}
        launches[f"{self.name}/slow"] = ["/bin/sh", "-c", f"{script(0).removesuffix('; exit 0')}; exec sleep 100"]
        self.runtime.define({name: _PLAIN._replace(argv=argv, width=width) for name, argv in launches.items()})


def _launch(key: str) -> str:
    return key.rpartition("/")[0].rpartition(".")[0]
