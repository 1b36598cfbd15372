"""The changes that mutmut makes to a module, and which of them are worth a trial. Used by ``tests.mutation.run``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import libcst as cst
from mutmut.mutation.file_mutation import (
    MutatedFile,
    Mutation,
    combine_mutations_to_source,
    create_mutations,
    group_by_top_level_node,
)

from tests.mutation.report import Change, differing


class Possible(NamedTuple):
    """A module, and what may be changed in it."""

    path: Path
    parsed: cst.Module
    mutations: list[Mutation]
    ignored: tuple[set[str], set[str]]
    """Classes and functions."""


class Made(NamedTuple):
    """A module with its changes, each a copy of a function; a decorator chooses the one that is tried."""

    code: str
    names: list[str]
    """``master.planning.need.x_of__mutmut_3``, in the order of the mutations that it was made with."""
    changes: list[Change]
    lines: list[tuple[int, int]]
    """First and last line of each copy."""


def possible(path: Path) -> Possible:
    parsed, mutations, *ignored = create_mutations(str(path), path.read_text())
    groups = group_by_top_level_node([each for each in mutations if is_worth_a_trial(each)])
    kept = [each for function, group in groups.items() if isinstance(function, cst.FunctionDef) for each in group]
    return Possible(path, parsed, kept, (ignored[0], ignored[1]))


def is_worth_a_trial(mutation: Mutation) -> bool:
    """Tell of three changes of a text (``XX`` around it, upper case, lower case) the first, and none of a sentence:
    how a message is worded is the business of whoever reads it."""
    before, after = mutation.original_node, mutation.mutated_node
    if not isinstance(before, cst.SimpleString) or not isinstance(after, cst.SimpleString):
        return True
    return " " not in before.value and after.value.strip("\"'").startswith("XX")


def make(of: Possible, mutations: Sequence[Mutation]) -> Made:
    """Return the module with some of its possible mutations, which are in their order."""
    file = combine_mutations_to_source(of.parsed, mutations, *of.ignored)
    if len(file.mutant_names) != len(mutations):
        raise AssertionError(f"{of.path}: {len(mutations)} mutations became {len(file.mutant_names)} functions")
    module = of.path.with_suffix("").as_posix().replace("/", ".")
    lines = [
        (file.line_span_by_function_name[name].start, file.line_span_by_function_name[name].end)
        for name in file.mutant_names
    ]
    return Made(file.code, [f"{module}.{name}" for name in file.mutant_names], list(changes(module, file)), lines)


def changes(module: str, file: MutatedFile) -> Iterator[Change]:
    lines = file.code.split("\n")

    def text(name: str) -> list[str]:
        span = file.line_span_by_function_name[name]
        return [line.replace(name, "") for line in lines[span.start - 1 : span.end]]

    for name in file.mutant_names:
        function = name.partition("__mutmut_")[0]
        before, after = differing(text(f"{function}__mutmut_orig"), text(name))
        yield Change(f"{module}.{function}", before, after)
