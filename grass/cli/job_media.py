"""Texts, pictures and tables that tasks reported: `grass job results --media`, and a part of `grass job show`.

Used by ``job`` and ``job_results``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from grass.cli.amounts import show_instant
from grass.cli.invocation import Invocation
from grass.cli.output import Output, Result, Rows
from grass.cli.table import Column, paragraph, table
from grass.errors import NotFoundError
from grass.lines import lines_of
from grass.model.amounts import show_memory

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.result_views import MediaView, MediumView

_COLUMNS = (
    Column("TASK"),
    Column("NAME"),
    Column("STEP", right=True),
    Column("KIND", drop=1),
    Column("TIME", drop=3),
    Column("SIZE", drop=2, right=True),
    Column("CONTENT", wrap=True),
)
_RAW = ("job", "task", "name", "step", "kind", "at", "size", "file", "text")
_LONGEST = 300
"""Characters of a text in a table."""
_MOST_SAID = 20
"""Troubles that are listed."""
_MOST_SHOWN = 20
"""Texts and files that are shown with a job."""


def show_media(invocation: Invocation, names: Sequence[str], tag: Sequence[str]) -> None:
    """Show what tasks of some jobs reported besides figures, and what could not be kept."""
    from grass.api.comparison import Target

    client, output = invocation.client(), invocation.output
    found: list[MediaView] = []
    jobs = names or [job.id for job in client.jobs(all=True, tag=tag)]
    if not jobs:
        raise NotFoundError(f"no job has the tag {' and '.join(tag)}")
    for name in jobs:
        target = Target.parse(name)
        found.append(client.media(target.job, target.task or None))
    for view in found:
        say_troubles(output, [(view.id, task, notes) for task, notes in view.troubles.items()])
        if view.thinned:
            output.note(
                f"{view.id}: {view.thinned} more were reported; of each name, some that are spread evenly are kept"
            )
    shown = [(view.id, each) for view in found for each in view.media]

    def lines(width: int | None) -> list[str]:
        return media_table([each for _, each in shown], width)

    def raw() -> Rows:
        return list(_RAW), [[str(cell) for cell in _data(*each).values()] for each in shown]

    ids = [each.file for _, each in shown if each.file]
    output.show(Result([_data(*each) for each in shown], lines, ids, raw))


def media_table(media: Iterable[MediumView], width: int | None) -> list[str]:
    """Return the lines of a table: a text as it is, of a file its path in the share."""
    return table(_COLUMNS, [_row(each) for each in media], width)


def media_of(client: Client, job: str) -> MediaView | None:
    """Return what tasks of a job reported besides figures. None: the job is being deleted, or its master is older."""
    try:
        return client.media(job)
    except NotFoundError:
        return None


def reported_lines(name: str, view: MediaView, width: int | None) -> list[str]:
    """Return the newest of each task and name, for the page of a job, and whether something is not kept."""
    shown, lines = newest(view.media), []
    if shown:
        lines += ["", *media_table(shown[:_MOST_SHOWN], width)]
    if len(shown) > _MOST_SHOWN:
        lines += paragraph(
            f"… and {len(shown) - _MOST_SHOWN} more; `grass job results {name} --media` shows all", width
        )
    if unkept := sum(sum(notes.values()) for notes in view.troubles.values()):
        what = "1 thing" if unkept == 1 else f"{unkept} things"
        why = f"`grass job results {name} --media` says why"
        lines += ["", *paragraph(f"warning: its tasks reported {what} that could not be kept; {why}", width)]
    return lines


def newest(media: Iterable[MediumView]) -> list[MediumView]:
    """Return the newest of each task and name."""
    return list({(each.task, each.name): each for each in media}.values())


def say_troubles(output: Output, troubles: Sequence[tuple[str, str, Mapping[str, int]]]) -> None:
    """Say what tasks reported that is not kept: (job, task, what and why → how often)."""
    told = [(f"{job}.{task}", text, count) for job, task, notes in troubles for text, count in notes.items()]
    for task, text, count in told[:_MOST_SAID]:
        output.warn(f"{task}: not kept: {text}" + (f" ({count} times)" if count > 1 else ""))
    if len(told) > _MOST_SAID:
        output.warn(f"… and {len(told) - _MOST_SAID} more things that tasks reported are not kept")


def _data(job: str, each: MediumView) -> dict[str, str | float | int]:
    return {
        "job": job,
        "task": each.task,
        "name": each.name,
        "step": each.step,
        "kind": each.kind,
        "at": each.at,
        "size": each.size,
        "file": each.file,
        "text": each.text,
    }


def _row(each: MediumView) -> list[str]:
    text = " ⏎ ".join(line.rstrip() for line in lines_of(each.text))
    content = each.file or (text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
    size = show_memory(each.size) if each.file else ""
    return [each.task, each.name, f"{each.step:g}", each.kind, show_instant(each.at), size, content]
