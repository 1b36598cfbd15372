"""Access to the share, and the progress of transfers, for commands that move files.

Used by ``cluster``, ``data``, ``image`` and ``pull``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from grass.cli.invocation import Invocation
from grass.cli.output import Output, Result
from grass.errors import ChangeInterrupted
from grass.files.access import ShareAccess, access_to
from grass.files.pulled import FOLDER, Pulled
from grass.files.rsync import Progress
from grass.model.amounts import show_memory
from grass.system import clock
from grass.system.environment import cluster_home

_EVERY = 0.2
_EVERY_IN_A_PIPE = 5.0


def access(invocation: Invocation) -> ShareAccess:
    """Return access to the share of the command's cluster."""
    return access_to(invocation.existing_cluster())


def pulled(invocation: Invocation) -> Pulled:
    """Return what was pulled from the share of the command's cluster."""
    return Pulled(cluster_home(invocation.existing_cluster()) / FOLDER)


force = click.option("--force", is_flag=True, help="Overwrite files that were edited here.")


def shown(output: Output, steady: Callable[[], float] = clock.steady) -> Callable[[Progress], None]:
    """Return a callback for each progress step. A terminal shows each step; a pipe, one per 5 s from the first."""
    every = _EVERY if output.live else _EVERY_IN_A_PIPE
    last = 0.0 if output.live else None

    def show(progress: Progress) -> None:
        nonlocal last
        now = steady()
        if last is None:
            last = now
        if now - last >= every or (progress.percent == 100 and output.live):
            last = now
            output.progress(line(progress))

    return show


def line(progress: Progress) -> str:
    done, rate = show_memory(progress.done), show_memory(int(progress.rate))
    return f"{progress.percent:3d} %  {done}  {rate}/s  {progress.left} left"


@contextmanager
def interrupted(text: str) -> Iterator[None]:
    """Say after Ctrl-C or TERM what has become of the files."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise ChangeInterrupted(text) from interrupt


def done(output: Output, what: str, size: int, seconds: float, name: str) -> None:
    rate = show_memory(int(size / max(seconds, 1e-3)))
    text = f"{what}  {show_memory(size)} in {seconds:.1f} s ({rate}/s)"
    output.show(Result({"bytes": size, "seconds": round(seconds, 3)}, lambda _: [text], [name]))
