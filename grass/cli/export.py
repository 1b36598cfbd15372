"""Define `grass export`: write a job as a file of Grass or of another system. Loaded by ``main``."""

from __future__ import annotations

import click
from msgspec import UNSET

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import JOB
from grass.errors import NotFoundError
from grass.manifest.export.formats import FORMATS

_REDACTED = "[REDACTED]"


@click.command("export", cls=Command)
@click.argument("name", type=JOB)
@click.option(
    "--to",
    "format",
    type=click.Choice(list(FORMATS)),
    default="native",
    show_default=True,
    help="Format of the file; native: Grass's own.",
)
@pass_invocation
def export(invocation: Invocation, name: str, format: str) -> None:
    """Write the job NAME as a file. It is for Grass, Kubernetes, et-operator, KubeDL, DLRover, Docker Compose,
    or Slurm's sbatch.

    What that system cannot express is listed on stderr. Secrets in environments are shown as `[REDACTED]`.
    """
    specification = invocation.client().job(name).specification
    if specification is UNSET:
        raise NotFoundError(f"job {name}: not found; it is being deleted")
    exported = FORMATS[format](specification)
    for key in exported.missing:
        invocation.output.warn(f"{key}: has no counterpart in {format}")
    for key in exported.needed:
        invocation.output.warn(f"{key}: is missing, and {format} needs it; add it to the file")
    for note in exported.notes:
        invocation.output.warn(note)
    if _REDACTED in exported.text:
        invocation.output.warn(f"secrets read {_REDACTED}; put them back before you use the file")
    lines = exported.text.rstrip("\n").split("\n")
    said = {"missing": exported.missing, "needed": exported.needed, "notes": exported.notes}
    data = {"format": format, "text": exported.text, **{key: list(value) for key, value in said.items()}}
    invocation.output.show(Result(data, lambda _: lines, lines))
