"""What a run of mutations tries, and what it says of it (``scripts/mutate``)."""

from __future__ import annotations

from tests.mutation.report import Change, allowed, differing, figures, guards_only
from tests.mutation.selection import NIGHTS, Chosen, chosen, importers, sampled

MODULES = [f"master.agent.m{number:03}" for number in range(3 * NIGHTS + 1)]


def test_the_nights_of_one_round_change_each_module_once() -> None:
    nights = [chosen([], MODULES, night).modules for night in range(300, 300 + NIGHTS)]
    assert sorted(module for night in nights for module in night) == MODULES
    assert {len(night) for night in nights} == {3, 4}


def test_a_run_takes_all_modules_those_that_are_named_or_a_sample_of_all() -> None:
    assert chosen(["all"], MODULES, 5) == Chosen(MODULES)
    assert chosen(["master.agent.m01"], MODULES, 5) == Chosen(["master.agent.m01"])
    assert chosen(["sample", "30", "7"], MODULES, 5) == Chosen(MODULES, 30, 7)
    assert chosen(["sample", "30", "7", "m"], MODULES, 5) == Chosen(["m"], 30, 7)
    assert chosen(["m", "n", "--", "a.py", "b.py"], MODULES, 5) == Chosen(["m", "n"], tests=["a.py", "b.py"])


def test_a_sample_is_drawn_from_all_changes_and_the_same_for_the_same_seed() -> None:
    drawn = sampled([3, 0, 500], 100, 1)
    assert [len(places) for places in drawn][1] == 0 and sum(map(len, drawn)) == 100
    assert all(places == sorted(set(places)) for places in drawn) and max(drawn[2]) < 500
    assert sampled([3, 0, 500], 100, 1) == drawn != sampled([3, 0, 500], 100, 2)
    assert sampled([2, 1], 100, 1) == [[0, 1], [0]]


def test_the_importers_a_package_import_it_by_themselves_or_through_what_supports_them() -> None:
    support = {
        "tests.support.inner": "from tests.support.world import World",
        "tests.support.world": "from master.agent import reactor",
        "tests.support.other": "import re",
    }
    tests = {
        "a": "from master.agent.jobs import x",
        "b": "from tests.support import other, inner",
        "c": "from tests.support.other import x\nfrom master.agents import y",
        "d": "from tests.support.inner import x",
    }
    assert importers(["master.agent"], support, tests) == ["a", "b", "d"]


def test_changes_that_may_live_are_read_with_their_reasons() -> None:
    text = "# A comment.\n\nm.x_f\n- a = 1\n+ a = 2\n= nobody reads a\n\n\nm.x_g\n- b\n+ \n= no\n"
    assert allowed(text) == {Change("m.x_f", "a = 1", "a = 2"): "nobody reads a", Change("m.x_g", "b", ""): "no"}


def test_the_figures_count_what_was_noticed_and_leave_out_what_may_live() -> None:
    found = {"m.a.x_f__mutmut_1": "killed", "m.a.x_f__mutmut_2": "survived", "m.a.x_f__mutmut_3": "endless"}
    found |= {"m.b.x_f__mutmut_1": "types", "m.b.x_f__mutmut_2": "no tests"}
    lines, part = figures(found, 1)
    assert lines == ["m.a: 2 of 3", "m.b: 1 of 2", "all: 3 of 4 changes were noticed (75.0%); 1 more may live"]
    assert part == 0.75
    assert figures({}, 0)[1] == 0.0


def test_a_guard_of_two_lengths_is_not_tried() -> None:
    before = "for a, b in zip(x, f(y, 1), strict=True):"
    for after in ("strict=False):", "strict=None):", "):"):
        assert guards_only(Change("m.x_f", before, before.replace("strict=True):", after)))
    assert not guards_only(Change("m.x_f", before, before.replace("x, ", "")))
    assert not guards_only(Change("m.x_f", "f(x, )", "f(x)"))
    assert guards_only(Change("m.x_f", "case _: assert_never(event)", ""))
    assert guards_only(Change("m.x_f", "assert_never(it.kind)", "assert_never(None)"))
    assert not guards_only(Change("m.x_f", "case _: return event", ""))


def test_a_change_is_shown_by_the_lines_that_differ() -> None:
    before = ["def f(a):", "    b = 1", "    return b", ""]
    assert differing(before, ["def f(a):", "    b = 2", "    return b", ""]) == ("b = 1", "b = 2")
    assert differing(before, ["def f(a):", "    return b", ""]) == ("b = 1", "")
    assert differing(["x", "x"], ["x"]) == ("x", "")
