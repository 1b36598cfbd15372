"""docs/reference/cli.md against the commands that exist: neither knows one that the other does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from grass.cli.command import shared_options
from grass.cli.exits import Exit
from grass.cli.main import grass

REFERENCE = (Path(__file__).parents[2] / "docs/reference/cli.md").read_text()


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
            if command.invoke_without_command:
                yield f"{path} {name}", command
        else:
            yield f"{path} {name}", command


def test_every_command_is_described_and_every_described_command_exists() -> None:
    exist = {path for path, _ in commands(grass, "grass")}
    nouns = "|".join(
        ("job", "schedule", "queue", "node", "kubernetes", "data", "image", "image-node", "user", "cluster", "backup")
    )
    described = set(re.findall(rf"^(?:\| `|### `)(grass (?:(?:{nouns}) )?[a-z-]+)", REFERENCE, re.MULTILINE))
    assert described == exist


def test_every_option_is_described() -> None:
    shared = {flag for option in shared_options(set()) for flag in option.opts}
    for path, command in commands(grass, "grass"):
        for option in command.params:
            for flag in option.opts if isinstance(option, click.Option) else ():
                assert flag in shared or re.search(rf"[`\[ ]{re.escape(flag)}\b", REFERENCE), f"{path} {flag}"


def test_every_exit_code_is_described() -> None:
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", REFERENCE, re.MULTILINE)} == {int(code) for code in Exit}
