"""The records of the master-agent, for whoever reads the state of the cluster and changes nothing.

Used by ``api_store``, ``grass.provision`` and ``master.monitor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from grass.config import ClusterConfig, Secrets
from grass.model.job import Job
from grass.store.backend import Backend, Entry
from grass.store.connect import open_backend
from grass.store.decoding import decoded, decoded_all, sound
from grass.store.event_log import Event, event_of
from grass.store.job_index import JobIndex, position
from grass.store.keys import RECORD, Keys
from grass.store.signed_images import SignedImages
from grass.wire.attempt_record import ATTEMPT_RECORD, AttemptRecord
from grass.wire.cloud import CLOUD, CloudView
from grass.wire.codec import Form, encode
from grass.wire.finding import FINDINGS, Finding
from grass.wire.job_file import JOB_FILE, JobFile
from grass.wire.job_record import JOB_RECORD, JobRecord
from grass.wire.keys import TaskKey
from grass.wire.node_record import NODE_RECORD, NodeRecord
from grass.wire.operation_record import OPERATION_RECORD, OperationRecord
from grass.wire.schedule_record import SCHEDULE_RECORD, ScheduleRecord
from grass.wire.specification import SPECIFICATION
from grass.wire.standby import STANDBY, StandbyView
from grass.wire.task_record import TASK_RECORD, TaskRecord
from grass.wire.usage_record import KEPT_FILES, USAGE_RECORD, UsageRecord

T = TypeVar("T")


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


class Records:
    """One instance per process, shared by its threads. Reads of one record raise UndecodableError if it is damaged;
    lists leave damaged records out."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys
        self.images = SignedImages(backend, keys)
        self.job_index = JobIndex(backend, keys)

    def standby(self) -> StandbyView | None:
        """Return how far the standby is. None: the master-agent has not looked yet."""
        text = self._backend.hget(self._keys.standby, RECORD)
        return STANDBY.decode(text) if text is not None else None

    def cloud(self) -> CloudView | None:
        """Return who autoscales, and what the machines cost. None: nobody has told."""
        text = self._backend.get(self._keys.cloud)
        return CLOUD.decode(text) if text is not None else None

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

    def active(self) -> dict[str, str]:
        """Return name → id of all active jobs."""
        return self._backend.hgetall(self._keys.live)

    def run(self, job_id: str) -> JobRecord | None:
        return self._one(JOB_RECORD, self._keys.jobs, job_id)

    def spec(self, job_id: str) -> Job | None:
        return self._one(SPECIFICATION, self._keys.specs, job_id)

    def autoscaled(self, job_ids: Sequence[str]) -> dict[str, Job]:
        """Return the specifications of those of the jobs that have a component with ``autoscale``, by job id."""
        texts = self._backend.hget_many(self._keys.specs, job_ids).items()
        wanted = [pair for pair in texts if '"autoscale":{' in pair[1]]  # decoding all of them would take long
        return dict(sound(SPECIFICATION, self._keys.specs, wanted))

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

    def findings(self, job_id: str) -> tuple[Finding, ...]:
        """Return what rules found about a job, and holds now."""
        return self._one(FINDINGS, self._keys.findings, job_id) or ()

    def found(self) -> dict[str, tuple[Finding, ...]]:
        """Return the findings about all jobs."""
        return dict(sound(FINDINGS, self._keys.findings, self._backend.hgetall(self._keys.findings).items()))

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

    def _one(self, form: Form[T], key: str, field: str) -> T | None:
        text = self._backend.hget(key, field)
        return None if text is None else decoded(form, key, field, text)

    def _by_name(self, form: Form[T], key: str) -> list[T]:
        records = dict(sound(form, key, self._backend.hgetall(key).items()))
        return [records[name] for name in sorted(records)]


def open_records(config: ClusterConfig) -> Records:
    """Open the records for a program that reads some and ends."""
    return Records(open_backend(config, Secrets.load(config.home), "api"), Keys(config.key_prefix))
