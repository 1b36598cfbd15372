"""Finds the ``RuntimeKind`` of each runtime in ``grass.model.runtime``: the ``KIND`` of ``node.runtime.<name>.kind``.

A runtime's modules are imported at its first use: containers cost 15 MiB of memory. Used by ``node.agent``,
``node.api`` and ``sweep``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TypeVar

from grass.errors import GrassError, InputError, NotFoundError, UnreachableError
from grass.model.runtime import RUNTIMES, RuntimeName
from grass.node_config import NodeHome
from node.runtime.composite import CompositeRuntime
from node.runtime.kind import Execution, Reach, RuntimeKind, SignedOff
from node.runtime.protocol import Runtime

Found = TypeVar("Found")


@cache
def kind(name: str) -> RuntimeKind:
    """Return the kind of that name. Raises InputError."""
    if name not in RUNTIMES:
        raise InputError(f"unknown runtime {name!r}; use {' or '.join(RUNTIMES)}")
    found: RuntimeKind = import_module(f"node.runtime.{RuntimeName(name).value}.kind").KIND
    return found


def open_runtimes(
    config: NodeHome, share_is_mounted: Callable[[], bool], signed_off: SignedOff = lambda _: None
) -> Runtime:
    """Open all runtimes that this node offers, behind one ``Runtime``. Raises InputError for an unknown name."""
    opened = {name: kind(name).open(config, share_is_mounted, signed_off) for name in config.node.runtimes}
    return next(iter(opened.values())) if len(opened) == 1 else CompositeRuntime(opened)


def execute(config: NodeHome, key: str, argv: list[str], size: tuple[int, int] | None) -> Execution:
    """Call ``RuntimeKind.execute`` of the runtime that has the attempt."""
    return _of_attempt(config, key, lambda each: each.execute(config, key, argv, size))


def reach(config: NodeHome, key: str) -> Reach:
    """Call ``RuntimeKind.reach`` of the runtime that has the attempt."""
    return _of_attempt(config, key, lambda each: each.reach(config, key))


def first_process(config: NodeHome, key: str) -> int:
    """Call ``RuntimeKind.first_process`` of the runtime that has the attempt."""
    return _of_attempt(config, key, lambda each: each.first_process(config, key))


def programs(config: NodeHome, image: str, wanted: Sequence[str]) -> tuple[str, ...] | None:
    """Return those of ``wanted`` that a command in an image finds on its PATH. None: that is not known."""
    for name in config.node.runtimes:
        with suppress(GrassError):  # the engine has no such image, or does not answer
            found = kind(name).programs(config, image, wanted)
            if found is not None:
                return found
    return None


def _of_attempt(config: NodeHome, key: str, call: Callable[[RuntimeKind], Found]) -> Found:
    away: UnreachableError | None = None
    for name in config.node.runtimes:
        try:
            return call(kind(name))
        except NotFoundError:
            continue
        except UnreachableError as error:
            away = error
    raise away or NotFoundError(f"no attempt {key} on this node")
