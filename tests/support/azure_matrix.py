"""The failure matrix of Azure: faults as data, and worlds in which one happens at each request of a command.

Used by ``tests/unit/test_azure_matrix.py`` and ``tests/unit/test_aks_matrix.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from grass.azure.arm import Reply
from grass.errors import GrassError
from tests.support.azure_world import FaultyWorld, KilledError, cut, reply

W = TypeVar("W", bound=FaultyWorld)
Fault = Callable[[Callable[[], Reply]], Reply]


def killed(go: Callable[[], Reply]) -> Reply:
    raise KilledError


def killed_after(go: Callable[[], Reply]) -> Reply:
    go()
    raise KilledError


def cut_after(go: Callable[[], Reply]) -> Reply:
    go()
    return cut()


FAULTS: dict[str, Fault] = {
    "killed before": killed,
    "killed after": killed_after,
    "cut before": lambda go: cut(),
    "cut after": cut_after,
    "401": lambda go: reply(401, "ExpiredAuthenticationToken"),
    "403": lambda go: reply(403, "AuthorizationFailed"),
    "quota": lambda go: reply(409, "QuotaExceeded"),
    "busy": lambda go: reply(409, "AnotherOperationInProgress"),
    "locked": lambda go: reply(409, "ScopeLocked"),
    "deleting": lambda go: reply(409, "ResourceGroupBeingDeleted"),
    "unregistered": lambda go: reply(409, "MissingSubscriptionRegistration"),
    "429 at once": lambda go: reply(429, "TooManyRequests", retry_after="0"),
    "429 in a second": lambda go: reply(429, "TooManyRequests", retry_after="1"),
    "429 in five minutes": lambda go: reply(429, "TooManyRequests", retry_after="300"),
    "429 in an hour": lambda go: reply(429, "TooManyRequests", retry_after="3600"),
    "429": lambda go: reply(429, "TooManyRequests"),
    "500": lambda go: reply(500, "InternalServerError"),
    "500 after": lambda go: (go(), reply(500))[1],
    "502 of a proxy": lambda go: reply(502),
}
PASSES = {"cut before", "cut after", "busy", "deleting", "500", "500 after", "502 of a proxy", "429"} | {
    name for name in FAULTS if name.startswith("429") and "hour" not in name
}
"""After these, the same command goes on by itself."""
PARTS = pytest.mark.parametrize("part", [100, pytest.param(1, marks=pytest.mark.nightly)])
"""In every run, the requests that change something and few that look; at night, every one of them: the same
tests of this module."""
_ALIKE = {"killed before", "cut before", "locked", "deleting", "429 in a second", "500", "502 of a proxy"}
NAMES = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name in _ALIKE)) for name in FAULTS]
)
"""At night, also those that are much like another: the same tests of this module."""
_OTHERS = {"killed after", "cut after", "quota", "401"}
SOME_NAMES = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name not in _OTHERS)) for name in FAULTS]
)
"""At night, also those that are handled where those of a master are: the same test of this module."""


def requests(
    new: Callable[[Path], W],
    home: Path,
    act: Callable[[W], object],
    part: int,
    before_it: Callable[[W], object],
) -> list[int]:
    """Return the numbers of the requests that change something, and of every ``part``-th other."""
    world = new(home)
    before_it(world)
    before = len(world.azure.asked)
    act(world)
    methods = [asked.method for asked in world.azure.asked[before:]]
    return [number for number, method in enumerate(methods) if method != "GET" or number % part == 0]


def at(world: FaultyWorld, number: int, fault: Fault, *, for_good: bool = False) -> None:
    """Let a fault happen at one request. ``for_good``: nothing is sent after it, as the process is gone."""
    numbers = itertools.count()

    def meets(method: str, url: str, go: Callable[[], Reply]) -> Reply:
        now = next(numbers)
        if for_good and now > number:
            raise KilledError
        return fault(go) if now == number else go()

    world.fault = meets


def run(world: W, act: Callable[[W], object]) -> BaseException | None:
    try:
        act(world)
    except (GrassError, KilledError) as error:
        return error
    finally:
        world.fault = lambda method, url, go: go()
    return None


def faulted(
    new: Callable[[Path], W],
    name: str,
    act: Callable[[W], object],
    part: int,
    memory: Path,
    before: Callable[[W], object] = lambda _: None,
) -> Iterator[tuple[int, W, BaseException | None, str]]:
    """Yield for each request of ``act`` its number, a world in which the fault happened there, how ``act`` failed, and
    what to say of it."""
    for number in requests(new, memory / "whole", act, part, before):
        world = new(memory / str(number))
        before(world)
        at(world, number, FAULTS[name])
        failed = run(world, act)
        yield number, world, failed, f"request {number}: {world.azure.asked[-1:]}: {failed}"
