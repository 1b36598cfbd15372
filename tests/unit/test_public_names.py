"""The public names of ``grass`` say what they do."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

import grass


def public() -> Iterator[tuple[str, object]]:
    for name in grass.__all__:
        thing = getattr(grass, name)
        if name != "__version__":
            yield name, thing
        if inspect.isclass(thing):
            yield from ((f"{name}.{each}", part) for each, part in vars_of(thing) if not each.startswith("_"))


def vars_of(kind: type) -> Iterator[tuple[str, object]]:
    """Members of the class and of those of its bases that are Grass's own."""
    for base in kind.__mro__:
        if base.__module__.startswith("grass"):
            yield from vars(base).items()


@pytest.mark.parametrize(("name", "thing"), [pytest.param(*each, id=each[0]) for each in public()])
def test_a_public_name_has_a_docstring(name: str, thing: object) -> None:
    if callable(thing) or isinstance(thing, property):
        text = (thing.__doc__ or "").strip()
        assert text.endswith((".", ":")) or "\n" in text, f"{name}: no docstring"
