"""What a check says of injected faults, for every number of nodes from 2 to 9 and every single fault."""

from __future__ import annotations

from itertools import combinations

import pytest

from grass.checks.faults import couple
from grass.checks.judge import judge
from grass.checks.rounds import next_pairs
from grass.wire.checks import Alone, Measurements, Pair, Verdicts
from tests.support.check_faults import Injected, checked, injected, names, two_switches

SIZES = range(2, 10)


def accused(verdicts: Verdicts) -> set[str]:
    return {each.node for each in verdicts.nodes if each.state == "bad"}


def at_fault(fault: Injected) -> set[str]:
    """Return the node that cannot be used with a fault; none for links and switches."""
    return {fault.ill} if fault.ill else {fault.name[4:-1]} if fault.name.startswith("nic(") else set()


def alike(fault: Injected, others: list[Injected]) -> list[Injected]:
    """Return the faults that no measurement of these nodes tells from this one."""
    return [other for other in others if fault.broken and other.broken == fault.broken and other.kind != "none"]


@pytest.mark.parametrize("switches", [False, True])
@pytest.mark.parametrize("number", SIZES)
def test_nothing_is_said_of_good_nodes(number: int, switches: bool) -> None:
    nodes = names(number)
    verdicts, _ = checked(nodes, two_switches(nodes) if switches else {}, None)
    assert {each.state for each in verdicts.nodes} == {"good"}
    assert not verdicts.between and not verdicts.unknown


@pytest.mark.parametrize("switches", [False, True])
@pytest.mark.parametrize("number", SIZES)
def test_every_single_fault_is_found_exactly_where_it_can_be_known(number: int, switches: bool) -> None:
    nodes = names(number)
    paths = two_switches(nodes) if switches else {}
    faults = injected(nodes, paths)
    for fault in faults:
        verdicts, _ = checked(nodes, paths, fault)
        if "slow" in fault.kind and number <= (3 if switches else 2):
            continue  # what is normal cannot be known: nothing else was measured between such nodes
        same = {other.name for other in alike(fault, faults)} | {fault.name}
        guilty = set.intersection(*(at_fault(other) for other in [*alike(fault, faults), fault]))
        assert accused(verdicts) == guilty, (fault, verdicts)
        said = " ".join((*verdicts.between, *verdicts.unknown, *(each.fault for each in verdicts.nodes)))
        if guilty:
            found = next(each for each in verdicts.nodes if each.state == "bad")
            assert found.evidence and (len(same) > 1 or found.fault == fault.name.partition("(")[0]), (fault, found)
        elif len(same) == 1:
            assert [each.partition(":")[0] for each in verdicts.between] == [fault.name] and not verdicts.unknown
        else:
            assert all(name in said for name in same) and "needs a witness" in said, (fault, said)


@pytest.mark.parametrize("number", [2, 3, 5, 8])
def test_a_fault_between_two_nodes_alone_needs_a_witness_and_accuses_none(number: int) -> None:
    nodes = names(number)
    pairs = (Pair("n0", "n1", error="timed out"),)
    verdicts = judge(Measurements(tuple(Alone(node) for node in nodes), pairs), {})
    assert not accused(verdicts) and {each.state for each in verdicts.nodes[:2]} == {"unknown"}
    assert verdicts.unknown[0].startswith("cannot tell, needs a witness: link(n0, n1) or nic(n0) or nic(n1)")


def test_suspects_meet_only_partners_that_were_good_with_another_node() -> None:
    nodes = names(8)
    first = next_pairs(nodes, {}, [])
    assert first == [("n0", "n1"), ("n2", "n3"), ("n4", "n5"), ("n6", "n7")]
    measured = [Pair(a, b, error="" if a != "n0" else "timed out", times=(1.0, 1.0)) for a, b in first]
    for a, b in next_pairs(nodes, {}, measured):
        assert not {a, b} <= {"n0", "n1"}
        assert {a, b}.isdisjoint({"n0", "n1"}) or {a, b} & set(nodes[2:])


