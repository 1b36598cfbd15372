"""Define `grass job usage`. Loaded by ``job``."""

from __future__ import annotations

from functools import partial

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.usage_text import usage_page
from grass.cli.values import JOB, TASKS_SHOWN, count_or_all


@click.command(cls=Command)
@click.argument("name", type=JOB)
@TASKS_SHOWN
@pass_invocation
def usage(invocation: Invocation, name: str, tasks_shown: str) -> None:
    """Show what a job and its tasks have used so far. This is CPU time, peak memory, GPUs, bytes and energy.

    Of many tasks, those that used most CPU time are shown.
    """

    most = count_or_all(tasks_shown, "--tasks")
    answer = invocation.client().job_usage(name, first=most)
    lines = partial(usage_page, answer)
    invocation.output.show(Result(answer, lines, [task.task for task in answer.tasks], items="tasks"))
