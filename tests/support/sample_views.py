"""Whole views of the API, for tests of what shows them. A test names only the fields that it is about, as in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grass.wire.change_views import CHANGE_PIECE, ChangePiece
from grass.wire.codec import Form
from grass.wire.job_views import JobView
from grass.wire.node_views import NODE, NodeView
from grass.wire.status_views import STATUS, StatusView
from grass.wire.usage_views import JOB_METRICS, JOB_USAGE, Curves, JobMetricsView, JobUsageView

_JOB: Form[JobView] = Form(JobView)
_CURVES: Form[Curves] = Form(Curves)
_NODE_FIELDS = dict.fromkeys(NodeView.__struct_fields__)
_JOB_FIELDS = dict.fromkeys(set(JobView.__struct_fields__) - {"specification", "newer_deleted"})


def node(name: str = "n1", **fields: object) -> NodeView:
    """Return a node of which the caller sees little; ``fields``: what it sees."""
    return NODE.convert({**_NODE_FIELDS, "state": "READY", "tasks": 0, "name": name, **fields})


def job(job_id: str, **fields: object) -> JobView:
    """Return a job that runs; ``fields``: what is said of it."""
    base: dict[str, object] = {"id": job_id, "name": job_id, "user": "ann", "state": "RUNNING", "submitted": 1.0}
    base |= {"counts": {}, "components": {}, "restarts": 0, "warnings": [], "tags": {}, "priority": 0, "tries": 0}
    return _JOB.convert({**_JOB_FIELDS, "dialect": "native", **base, **fields})


def status(**fields: object) -> StatusView:
    """Return a cluster in which nothing happens, as its administrator sees it."""
    base: dict[str, object] = {"cluster": "lab", "mode": "grass/local", "version": "0.1", "protocol": 1, "time": 1.0}
    base |= {"user": "ann", "role": "admin", "jobs": {}, "nodes": {}, "store": None, "isolation": "none", "disks": []}
    return STATUS.convert({**base, **fields})


def piece(**fields: object) -> ChangePiece:
    """Return a piece of the change feed."""
    return CHANGE_PIECE.convert({"cursor": "1", "time": 1.0, **fields})


def curves(named: Mapping[str, Sequence[float | None]], start: float = 0.0, step: float = 2.0) -> Curves:
    """Return a history."""
    return _CURVES.convert({"start": start, "step": step, "curves": named})


def metrics(*own: Mapping[str, object]) -> JobMetricsView:
    """Return what tasks reported of themselves."""
    base = {"task": "t.0", "times": [], "every": 1}
    return JOB_METRICS.convert({"id": "j-1", "name": "j", "curves": [{**base, **each} for each in own], "dropped": 0})


def job_usage(**fields: object) -> JobUsageView:
    """Return what a job used: nothing."""
    history = {"start": 0.0, "step": 2.0, "curves": {}}
    empty: dict[str, object] = {"totals": None, "tasks": [], "count": 0, "history": history}
    return JOB_USAGE.convert({"id": "j-1", "name": "j", **empty, **fields})
