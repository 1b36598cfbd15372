"""The one place that names the runtimes. A new one is a line here and a ``RuntimeKind``; nothing else has to change.

What belongs to a runtime is imported when it is first asked for: containers cost 15 MiB of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType

from grass.config import ClusterConfig
from grass.errors import InputError, NotFoundError, UnreachableError
from node.runtime.composite import CompositeRuntime
from node.runtime.kind import Execution, RuntimeKind
from node.runtime.protocol import Runtime


def _process() -> RuntimeKind:
    from node.runtime.process.kind import ProcessKind

    return ProcessKind()


def _docker() -> RuntimeKind:
    from node.runtime.docker.kind import DockerKind

    return DockerKind()


RUNTIMES: Mapping[str, Callable[[], RuntimeKind]] = MappingProxyType({"process": _process, "docker": _docker})


@cache
def kind(name: str) -> RuntimeKind:
    """Raises InputError."""
    if name not in RUNTIMES:
        raise InputError(f"unknown runtime {name!r}; use {' or '.join(RUNTIMES)}")
    return RUNTIMES[name]()


def chosen(asked: str | None, image: str | None, offered: Sequence[str]) -> str:
    """The runtime of a component: the one it asks for, or else the first on this node that suits it.

    One that is asked for and not offered is named all the same: whoever starts it says why it cannot.
    """
    if asked:
        return asked
    suits = [name for name in offered if kind(name).host_view is not bool(image)]
    return suits[0] if suits else "process"


def open_runtimes(config: ClusterConfig, share_is_mounted: Callable[[], bool]) -> Runtime:
    """All that this node offers, as one. Raises InputError for one that does not exist."""
    opened = {name: kind(name).open(config, share_is_mounted) for name in config.node.runtimes}
    return next(iter(opened.values())) if len(opened) == 1 else CompositeRuntime(opened)


def execute(config: ClusterConfig, key: str, argv: list[str], size: tuple[int, int] | None) -> Execution:
    """``RuntimeKind.execute`` of whichever runtime has the attempt."""
    away: UnreachableError | None = None
    for name in config.node.runtimes:
        try:
            return kind(name).execute(config, key, argv, size)
        except NotFoundError:
            continue
        except UnreachableError as error:
            away = error
    raise away or NotFoundError(f"there is no attempt {key} on this node")
