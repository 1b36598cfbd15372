"""Pulls the output of a job: the files of its folder in the share, and those that `output: {file: …}` names.

The latter are made here, of the job's log: it has every line once, and in its order. Used by ``file_calls`` and
``grass.cli.pull``.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import UNSET

from grass.api.earlier_runs import earlier_runs
from grass.api.log_reading import gap_note
from grass.errors import ConflictError, InputError, NotFoundError
from grass.files import paths, transfers
from grass.files.access import ShareAccess
from grass.files.pulled import Pulled
from grass.model.output_name import namer, words_of
from grass.model.reasons import ReasonCode

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.api.client_views import LogLine
    from grass.wire.job_details import JobDetails
    from grass.wire.job_views import TaskView

_MADE = ".grass-output-"
"""Beginning of the name of the folder in which the files are made."""
_NAMED = 10
"""Maximum number of files that an error names."""


@dataclass(frozen=True)
class PulledOutput:
    """What was pulled. ``remotes``: the folders in the share. ``size``: bytes, ``shared``: of those from there.

    ``late``: output of tasks is still on its way.
    """

    job: JobDetails
    remotes: list[str]
    target: Path
    size: int
    shared: int
    late: bool


def pull_output(
    client: Client,
    access: ShareAccess,
    name: str,
    path: str,
    local: Path | None,
    on_progress: transfers.OnProgress,
    pulled: Pulled,
    *,
    force: bool,
) -> PulledOutput:
    """Pull the output of a job, or ``path`` of it, to ``local`` (None: the job's name).

    Of a rerun of failed tasks, also what the earlier runs wrote, unless it wrote a file of that name itself. Raises as
    ``transfers.pull_runs``; ConflictError, after all else was pulled: a task has written a file of the name that its
    output has.
    """
    job, path = client.job(name), paths.to_read(path)
    runs = [job.id, *earlier_runs(job, client.job)]
    remotes = [f"{paths.JOBS}/{run}/{path}".rstrip("/") for run in runs]
    target = local or Path(job.name)

    def pull_files() -> int:
        return transfers.pull_runs(access, remotes, target, on_progress, pulled, force=force)

    naming = list(_naming(client, job, runs))
    if not naming:
        size = pull_files()
        return PulledOutput(job, remotes, target, size, size, late=False)
    try:
        with tempfile.TemporaryDirectory(dir=_existing(target), prefix=_MADE, ignore_cleanup_errors=True) as folder:
            logs = _Logs(client, Path(folder), lambda file: _place(file, path, target) is not None)
            for run in naming:
                logs.write(run)
            size, shared, blocked = _put(logs.files, access, runs, path, target, pulled, pull_files, force=force)
    except OSError as error:
        raise InputError(f"pull of {remotes[0]}: {error}") from error
    if blocked:
        raise ConflictError(
            f"job {job.name}: its folder has files, folders or links of the names that `output: {{file: …}}` gives: "
            f"{', '.join(blocked[:_NAMED])}; all else was pulled, and `grass job logs {job.name}` has that output"
        )
    return PulledOutput(job, remotes, target, size, shared, logs.late)


def _put(
    made: dict[str, Path],
    access: ShareAccess,
    runs: list[str],
    path: str,
    target: Path,
    pulled: Pulled,
    pull_files: Callable[[], int],
    *,
    force: bool,
) -> tuple[int, int, list[str]]:
    """Pull the files of the job's folder, and put ``made`` beside them.

    Return the bytes, those of the folder, and what could not be put there.

    Raises ConflictError, before anything is changed: a file was edited here."""
    root = target.resolve() if path not in made or target.is_dir() else target.parent.resolve() / target.name
    places = {file: place for file in made if (place := _place(file, path, root)) is not None}
    with tempfile.TemporaryDirectory() as empty:
        own = {name for run in runs for name in transfers.names(access, f"{paths.JOBS}/{run}", Path(empty))}
    folders = {str(folder) for each in own for folder in PurePosixPath(each).parents}
    free = {file: place for file, place in places.items() if not _in_the_way(file, own, folders)}
    changed = {file: place for file, place in free.items() if not _is_same(place, made[file])}
    if not force:
        here = pulled.edited(place for place in changed.values() if os.path.lexists(place))
        transfers.refuse_edited(f"pull of {paths.JOBS}/{runs[0]}", here)
    try:
        shared = size = pull_files()
    except NotFoundError:
        if not places:
            raise
        shared = size = 0
    put = {file: place for file, place in changed.items() if not _leads_elsewhere(place, root)}  # as pulled just now
    for file, place in put.items():
        size += made[file].stat().st_size
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made[file], place)
    pulled.note(root, put.values())
    return size, shared, [file for file in places if file not in free or (file in changed and file not in put)]


class FileText:
    """The text of one file, record by record of its log."""

    def __init__(self) -> None:
        self._open: tuple[int, str] | None = None
        """Attempt and stream of a line that has no end yet."""

    def of(self, record: LogLine) -> bytes:
        """Return what a record adds: its bytes, a note if output is missing before it, and the end of an earlier line.

        A line has no end if a task ended within it, or if it is long and comes in pieces.
        """
        source = (record.attempt, record.stream)
        before = "\n" if self._open is not None and (self._open != source or record.lost) else ""
        gap = f"{gap_note(record.lost)}\n" if record.lost else ""
        self._open, end = (None, "\n") if record.newline else (source, "")
        return f"{before}{gap}{record.text}{end}".encode("utf-8", "surrogateescape")


@dataclass
class _Logs:
    """The output of tasks, as files in ``folder``. ``wanted``: whether a path in the job's folder was asked for."""

    client: Client
    folder: Path
    wanted: Callable[[str], bool]
    files: dict[str, Path] = field(default_factory=dict)
    """Path in the job's folder → where it was written."""
    late: bool = False
    _done: set[str] = field(default_factory=set)
    """Tasks of newer runs: of an earlier one, only other tasks count."""

    def write(self, run: JobDetails) -> None:
        """Write the output of the tasks that this run started, and no newer one."""
        assert run.specification is not UNSET
        parts = {part.name: part for part in run.specification.components.values() if part.output_file is not None}
        names = {name: namer(part.output_file or "", run.name, part) for name, part in parts.items()}
        owners: dict[str, str] = {}
        for task in filter(_started, self.client.tasks(run.id)):
            if task.component in names and task.task not in self._done:
                several = "attempt" in words_of(parts[task.component].output_file or "")
                for attempt in range(1, task.attempt + 1 if several else 2):
                    self._begin(names[task.component](task.index, attempt), task.task, owners)
        texts: dict[Path, FileText] = {}
        for record in self.client.logs(run.id, _only(names), joined=True, late=self._note_late):
            component, _, index = record.task.rpartition(".")
            if component not in names or record.task in self._done:
                continue
            file = self._begin(names[component](int(index), record.attempt), record.task, owners)
            if file is not None:
                with file.open("ab") as stream:
                    stream.write(texts.setdefault(file, FileText()).of(record))
        self._done.update(owners.values())

    def _begin(self, name: str, task: str, owners: dict[str, str]) -> Path | None:
        """Return the file of a task, which is made if it is not there. None: it was not asked for."""
        if owners.setdefault(name, task) != task:
            raise ConflictError(
                f"the output of {owners[name]} and {task} would be the same file, {name}; `grass job logs` shows both"
            )
        if not self.wanted(name):
            return None
        if name not in self.files:
            self.files[name] = self.folder / str(len(self.files))
            self.files[name].touch()
        return self.files[name]

    def _note_late(self) -> None:
        self.late = True


def _only(names: dict[str, Callable[[int, int | str], str]]) -> str | None:
    """Return the one component whose output is asked for; None: there are several."""
    return next(iter(names)) if len(names) == 1 else None


def _started(task: TaskView) -> bool:
    return task.attempt > 0 and (task.reason is None or task.reason.code is not ReasonCode.CARRIED)


def _naming(client: Client, job: JobDetails, runs: list[str]) -> Iterator[JobDetails]:
    """Yield the runs that are still there and name files."""
    for run in runs:
        try:
            details = job if run == job.id else client.job(run)
        except NotFoundError:
            continue
        specification = details.specification
        if specification is not UNSET and any(part.output_file for part in specification.components.values()):
            yield details


def _existing(target: Path) -> Path:
    """Return the folder in which files are made, so that they need only be renamed."""
    return next(each for each in (target, *target.absolute().parents) if each.is_dir())


def _place(file: str, path: str, target: Path) -> Path | None:
    """Return where a file comes to if ``path`` of the job's folder is pulled to ``target``; None: it is not in it."""
    if file == path:
        return target / PurePosixPath(file).name if target.is_dir() else target
    if not path:
        return target / file
    return target / file.removeprefix(f"{path}/") if file.startswith(f"{path}/") else None


def _in_the_way(file: str, own: set[str], folders: set[str]) -> bool:
    """Return whether a task has written this file, a folder of its name, or a file in place of one of its folders."""
    return file in own or file in folders or any(str(each) in own for each in PurePosixPath(file).parents)


def _leads_elsewhere(place: Path, target: Path) -> bool:
    """Return whether a folder stands at a file's place, or a link or a file at that of one of its folders."""
    folders = [each for each in place.parents if target in each.parents]
    is_folder = place.is_dir() and not place.is_symlink()
    return is_folder or any(os.path.lexists(each) and (each.is_symlink() or not each.is_dir()) for each in folders)


def _is_same(place: Path, made: Path) -> bool:
    return place.is_file() and not place.is_symlink() and filecmp.cmp(place, made, shallow=False)
