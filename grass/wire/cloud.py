"""What the master knows of a cluster in a cloud: who starts and stops its nodes by themselves, and what it costs.

In the key ``cloud``. Whoever autoscales tells the API server, again and again, and acts only while the answer says that
the lease is its own. Written by the API server; part of `grass status` and of the dashboard.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form


class CloudCost(msgspec.Struct, frozen=True):
    """What one machine costs by list price, in US dollars. ``hourly`` None: not known. ``whole``: ``spent`` is all."""

    name: str
    what: str
    state: str
    hours: float
    hourly: float | None
    spent: float
    whole: bool


class CloudCosts(msgspec.Struct, frozen=True):
    """What a cluster costs. ``since``: wall time from which it is known; ``at``: of this look; ``limits``: what is not
    in it, for people."""

    since: float
    at: float
    machines: tuple[CloudCost, ...] = ()
    limits: tuple[str, ...] = ()

    @property
    def hourly(self) -> float | None:
        """Return what all cost now; None: a price is not known."""
        known = [each.hourly for each in self.machines if each.hourly is not None]
        return sum(known) if len(known) == len(self.machines) else None

    @property
    def spent(self) -> float:
        return sum(each.spent for each in self.machines)

    @property
    def whole(self) -> bool:
        """Return whether ``spent`` is all."""
        return all(each.whole for each in self.machines)

    def until(self, now: float) -> CloudCosts:
        """Return the costs as they are now if nothing was turned on or off since that look."""
        hours = max(0.0, now - self.at) / 3600

        def later(each: CloudCost) -> CloudCost:
            on = each.state not in ("deallocated", "removed")
            spent = each.spent + hours * (each.hourly or 0.0)
            return msgspec.structs.replace(each, spent=spent, hours=each.hours + (hours if on else 0.0))

        return msgspec.structs.replace(self, machines=tuple(later(each) for each in self.machines))


class CloudView(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a cluster in a cloud.

    ``holder``: who starts and stops nodes by themselves, or did last. ``until``: wall time at which its lease ends.
    ``problem``: why it cannot act; empty: it can. ``costs`` None: nobody has told them yet.
    """

    holder: str = ""
    until: float = 0.0
    problem: str = ""
    costs: CloudCosts | None = None

    def free_for(self, holder: str, now: float) -> bool:
        """Return whether this one may act."""
        return self.holder == holder or self.until <= now


CLOUD: Form[CloudView] = Form(CloudView)
