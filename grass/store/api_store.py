"""The store as the master-api-server uses it: submits jobs, files tickets, reads the master-agent's records.

Used by ``master.api``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grass.errors import ConflictError, ReplayedError
from grass.model.event_kind import EventKind
from grass.model.job import Job
from grass.model.reasons import Reason, ReasonCode
from grass.store.backend import Backend, Guard, Op
from grass.store.change_feed import ChangeFeed
from grass.store.event_log import logged
from grass.store.history_store import HistoryStore
from grass.store.job_index import moved
from grass.store.join_tokens import JoinTokens
from grass.store.keys import Keys
from grass.store.previews import Previews
from grass.store.queue_store import QueueStore
from grass.store.records import Records
from grass.store.sessions import Sessions, Sighting
from grass.store.tickets import Tickets
from grass.system.clock import wall
from grass.wire.cloud import CLOUD, CloudView
from grass.wire.codec import encode
from grass.wire.event_record import EventRecord
from grass.wire.job_file import JobFile
from grass.wire.job_record import JobRecord, first_record
from grass.wire.plan_answer import PlanAnswer
from grass.wire.tickets import StartJob

_TRIES = 5


class ApiStore(Records, Tickets):
    """One instance per server, shared by its threads."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        super().__init__(backend, keys)
        self.history = HistoryStore(backend, keys)
        self.join_tokens = JoinTokens(backend, keys)
        self.sessions = Sessions(backend, keys)
        self.change_feed = ChangeFeed(backend, keys)
        self.queues = QueueStore(backend, keys)
        self._previews = Previews(backend, keys)

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
        held: str | None = None,
        starts: float | None = None,
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
            held=held,
            starts=starts,
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
            f"job {job.name} is still active ({live}); stop it with `grass job stop {job.name}`, choose another name, "
            "or wait for its end with `grass job start --after-namesake`"
        )

    def check_writes(self) -> None:
        """Write a test key. Raises StoreRefusesError or UnreachableError if the store accepts no writes now."""
        self._backend.apply([("SETEX", self._keys.write_check, 1, "1")])

    def preview(self, job: Job, user: str, question: str, seconds: float) -> PlanAnswer | None:
        """Ask where the job would run if it were submitted now (``master/agent/preview.py``).

        ``question``: a unique id. None: the master-agent did not answer within ``seconds``.
        """
        return self._previews.answer(self._previews.ask(job, user, question), seconds)

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

    def change_cloud(self, decide: Callable[[CloudView], CloudView]) -> tuple[CloudView, CloudView]:
        """Change what is known of a cluster in a cloud, in one atomic step. Return it before and after. ``decide`` may
        be called again. Raises UndecodableError, ConflictError: others change it all the time."""
        key = self._keys.cloud
        for _ in range(_TRIES):
            text = self._backend.get(key)
            before = CloudView() if text is None else CLOUD.decode(text)
            after = decide(before)
            guard: Guard = ("no-key", key, "") if text is None else ("equals", key, text)
            if self._backend.apply([("SET", key, encode(after))], [guard]) == 0:
                return before, after
        raise ConflictError("others tell of this cluster at the same time; try again")

    def horizon(self) -> float:
        """Return the latest time of a request without a session that an earlier API server may have accepted; 0:
        none."""
        return float(self._backend.get(self._keys.horizon) or 0.0)

    def keep_horizon(self, horizon: float) -> None:
        self._backend.apply([("SET", self._keys.horizon, repr(horizon))])

    def ping(self) -> None:
        self._backend.ping()


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
