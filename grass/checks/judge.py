"""From the measurements of a check to its verdicts. Used by the client and by ``master.api``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grass.checks.explanation import Explanation, explain
from grass.checks.faults import Couple, couple
from grass.checks.slowness import OTHERS, disturbed, slow_alone, slow_pairs
from grass.wire.checks import Alone, Measurements, NodeVerdict, Pair, Problem, Verdicts

_MOST_EVIDENCE = 10


def judge(measured: Measurements, paths: Mapping[str, Sequence[str]]) -> Verdicts:
    """Say of each node whether it is good, and of what lies between nodes what is not. ``paths``: topology of nodes."""
    slow, busy = slow_alone(measured.alone), disturbed(measured.alone)
    verdicts: dict[str, NodeVerdict] = {}
    for one in measured.alone:
        verdicts[one.node] = _alone(one, slow.get(one.node, []), one.node in busy)
    sound = [one.node for one in measured.alone if not _is_ill(verdicts[one.node])]
    pairs = [pair for pair in measured.pairs if pair.a in sound and pair.b in sound]
    slower = slow_pairs(pairs, paths, busy)
    bad = frozenset(couple(pair.a, pair.b) for pair in pairs if pair.error) | frozenset(slower)
    good = frozenset(couple(pair.a, pair.b) for pair in pairs) - bad
    found = explain(sound, paths, good, bad)
    between, unknown = _between(found, pairs, slower), _unknown(found, bad)
    involved, doubtful = found.involved(), _doubtful(found, bad)
    for node in sound:
        if node in involved:
            verdicts[node] = NodeVerdict(node, "bad", _names(found, node), _seen(node, pairs, slower))
        elif node in doubtful:
            verdicts[node] = NodeVerdict(node, "unknown", _names(found, node), _seen(node, pairs, slower))
    return Verdicts(tuple(verdicts.values()), between, unknown)


def good_alone(measured: Sequence[Alone]) -> list[str]:
    """Return the nodes that may measure with others."""
    return [each.node for each in judge(Measurements(tuple(measured)), {}).nodes if not _is_ill(each)]


def _is_ill(verdict: NodeVerdict) -> bool:
    """Return whether the node as a whole is bad. With single bad devices, its network is still measured."""
    return verdict.state == "bad" and not verdict.devices


def _alone(one: Alone, slow: Sequence[tuple[str, float]], busy: bool) -> NodeVerdict:
    problems = [*one.problems, *(_slow_problem(name, factor, busy) for name, factor in slow)]
    if busy:
        text = f"other programs used {one.figures[OTHERS]:.0f} % of its cores meanwhile, so that its times say little"
        problems.append(Problem("host", text, grave=False))
    grave = [each for each in problems if each.grave]
    shown = tuple(each.text for each in [*grave, *(each for each in problems if not each.grave)])[:_MOST_EVIDENCE]
    if not grave:
        return NodeVerdict(one.node, "good", "", shown)
    devices = tuple(sorted({each.device for each in grave if each.device is not None}))
    whole = any(each.device is None for each in grave) or set(one.devices) <= set(devices)
    causes = dict.fromkeys(each.cause for each in grave)
    return NodeVerdict(one.node, "bad", " and ".join(causes), shown, () if whole else devices)


def _slow_problem(name: str, factor: float, busy: bool) -> Problem:
    what, _, device = name.partition(" gpu")
    number = int(device) if device.isdigit() else None
    text = f"{what} is {factor:.1f} times slower than the median of its model, in each round"
    where = "" if number is None else f"gpu {number}: "
    return Problem("host" if number is None else "gpu", where + text, number, grave=number is not None or not busy)


def _between(found: Explanation, pairs: Sequence[Pair], slower: Mapping[Couple, float]) -> tuple[str, ...]:
    return tuple(
        f"{fault.name}: {'; '.join(_texts([p for p in pairs if couple(p.a, p.b) in fault.breaks], slower))}"
        for fault in found.certain
        if not fault.nodes
    )


def _unknown(found: Explanation, bad: frozenset[Couple]) -> tuple[str, ...]:
    if not found.explained:
        shown = ", ".join(f"{a} and {b}" for a, b in sorted(bad)[:_MOST_EVIDENCE])
        return (f"too much is bad to tell which nodes are at fault ({shown}); check them with nodes that are good",)
    certain, involved = {fault.name for fault in found.certain}, found.involved()
    open_names = {fault.name for faults in found.sets for fault in faults} - certain
    if not open_names or all(any(fault.nodes & involved for fault in faults) for faults in found.sets):
        return ()
    return (
        f"cannot tell, needs a witness: {' or '.join(sorted(open_names))}; check these nodes again together with an "
        "idle node that is good",
    )


def _doubtful(found: Explanation, bad: frozenset[Couple]) -> frozenset[str]:
    """Return the nodes that some explanation accuses, but not each."""
    if not found.explained:
        return frozenset(node for each in bad for node in each)
    accused = frozenset(node for faults in found.sets for fault in faults for node in fault.nodes)
    return accused - found.involved()


def _names(found: Explanation, node: str) -> str:
    """Return what is wrong with a node, or may be."""
    names = {
        fault.name
        for faults in found.sets
        for fault in faults
        if node in fault.nodes or any(node in each for each in fault.breaks)
    }
    own = {fault.name for fault in found.certain}
    shown = sorted(names & own) or sorted(names)
    return "nic" if shown == [f"nic({node})"] else " or ".join(shown) or "network"


def _seen(node: str, pairs: Sequence[Pair], slower: Mapping[Couple, float]) -> tuple[str, ...]:
    own = [pair for pair in pairs if node in (pair.a, pair.b)]
    bad = [pair for pair in own if pair.error or couple(pair.a, pair.b) in slower]
    good = [pair.b if pair.a == node else pair.a for pair in own if pair not in bad]
    return (*_texts(bad, slower), *([f"good with {', '.join(sorted(good))}"] if good else []))[:_MOST_EVIDENCE]


def _texts(pairs: Sequence[Pair], slower: Mapping[Couple, float]) -> list[str]:
    return [
        f"{pair.a} and {pair.b}: {pair.error or f'{factor:.1f} times slower than the median, in each round'}"
        for pair in pairs
        if pair.error or (factor := slower.get(couple(pair.a, pair.b)))
    ][:_MOST_EVIDENCE]
