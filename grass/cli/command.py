"""Base classes of all commands and groups. Every command has the shared options; subcommands are imported on call.

Used by this package.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
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

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(ctx, formatter)


class Group(click.Group):
    """Group of subcommands named by ``module:attribute``; importing one subcommand does not import its siblings."""

    command_class = Command

    def __init__(
        self,
        *args: Any,
        lazy: Mapping[str, str] | None = None,
        aliases: Mapping[str, str] | None = None,
        sections: Mapping[str, Sequence[str]] | None = None,
        elsewhere: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        """``aliases``: other name → command. ``sections``: title → commands, for the help; the others come last.
        ``elsewhere``: word of another system → command here, for the error about it."""
        super().__init__(*args, **kwargs)
        self.params.extend(shared_options(_flags(self)))
        self._lazy = dict(lazy or {})
        self._aliases = {"ls": "list", **(aliases or {})}
        self._sections = sections or {}
        self._elsewhere = elsewhere or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = self._lazy.get(cmd_name)
        if target is None:
            found = super().get_command(ctx, cmd_name)
            alias = self._aliases.get(cmd_name)
            return self._aliased(ctx, alias) if found is None and alias is not None else found
        module, _, attribute = target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raise UsageError for an unknown name, with the command that the user probably means."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            meant = self._meant(ctx, name)
            ctx.fail(f"no such command '{name}'" + (f"; did you mean `{ctx.command_path} {meant}`?" if meant else ""))
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: click.Context, name: str) -> str:
        """Return what other systems call so, a command of one of its groups with this name, or one of this group with a
        similar name."""
        import difflib

        if name in self._elsewhere:
            return self._elsewhere[name]
        names = self.list_commands(ctx)
        for each in names:
            group = self.get_command(ctx, each)
            if isinstance(group, click.Group) and name in group.list_commands(ctx):
                return f"{each} {name}"
        return next(iter(difflib.get_close_matches(name, names, 1)), "")

    def _aliased(self, ctx: click.Context, path: str) -> click.Command | None:
        """Return the command that an alias such as ``job list`` stands for."""
        first, _, rest = path.partition(" ")
        command = self.get_command(ctx, first)
        return command.get_command(ctx, rest) if rest and isinstance(command, click.Group) else command

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by use."""
        names = self.list_commands(ctx)
        placed = {name for section in self._sections.values() for name in section}
        others = {"Commands" if not self._sections else "Other": [name for name in names if name not in placed]}
        for title, section in {**self._sections, **others}.items():
            rows = [
                (name, command.get_short_help_str(formatter.width))
                for name in section
                if (command := self.get_command(ctx, name)) is not None
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _write_examples(ctx: click.Context, formatter: click.HelpFormatter) -> None:
    from grass.cli.examples import EXAMPLES

    program, _, path = ctx.command_path.partition(" ")
    if path in EXAMPLES:
        with formatter.section("Examples"):
            formatter.write("".join(f"  {program} {line}\n" for line in EXAMPLES[path]))


def _flags(command: click.Command) -> set[str]:
    return {flag for param in command.params for flag in param.opts}
