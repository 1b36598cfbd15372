"""What one commit of the master-agent changed: names only. Readers of the change feed then read the records.

Written by the master-agent.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form


class FeedEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The names of what one step changed. On the stream ``feed``, in the field ``body``."""

    jobs: tuple[str, ...] = ()
    """Job ids."""
    removed: dict[str, str] = {}
    """Job id → user, of jobs that were deleted."""
    tasks: dict[str, tuple[str, ...]] = {}
    """Job id → ``<component>.<index>``."""
    nodes: tuple[str, ...] = ()
    schedules: tuple[str, ...] = ()
    removed_schedules: dict[str, str] = {}
    """Name → user, of schedules that were deleted."""


FEED_ENTRY: Form[FeedEntry] = Form(FeedEntry)
