"""How the tests themselves are shared out among workers."""

from __future__ import annotations

from pathlib import Path

from tests.support.workers import FIRST, LAB, MOST_LABS, SHARED, SPLIT, group_of, next_group, turn_of

CHECKOUT = Path(__file__).parents[2]


def test_what_is_said_of_modules_is_said_of_modules_that_are_there() -> None:
    named = [*SPLIT, *(module for modules in SHARED.values() for module in modules)]
    named += [start for start in FIRST if start.startswith("tests/")]
    assert [path for path in named if not (CHECKOUT / path).exists()] == []


def test_a_module_is_one_group_unless_it_shares_more_or_nothing() -> None:
    assert (
        group_of("tests/unit/test_x.py::test_a[1]")
        == group_of("tests/unit/test_x.py::test_b")
        == "tests/unit/test_x.py"
    )
    engine = {group_of(f"{module}::test_a") for module in SHARED["engine"]}
    assert engine == {"engine"}
    assert group_of(f"{SPLIT[0]}::test_a") != group_of(f"{SPLIT[0]}::test_b")


def test_what_takes_longest_begins_first() -> None:
    order = [
        f"{FIRST[0]}::test_a",
        f"{LAB}test_x.py::test_a",
        f"{SHARED['engine'][0]}::test_a",
        f"{SPLIT[0]}::test_a",
        "tests/unit/test_x.py::test_a",
    ]
    turns = [turn_of(nodeid) for nodeid in order]
    assert turns == sorted(turns) and len(set(turns)) == len(turns)


def test_hosts_are_run_by_two_workers_and_these_run_them_all() -> None:
    hosts, other = f"{LAB}test_x.py", "tests/unit/test_x.py"
    assert next_group([hosts, other], has_lab=False, labs=MOST_LABS - 1) == hosts
    assert next_group([hosts, other], has_lab=False, labs=MOST_LABS) == other
    assert next_group([hosts, other], has_lab=True, labs=MOST_LABS) == hosts
    assert next_group([other], has_lab=True, labs=MOST_LABS) == other
    assert next_group([hosts], has_lab=False, labs=MOST_LABS) is None
    assert next_group([], has_lab=True, labs=1) is None
