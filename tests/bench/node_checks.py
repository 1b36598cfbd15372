"""Verdicts of Grass's checks of nodes, beside DLRover's pairing, for every single fault of 2 to 9 nodes.

`exact`: exactly the node at fault is taken out, and none for a bad link or switch
(which Grass must also name). `innocent`: another node is taken out.
`open`: it is said that more nodes are needed (Grass), or all nodes fail (DLRover). `missed`: nothing is said.

    .venv/bin/python tests/bench/node_checks.py
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.figures import Figure, arguments, progress, report
from tests.support import dlrover_pairing
from tests.support.check_faults import KINDS, Injected, checked, injected, names, two_switches


def _outcome(out: set[str] | None, fault: Injected, unknown: bool) -> str:
    own = fault.ill or (fault.name[4:-1] if fault.name.startswith("nic(") else "")
    if out is None:
        return "open"
    if out - {own}:
        return "innocent"
    if unknown:
        return "open"
    return "exact" if out == ({own} if own else set()) else "missed"


def _ours(nodes: list[str], fault: Injected, paths: dict[str, tuple[str, ...]]) -> str:
    verdicts, _ = checked(nodes, paths, fault)
    out = {each.node for each in verdicts.nodes if each.state == "bad"}
    own = bool(fault.ill or fault.name.startswith("nic("))
    found = _outcome(out, fault, bool(verdicts.unknown))
    said = any(each.startswith(fault.name) for each in verdicts.between)
    return "missed" if found == "exact" and not own and not said else found


def main() -> None:
    parser = arguments(__doc__, 1)
    parser.add_argument("--most", type=int, default=9, help="most nodes (default: %(default)s)")
    options = parser.parse_args()
    progress(f"{'nodes':>5}  {'fault':<15} {'cases':>5}   {'Grass':<26} DLRover")
    totals: dict[str, Counter[str]] = {"Grass": Counter(), "DLRover": Counter()}
    for number in range(2, options.most + 1):
        nodes = names(number)
        for kind in KINDS:
            paths = two_switches(nodes) if kind.startswith("switch") else {}
            faults = [each for each in injected(nodes, paths) if each.kind == kind]
            ours = Counter(_ours(nodes, fault, paths) for fault in faults)
            theirs = Counter(_outcome(dlrover_pairing.accused(nodes, fault), fault, False) for fault in faults)
            totals["Grass"] += ours
            totals["DLRover"] += theirs
            progress(f"{number:>5}  {kind:<15} {len(faults):>5}   {_text(ours):<26} {_text(theirs)}")
    figures = [
        Figure(f"{who}: {what}", [100 * counts[what] / sum(counts.values())], "%")
        for who, counts in totals.items()
        for what in ("exact", "innocent", "open", "missed")
    ]
    report(options, "verdicts of one fault among 2 to 9 nodes", figures, "innocent 0 %")


def _text(counts: Counter[str]) -> str:
    cases = sum(counts.values())
    return ", ".join(f"{what} {100 * count / cases:.0f} %" for what, count in sorted(counts.items()))


if __name__ == "__main__":
    main()
