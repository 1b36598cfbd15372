"""The store as the master-api-server sees it: it submits and asks, and reads what the master-agent wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from grass.clock import steady, wall
from grass.errors import ConflictError, ReplayedError
from grass.model.job import Job
from grass.model.reasons import Reason, ReasonCode
from grass.store.backend import Backend, Entry, Guard, Op
from grass.store.decoding import decoded, decoded_all
from grass.store.job_index import JobIndex, moved, place
from grass.store.join_tokens import JoinTokens
from grass.store.keys import EVENTS_KEPT, Keys
from grass.store.sessions import Sessions, Sighting
from grass.wire.codec import Form, encode
from grass.wire.event_record import EVENT_RECORD, EventRecord
from grass.wire.job_record import JOB, JOB_RECORD, JobRecord, first_record
from grass.wire.keys import TaskKey
from grass.wire.node_record import NODE_RECORD, NodeRecord
from grass.wire.plan_answer import PLAN_ANSWER, PlanAnswer
from grass.wire.schedule_record import SCHEDULE_RECORD, ScheduleRecord
from grass.wire.task_record import TASK_RECORD, TaskRecord
from grass.wire.tickets import PlanJob, StartJob, Ticket

T = TypeVar("T")


class Event(NamedTuple):
    id: str
    """Of the stream's entry: events are asked for by it."""
    record: EventRecord


class News(NamedTuple):
    """Events, and the records of jobs that ended, by id; and the last id of each stream that is known."""

    events: list[Event]
    ended: dict[str, JobRecord]
    event: str
    end: str