def test_neighbours_by_topology_measure_first() -> None:
    paths = {"a": ("s1",), "b": ("s2",), "c": ("s1",), "d": ("s2",)}
    assert set(next_pairs(list(paths), paths, [])) == {("a", "c"), ("b", "d")}


def test_many_nodes_need_few_rounds_and_a_bad_network_card_is_found() -> None:
    nodes = names(32)
    paths = {node: (f"s{at // 8}",) for at, node in enumerate(nodes)}
    assert checked(nodes, paths, None)[1] <= 3
    own = frozenset(couple("n5", other) for other in nodes if other != "n5")
    verdicts, rounds = checked(nodes, paths, Injected("nic dropped", "nic(n5)", own))
    assert accused(verdicts) == {"n5"} and rounds <= 6
    below = [node for node in nodes if paths[node] == ("s1",)]
    cut = frozenset(couple(*each) for each in combinations(nodes, 2) if (each[0] in below) != (each[1] in below))
    verdicts, _ = checked(nodes, paths, Injected("switch dropped", "switch(s1)", cut))
    assert not accused(verdicts) and verdicts.between[0].startswith("switch(s1): ")


def test_two_faults_are_found_together() -> None:
    nodes = names(8)
    broken = frozenset(couple(*each) for each in combinations(nodes, 2) if {"n1", "n6"} & {*each})
    assert accused(checked(nodes, {}, Injected("nic dropped", "", broken))[0]) == {"n1", "n6"}


def test_a_node_40_percent_slower_is_no_straggler_and_one_60_percent_slower_is() -> None:
    def verdicts(factor: float, second: float) -> Verdicts:
        times = {"n0": (factor, second)}
        alone = [Alone(node, "m", times={"matrix": times.get(node, (1.0, 1.0))}) for node in names(5)]
        return judge(Measurements(tuple(alone)), {})

    assert accused(verdicts(1.4, 1.4)) == set() == accused(verdicts(1.6, 1.0))
    assert accused(verdicts(1.6, 1.6)) == {"n0"}


def test_models_are_compared_only_with_their_like() -> None:
    alone = [
        Alone(n, m, times={"matrix": (t, t)}) for n, m, t in (("a", "V100", 4.0), ("b", "V100", 4.1), ("c", "H100", 1))
    ]
    assert accused(judge(Measurements(tuple(alone)), {})) == set()


def test_one_slow_device_of_a_node_is_accused_and_the_others_are_not() -> None:
    times = {f"matrix gpu{device}": (1.0 + 2 * (device == 2),) * 2 for device in range(4)}
    verdicts = judge(Measurements((Alone("a", "H100", times=times, devices=(0, 1, 2, 3)),)), {})
    assert (verdicts.nodes[0].fault, verdicts.nodes[0].devices) == ("gpu", (2,))


def test_a_node_on_which_others_work_is_not_accused_of_being_slow_but_of_what_fails() -> None:
    def verdicts(others: float, error: str = "") -> Verdicts:
        noise = {"cores used by other programs %": others}
        slow = Alone("n0", "m", times={"matrix": (3.0, 3.0)}, figures=noise)
        alone = [slow, *(Alone(node, "m", times={"matrix": (1.0, 1.0)}) for node in names(4)[1:])]
        times = {"n0": (9.0, 9.0)}
        pairs = [
            Pair(a, b, () if "n0" in (a, b) and error else times.get(a, (1.0, 1.0)), error if a == "n0" else "")
            for a, b in combinations(names(4), 2)
        ]
        return judge(Measurements(tuple(alone), tuple(pairs)), {})

    assert accused(verdicts(5)) == {"n0"} and verdicts(5).nodes[0].fault == "host"
    assert not accused(verdicts(90)) and "other programs used 90 %" in " ".join(verdicts(90).nodes[0].evidence)
    assert verdicts(90, "timed out").nodes[0].fault == "nic"
