"""Which nodes on Azure are started, made and stopped by themselves: pure decisions, one rule a test."""

from __future__ import annotations

import pytest

from grass.azure.autoscale import Decision, Kind, Money, Need, Seen, decide
from grass.manifest.azure_autoscale import Autoscale, Rule
from grass.model.resources import Resources

GIB = 1 << 30
SMALL, LARGE = Rule("Standard_B2s", 3, idle=900.0), Rule("Standard_D8s_v3", 2)
TWO, EIGHT = Resources(cpu=2000, memory=4 * GIB), Resources(cpu=8000, memory=32 * GIB)
KINDS = {SMALL: Kind(TWO, 0.05), LARGE: Kind(EIGHT, 0.40)}
POLICY = Autoscale((LARGE, SMALL))
CORE = Resources(cpu=1000, memory=GIB)


def node(name: str, on: bool = True, idle: float | None = None, size: str = SMALL.size) -> Seen:
    return Seen(name, size, False, on, TWO if size == SMALL.size else EIGHT, idle)


def need(count: int = 1, each: Resources = CORE) -> Need:
    return Need("job train", each, count)


def what(found: Decision) -> tuple[list[str], dict[str, int], list[str]]:
    return found.start, {rule.size: count for rule, count in found.make.items()}, found.stop


def test_nothing_waits_and_nothing_is_made() -> None:
    assert what(decide(POLICY, [node("n1")], [], KINDS)) == ([], {}, [])


def test_tasks_that_wait_get_the_cheapest_size_on_which_they_fit_and_no_more_than_they_need() -> None:
    assert what(decide(POLICY, [], [need(3)], KINDS)) == ([], {SMALL.size: 2}, [])
    assert what(decide(POLICY, [], [need(1, Resources(cpu=4000))], KINDS)) == ([], {LARGE.size: 1}, [])
    assert what(decide(POLICY, [], [need(1, Resources(cpu=16000))], KINDS)) == ([], {}, [])
    assert what(decide(POLICY, [], [need(1, Resources(gpu=1000))], KINDS)) == ([], {}, [])


def test_a_stopped_machine_is_started_before_one_is_made() -> None:
    off = [node("n1", on=False), node("n2", on=False)]
    assert what(decide(POLICY, off, [need(5)], KINDS)) == (["n1", "n2"], {SMALL.size: 1}, [])


def test_beyond_the_most_of_one_size_the_next_one_is_taken() -> None:
    on = [node(f"n{number}") for number in range(3)]
    assert what(decide(POLICY, on, [need(2)], KINDS)) == ([], {LARGE.size: 1}, [])
    full = [*on, node("l1", size=LARGE.size), node("l2", size=LARGE.size)]
    assert what(decide(POLICY, full, [need(2)], KINDS)) == ([], {}, [])


def test_a_size_of_which_azure_had_none_is_left_out_for_a_while() -> None:
    found = decide(POLICY, [node("n1", on=False)], [need(1)], KINDS, blocked=frozenset({SMALL}))
    assert what(found) == ([], {LARGE.size: 1}, [])


@pytest.mark.parametrize("on", [True, False])
def test_a_node_that_does_not_see_its_gpus_brings_no_more_of_its_size_and_is_stopped(on: bool) -> None:
    cards = Rule("Standard_NC4as_T4_v3", 4)
    gpu = Resources(cpu=1000, gpu=1000)
    policy, kinds = Autoscale((cards,)), {cards: Kind(Resources(cpu=4000, gpu=1000), 0.5)}

    def decided(sees: int) -> Decision:
        idle = 900.0 if on else None
        return decide(
            policy, [Seen("g1", cards.size, False, on, Resources(4000, 0, sees), idle)], [need(2, gpu)], kinds
        )

    assert what(decided(0)) == ([], {}, ["g1"] if on else [])
    assert "Standard_NC4as_T4_v3: no more are started or made, as g1 does not see all of its GPUs" in decided(0).said
    assert decided(1000).make == {cards: 2 if on else 1}


def test_idle_nodes_are_stopped_down_to_zero_the_longest_first() -> None:
    nodes = [node("n1", idle=900.0), node("n2", idle=2000.0), node("n3", idle=60.0), node("n4")]
    assert what(decide(POLICY, nodes, [], KINDS)) == ([], {}, ["n2", "n1"])


def test_the_least_number_stays_on_and_is_started() -> None:
    least = Rule(SMALL.size, 3, min=2, idle=900.0)
    policy, kinds = Autoscale((least,)), {least: KINDS[SMALL]}
    idle = [node(f"n{number}", idle=1000.0 + number) for number in range(3)]
    assert what(decide(policy, idle, [], kinds)) == ([], {}, ["n2"])
    assert what(decide(policy, [node("n1", on=False)], [], kinds)) == (["n1"], {SMALL.size: 1}, [])


def test_an_idle_node_on_which_a_waiting_task_fits_is_not_stopped() -> None:
    assert what(decide(POLICY, [node("n1", idle=5000.0)], [need(1)], KINDS)).count(["n1"]) == 0


def test_nodes_of_other_sizes_and_spot_nodes_are_left_alone() -> None:
    spot = Seen("s1", SMALL.size, True, True, TWO, 9999.0)
    assert what(decide(POLICY, [spot, node("x1", idle=9999.0, size="Standard_Other")], [], KINDS)) == ([], {}, [])


@pytest.mark.parametrize(("spent", "made"), [(0.0, {SMALL.size: 1}), (0.91, {}), (5.0, {})])
def test_what_would_exceed_the_days_money_within_an_hour_is_not_started(spent: float, made: dict[str, int]) -> None:
    policy = Autoscale((SMALL,), most_a_day=1.0)
    found = decide(policy, [], [need(1)], KINDS, Money(spent, 0.05))
    assert what(found) == ([], made, [])
    assert made or "today's limit of $1 is used up" in found.said[0]


def test_after_the_days_money_idle_nodes_stop_at_once_and_busy_ones_go_on() -> None:
    policy = Autoscale((Rule(SMALL.size, 3, min=1),), most_a_day=1.0)
    kinds = {policy.rules[0]: KINDS[SMALL]}
    nodes = [node("n1", idle=0.0), node("n2")]
    assert what(decide(policy, nodes, [], kinds, Money(1.0, 0.1))) == ([], {}, ["n1"])


def test_each_decision_says_why() -> None:
    assert decide(POLICY, [node("n1", on=False)], [need(1)], KINDS).said == ["n1: starts, as job train waits"]
    assert decide(POLICY, [node("n1", idle=900.0)], [], KINDS).said == ["n1: stops; it is idle"]
