"""Reads from the store what the rules need: jobs with ``autoscale``, what waits, and what tasks report.

Used by ``master.monitor.autoscaler`` and ``master.api.autoscale``. It writes nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from grass.errors import UndecodableError
from grass.model.autoscale import Autoscale
from grass.model.job import Component, Job
from grass.model.lifecycle import JobState, TaskState
from grass.store.history_store import HistoryStore
from grass.store.job_index import EVERYBODY, job_of
from grass.store.records import Records
from grass.wire.job_record import JobRecord
from grass.wire.own_curves import INDEX, OWN_INDEX, OwnCurve, OwnIndex, field, unpack
from grass.wire.task_record import TaskRecord
from master.autoscale.rates import THROUGHPUT, Point, Reports
from master.autoscale.rules import Subject
from master.autoscale.waiting import Waiter, waiter, waits

_MOST_JOBS = 5_000
"""The newest jobs in a state. Older ones count as not waiting."""
_MOST_WAITERS = 50
"""Components that wait, by priority. What further ones lack is not read."""

log = logging.getLogger("grass.store")


class Situation(NamedTuple):
    """The arguments of ``rules.decide``. ``specs``: of the jobs of ``subjects``, by id; ``users``: their owners."""

    subjects: list[Subject]
    waiters: list[Waiter]
    specs: Mapping[str, Job]
    users: Mapping[str, str]


NOTHING = Situation([], [], {}, {})


class Reader:
    """Reads one situation after another."""

    def __init__(self, records: Records, history: HistoryStore) -> None:
        self._records = records
        self._history = history
        self._known: dict[str, Job | None] = {}
        """Running job → its specification; None: it has no ``autoscale``. A specification never changes."""

    def read(self, asked: JobRecord | None = None) -> Situation:
        """``asked``: a job whose components with ``min`` and ``max`` are read even without ``autoscale``.

        Raises UnreachableError.
        """
        running = self._active(JobState.RUNNING)
        self._learn(running)
        specs = {job_id: job for job_id in running if (job := self._known[job_id]) is not None}
        if asked is not None and (job := self._records.spec(asked.id)) is not None:
            specs[asked.id] = job
        if not specs:
            return NOTHING
        records = {each.id: each for each in self._records.runs([*running, *self._active(JobState.QUEUED)])}
        subjects = [
            each
            for job_id, job in specs.items()
            if job_id in records
            for each in self._subjects(records[job_id], job, asked)
        ]
        users = {job_id: records[job_id].user for job_id in specs if job_id in records}
        return Situation(subjects, self._waiters(list(records.values()), subjects), specs, users)

    def _active(self, state: JobState) -> list[str]:
        return [job_of(each) for each in self._records.job_index.positions([state], EVERYBODY, _MOST_JOBS, None)]

    def _learn(self, running: Collection[str]) -> None:
        self._known = {job_id: self._known[job_id] for job_id in running if job_id in self._known}
        new = [job_id for job_id in running if job_id not in self._known]
        found = self._records.autoscaled(new) if new else {}
        self._known.update((job_id, found.get(job_id)) for job_id in new)

    def _subjects(self, record: JobRecord, job: Job, asked: JobRecord | None) -> Iterable[Subject]:
        wanted = {
            name: policy
            for name, part in job.components.items()
            if (policy := part.autoscale or (scalable(part) if asked and asked.id == record.id else None))
        }
        if not wanted:
            return
        operations = self._records.operations(record.id)
        tasks: dict[str, list[TaskRecord]] = {}
        for key, task in self._records.tasks(record.id).items():
            if not task.released:
                tasks.setdefault(key.component, []).append(task)
        for name, policy in wanted.items():
            part, now, own = job.components[name], record.components[name], tasks.get(name, [])
            assert part.min is not None and part.max is not None  # the file is refused otherwise
            yield Subject(
                *(record.id, record.name, name, policy, now.replicas, part.min, part.max, part.unit, part.resources),
                since=max(record.started or 0.0, min((task.started or 0.0 for task in own), default=0.0)),
                runs=record.state is JobState.RUNNING and set(now.counts) <= {TaskState.RUNNING} and not now.joining,
                priority=record.priority,
                filed=record.operations,
                operations=operations,
                reports=self._reports(record.id, name),
                nodes=frozenset(task.node for task in own if task.node is not None and task.state.on_node),
            )

    def _waiters(self, records: Sequence[JobRecord], subjects: Sequence[Subject]) -> list[Waiter]:
        """Return what waits. What it lacks is read only of jobs for which something can be given back."""
        least = min((each.priority for each in subjects if each.size > each.least), default=None)
        ordered = sorted(records, key=lambda each: (-each.priority, each.submitted))
        found, nodes = list[Waiter](), None
        for record in ordered:
            for name in waits(record):
                spec = None
                if least is not None and record.priority > least and len(found) < _MOST_WAITERS:
                    spec = self._records.spec(record.id)
                    nodes = self._records.nodes() if nodes is None else nodes
                found.append(waiter(record, name, spec, nodes or ()))
        return found

    def _reports(self, job_id: str, component: str) -> Reports:
        """Return the reports of its tasks: of the figure ``throughput``, or of the one that most tasks report."""
        key = self._history.keys.job_history(job_id)
        text = self._history.texts(key, [INDEX]).get(INDEX)
        if text is None:
            return {}
        try:
            return self._curves(key, component, OWN_INDEX.decode(text))
        except UndecodableError as error:
            log.warning("redis key %s: %s; the gain of its growths is not measured", key, error)
            return {}

    def _curves(self, key: str, component: str, index: OwnIndex) -> Reports:
        if index.dropped:  # some tasks have no curve, so the rates of all are not known
            return {}
        curves = [(task, name) for task, name in index.curves if task.rpartition(".")[0] == component]
        names = Counter(name for _, name in curves)
        if not names:
            return {}
        chosen = THROUGHPUT if THROUGHPUT in names else names.most_common(1)[0][0]
        fields = {field(task, name): task for task, name in curves if name == chosen}
        texts = self._history.texts(key, list(fields))
        return {fields[name]: _points(unpack(text), chosen == THROUGHPUT) for name, text in texts.items()}


def scalable(part: Component) -> Autoscale | None:
    """Return the default policy for a component that may have one."""
    sized = part.min is not None and part.max is not None
    follows = part.framework is None or not part.framework.kind.size_at_start
    return Autoscale() if sized and follows else None


def _points(curve: OwnCurve, valued: bool) -> list[Point]:
    columns = zip(curve.times, curve.steps, curve.values, strict=True)
    return [Point(at, step, value if valued else None) for at, step, value in columns]
