"""`/v1/cloud`: who starts and stops nodes of a cluster in a cloud by themselves, and what the machines cost.

`grass autoscale` on a user's machine and the autoscaler on the master never act at once: one of them has the lease.
Used by ``handlers``.
"""

from __future__ import annotations

from msgspec import structs

from grass.model.event_kind import EventKind
from grass.wire.calls import CloudReport
from grass.wire.cloud import CloudView
from master.api.call import Call


def report(call: Call) -> CloudView:
    """Keep what is told. The answer says who has the lease."""
    told, now = call.read(CloudReport), call.api.wall()
    before, after = call.api.store.change_cloud(lambda known: _after(known, told, now))
    _note(call, before, after)
    return after


def _after(before: CloudView, told: CloudReport, now: float) -> CloudView:
    """Return what is known then. Who has no lease, and wants none, is noted only if nobody has one and it says why."""
    costs = told.costs or before.costs
    tells = told.seconds or told.problem or before.holder == told.holder
    if told.holder and tells and before.free_for(told.holder, now):
        return CloudView(holder=told.holder, until=now + told.seconds, problem=told.problem, costs=costs)
    return structs.replace(before, costs=costs)


def _note(call: Call, before: CloudView, after: CloudView) -> None:
    if (before.holder, before.problem) == (after.holder, after.problem):
        return
    text = f"cannot start or stop nodes: {after.problem}" if after.problem else "starts and stops nodes by itself"
    call.log_event(EventKind.AUTOSCALER, f"{after.holder}: {text}")
