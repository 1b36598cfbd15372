"""Grass turns the machines you have into a cluster for distributed training and simulation.

The names in ``__all__`` are the whole public Python interface. They are loaded at first use, so that ``import grass``,
which every daemon and every CLI call does, stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from grass.release import __version__

__all__ = [
    "AttemptView",
    "Client",
    "EventView",
    "Executor",
    "Job",
    "JobView",
    "LogLine",
    "NodeView",
    "OperationView",
    "Peer",
    "ScheduleView",
    "TaskView",
    "__version__",
    "log_params",
    "notice",
    "peers",
    "queue",
    "report",
]

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.api.client_views import LogLine
    from grass.api.executor import Executor
    from grass.api.job import Job
    from grass.task.notices import notice
    from grass.task.own_figures import log_params, report
    from grass.task.peer_file import Peer, peers
    from grass.task.work_queue import queue
    from grass.wire.event_views import EventView
    from grass.wire.job_views import AttemptView, JobView, OperationView, TaskView
    from grass.wire.node_views import NodeView
    from grass.wire.views import ScheduleView

_HOMES = {
    "AttemptView": "grass.wire.job_views",
    "Client": "grass.api.client",
    "EventView": "grass.wire.event_views",
    "Executor": "grass.api.executor",
    "Job": "grass.api.job",
    "JobView": "grass.wire.job_views",
    "LogLine": "grass.api.client_views",
    "NodeView": "grass.wire.node_views",
    "OperationView": "grass.wire.job_views",
    "Peer": "grass.task.peer_file",
    "ScheduleView": "grass.wire.views",
    "TaskView": "grass.wire.job_views",
    "notice": "grass.task.notices",
    "peers": "grass.task.peer_file",
    "queue": "grass.task.work_queue",
    "log_params": "grass.task.own_figures",
    "report": "grass.task.own_figures",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        found: object = getattr(import_module(_HOMES[name]), name)
        return found
    raise AttributeError(f"module 'grass' has no attribute {name!r}")
