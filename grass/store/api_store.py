"""The store as the master-api-server sees it: it submits and asks, and reads what the master-agent wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from grass.clock import steady, wall
from grass.errors import ConflictError, ReplayedError
from grass.model.job import Job
from grass.model.lifecycle import TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.store.backend import Backend, Entry, Guard, Op
from grass.store.job_list import JobList
from grass.store.join_tokens import JoinTokens
from grass.store.keys import EVENTS_KEPT, Keys
from grass.store.records import TASK_FIELDS, ended, job_record, pack
from grass.store.sessions import Sessions, Sighting

__all__ = ["ApiStore", "ended", "pending_task"]


@dataclass(frozen=True)
class News:
    """Events, and the records (JSON) of jobs that ended, by id; and the last of each that is known."""

    events: list[dict[str, Any]]
    ended: dict[str, str]
    event: str
    end: str


class ApiStore:
    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys
        self.join_tokens = JoinTokens(backend, keys)
        self.sessions = Sessions(backend, keys)

    def submit(
        self,
        job: Job,
        *,
        job_id: str,
        user: str,
        now: float,
        warnings: list[str],
        schedule: str | None = None,
        sighting: Sighting,
    ) -> bool:
        """Specification, first record, name and ticket in one durable step.

        The request is remembered in the same step. Returns False, and changes nothing, when ``job_id`` was submitted
        before.

        Raises ConflictError while another run of that name has not ended, ReplayedError for a request that was seen
        before or whose session has ended.
        """
        reason = Reason(ReasonCode.SUBMITTED, "accepted; the master-agent has not looked at it yet")
        record = job_record(job, job_id=job_id, user=user, now=now, warnings=warnings, schedule=schedule, reason=reason)
        keys, spec = self._keys, job.to_wire()
        ops: list[Op] = [
            ("HSET", keys.specs, job_id, pack(spec)),
            ("HSET", keys.jobs, job_id, pack(record)),
            ("HSET", keys.live, job.name, job_id),
            ("HSET", keys.names, job.name, job_id),
            ("XADD", keys.tickets, 0, "kind", "start", "body", pack({"id": job_id, "spec": spec, "view": record})),
            self._event("job-submitted", user, f"{job.name} submitted", {"job": job.name}),
        ]
        ops += self.sessions.ops(sighting)
        guards: list[Guard] = [
            *self.sessions.guards(sighting),
            ("no-field", keys.specs, job_id),
            ("no-field", keys.live, job.name),
        ]
        match self._backend.apply(ops, guards):
            case 0:
                return True
            case 1 | 2:
                raise ReplayedError("this request was seen before, or its session has ended")
            case 3:
                return False
        live = self._backend.hget(keys.live, job.name)
        raise ConflictError(
            f"job {job.name} exists and has not ended ({live}); "
            f"stop it with `grass job stop {job.name}` or choose another name"
        )

    def check_writes(self) -> None:
        """Try a write that means nothing. Raises what every write meets now: StoreRefusesError or UnreachableError."""
        self._backend.apply([("SETEX", self._keys.write_check, 1, "1")])

    def ticket(self, kind: str, body: dict[str, Any]) -> None:
        self._backend.apply([("XADD", self._keys.tickets, 0, "kind", kind, "body", pack(body))])

    def preview(self, job: Job, user: str, question: str, seconds: float) -> dict[str, Any] | None:
        """What would become of the job if it were submitted now (``master/agent/preview.py``).

        ``question``: an id of its own. None: the master-agent did not answer within ``seconds``.
        """
        newest = self._backend.newest(self._keys.plans)
        after = newest[0] if newest else "0-0"
        self.ticket("plan", {"question": question, "spec": job.to_wire(), "user": user})
        until = steady() + seconds
        while (left := until - steady()) > 0:
            for entry, fields in self._backend.wait({self._keys.plans: after}, left, 100).get(self._keys.plans, []):
                after = entry
                if fields["question"] == question:
                    answer: dict[str, Any] = json.loads(fields["body"])
                    return answer
        return None

    def job_list(self) -> JobList:
        """All jobs as they are now, by what lists are made of."""
        return JobList(self._backend, self._keys)

    def jobs(self) -> list[dict[str, Any]]:
        """All job views, in order of submission."""
        views = [json.loads(text) for text in self._backend.hgetall(self._keys.jobs).values()]
        return sorted(views, key=lambda view: (view["submitted"], view["id"]))

    def job(self, name_or_id: str) -> dict[str, Any] | None:
        """The view of the latest run of a name, or of one run by its id."""
        return self.run(self._backend.hget(self._keys.names, name_or_id) or name_or_id)

    def run(self, job_id: str) -> dict[str, Any] | None:
        text = self._backend.hget(self._keys.jobs, job_id)
        return json.loads(text) if text else None

    def spec(self, job_id: str) -> Job | None:
        text = self._backend.hget(self._keys.specs, job_id)
        return Job.from_wire(json.loads(text)) if text else None

    def tasks(self, job_id: str) -> dict[str, dict[str, Any]]:
        """Task views by ``component.index``; tasks that were never assigned have none (see ``pending_task``)."""
        records = self._backend.hgetall(self._keys.tasks(job_id))
        return {task: _task_view(task, json.loads(text)) for task, text in records.items()}

    def nodes(self) -> list[dict[str, Any]]:
        views = self._backend.hgetall(self._keys.nodes)
        return [json.loads(views[name]) for name in sorted(views)]

    def node(self, name: str) -> dict[str, Any] | None:
        text = self._backend.hget(self._keys.nodes, name)
        return json.loads(text) if text else None

    def schedules(self) -> list[dict[str, Any]]:
        views = self._backend.hgetall(self._keys.schedules)
        return [json.loads(views[name]) for name in sorted(views)]

    def events(self, after: str = "0", limit: int = 1000) -> list[dict[str, Any]]:
        return [_event_view(entry) for entry in self._backend.stream(self._keys.events, after, limit)]

    def events_before(self, before: str | None, limit: int = 1000) -> list[dict[str, Any]]:
        """Newest first; ``before`` None: from the end."""
        return [_event_view(entry) for entry in self._backend.backwards(self._keys.events, before, limit)]

    def wait_news(self, last: News, seconds: float) -> News:
        """What happened after ``last``, waiting up to ``seconds`` for the first. What one step wrote may come apart."""
        keys = self._keys
        found = self._backend.wait({keys.ends: last.end, keys.events: last.event}, seconds, limit=1000)
        ends, events = found.get(keys.ends, []), found.get(keys.events, [])
        return News(
            [_event_view(entry) for entry in events],
            {fields["id"]: fields["record"] for _, fields in ends},
            events[-1][0] if events else last.event,
            ends[-1][0] if ends else last.end,
        )

    def latest(self) -> News:
        """Nothing, after all that happened so far."""
        newest = (self._backend.newest(key) for key in (self._keys.events, self._keys.ends))
        return News([], {}, *(entry[0] if entry else "0-0" for entry in newest))

    def log_event(self, kind: str, user: str, message: str, **fields: str) -> None:
        self._backend.apply([self._event(kind, user, message, fields)])

    def horizon(self) -> float:
        """Up to when requests without a session may have been accepted by earlier API servers; 0: there were none."""
        return float(self._backend.get(self._keys.horizon) or 0.0)

    def keep_horizon(self, horizon: float) -> None:
        self._backend.apply([("SET", self._keys.horizon, repr(horizon))])

    def ping(self) -> None:
        self._backend.ping()

    def _event(self, kind: str, user: str, message: str, fields: dict[str, str]) -> Op:
        body = {"time": wall(), "kind": kind, "user": user, "message": message, **fields}
        return ("XADD", self._keys.events, EVENTS_KEPT, "event", pack(body))


def pending_task(component: str, index: int, reason: dict[str, Any] | None) -> dict[str, Any]:
    """The view of a task that has not been assigned yet."""
    values: dict[str, Any] = dict.fromkeys(TASK_FIELDS)
    values.update(state=TaskState.PENDING.value, attempt=0, restarts=0, ports={}, reason=reason)
    return {"task": f"{component}.{index}", "component": component, "index": index, **values}


def _task_view(task: str, record: list[Any]) -> dict[str, Any]:
    component, _, index = task.rpartition(".")
    return {"task": task, "component": component, "index": int(index), **dict(zip(TASK_FIELDS, record, strict=True))}


def _event_view(entry: Entry) -> dict[str, Any]:
    entry_id, fields = entry
    return {"id": entry_id, **json.loads(fields["event"])}
