"""The log of a job or a task for the page: lines in batches, each line with a bounded length. Called by ``app``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec import structs

from grass.api.client import Client
from grass.api.client_views import LogLine
from grass.api.log_reading import gap_note
from grass.errors import GrassError, InputError

LONGEST = 8 * 1024
"""Characters of a line that the page shows. The rest is counted."""
MOST_TAIL = 10_000
AT_ONCE = 1_000
"""Lines in one message."""


@dataclass(frozen=True)
class LogWords:
    """What the page asks of a log."""

    job: str
    component: str | None
    tail: int
    follow: bool

    @classmethod
    def parse(cls, words: Mapping[str, str]) -> LogWords:
        tail = words.get("tail", "1000")
        if not words.get("job"):
            raise InputError("query parameter job: missing")
        if not (tail.isascii() and tail.isdecimal() and int(tail) <= MOST_TAIL):
            raise InputError(f"query parameter tail: must be a number up to {MOST_TAIL}, got {tail!r}")
        return cls(words["job"], words.get("component") or None, int(tail), words.get("follow") == "true")


def log_pieces(client: Client, words: LogWords) -> Iterator[dict[str, object] | None]:
    """Yield ``{"lines": [...]}``, None while nothing comes, and at the end ``{"end": why, or ""}``."""
    try:
        for lines in client.log_batches(words.job, words.component, words.tail, words.follow):
            if not lines:
                yield None
            told = [shown_line for line in lines for shown_line in _with_gap(line)]
            for at in range(0, len(told), AT_ONCE):
                yield {"lines": [shown(line) for line in told[at : at + AT_ONCE]]}
    except GrassError as error:
        yield {"end": str(error)}
    else:
        yield {"end": ""}


def _with_gap(line: LogLine) -> list[LogLine]:
    """Return the line, after one that says how much is missing before it."""
    return [structs.replace(line, text=gap_note(line.lost), newline=True, lost=0), line] if line.lost else [line]


def shown(line: LogLine) -> dict[str, object]:
    """Return the line as the page shows it, cut to ``LONGEST`` characters; ``more``: how many were cut.

    Half a surrogate pair stands for a byte that is not UTF-8; the page shows it as a replacement character.
    """
    text = line.text
    clean = text[:LONGEST].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    cut = {"more": len(text) - LONGEST} if len(text) > LONGEST else {}
    return {**structs.asdict(line), "text": clean, **cut}
