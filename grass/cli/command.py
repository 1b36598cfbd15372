"""Base classes of all commands and groups. Every command has the shared options; subcommands are imported on call."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from grass.cli.invocation import Invocation
from grass.cli.output import Format
from grass.cli.values import CLUSTER


def _set_format(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Invocation).output.format = Format(value)


def _set_cluster(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Invocation).named_cluster = value


def _set_debug(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Invocation).debug = True


def shared_options(taken: set[str]) -> list[click.Parameter]:
    """Return the options that every command takes. ``taken``: flags that have another meaning in this command."""
    formats = click.Choice([format.value for format in Format])
    flags = [flag for flag in ("-o", "--output") if flag not in taken]
    return [
        click.Option(
            flags, type=formats, expose_value=False, is_eager=True, callback=_set_format, help="Format of the result."
        ),
        click.Option(
            ["--cluster"],
            type=CLUSTER,
            metavar="NAME",
            expose_value=False,
            is_eager=True,
            callback=_set_cluster,
            help="The cluster to talk to. [default: GRASS_CLUSTER, or what `grass use` chose]",
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_set_debug,
            help="Show the traceback of an error.",
        ),
    ]


class Command(click.Command):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(shared_options(_flags(self)))


class Group(click.Group):
    """Group of subcommands named by ``module:attribute``; importing one subcommand does not import its siblings."""

    command_class = Command

    def __init__(self, *args: Any, lazy: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(shared_options(_flags(self)))
        self._lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = self._lazy.get(cmd_name)
        if target is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


def _flags(command: click.Command) -> set[str]:
    return {flag for param in command.params for flag in param.opts}
