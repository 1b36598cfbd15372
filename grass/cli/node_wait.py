"""Wait until a request on a node is done, and show the progress of the request. Called by the node commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from grass.cli.node_text import show_state
from grass.cli.output import Output
from grass.errors import WaitTimeoutError
from grass.system import clock

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.node_views import NodeAccepted, NodeView

_SLICE = 20.0


def until(
    client: Client,
    output: Output,
    name: str,
    asked: NodeAccepted,
    reached: Callable[[NodeView | None], bool],
    timeout: float | None = None,
) -> NodeView | None:
    """Return the node's view once ``reached`` accepts it; None: the node is gone. ``asked``: the request's answer.

    Raise WaitTimeoutError after ``timeout`` seconds; the request goes on, as it does after Ctrl-C.
    """
    view: NodeView | None = asked.node
    mark: str | None = None
    end = None if timeout is None else clock.steady() + timeout
    said = ""
    try:
        while not reached(view):
            left = _SLICE if end is None else min(_SLICE, end - clock.steady())
            if left <= 0:
                raise WaitTimeoutError(
                    f"node {name} is still {_line(view)} after {timeout:g} s; the request stays in effect"
                )
            if (line := _line(view)) != said:
                output.progress(f"{name}: {line}")
                said = line
            answer = client.watch_node(name, mark, left)
            view, mark = answer.node, answer.mark
    except KeyboardInterrupt:
        output.note(f"no longer waiting; the request for node {name} stays in effect")
        raise
    return view


def _line(view: NodeView | None) -> str:
    if view is None:
        return "gone"
    tasks = f", {view.tasks} task(s) left" if view.tasks else ""
    reason = f": {view.reason.message}" if view.reason else ""
    return f"{show_state(view)}{tasks}{reason}"
