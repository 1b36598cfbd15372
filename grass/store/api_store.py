"""The store as the master-api-server uses it: submits jobs, files tickets, reads the master-agent's records.

Used by ``grass.provision``, ``master.api`` and ``master.monitor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from grass.clock import steady, wall
from grass.errors import ConflictError, ReplayedError
from grass.model.event_kind import EventKind
from grass.model.job import Job
from grass.model.reasons import Reason, ReasonCode
from grass.store.backend import Backend, Entry, Guard, Op
from grass.store.change_feed import ChangeFeed
from grass.store.decoding import decoded, decoded_all, sound
from grass.store.event_log import Event, event_of, logged
from grass.store.history_store import HistoryStore
from grass.store.job_index import JobIndex, moved, position
from grass.store.join_tokens import JoinTokens
from grass.store.keys import Keys
from grass.store.sessions import Sessions, Sighting
from grass.store.signed_images import SignedImages
from grass.wire.attempt_record import ATTEMPT_RECORD, AttemptRecord
from grass.wire.codec import Form, encode
from grass.wire.event_record import EventRecord
from grass.wire.job_file import JOB_FILE, JobFile
from grass.wire.job_record import JOB, JOB_RECORD, JobRecord, first_record
from grass.wire.keys import TaskKey
from grass.wire.node_record import NODE_RECORD, NodeRecord
from grass.wire.operation_record import OPERATION_RECORD, OperationRecord
from grass.wire.plan_answer import PLAN_ANSWER, PlanAnswer
from grass.wire.schedule_record import SCHEDULE_RECORD, ScheduleRecord
from grass.wire.task_record import TASK_RECORD, TaskRecord
from grass.wire.tickets import (
    CancelOperation,
    CordonNode,
    DeleteJob,
    DeleteSchedule,
    DrainNode,
    HoldJob,
    PauseSchedule,
    PlanJob,
    RemoveNode,
    StartJob,
    StopJob,
    StopSchedule,
    StopTasks,
    SuspendJob,
    Ticket,
)
from grass.wire.usage_record import KEPT_FILES, USAGE_RECORD, UsageRecord

T = TypeVar("T")

_FREEING = (
    *(StopJob, StopTasks, DeleteJob, HoldJob, SuspendJob, CancelOperation),
    *(StopSchedule, PauseSchedule, DeleteSchedule),
    *(CordonNode, DrainNode, RemoveNode),
)
"""Tickets that end something, or give something back: what one needs when the disk is full."""


class NewEvents(NamedTuple):
    """New entries of a stream.

    ``last``: the last entry of the stream that is known.
    """

    events: list[Event]
    last: str


class NewEnds(NamedTuple):
    """Records of jobs that ended, by job id. ``last``: the last entry of the stream that is known."""

    records: dict[str, JobRecord]
    last: str


class ApiStore:
    """One instance per server, shared by its threads. Reads of one record raise UndecodableError if it is damaged;
    lists leave damaged records out."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys
        self.history = HistoryStore(backend, keys)
        self.join_tokens = JoinTokens(backend, keys)
        self.sessions = Sessions(backend, keys)
        self.images = SignedImages(backend, keys)
        self.job_index = JobIndex(backend, keys)
        self.change_feed = ChangeFeed(backend, keys)

    def submit(
        self,
        job: Job,
        *,
        job_id: str,
        user: str,
        now: float,
        warnings: Sequence[str],
        schedule: str | None = None,
        rerun_of: str | None = None,
        file: JobFile | None = None,
        sighting: Sighting,
        address: str = "",
    ) -> bool:
        """Write specification, file, first record, name, ticket and the request's id in one durable step.

        Returns False, and changes nothing, if ``job_id`` was submitted before. Raises ConflictError while another run
        of that name is active, ReplayedError for a repeated request or one whose session has ended.
        """
        reason = Reason(ReasonCode.SUBMITTED, "accepted; waits for the master-agent")
        record = first_record(
            job,
            job_id=job_id,
            user=user,
            now=now,
            warnings=tuple(warnings),
            schedule=schedule,
            reason=reason,
            rerun_of=rerun_of,
        )
        keys = self._keys
        ops = [*_submission(keys, job, record, address), *self.sessions.ops(sighting)]
        if file is not None:
            ops.append(("HSET", keys.job_files, job_id, encode(file)))
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
            f"job {job.name} is still active ({live}); stop it with `grass job stop {job.name}` or choose another name"
        )

    def check_writes(self) -> None:
        """Write a test key. Raises StoreRefusesError or UnreachableError if the store accepts no writes now."""
        self._backend.apply([("SETEX", self._keys.write_check, 1, "1")])

    def ticket(self, ticket: Ticket) -> None:
        """File a ticket. It is durable when this returns. One that ends or frees something works on a full disk."""
        urgent = isinstance(ticket, _FREEING)
        self._backend.apply([("XADD", self._keys.tickets, 0, "body", encode(ticket))], urgent=urgent)

    def preview(self, job: Job, user: str, question: str, seconds: float) -> PlanAnswer | None:
        """Ask where the job would run if it were submitted now (``master/agent/preview.py``).

        ``question``: a unique id. None: the master-agent did not answer within ``seconds``.
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

    def runs(self, job_ids: Sequence[str], words: Sequence[str] = ()) -> list[JobRecord]:
        """Return the records of these jobs that exist and can be decoded.

        ``words``: only records with all these texts anywhere in them. What lacks one is not decoded, which takes long.
        """
        encoded = [encode(word) for word in words]
        texts = self._backend.hget_many(self._keys.jobs, job_ids).items()
        wanted = [pair for pair in texts if all(word in pair[1] for word in encoded)]
        return [record for _, record in sound(JOB_RECORD, self._keys.jobs, wanted)]

    def position(self, job_id: str) -> str | None:
        """Return the position of the job in the order of submission (``JobIndex``)."""
        record = self.run(job_id)
        return None if record is None else position(record.submitted, job_id)

    def job(self, name_or_id: str) -> JobRecord | None:
        """Return the record of the latest run of a name, or of the run with an id."""
        return self.run(self._backend.hget(self._keys.names, name_or_id) or name_or_id)

    def newer_deleted(self, name: str) -> str | None:
        """Return the id of the newest run of a job, if that was deleted while older ones are kept."""
        return self._backend.hget(self._keys.deleted, name)

    def run(self, job_id: str) -> JobRecord | None:
        return self._one(JOB_RECORD, self._keys.jobs, job_id)

    def spec(self, job_id: str) -> Job | None:
        return self._one(JOB, self._keys.specs, job_id)

    def file(self, job_id: str) -> JobFile | None:
        """Return the file of the job; None: none is kept."""
        return self._one(JOB_FILE, self._keys.job_files, job_id)

    def tasks(self, job_id: str) -> dict[TaskKey, TaskRecord]:
        """Return a job's task records. Tasks that were never assigned have none."""
        key = self._keys.tasks(job_id)
        records = decoded_all(TASK_RECORD, key, self._backend.hgetall(key))
        return {TaskKey.parse(task): record for task, record in records.items()}

    def some_tasks(self, job_id: str, tasks: Sequence[str]) -> dict[TaskKey, TaskRecord]:
        """Return the records of these tasks (``component.index``) that exist and can be decoded."""
        key = self._keys.tasks(job_id)
        texts = self._backend.hget_many(key, tasks)
        return {TaskKey.parse(task): record for task, record in sound(TASK_RECORD, key, texts.items())}

    def attempts(self, job_id: str, fields: Sequence[str]) -> dict[str, AttemptRecord]:
        """Return the earlier attempts in these fields (``field_of``) that are kept and can be decoded."""
        key = self._keys.attempts(job_id)
        return dict(sound(ATTEMPT_RECORD, key, self._backend.hget_many(key, fields).items()))

    def operations(self, job_id: str) -> list[OperationRecord]:
        """Return the operations of a job, in the order in which they were filed."""
        key = self._keys.operations(job_id)
        records = dict(sound(OPERATION_RECORD, key, self._backend.hgetall(key).items()))
        return sorted(records.values(), key=lambda each: each.number)

    def operation(self, job_id: str, name: str) -> OperationRecord | None:
        return self._one(OPERATION_RECORD, self._keys.operations(job_id), name)

    def nodes(self) -> list[NodeRecord]:
        """Return all nodes, sorted by name."""
        return self._by_name(NODE_RECORD, self._keys.nodes)

    def some_nodes(self, names: Sequence[str]) -> list[NodeRecord]:
        """Return the records of these nodes that exist and can be decoded."""
        texts = self._backend.hget_many(self._keys.nodes, names)
        return [record for _, record in sound(NODE_RECORD, self._keys.nodes, texts.items())]

    def node(self, name: str) -> NodeRecord | None:
        return self._one(NODE_RECORD, self._keys.nodes, name)

    def usage(self) -> dict[str, UsageRecord]:
        """Return each user's decayed use of the cluster, as of different times."""
        return dict(sound(USAGE_RECORD, self._keys.usage, self._backend.hgetall(self._keys.usage).items()))

    def kept_files(self) -> dict[str, dict[str, int]]:
        """Return what each user's files in the share take, if a quota limits that: ``space`` and ``files``."""
        return dict(sound(KEPT_FILES, self._keys.kept_files, self._backend.hgetall(self._keys.kept_files).items()))

    def schedules(self) -> list[ScheduleRecord]:
        """Return all schedules, sorted by name."""
        return self._by_name(SCHEDULE_RECORD, self._keys.schedules)

    def schedule(self, name: str) -> ScheduleRecord | None:
        return self._one(SCHEDULE_RECORD, self._keys.schedules, name)

    def events(self, after: str = "0", limit: int = 1000) -> list[Event]:
        return [event_of(entry) for entry in self._backend.stream(self._keys.events, after, limit)]

    def events_before(self, before: str | None, limit: int = 1000) -> list[Event]:
        """Return events before an id, newest first; ``before`` None: from the end."""
        return [event_of(entry) for entry in self._backend.backwards(self._keys.events, before, limit)]

    def wait_events(self, last: str, seconds: float) -> NewEvents:
        """Return the events after entry ``last``; wait up to ``seconds`` for the first."""
        entries = self._after(self._keys.events, last, seconds)
        return NewEvents([event_of(entry) for entry in entries], entries[-1][0] if entries else last)

    def wait_ends(self, last: str, seconds: float) -> NewEnds:
        """Return the jobs that ended after entry ``last``; wait up to ``seconds`` for the first."""
        entries = self._after(self._keys.ends, last, seconds)
        records = sound(JOB_RECORD, self._keys.ends, ((fields["id"], fields["record"]) for _, fields in entries))
        return NewEnds(dict(records), entries[-1][0] if entries else last)

    def last_event(self) -> str:
        """Return the newest entry, to wait for what comes after it."""
        return self._newest(self._keys.events)

    def last_end(self) -> str:
        """Return the newest entry, to wait for what comes after it."""
        return self._newest(self._keys.ends)

    def _after(self, stream: str, last: str, seconds: float) -> list[Entry]:
        return self._backend.wait({stream: last}, seconds, limit=1000).get(stream, [])

    def _newest(self, stream: str) -> str:
        entry = self._backend.newest(stream)
        return entry[0] if entry else "0-0"

    def log_event(
        self,
        kind: EventKind,
        user: str,
        message: str,
        *,
        job: str = "",
        run: str = "",
        task: str = "",
        node: str = "",
        address: str = "",
        at: float | None = None,
    ) -> None:
        """Write an event.

        ``job``, ``run``: name and id of a job. ``at``: when it happened, in seconds since the epoch; None: now.
        """
        when = wall() if at is None else at
        event = EventRecord(when, kind.value, message, user, job, task, node, run=run, address=address)
        self._backend.apply([logged(self._keys, event)], urgent=True)

    def horizon(self) -> float:
        """Return the latest time of a request without a session that an earlier API server may have accepted; 0:
        none."""
        return float(self._backend.get(self._keys.horizon) or 0.0)

    def keep_horizon(self, horizon: float) -> None:
        self._backend.apply([("SET", self._keys.horizon, repr(horizon))])

    def ping(self) -> None:
        self._backend.ping()

    def _one(self, form: Form[T], key: str, field: str) -> T | None:
        text = self._backend.hget(key, field)
        return None if text is None else decoded(form, key, field, text)

    def _by_name(self, form: Form[T], key: str) -> list[T]:
        records = dict(sound(form, key, self._backend.hgetall(key).items()))
        return [records[name] for name in sorted(records)]


def _submission(keys: Keys, job: Job, record: JobRecord, address: str) -> list[Op]:
    """Return the writes that make a job known: specification, record, names, ticket and event."""
    rerun = f" as a rerun of {record.rerun_of}" if record.rerun_of else ""
    text = f"{job.name} submitted{rerun}"
    event = EventRecord(wall(), EventKind.JOB_SUBMITTED, text, record.user, job.name, run=record.id, address=address)
    return [
        ("HSET", keys.specs, record.id, encode(job)),
        ("HSET", keys.jobs, record.id, encode(record)),
        ("HSET", keys.live, job.name, record.id),
        ("HSET", keys.names, job.name, record.id),
        ("XADD", keys.tickets, 0, "body", encode(StartJob(job, record))),
        *moved(keys, record.user, record.submitted, record.id, None, record.state),
        logged(keys, event),
    ]
