"""What a run changes, and with which tests: modules by name, tonight's, or a sample. Pure. Used by ``run``."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

NIGHTS = 42


class Chosen(NamedTuple):
    """What is tried: all changes of these modules, or so many of them, by a seed."""

    modules: list[str]
    sample: int | None = None
    seed: int = 0
    tests: list[str] | None = None
    """With these alone. None: with all that there are."""


def chosen(arguments: Sequence[str], modules: Sequence[str], night: int) -> Chosen:
    if "--" in arguments:
        at = list(arguments).index("--")
        return chosen(arguments[:at], modules, night)._replace(tests=list(arguments[at + 1 :]))
    match arguments:
        case ["all"]:
            return Chosen(list(modules))
        case ["sample", count, seed, *named]:
            return Chosen(named or list(modules), int(count), int(seed))
        case []:
            return Chosen(list(modules[night % NIGHTS :: NIGHTS]))
    return Chosen(list(arguments))


def sampled(sizes: Sequence[int], count: int, seed: int) -> list[list[int]]:
    """Return, for each of several lists of these sizes, the places of its part of ``count`` that are drawn from all."""
    every = [(each, place) for each, size in enumerate(sizes) for place in range(size)]
    drawn = sorted(random.Random(seed).sample(every, min(count, len(every))))
    return [[place for of, place in drawn if of == each] for each in range(len(sizes))]


def importers(names: Sequence[str], support: Mapping[str, str], tests: Mapping[str, str]) -> list[str]:
    """Return the tests that import one of these packages or modules, by themselves or through what supports them.

    ``support`` and ``tests``: name → text.
    """
    uses, before = list(names), 0
    while len(uses) > before:
        before, of = len(uses), importing(uses)
        uses += [name for name, text in support.items() if name not in uses and of.search(text)]
    return [name for name, text in tests.items() if importing(uses).search(text)]


def importing(names: Sequence[str]) -> re.Pattern[str]:
    """Return what finds an import of one of these modules, or of something in it."""
    parts = [name.rpartition(".") for name in names]
    return re.compile(
        "|".join(rf"from {base}\.{last}\b|from {base} import [^\n]*\b{last}\b" for base, _, last in parts)
    )