class ApiStore:
    """One instance per server; its threads share it. What it reads is typed: UndecodableError is a damaged store."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys
        self.join_tokens = JoinTokens(backend, keys)
        self.sessions = Sessions(backend, keys)
        self.job_index = JobIndex(backend, keys)

    def submit(
        self,
        job: Job,
        *,
        job_id: str,
        user: str,
        now: float,
        warnings: Sequence[str],
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
        record = first_record(
            job, job_id=job_id, user=user, now=now, warnings=tuple(warnings), schedule=schedule, reason=reason
        )
        keys = self._keys
        ops: list[Op] = [
            ("HSET", keys.specs, job_id, encode(job)),
            ("HSET", keys.jobs, job_id, encode(record)),
            ("HSET", keys.live, job.name, job_id),
            ("HSET", keys.names, job.name, job_id),
            ("XADD", keys.tickets, 0, "body", encode(StartJob(job, record))),
            *moved(keys, user, record.submitted, job_id, None, record.state),
            self._event("job-submitted", user, f"{job.name} submitted", job=job.name),
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

    def ticket(self, ticket: Ticket) -> None:
        """File it. Durable when it returns."""
        self._backend.apply([("XADD", self._keys.tickets, 0, "body", encode(ticket))])

    def preview(self, job: Job, user: str, question: str, seconds: float) -> PlanAnswer | None:
        """What would become of the job if it were submitted now (``master/agent/preview.py``).

        ``question``: an id of its own. None: the master-agent did not answer within ``seconds``.
        """
        newest = self._backend.newest(self._keys.plans)
        after = newest[0] if newest else "0-0"
        self.ticket(PlanJob(question, job, user))
        until = steady() + seconds
        while (left := until - steady()) > 0:
            for entry, fields in self._backend.wait({self._keys.plans: after}, left, 100).get(self._keys.plans, []):
                after = entry
                if fields["question"] == question:
                    return PLAN_ANSWER.decode(fields["body"])
        return None

    def runs(self, job_ids: Sequence[str]) -> list[JobRecord]:
        """Those of them that are there."""
        texts = self._backend.hget_many(self._keys.jobs, job_ids)
        return list(decoded_all(JOB_RECORD, self._keys.jobs, texts).values())

    def place(self, job_id: str) -> str | None:
        """Where the job is in the order of submission (``JobIndex``)."""
        record = self.run(job_id)
        return None if record is None else place(record.submitted, job_id)

    def job(self, name_or_id: str) -> JobRecord | None:
        """The record of the latest run of a name, or of one run by its id."""
        return self.run(self._backend.hget(self._keys.names, name_or_id) or name_or_id)

    def run(self, job_id: str) -> JobRecord | None:
        return self._one(JOB_RECORD, self._keys.jobs, job_id)

    def spec(self, job_id: str) -> Job | None:
        return self._one(JOB, self._keys.specs, job_id)

    def tasks(self, job_id: str) -> dict[TaskKey, TaskRecord]:
        """Tasks that were never assigned have no record."""
        key = self._keys.tasks(job_id)
        records = decoded_all(TASK_RECORD, key, self._backend.hgetall(key))
        return {TaskKey.parse(task): record for task, record in records.items()}

    def nodes(self) -> list[NodeRecord]:
        """By name."""
        return self._by_name(NODE_RECORD, self._keys.nodes)

    def node(self, name: str) -> NodeRecord | None:
        return self._one(NODE_RECORD, self._keys.nodes, name)

    def schedules(self) -> list[ScheduleRecord]:
        """By name."""
        return self._by_name(SCHEDULE_RECORD, self._keys.schedules)

    def schedule(self, name: str) -> ScheduleRecord | None:
        return self._one(SCHEDULE_RECORD, self._keys.schedules, name)

    def events(self, after: str = "0", limit: int = 1000) -> list[Event]:
        return [_event(entry) for entry in self._backend.stream(self._keys.events, after, limit)]

    def events_before(self, before: str | None, limit: int = 1000) -> list[Event]:
        """Newest first; ``before`` None: from the end."""
        return [_event(entry) for entry in self._backend.backwards(self._keys.events, before, limit)]

    def wait_news(self, last: News, seconds: float) -> News:
        """What happened after ``last``, waiting up to ``seconds`` for the first. What one step wrote may come apart."""
        keys = self._keys
        found = self._backend.wait({keys.ends: last.end, keys.events: last.event}, seconds, limit=1000)
        ends, events = found.get(keys.ends, []), found.get(keys.events, [])
        return News(
            [_event(entry) for entry in events],
            {fields["id"]: JOB_RECORD.decode(fields["record"]) for _, fields in ends},
            events[-1][0] if events else last.event,
            ends[-1][0] if ends else last.end,
        )

    def latest(self) -> News:
        """Nothing, after all that happened so far."""
        newest = (self._backend.newest(key) for key in (self._keys.events, self._keys.ends))
        return News([], {}, *(entry[0] if entry else "0-0" for entry in newest))

    def log_event(self, kind: str, user: str, message: str, *, job: str = "", task: str = "", node: str = "") -> None:
        self._backend.apply([self._event(kind, user, message, job, task, node)])

    def horizon(self) -> float:
        """Up to when requests without a session may have been accepted by earlier API servers; 0: there were none."""
        return float(self._backend.get(self._keys.horizon) or 0.0)

    def keep_horizon(self, horizon: float) -> None:
        self._backend.apply([("SET", self._keys.horizon, repr(horizon))])

    def ping(self) -> None:
        self._backend.ping()

    def _one(self, form: Form[T], key: str, field: str) -> T | None:
        text = self._backend.hget(key, field)
        return None if text is None else decoded(form, key, field, text)

    def _by_name(self, form: Form[T], key: str) -> list[T]:
        records = decoded_all(form, key, self._backend.hgetall(key))
        return [records[name] for name in sorted(records)]

    def _event(self, kind: str, user: str, message: str, job: str = "", task: str = "", node: str = "") -> Op:
        record = EventRecord(wall(), kind, message, user, job, task, node)
        return ("XADD", self._keys.events, EVENTS_KEPT, "event", encode(record))


def _event(entry: Entry) -> Event:
    entry_id, fields = entry
    return Event(entry_id, EVENT_RECORD.decode(fields["event"]))
