"""Run failed tests again, each alone and in a fresh process: ``python -m tests.support.run_again FILE [OPTION…]``.

Only ``scripts/test`` calls this, and only under ``GRASS_TEST_STRICT``: CI judges a change, and thousands of real
processes on two busy cores sometimes fail a test that has nothing to do with it. ``FILE`` is what ``--failed-tests``
wrote; the options are those of the run. The exit code is 0 if each test passed in one of its tries. The first failures
of such tests are printed under ``FLAKY``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TRIES = 2
MOST_FLAKY = 5
"""More flaky tests than this in one run are no accident."""


def main(path: Path, *options: str) -> int:
    failed = read(path)
    print(f"== again, alone: {len(failed)} failed", flush=True)
    if len(failed) > MOST_FLAKY:
        print(f"more than {MOST_FLAKY} tests failed; none is run again", flush=True)
        return 1
    flaky = {test: output for test, output in failed.items() if passes(test, options)}
    for test, output in flaky.items():
        print(f"== FLAKY {test}: failed once, passed alone; a bug until explained\n{output}", flush=True)
    still = [test for test in failed if test not in flaky]
    for test in still:
        print(f"== FAILED {test}: also alone, {TRIES} times", flush=True)
    return 1 if still or not failed else 0


def read(path: Path) -> dict[str, str]:
    """Return failed test → output of its first failure."""
    failed: dict[str, str] = {}
    for line in path.read_text().splitlines():
        failure = json.loads(line)
        failed.setdefault(failure["test"], failure["output"])
    return failed


def passes(test: str, options: Sequence[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", *options, test]
    return any(subprocess.run(command, check=False).returncode == 0 for _ in range(TRIES))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
