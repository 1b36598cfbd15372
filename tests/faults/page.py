"""Renders docs/guide/faults-matrix.md from the table and the data of the last run. ``python -m tests.faults.page``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.faults import record, table
from tests.faults.promise import Calls, NotHere, Promise
from tests.faults.record import Result
from tests.faults.table import Fault

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "faults-matrix.md"
HEAD = """# The fault matrix

Each row is a fault, each column something that is going on while it comes. A program (`python -m tests.faults`) begins
all of these on a real cluster, injects the fault once, waits until the cluster is whole, and compares. This page is
made from its last run.

In each cell, whatever the fault:

- No task is lost, and each ends with its own exit code.
- No attempt begins twice: each one counts in a file of its host, which Grass does not touch.
- No line of a log is missing or repeated.
- What a user called ends, well or with an error. Nothing hangs.
- The cluster is whole again within the time of the row: its daemons run, its nodes are READY, and a new job succeeds.
- On hosts, an isolated user looks for secrets, files, processes and jobs of another user before, during and after the
  fault, and finds none.

| sign | meaning |
|---|---|
| ok | all of this held |
| again | held; tasks that had begun started again, as the row says |
| call | held; an open command, or the push, ended with an error and could be repeated |
| no | a promise was broken: see below the table |
| – | cannot be tried: see below the table |
| ? | not tried yet |

*It took* counts from the end of the fault, or from the kill; it is the longest of the row. The machine had 2 cores,
which other programs used meanwhile (load 5 to 40).
"""
ROW = "| {} |\n"


def text(results: Mapping[str, Result]) -> str:
    return HEAD + "".join(_bed(name, results) for name in (table.ONE_MACHINE, table.HOSTS))


def _bed(name: str, results: Mapping[str, Result]) -> str:
    faults = [fault for fault in table.FAULTS.values() if fault.bed == name]
    titles = ["fault", "tasks that have begun", "whole within", "it took", *table.STATES, "last run"]
    rows = [titles, ["---"] * len(titles), *(_row(fault, results) for fault in faults)]
    title = "On one machine" if name == table.ONE_MACHINE else "On hosts"
    return f"\n## {title}\n\n" + "".join(ROW.format(" | ".join(row)) for row in rows) + _notes(faults, results)


def _row(fault: Fault, results: Mapping[str, Result]) -> list[str]:
    own = {state: results[cell] for state in table.STATES if (cell := f"{fault.name}/{state}") in results}
    took = f"{max(each.healed for each in own.values()):.0f} s" if own else ""
    runs = sorted({(each.date, each.commit) for each in own.values()})
    last = ", ".join(f"{date} {commit}" for date, commit in runs[-1:])
    promise = fault.cell(table.RUNNING)
    assert isinstance(promise, Promise)
    signs = [_sign(fault, state, own.get(state)) for state in table.STATES]
    return [fault.name, promise.tasks.value, f"{promise.heals:g} s", took, *signs, last]


def _sign(fault: Fault, state: str, result: Result | None) -> str:
    if isinstance(fault.cell(state), NotHere):
        return "–"
    if result is None:
        return "?"
    if result.wrong:
        return "no"
    return "again" if result.again else "call" if result.calls else "ok"


def _notes(faults: list[Fault], results: Mapping[str, Result]) -> str:
    reasons: dict[str, list[str]] = {}
    for fault in faults:
        for state in table.STATES:
            if isinstance(cell := fault.cell(state), NotHere):
                reasons.setdefault(cell.reason, []).append(state)
    notes = [f"- –, {', '.join(dict.fromkeys(states))}: {reason}.\n" for reason, states in reasons.items()]
    notes += [
        f"- {fault.name}, {', '.join(states)}: `{said}`\n"
        for fault in faults
        for said, states in _wrong(fault, results)
    ]
    calls = [fault.name for fault in faults if isinstance(cell := fault.cell(table.EXEC), Promise) and _may_break(cell)]
    if calls:
        notes.append(f"- An open command or a push may end with an error after: {', '.join(calls)}.\n")
    return "\n" + "".join(notes) if notes else ""


def _wrong(fault: Fault, results: Mapping[str, Result]) -> Iterable[tuple[str, list[str]]]:
    """Return what went wrong, with the states in which it did."""
    found: dict[str, list[str]] = {}
    for state in table.STATES:
        result = results.get(f"{fault.name}/{state}")
        for said in result.wrong if result else ():
            found.setdefault(said, []).append(state)
    return found.items()


def _may_break(promise: Promise) -> bool:
    return promise.calls is Calls.MAY_BREAK


def write() -> None:
    PAGE.write_text(text(record.load()))


if __name__ == "__main__":
    write()
