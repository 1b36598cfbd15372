"""Texts and files that tasks report of themselves, as they say it and as it is kept with a job. Pure.

In the hash ``history:job:<job id>``: the field ``own-media/<task>`` has those of a task, by name. The files themselves
are in the job's output. The monitor writes the field, the API reads it.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form
from grass.wire.usage import OwnMedia

MOST_OF_A_NAME = 64
"""Texts or files of one name and task. With more, every second one is left out; the newest is always kept."""
MOST_MEDIA = 10_000
"""Texts and files of all tasks of one job. Beyond them, only the newest of a name is kept."""
MOST_TEXT = 4 << 20
"""Characters of all texts of one job."""


class SaidMedium(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text or a file in a line of a task. ``refused``: why the file is not kept."""

    name: str
    step: float | None = None
    text: str = ""
    file: str = ""
    """Its name in the task's folder."""
    size: int = 0
    refused: str = ""


SAID: Form[list[SaidMedium]] = Form(list[SaidMedium])


class Medium(msgspec.Struct, frozen=True, array_like=True):
    """A text or a file. ``kind``: ``text``, ``picture``, ``table``, or ``file``, which can only be downloaded."""

    number: int
    """How many of this name its task had reported before."""
    step: float
    at: float
    """Seconds since the epoch, by the node's clock."""
    kind: str
    text: str
    file: str
    """Its path in the job's output."""
    size: int
    """Bytes of the file."""


class MediaSeries(msgspec.Struct):
    """Those of one name and task. ``every``: so many are thinned out to one. ``seen``: how many were reported."""

    kept: list[Medium] = []
    seen: int = 0
    every: int = 1

    def add(self, said: OwnMedia, *, full: bool = False) -> None:
        """Add one. A file of the same name is replaced. ``full``: the job has too many; the newest one makes way."""
        self.kept = [each for each in self.kept if not said.file or each.file != said.file]
        if self.kept and (full or self.kept[-1].number % self.every):
            self.kept.pop()
        self.kept.append(Medium(self.seen, said.step, said.at, said.kind, said.text, said.file, said.size))
        self.seen += 1
        if len(self.kept) > MOST_OF_A_NAME:
            self.every *= 2
            self.kept = [each for each in self.kept[:-1] if each.number % self.every == 0] + self.kept[-1:]

    @property
    def characters(self) -> int:
        return sum(len(each.text) for each in self.kept)


MEDIA: Form[dict[str, MediaSeries]] = Form(dict[str, MediaSeries])
"""Name → texts and files, of one task."""


def media_field(task: str) -> str:
    """Return the field of the hash in which texts and files of a task are kept."""
    return f"own-media/{task}"
