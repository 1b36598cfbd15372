"""`/v1/status`: a summary of the cluster. Used by ``handlers`` and ``changes``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import structs

import grass
from grass.errors import StoreFullError, StoreRefusesError
from grass.model.isolation import Isolation
from grass.supervision.standby_watch import AWAY, NOTED
from grass.wire.standby import StandbyView
from grass.wire.status_views import DiskView, StatusView, StoreTrouble
from grass.wire.version import PROTOCOL, REVISION
from master.api.call import Call

_LATE = 5.0
"""Seconds after which what should have been noted counts as missing."""


def show_status(call: Call) -> StatusView:
    store, config, trouble = call.api.store, call.api.config, store_trouble(call)
    return StatusView(
        cluster=config.name,
        mode=config.mode,
        version=grass.__version__,
        protocol=PROTOCOL,
        revision=REVISION,
        time=call.api.wall(),
        user=call.user,
        role=call.role.value,
        jobs=store.job_index.counts(call.scope),
        nodes=dict(Counter(record.state for record in store.nodes())),
        store=trouble,
        isolation=Isolation.USER if config.master.node_policy.isolate else Isolation.NONE,
        disks=disks({"state": config.master_dir, "logs": config.logs_dir}),
        standby=_standby(call, refuses=trouble is not None),
        cloud=store.cloud(),
    )


def _standby(call: Call, *, refuses: bool) -> StandbyView | None:
    """Return how far the standby is. Where the store refuses writes without it, nobody can note there that it left."""
    config, view, now = call.api.config.standby, call.api.store.standby(), call.api.wall()
    if config is None or view is None:
        return None
    if config.needed and refuses and view.state != AWAY and now - view.time > NOTED + _LATE:
        return structs.replace(view, state=AWAY, behind=round(now - view.time, 1))
    return view


def disks(folders: Mapping[str, Path]) -> tuple[DiskView, ...]:
    """Return the disks of folders, each once. ``folders``: what a folder holds → folder; one that cannot be read is
    left out."""
    found: dict[int, tuple[list[str], os.statvfs_result]] = {}
    for holds, folder in folders.items():
        with suppress(OSError):
            found.setdefault(folder.stat().st_dev, ([], os.statvfs(folder)))[0].append(holds)
    return tuple(
        DiskView(" and ".join(holds), disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)
        for holds, disk in found.values()
    )


def store_trouble(call: Call) -> StoreTrouble | None:
    """Return why the store refuses writes now, or None. The agents wait until it accepts writes."""
    try:
        call.api.store.check_writes()
    except StoreFullError as error:
        return StoreTrouble(error.code, str(call.full(error)))
    except StoreRefusesError as error:
        return StoreTrouble(error.code, str(error))
    return None
