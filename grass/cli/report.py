"""Define the command `grass report`: all about one job in one file, to keep or to send. Loaded by ``main``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from grass.api.run_events import events_of_run
from grass.cli import report_page
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.job_curves import read_histories
from grass.cli.output import Result
from grass.cli.values import JOB
from grass.errors import InputError
from grass.system import clock

if TYPE_CHECKING:
    from grass.api.client import Client

_CURVES = 8
"""Tasks whose usage is drawn: those that used most."""
_EVENTS = 1_000


@click.command(cls=Command)
@click.argument("name", type=JOB)
@click.option("--to", "path", type=click.Path(path_type=Path), metavar="FILE", help="A new file. [default: ID.html]")
@pass_invocation
def report(invocation: Invocation, name: str, path: Path | None) -> None:
    """Write a report on a job to one HTML file. It has the timeline, curves, events, tasks, job file and environment.

    The file needs no network. Secrets are not in it.
    """
    content = collect(invocation.client(), name, clock.wall())
    path = path or Path(f"{content.job.id}.html")
    text = report_page.page(content, clock.wall())
    try:
        with path.open("x", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"{path}: exists already; name another file with --to") from None
    data = {"id": content.job.id, "file": str(path), "bytes": len(text.encode(errors="replace"))}
    invocation.output.show(Result(data, lambda _: [f"{path}"], [str(path)]))


def collect(client: Client, name: str, now: float) -> report_page.Content:
    """Read what the report shows."""
    job = client.job(name)
    job_id = job.id
    usage = client.job_usage(job_id, first=_CURVES)
    return report_page.Content(
        status=client.status(),
        job=job,
        tasks=client.tasks(job_id),
        attempts=client.attempts(job_id),
        events=events_of_run(client, job, _EVENTS),
        nodes=client.nodes(),
        usage=usage,
        histories=read_histories(client, job, usage, now),
        metrics=client.job_metrics(job_id),
        file=client.job_file(job_id),
    )
