"""``torchrun``: stock torchrun, configured by ``PET_*`` alone, with the rendezvous ``grass``.

The rendezvous is a plugin for the entry point group ``torchrun.handlers`` (``grass/task/library/python``), which tasks
find on PYTHONPATH. torch >= 2.5 reads that group. Used by ``registry``.
"""

from __future__ import annotations

from grass.frameworks.seat import Rendered, Seat, integer, library_folder

UNLIMITED = 1_000_000
"""torchrun's own budget of restarts. The plugin counts failures of the present membership instead (``restarts``)."""
RESTARTS = 3


def render(seat: Seat) -> Rendered:
    membership = seat.membership
    least, most = (membership.min, membership.max) if membership.members else (1, 1)
    return Rendered(
        {
            "PET_RDZV_BACKEND": "grass",
            "PET_RDZV_ENDPOINT": seat.address,
            "PET_RDZV_ID": seat.job_id,
            "PET_NNODES": f"{least}:{max(least, most)}",
            "PET_NPROC_PER_NODE": str(seat.slots),
            "PET_MAX_RESTARTS": str(UNLIMITED),
            "PET_LOG_DIR": seat.scratch,  # otherwise each start leaves a folder in /tmp
            "GRASS_TORCHRUN_RESTARTS": str(integer(seat.framework, "restarts", RESTARTS)),
            "PYTHONPATH": library_folder(seat.folder) + "/python",
        }
    )
