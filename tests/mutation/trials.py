"""Tries changes of the code, each in a process that is forked after all tests were collected and ran unchanged.

``python -m tests.mutation.trials NAMES RESULTS PROCESSES TEST...``, in a copy of the tree with changed modules. Used by
``tests.mutation.run``. mutmut can do this too, but collects tests anew for each change, and runs them in any order.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from _pytest.runner import runtestprotocol
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

from tests.mutation.report import ENDLESS, KILLED, NO_TESTS, SURVIVED

UNCHANGED = "stats"
"""What the decorator of mutmut takes for: note which functions are called, and change none."""
PASSED, FAILED = 0, 1
MOST = 4.0
"""Seconds of tests that a change has to pass, the shortest first: the planner is under most tests that there are."""


class Trials:
    """A plugin of pytest: which tests call which function, then each change before those of its function."""

    def __init__(self, names: Sequence[str], results: Path, together: int) -> None:
        self._names = names
        self._results = results
        self._together = together
        self._running: dict[int, tuple[str, float]] = {}
        self._seconds: dict[pytest.Item, float] = {}
        self._callers: defaultdict[str, list[pytest.Item]] = defaultdict(list)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in session.items:
            self._watch(item)
        gc.collect()
        gc.freeze()
        self._results.write_text("")
        for name in self._names:
            self._start(name)
        while self._running:
            self._await_one()
        return True

    def _watch(self, item: pytest.Item) -> None:
        set_mutant_under_test(UNCHANGED)
        called, start = state()._stats, time.process_time()
        called.clear()
        if failed(item, None):
            print(f"{item.nodeid} fails in the copy of the tree, without a change; it is left out", flush=True)
            return
        self._seconds[item] = time.process_time() - start
        for function in called:
            self._callers[function].append(item)

    def _start(self, name: str) -> None:
        tests = self._tests_of(name.partition("__mutmut_")[0])
        if not tests:
            return self._note(name, NO_TESTS, 0.0)
        while len(self._running) >= self._together:
            self._await_one()
        limit = 2 + round(4 * sum(self._seconds[test] for test in tests))
        child = os.fork()
        if not child:
            self._run(name, tests, limit)
        self._running[child] = name, time.monotonic()
        return None

    def _tests_of(self, function: str) -> list[pytest.Item]:
        chosen, seconds = [], 0.0
        for item in sorted(self._callers[function], key=self._seconds.__getitem__):
            seconds += self._seconds[item]
            if not chosen or seconds < MOST:
                chosen.append(item)
        return chosen

    def _await_one(self) -> None:
        child, status = os.wait()
        if child in self._running:
            name, start = self._running.pop(child)
            became = {PASSED: SURVIVED, FAILED: KILLED}.get(os.waitstatus_to_exitcode(status), ENDLESS)
            self._note(name, became, time.monotonic() - start)

    def _note(self, name: str, state: str, seconds: float) -> None:
        with self._results.open("a") as file:
            file.write(json.dumps([name, state, round(seconds, 3)]) + "\n")

    def _run(self, name: str, tests: Sequence[pytest.Item], limit: int) -> NoReturn:
        """Run the tests until one fails. A change that makes them endless ends this process by a signal."""
        code = FAILED
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(10 * limit)
            set_mutant_under_test(name)
            if not any(failed(*each) for each in zip(tests, [*tests[1:], None], strict=True)):
                code = PASSED
        finally:
            os._exit(code)


def failed(item: pytest.Item, following: pytest.Item | None) -> bool:
    return any(report.failed for report in runtestprotocol(item, nextitem=following, log=False))


def main(names: str, results: str, together: str, *tests: str) -> int:
    wanted = json.loads(Path(names).read_text())
    options = ["-q", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider"]
    return pytest.main([*options, *tests], plugins=[Trials(wanted, Path(results), int(together))])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
