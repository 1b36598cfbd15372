"""The help of each command, and of each group, shows an example, which the command itself understands."""

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


def paths_of(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    yield " ".join(path)
    if not isinstance(command, click.Group):
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        each = command.get_command(context, name)
        assert each is not None
        yield from paths_of(each, (*path, name))


def test_each_command_and_each_group_has_an_example() -> None:
    assert sorted(EXAMPLES) == sorted(paths_of(grass))


@pytest.mark.parametrize("group", ["job", "node", "image-node"])
def test_the_examples_of_a_group_are_of_its_commands(group: str) -> None:
    assert all(line.startswith(f"{group} ") for line in EXAMPLES[group])


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


@pytest.mark.parametrize("path", ["", "job", "job set", "backup", "status"])
def test_help_shows_the_examples(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        grass.main([*path.split(), "--help"], prog_name="grass")
    shown = capsys.readouterr().out
    assert "Examples:\n" + "".join(f"  grass {line}\n" for line in EXAMPLES[path]) in shown
