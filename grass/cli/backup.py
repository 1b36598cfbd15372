"""Define the commands `grass backup`, `grass backup list`, `grass backup verify` and `grass restore`. Loaded by
``main``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grass.cli import provisioning
from grass.cli.amounts import show_instant
from grass.cli.command import Command, Group
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import Column, table
from grass.cli.values import DURATION, Whole
from grass.errors import GrassError, InputError
from grass.lines import lines_of
from grass.model.amounts import show_memory, show_span
from grass.provision.provisioner import CanBackUp, need
from grass.system import clock, environment

if TYPE_CHECKING:
    from grass.provision.backup.catalogue import Listed

_LIST = (
    *(Column("FILE"), Column("CLUSTER"), Column("MADE"), Column("SIZE", right=True), Column("CONTENT")),
    Column("GRASS", drop=1),
)
_PASSPHRASE = click.option(
    "--passphrase-file",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A file whose first line is the passphrase. [default: GRASS_BACKUP_PASSPHRASE, or asked for]",
)
_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group(cls=Group, invoke_without_command=True)
@click.option("--to", type=click.Path(path_type=Path), metavar="PATH", help="The folder for backups, or a new file.")
@click.option("--logs", is_flag=True, help="Also back up logs of tasks and daemons.")
@click.option("--data", is_flag=True, help="Also back up the files of the share.")
@click.option("--every", type=DURATION, metavar="DURATION", help="Go on, with a backup each time.")
@click.option("--keep", type=Whole(min=1), metavar="NUMBER", help="Then remove all but the newest of this cluster.")
@_PASSPHRASE
@pass_invocation
@click.pass_context
def backup(
    context: click.Context,
    invocation: Invocation,
    to: Path | None,
    logs: bool,
    data: bool,
    every: float | None,
    keep: int | None,
    passphrase_file: Path | None,
) -> None:
    """Back up the cluster into one encrypted file, while its jobs run.

    The file has everything that makes the master: jobs and their history, schedules, users, keys and settings. Whoever
    has it and the passphrase has the cluster. The default folder is `backups` in GRASS_HOME.
    """
    if context.invoked_subcommand is not None:
        return
    from grass.provision.backup import archive, catalogue

    name = invocation.existing_cluster()
    provisioner = need(provisioning.of_cluster(invocation, name), CanBackUp)
    folder = to or _folder()
    if folder.suffix == archive.SUFFIX and (every is not None or keep is not None):
        raise InputError(f"--to {folder}: names one file; with --every and --keep it must be a folder")
    passphrase = _passphrase(passphrase_file, new=True)
    parts = [part for part, wanted in (("logs", logs), ("data", data)) if wanted]
    due, first = clock.steady(), True
    while first or every is not None:
        try:
            path = catalogue.target(folder, name, clock.wall())
            header, content = provisioner.back_up(path, passphrase, parts)
        except (GrassError, OSError) as error:  # the disk of the folder may be away for a while
            if first:
                raise
            invocation.output.warn(f"no backup was made: {error}")
        else:
            removed = catalogue.prune(path.parent, header.master, keep) if keep is not None else []
            size = path.stat().st_size
            wire = {"file": str(path), "cluster": name, "jobs": content.jobs, "size": size, "parts": header.parts}
            said = [f"cluster {name}: {content.jobs} jobs backed up in {path} ({show_memory(size)})"]
            result = Result({**wire, "removed": [str(each) for each in removed]}, partial(_lines, said), [str(path)])
            invocation.output.show(result)
        first, due = False, due + (every or 0.0)
        if every is not None:
            clock.sleep(max(0.0, due - clock.steady()))


def _lines(said: list[str], _: int | None) -> list[str]:
    return said


@backup.command("list")
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@pass_invocation
def list_backups(invocation: Invocation, folder: Path | None) -> None:
    """List the backups in FOLDER, the newest first. Needs no passphrase, so only `verify` proves what is said."""
    from grass.provision.backup import catalogue

    found = catalogue.found(folder or _folder())
    wire = [
        {
            "file": str(each.path),
            "size": each.size,
            "cluster": each.header and each.header.cluster,
            "made": each.header and each.header.made,
            "parts": each.header and each.header.parts,
            "grass": each.header and each.header.grass,
        }
        for each in found
    ]
    invocation.output.show(Result(wire, partial(_listing, found), [str(each.path) for each in found]))
    for each in found:
        if each.problem:
            invocation.output.warn(each.problem)


def _listing(found: Sequence[Listed], width: int | None) -> list[str]:
    rows = [
        [
            each.path.name,
            header.cluster,
            show_instant(header.made),
            show_memory(each.size),
            ", ".join(header.parts),
            header.grass,
        ]
        for each in found
        if (header := each.header) is not None
    ]
    return table(_LIST, rows, width)


@backup.command("verify")
@_FILE
@_PASSPHRASE
@pass_invocation
def verify(invocation: Invocation, file: Path, passphrase_file: Path | None) -> None:
    """Prove that FILE is whole, and that a redis which loads it has the keys that were backed up."""
    from grass.provision.backup.verification import verify as verified

    _check_there(file)
    found = verified(file, _passphrase(passphrase_file), environment.grass_home())
    header, content = found.header, found.content
    wire = {"file": str(file), "cluster": header.cluster, "made": header.made, "jobs": content.jobs}
    wire |= {"keys": content.keys, "digest": content.digest, "parts": header.parts}
    age = show_span(clock.wall() - header.made)
    line = f"{file}: whole; cluster {header.cluster} of {age} ago, {content.jobs} jobs, {content.keys} keys of redis"
    invocation.output.show(Result(wire, lambda _: [line], [str(file)]))


@click.command(cls=Command)
@_FILE
@click.option("--replace", is_flag=True, help="Put the state of a cluster that is there, and does not run, aside.")
@click.option(
    "--on", metavar="[USER@]HOST[:PORT]", help="The machine of the new master, of a cluster on several hosts."
)
@click.option("--key", type=click.Path(exists=True, dir_okay=False), help="Private key for SSH to it.")
@click.option("--become", type=click.Choice(["none", "sudo"]), help="How to become root. [default: as on the master]")
@_PASSPHRASE
@pass_invocation
def restore(
    invocation: Invocation,
    file: Path,
    replace: bool,
    on: str | None,
    key: str | None,
    become: str | None,
    passphrase_file: Path | None,
) -> None:
    """Make the master of a backup anew, and start it: on this machine, or with --on on another one.

    Tasks that still run are adopted, and a task that ended since the backup is not run again. What happened since
    and cannot be known is listed: see `grass events`. Refused while the cluster's master lives.
    """
    from grass.cli.cluster import select_cluster
    from grass.provision import local
    from grass.provision.backup import restoring

    _check_there(file)
    if on is None:
        if key is not None or become is not None:
            raise InputError("--key and --become: only with --on")
        restoring.of_this_machine(file)
        config, made = local.restore(
            file,
            _passphrase(passphrase_file),
            home=environment.grass_home(),
            replaced=replace,
            progress=invocation.output.note,
        )
        name, url = config.name, config.master.url
    else:
        from grass.provision.on_premises.restore import Request, on_premises
        from grass.provision.on_premises.restore import restore as restored

        name = on_premises(file).cluster
        request = Request(file, _passphrase(passphrase_file), on, key, become, replace)
        created, made = restored(request, provisioning.session_of(invocation, name))
        url = created.url
    select_cluster(name)
    wire = {"name": name, "url": url, "made": made}
    line = f"cluster {name} is ready ({url}), as it was {show_span(clock.wall() - made)} ago"
    invocation.output.show(Result(wire, lambda _: [line], [name]))


def _folder() -> Path:
    return environment.grass_home() / "backups"


def _check_there(file: Path) -> None:
    if not file.is_file():
        raise InputError(f"{file}: there is no such file; `grass backup list` shows backups")


def _passphrase(file: Path | None, *, new: bool = False) -> str:
    """Return the passphrase: of the file, the environment or the terminal. Raises InputError."""
    if file is not None:
        try:
            said = next(iter(lines_of(file.read_text())), "")
        except (OSError, UnicodeError) as error:
            raise InputError(f"--passphrase-file {file}: cannot be read ({error})") from error
        if not said:
            raise InputError(f"--passphrase-file {file}: its first line is empty")
        return said
    if given := environment.backup_passphrase():
        return given
    asked = provisioning.ask_password("passphrase of the backup: ")
    if not asked:
        raise InputError("no terminal to ask for the passphrase; set GRASS_BACKUP_PASSPHRASE, or use --passphrase-file")
    if new and provisioning.ask_password("the same again: ") != asked:
        raise InputError("the two passphrases differ; nothing was changed")
    return asked
