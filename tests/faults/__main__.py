"""Tries the cells of the matrix, records what came of them, and writes the page: ``python -m tests.faults``."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from typing import Any

from tests.faults import host_faults, local_faults, page, record, table
from tests.faults.record import Result
from tests.faults.runner import run_round
from tests.faults.table import Fault, chosen

INJECTED: dict[str, Any] = {**local_faults.INJECTED, **host_faults.INJECTED}


def bed_for(fault: Fault) -> AbstractContextManager[Any]:
    return local_faults.bed_for(fault.name) if fault.bed == table.ONE_MACHINE else host_faults.bed_for()


def group(fault: Fault) -> str:
    return f"{fault.bed} {local_faults.group(fault.name)}" if fault.bed == table.ONE_MACHINE else fault.bed


def run(cells: Sequence[tuple[Fault, tuple[str, ...]]], keep: bool) -> list[str]:
    """Try these cells. Return those that broke their promise. ``keep``: record each round as soon as it has ended."""
    date, commit = datetime.now(timezone.utc).strftime("%Y-%m-%d"), record.commit()
    broken: list[str] = []
    rounds = itertools.count(1)
    for _, members in itertools.groupby(cells, key=lambda cell: group(cell[0])):
        together = [*members]
        with bed_for(together[0][0]) as bed:
            for fault, states in together:
                judged = run_round(bed, fault, states, INJECTED[fault.name], next(rounds))
                new: dict[str, Result] = {}
                for state, (found, wrong) in judged.items():
                    new[f"{fault.name}/{state}"] = record.result(found, wrong, date, commit)
                    broken += [f"{fault.name}/{state}: {each}" for each in wrong]
                    print(
                        f"{fault.name}/{state}: {'; '.join(wrong) or 'holds'}; {found.healed:.1f} s {found.calls}"[
                            :400
                        ],
                        flush=True,
                    )
                if keep:
                    record.save(new)
                    page.write()
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", metavar="FAULT[/STATE]", help="a row, or a cell; may be repeated")
    parser.add_argument("--bed", choices=(table.ONE_MACHINE, table.HOSTS), help="these rows only")
    parser.add_argument("--no-record", action="store_true", help="leave the data and the page as they are")
    options = parser.parse_args()
    every = [each for only in options.only or [""] for each in chosen(only)]
    cells = [each for each in every if options.bed in (None, each[0].bed) and each[1]]
    broken = run(cells, not options.no_record)
    print(f"{len(broken)} broken promises", *broken, sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
