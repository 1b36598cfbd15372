"""Judges the checks that Grass itself makes of nodes before tasks start there (``check: before``).

The master-agent starts such a check as a job, whose task prints its answers. When the job has ended, and its output is
in the log, the verdict is a ticket as that of any other check. Used by ``__main__``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from grass.checks.answers import added
from grass.checks.judge import judge
from grass.config import ClusterConfig
from grass.errors import UndecodableError
from grass.model.lifecycle import JobState
from grass.store.records import Records
from grass.store.tickets import Tickets
from grass.system import clock
from grass.wire.checks import Alone, Level, Measurements, NodeCheck, NodeVerdict, ProbeAnswer
from grass.wire.codec import Form
from grass.wire.job_record import JobRecord
from grass.wire.log_block import LOG_BLOCK, LogBlock
from grass.wire.operation_record import GRASS
from grass.wire.tickets import NodeChecked

PATIENCE = 30.0
"""Seconds after the end of a check within which its output is in the log."""
_ANSWER: Form[ProbeAnswer] = Form(ProbeAnswer)
_MOST_TEXT = 300

log = logging.getLogger("grass.monitor")


class _Waiting(NamedTuple):
    """A check whose output is not in the log yet. ``size``: bytes of it. ``until``: steady time."""

    record: JobRecord
    node: str
    size: int
    until: float


class ChecksBefore:
    """Call ``take`` with jobs that ended, and ``turn`` often; both in one thread."""

    def __init__(
        self, config: ClusterConfig, records: Records, tickets: Tickets, steady: Callable[[], float] = clock.steady
    ) -> None:
        self._logs = config.logs_dir
        self._records = records
        self._tickets = tickets
        self._steady = steady
        self._waiting: list[_Waiting] = []

    def take(self, ended: Iterable[JobRecord]) -> None:
        """Note the checks among these jobs. Raises UnreachableError."""
        for record in ended:
            job = self._records.spec(record.id) if record.user == GRASS else None
            nodes = [part.checks for part in job.components.values() if part.checks] if job is not None else []
            if not nodes:
                continue
            size = sum((task.sizes or {}).get("stdout", 0) for task in self._records.tasks(record.id).values())
            self._waiting.append(_Waiting(record, nodes[0], size, self._steady() + PATIENCE))

    def turn(self) -> None:
        """Judge the checks whose output is there. Raises UnreachableError."""
        for each in list(self._waiting):
            text = _printed(self._logs / each.record.id / "n0.0.jsonl")
            if len(text) >= each.size or self._steady() >= each.until:
                check = checked(each.node, each.record, text)
                log.info("node %s: checked before tasks start there: %s", each.node, check.verdict.state)
                self._tickets.ticket(NodeChecked(each.node, GRASS, check))
                self._waiting.remove(each)


def checked(node: str, record: JobRecord, text: bytes) -> NodeCheck:
    """Return what a check found. ``text``: all that its task printed; each line is an answer."""
    try:
        answers = [_ANSWER.decode(line) for line in text.split(b"\n") if line]
        failed = next((each.failed for each in answers if each.failed), "")
    except UndecodableError as error:
        answers, failed = [], str(error)
    level: Level = 1 if len(answers) > 1 else 0
    verdict = NodeVerdict(node, "unknown", "", (_why(record, failed),))
    alone = Alone(node)
    if answers and not failed and record.state is JobState.SUCCEEDED:
        for answer in answers:
            alone = added(alone, answer)
        [verdict] = judge(Measurements((alone,)), {}).nodes
    times = {name: min(rounds) for name, rounds in alone.times.items() if rounds}
    return NodeCheck(
        at=record.ended or 0.0,
        user=GRASS,
        level=level,
        verdict=verdict,
        times=times,
        figures=alone.figures,
        model=alone.model,
    )


def _why(record: JobRecord, failed: str) -> str:
    said = failed or (record.reason.message if record.reason is not None else "it printed nothing")
    return f"it was not measured: job {record.name}: {said[:_MOST_TEXT]}"


def _printed(path: Path) -> bytes:
    """Return what the newest attempt wrote to stdout. Blocks may come twice, and in any order."""
    blocks = list(_blocks(path))
    newest = max((each.attempt for each in blocks), default=0)
    found = b""
    for block in sorted(blocks, key=lambda each: each.offset):
        if block.attempt == newest and block.offset <= len(found):
            found = found[: block.offset] + block.data()
    return found


def _blocks(path: Path) -> Iterator[LogBlock]:
    with suppress(OSError):
        for line in path.read_bytes().split(b"\n"):
            with suppress(UndecodableError):
                block = LOG_BLOCK.decode(line)
                if block.stream == "stdout":
                    yield block
