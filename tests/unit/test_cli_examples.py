"""The help of each command shows an example, which the command itself understands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from io import StringIO

import click
import pytest

from grass.cli.examples import EXAMPLES
from grass.cli.invocation import Invocation
from grass.cli.main import grass
from grass.cli.output import Output

_SHELL = ("<", ">", ">>", "|")


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        each = command.get_command(context, name)
        assert each is not None
        yield from leaves(each, (*path, name))


def test_each_command_has_an_example() -> None:
    assert sorted(EXAMPLES.keys() - {"backup"}) == sorted(leaves(grass))  # a group that is a command itself


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_each_example_is_understood(line: str) -> None:
    words = shlex.split(line)
    end = next((at for at, word in enumerate(words) if word in _SHELL), len(words))
    command: click.Command = grass
    context, rest = (
        click.Context(command, info_name="grass", obj=Invocation(Output(StringIO(), StringIO()))),
        words[:end],
    )
    while isinstance(command, click.Group) and rest:
        found = command.get_command(context, rest[0])
        if found is None:
            break
        command, rest = found, rest[1:]
        context = click.Context(command, parent=context, info_name=rest[0] if rest else None)
    command.make_context("x", rest, parent=context.parent)


@pytest.mark.parametrize("path", ["job set", "backup", "status"])
def test_help_shows_the_examples(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        grass.main([*path.split(), "--help"], prog_name="grass")
    shown = capsys.readouterr().out
    assert "Examples:\n" + "".join(f"  grass {line}\n" for line in EXAMPLES[path]) in shown
