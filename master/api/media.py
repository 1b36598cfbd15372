"""Texts and files that tasks of a job reported: `GET /v1/jobs/{job}/media`. Used by ``handlers``.

Only what is said of the files is here. They are in the job's output, and are read as all files of the share are.
"""

from __future__ import annotations

from collections.abc import Iterable

from grass.errors import NotFoundError
from grass.model.key_text import checked_attempt_parts
from grass.wire.job_record import JobRecord
from grass.wire.keys import TaskKey
from grass.wire.own_curves import OWN_NOTES, OwnNotes, notes_field
from grass.wire.own_media import MEDIA, MediaSeries, media_field
from grass.wire.result_views import MediaView, MediumView
from grass.wire.task_record import TaskRecord
from master.api.call import Call
from master.api.job_changes import find_job
from master.api.jobs import known_tasks
from master.api.results import await_reports, earlier_runs, is_carried

_Series = dict[str, MediaSeries]


def job_media(call: Call, job: str) -> MediaView:
    record = find_job(call, job)
    spec = call.api.store.spec(record.id)
    if spec is None:
        raise NotFoundError(f"job {record.name}: not found; it is being deleted")
    await_reports(call, record)
    known, wanted = known_tasks(call, record, spec), call.query["task"]
    carried = {key for key, task in known.items() if is_carried(task)}
    own = {key: task for key, task in known.items() if key not in carried}
    found: dict[TaskKey, tuple[str, _Series]] = {}
    troubles: dict[str, dict[str, int]] = {}
    for run, tasks in ((record, own), *earlier_runs(call, record, carried)):
        series, notes = _kept(call, run, tasks)
        found |= {key: (run.id, series[str(key)]) for key in tasks if str(key) in series}
        troubles |= notes
    shown = [(key, *found[key]) for key in sorted(found) if wanted is None or str(key) == wanted]
    return MediaView(
        id=record.id,
        media=tuple(each for key, run, series in shown for each in _views(run, str(key), series)),
        tasks=tuple(str(key) for key in sorted(found)),
        thinned=sum(each.seen - len(each.kept) for _, _, series in shown for each in series.values()),
        troubles={task: notes for task, notes in troubles.items() if wanted is None or task == wanted},
    )


def _kept(
    call: Call, run: JobRecord, tasks: dict[TaskKey, TaskRecord]
) -> tuple[dict[str, _Series], dict[str, dict[str, int]]]:
    """Return task → its texts and files, and task → what is not kept; also what the monitor has not written yet."""
    history = call.api.store.history
    names = [*map(str, tasks)]
    nodes = {task.node for task in tasks.values() if task.node is not None}
    fields = [field_of(task) for field_of in (media_field, notes_field) for task in names]
    texts, unwritten = history.with_unwritten(history.keys.job_history(run.id), fields, nodes)
    series = {task: MEDIA.decode(texts[media_field(task)]) for task in names if media_field(task) in texts}
    notes = {task: OWN_NOTES.decode(texts[notes_field(task)]) for task in names if notes_field(task) in texts}
    for sample in unwritten:
        for medium in sample.media:
            if (task := _task_of(medium.key, run.id)) is not None:
                series.setdefault(task, {}).setdefault(medium.name, MediaSeries()).add(medium)
        for trouble in sample.troubles:
            if (task := _task_of(trouble.key, run.id)) is not None:
                notes.setdefault(task, OwnNotes()).add_trouble(trouble.text, trouble.count)
    return series, {task: note.troubles for task, note in notes.items() if note.troubles}


def _task_of(key: str, job_id: str) -> str | None:
    parts = checked_attempt_parts(key)
    return None if parts is None or parts[0] != job_id else f"{parts[1]}.{parts[2]}"


def _views(run: str, task: str, series: _Series) -> Iterable[MediumView]:
    for name, each in sorted(series.items()):
        for medium in each.kept:
            yield MediumView(
                task=task,
                name=name,
                number=medium.number,
                step=medium.step,
                at=medium.at,
                kind=medium.kind,
                text=medium.text,
                file=f"jobs/{run}/{medium.file}" if medium.file else "",
                size=medium.size,
            )
