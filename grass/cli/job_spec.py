"""Render what a job runs: command, resources, environment of each component. Pure. Used by `job show`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from grass.cli.table import pairs
from grass.model.amounts import show_amount, show_memory, show_span
from grass.model.job import RestartOn, StopSignal

if TYPE_CHECKING:
    from grass.model.framework import Framework
    from grass.model.job import Component, Job
    from grass.model.resources import Resources

_ONE_LINE = 200
"""Characters of a command, or of a list of values, that are shown."""


def spec_lines(specification: Job, width: int | None) -> list[str]:
    """Return a block of lines for each component."""
    lines: list[str] = []
    for name, part in specification.components.items():
        lines += ["", name, *pairs(component_facts(part), width, indent=2)]
    return lines


def component_facts(part: Component) -> list[tuple[str, str]]:
    facts = [
        ("Command", command_line(part.command)),
        ("Resources", ", ".join(_resources(part.resources))),
        ("Sizes", _sizes(part)),
        ("Framework", _framework(part.framework)),
        ("Environment", _pairs(part.env)),
        ("Shell", _pairs(dict(part.shell))),
        ("Folder", part.cwd or part.base or ""),
        ("Image", part.image or ""),
        ("Matrix", _lists(part.matrix)),
        ("Columns", _lists(part.columns)),
        ("Entries", _cut(", ".join(part.entries[:_ONE_LINE]))),
        ("Where", _pairs({key: "|".join(values) for key, values in part.where.items()})),
        ("Restart", "" if part.restart.policy is RestartOn.NEVER else part.restart.policy.value),
        ("More memory", _more_memory(part)),
        ("Stopped by", "" if part.stop_signal is StopSignal.TERM else part.stop_signal.value),
        ("Kept", "/dev/shm, for the next attempt on the same node" if part.keep is not None else ""),
        ("Check", "" if part.check is None else f"of each node at level {part.check}, before tasks start there"),
        ("Replaced", "" if part.replace is None else f"tasks that are {part.replace.value}"),
        ("Output file", "" if part.output_file is None else f"{part.output_file}, by `grass job pull`"),
        ("Time limit", "" if part.timeout is None else show_span(part.timeout)),
    ]
    return [(key, value) for key, value in facts if value]


def _lists(values: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{key}: {_cut(', '.join(each[:_ONE_LINE]))}" for key, each in values.items())


def command_line(command: str | Sequence[str]) -> str:
    return _cut(command if isinstance(command, str) else shlex.join(command))


def _sizes(part: Component) -> str:
    """Return the bounds of an elastic component. How many tasks it has now is in the table above."""
    if part.min is None and part.max is None:
        return ""
    bounds = [f"{part.replicas} at the start"]
    bounds += [f"{key} {bound}" for key, bound in (("min", part.min), ("max", part.max)) if bound is not None]
    return ", ".join(bounds) + (f", multiples of {part.unit}" if part.unit > 1 else "")


def _more_memory(part: Component) -> str:
    """Return how far the memory of its tasks may grow, or has grown."""
    if part.grown_from is not None:
        return f"grown from {show_memory(part.grown_from)}"
    return "" if part.restart.memory is None else f"up to {show_memory(part.restart.memory)}, once"


def _framework(framework: Framework | None) -> str:
    if framework is None:
        return ""
    name, options = framework.name.value, framework.options
    shown = {key: ":".join(map(str, value)) if isinstance(value, tuple) else value for key, value in options.items()}
    return f"{name} ({_pairs(shown)})" if shown else name


def _resources(resources: Resources) -> list[str]:
    return [show_amount(name, amount) for name, amount in resources.amounts().items() if amount]


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={_cut(str(value))}" for key, value in values.items())


def _cut(text: str) -> str:
    line = " ".join(text.split("\n"))
    return line if len(line) <= _ONE_LINE else line[: _ONE_LINE - 1] + "…"
