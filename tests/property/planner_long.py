"""Judges the planner on many random clusters; every failure is printed with its seed.

.venv/bin/python -m tests.property.planner_long --clusters 100000 [--first SEED]
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

from master.planning import candidates
from master.planning.decide import decide
from master.planning.model import Plan, Snapshot
from tests.support.planner_oracle import judge
from tests.support.planner_worlds import random_view, shuffled


def judge_seed(seed: int) -> Plan:
    """Raises AssertionError with the seed. The plan must also be the same however the view is said."""
    view = random_view(seed)
    try:
        plan = decide(view)
        judge(view, plan)
        other = decide(shuffled(view, seed + 1))
        assert other.placements == plan.placements, "the placements depend on the order of the view"
        assert other.evictions == plan.evictions, "the evictions depend on the order of the view"
        assert dict(other.waiting) == dict(plan.waiting), "the reasons depend on the order of the view"
        assert _by_arrays(view).placements == plan.placements, "another plan when the nodes are looked at all at once"
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
        raise AssertionError(f"seed {seed}: {error!r} ({line.name}, line {line.lineno})") from error
    return plan


def _by_arrays(view: Snapshot) -> Plan:
    """Decided as on a cluster of many nodes, where the lists of nodes come from arrays and begin with the best few."""
    before = candidates.FEW, candidates.SOME
    candidates.FEW, candidates.SOME = 0, 1
    try:
        return decide(view)
    finally:
        candidates.FEW, candidates.SOME = before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    options = parser.parse_args()
    begun, failures, codes = time.perf_counter(), 0, Counter[str]()
    for seed in range(options.first, options.first + options.clusters):
        try:
            plan = judge_seed(seed)
        except AssertionError as error:
            failures += 1
            print(error, flush=True)
            continue
        codes.update(reason.code.value for reason in plan.waiting.values())
        codes.update({"placements": len(plan.placements), "evictions": len(plan.evictions)})
    seconds = time.perf_counter() - begun
    print(f"{options.clusters} clusters from seed {options.first} in {seconds:.0f} s: {failures} failures")
    print(", ".join(f"{name} {count}" for name, count in sorted(codes.items())))
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
