"""Define `grass job logs`: the output of the tasks of one job, or of several jobs. Loaded by ``job``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from grass.cli import logs
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.job_text import job_reason
from grass.cli.log_figures import WithoutFigures
from grass.cli.log_silence import why_silent
from grass.cli.selection import Parts, jobs_or_parts
from grass.cli.values import JOB, PART, PART_OR_JOB, PATTERN, SINCE, Part, Whole, part_of
from grass.cli.wait import until_started
from grass.errors import InputError
from grass.model.lifecycle import JobState

_LINES = Whole(0, 1_000_000_000)


@click.command("logs", cls=Command)
@click.argument("name", type=JOB)
@click.argument("others", type=PART_OR_JOB, nargs=-1, metavar="[COMPONENT[.INDEX] | JOB...]")
@click.option("--component", type=PART, metavar="COMPONENT[.INDEX]", help="Show only these tasks.")
@click.option("--stream", type=click.Choice(["stdout", "stderr"]), help="Show only this stream.")
@click.option("--failed", is_flag=True, help="Show only tasks that have failed.")
@click.option("-f", "--follow", is_flag=True, help="Follow the output until the job ends.")
@click.option("--tail", type=_LINES, metavar="N", help="Show only the last N lines of all selected tasks.")
@click.option("--since", type=SINCE, metavar="T", help="Show only newer lines: 10m, or 2026-03-01T12:00.")
@click.option("--grep", type=PATTERN, metavar="RE", help="Show only lines that match this regular expression.")
@click.option("--figures", is_flag=True, help="Show also the lines with which tasks report figures.")
@click.option("--timestamps", is_flag=True, help="Show the time of each line.")
@pass_invocation
def show_logs(
    invocation: Invocation,
    /,
    name: str,
    others: tuple[str, ...],
    component: Part | None,
    figures: bool,
    timestamps: bool,
    **choice: Any,
) -> None:
    """Show the output of a job's tasks: stdout and stderr in one stream. A job that did not start says why.

    A word after the first job means its component or task, if it has this. Otherwise it is another job: the jobs come
    one after another, and each line begins with the name of its job.

    Lines that begin with GRASS_METRIC are figures: `grass job results` has them. --tail counts them, too.
    """
    client, output, words = invocation.client(), invocation.output, (name, *others)
    match jobs_or_parts(client, words):
        case Parts(_, (only,)) if component is None:
            words, component = (name,), part_of(only)
        case Parts():
            raise InputError("name one component or task; --failed selects several")
        case None:
            pass
    jobs = [client.job(word, specification=False) for word in dict.fromkeys(words)]
    for job in jobs:
        style = logs.Style.for_job(job, component, timestamps=timestamps)
        if len(jobs) > 1:
            style = replace(style, job=f"{job.name}:", name_width=max(1, style.name_width))
        queued = job.state == JobState.QUEUED
        if queued and choice["follow"]:
            until_started(client, output, job.id)
        elif queued:
            output.note(f"{job.name}: QUEUED ({job_reason(job)})")
        part = component.text if component else None
        late = logs.late(output, job.name)
        live = logs.unfinished(output, style)
        lines = client.logs(job.id, part, joined=logs.joined(output), unfinished=live, late=late, **choice)
        without = None if figures or choice["grep"] else WithoutFigures(lines)
        said = logs.show(output, without or lines, style) or (queued and not choice["follow"])
        if not said and without is not None and without.hidden:
            output.note(f"{job.name}: only {without.hidden} lines of figures; --figures shows them")
            continue
        if not said and (why := why_silent(client, job.id, component)):
            output.note(why)
