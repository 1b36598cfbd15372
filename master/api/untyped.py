"""The store with its records as plain dicts, for handlers that do not use the types of ``grass.wire`` yet.

To be removed with the last of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import structs

from grass.model.job import Job
from grass.model.lifecycle import JobState, TaskState
from grass.store.api_store import ApiStore, Event
from grass.wire import codec
from grass.wire.job_record import JobRecord
from grass.wire.keys import TaskKey
from grass.wire.node_record import NodeRecord
from grass.wire.task_record import TaskRecord

View = dict[str, Any]


class ViewNews(NamedTuple):
    events: list[View]
    ended: dict[str, View]
    event: str
    end: str


class UntypedStore(ApiStore):
    def preview(self, job: Job, user: str, question: str, seconds: float) -> View | None:  # type: ignore[override]
        answer = super().preview(job, user, question, seconds)
        if answer is None:
            return None
        view: View = codec.builtins(answer)
        return {"evictions": view.pop("preemptions"), **view}

    def jobs(self) -> list[View]:  # type: ignore[override]
        return [codec.builtins(record) for record in super().jobs()]

    def job(self, name_or_id: str) -> View | None:  # type: ignore[override]
        return _job(super().job(name_or_id))

    def run(self, job_id: str) -> View | None:  # type: ignore[override]
        return _job(super().run(job_id))

    def tasks(self, job_id: str) -> dict[str, View]:  # type: ignore[override]
        return {str(key): task_view(key, record) for key, record in super().tasks(job_id).items()}

    def nodes(self) -> list[View]:  # type: ignore[override]
        return [node_record_view(record) for record in super().nodes()]

    def node(self, name: str) -> View | None:  # type: ignore[override]
        record = super().node(name)
        return None if record is None else node_record_view(record)

    def schedules(self) -> list[View]:  # type: ignore[override]
        return [codec.builtins(record) for record in super().schedules()]

    def events(self, after: str = "0", limit: int = 1000) -> list[View]:  # type: ignore[override]
        return [_event(event) for event in super().events(after, limit)]

    def events_before(self, before: str | None, limit: int = 1000) -> list[View]:  # type: ignore[override]
        return [_event(event) for event in super().events_before(before, limit)]

    def wait_news(self, last: ViewNews, seconds: float) -> ViewNews:  # type: ignore[override]
        news = super().wait_news(last, seconds)  # type: ignore[arg-type]
        ended = {job_id: codec.builtins(record) for job_id, record in news.ended.items()}
        return ViewNews([_event(event) for event in news.events], ended, news.event, news.end)

    def latest(self) -> ViewNews:  # type: ignore[override]
        news = super().latest()
        return ViewNews([], {}, news.event, news.end)


def _job(record: JobRecord | None) -> View | None:
    return None if record is None else codec.builtins(record)


def task_view(key: TaskKey, record: TaskRecord) -> View:
    fields = {name: codec.builtins(value) for name, value in structs.asdict(record).items()}
    return {"task": str(key), "component": key.component, "index": key.index, **fields}


def node_record_view(record: NodeRecord) -> View:
    view: View = codec.builtins(record)
    return {**view, "resources": record.resources.to_wire(), "free": record.free.to_wire()}


def pending_task(component: str, index: int, reason: View | None) -> View:
    """The view of a task that has not been assigned yet."""
    return {**task_view(TaskKey(component, index), TaskRecord(TaskState.PENDING)), "reason": reason}


def ended(record: View) -> bool:
    return JobState(record["state"]).ended


def _event(event: Event) -> View:
    return {"id": event.id, **codec.builtins(event.record)}
