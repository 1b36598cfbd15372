"""Render the state of a cluster as lines, for `grass status`. Pure. Used by ``cluster``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grass.cli.amounts import NOTHING, show_instant
from grass.cli.node_text import node_list
from grass.cli.table import Column, pairs, table
from grass.model.amounts import show_span
from grass.model.isolation import Isolation
from grass.model.lifecycle import JobState

if TYPE_CHECKING:
    from grass.model.daemons import DaemonState
    from grass.wire.cloud import CloudView
    from grass.wire.node_views import NodeView
    from grass.wire.standby import StandbyView
    from grass.wire.status_views import StoreTrouble

ISOLATIONS = {
    Isolation.NONE: "none: all tasks run under the account of the nodes' daemons; for a lab with one user",
    Isolation.USER: "user: tasks run under an account of their user, and see only their own job",
}
_DAEMONS = (Column("DAEMON"), Column("PID", right=True), Column("STATE"), Column("SINCE"))


@dataclass(frozen=True)
class Overview:
    """What `grass status` shows. None: the API did not answer."""

    cluster: str
    url: str | None
    daemons: Sequence[DaemonState]
    nodes: Sequence[NodeView] | None = None
    jobs: Mapping[JobState, int] | None = None
    store: StoreTrouble | None = None
    isolation: Isolation | None = None
    standby: StandbyView | None = None
    cloud: CloudView | None = None
    error: str | None = None
    """Why the API did not answer."""


def status_page(view: Overview, now: float, width: int | None) -> list[str]:
    """Return lines for the daemons; also for nodes and jobs, if the API answered."""
    daemons = [[one.name, str(one.pid or NOTHING), one.state, show_instant(one.start)] for one in view.daemons]
    lines = [*pairs(_facts(view, now), width), "", *table(_DAEMONS, daemons, width)]
    if view.nodes is not None:
        lines += ["", *node_list(view.nodes, now, width)]
    return lines


def _facts(view: Overview, now: float) -> list[tuple[str, str]]:
    facts = [("Cluster", view.cluster), ("URL", view.url or NOTHING)]
    if view.error is not None:
        return [*facts, ("API", view.error)]
    facts.append(("Jobs", show_jobs(view.jobs or {})))
    if view.isolation is not None:
        facts.append(("Isolation", ISOLATIONS[view.isolation]))
    if view.store is not None:
        facts.append(("Store", f"{view.store.message}; the agents wait and try again"))
    if view.standby is not None:
        facts.append(("Standby", show_standby(view.standby)))
    if view.cloud is not None and (scales := show_autoscaler(view.cloud, now)):
        facts.append(("Autoscaler", scales))
    return facts


def show_autoscaler(cloud: CloudView, now: float) -> str:
    """Say who starts and stops nodes by themselves, or why nobody does; empty: nobody wants to."""
    if cloud.problem:
        return f"{cloud.holder}: {cloud.problem}"
    return cloud.holder if cloud.until > now else ""


def show_standby(standby: StandbyView) -> str:
    """Say how far it is, and whether it would take over by itself."""
    state = _state_of(standby)
    if not standby.witness:
        return state
    takes_over = f"does not take over by itself now: {standby.why}" if standby.why else "takes over by itself"
    return f"{state}; {takes_over} (witness {standby.witness})"


def _state_of(standby: StandbyView) -> str:
    if standby.state == "behind":
        return f"{standby.address}: {standby.behind:.0f} s behind"
    if standby.state == "away":
        lacks = f"; it lacks the writes of the last {show_span(standby.behind)}" if standby.behind else ""
        return f"{standby.address}: away{lacks}"
    return f"{standby.address}: {standby.state}"


def show_jobs(counts: Mapping[JobState, int]) -> str:
    shown = [f"{counts[state]} {state.value.lower()}" for state in JobState if counts.get(state)]
    return ", ".join(shown) or "none"
