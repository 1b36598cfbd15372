"""Define the command `grass template`. Loaded by ``main``."""

from __future__ import annotations

from pathlib import Path

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Format, Result
from grass.cli.values import TEMPLATE
from grass.errors import ConflictError


@click.command(cls=Command)
@click.argument("name", type=TEMPLATE, required=False)
@click.option("--to", type=click.Path(path_type=Path), metavar="FILE", help="Write the template to a new file.")
@pass_invocation
def template(invocation: Invocation, name: str | None, to: Path | None) -> None:
    """Print the template NAME, an example file; without NAME, list the templates."""
    from grass.cli import templates

    if name is None:
        names = list(templates.names())
        invocation.output.show(Result(names, lambda _: names, names))
        return
    text = templates.text(name)
    if to is not None:
        _write_new(to, text)
        invocation.output.show(Result({"name": name, "file": str(to)}, lambda _: [f"wrote {to}"], [str(to)]))
    elif invocation.output.format is Format.JSON:
        invocation.output.show(Result({"name": name, "text": text}, lambda _: []))
    else:
        invocation.output.raw(text)


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConflictError(f"{path} exists already; nothing was written") from error
