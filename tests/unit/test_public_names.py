"""The public names of ``grass`` say what they do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

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


SECONDS = {"timeout", "grace", "deadline", "since", "expires", "step"}
"""Arguments that are times."""
NEVER_FAILS = {
    *("Client.close", "Client.on_away", "report"),
    *("Executor.active_jobs", "Executor.interrupt", "Executor.shutdown"),
}


def calls() -> list[object]:
    return [pytest.param(name, thing, id=name) for name, thing in public() if inspect.isfunction(thing)]


@pytest.mark.parametrize(("name", "call"), calls())
def test_a_public_call_says_what_it_raises_and_the_unit_of_times(name: str, call: Callable[..., object]) -> None:
    text = (inspect.getdoc(call) or "").lower()
    assert "raises" in text or name in NEVER_FAILS
    if name != "report" and SECONDS.intersection(
        inspect.signature(call).parameters
    ):  # its step is a number of training
        assert "second" in text, f"{name}: the unit of a time"


def test_a_method_of_the_client_shows_its_arguments_and_the_type_of_its_result() -> None:
    signature = inspect.signature(grass.Client.jobs)
    assert signature.return_annotation == "list[JobView]" and "tag" in signature.parameters
