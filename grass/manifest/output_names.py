"""Checks the paths of the files that `output: {file: …}` names: each in the job's folder, and of one task. Pure.

Used by ``job_checks``.
"""

from __future__ import annotations

from grass.manifest.document import join
from grass.manifest.fields import Problems
from grass.model.ending import Clean
from grass.model.job import Component, Job
from grass.model.output_name import WORDS, namer, rest_of, words_of

_ANY_ATTEMPT = "\x01"
"""Stands for a number while paths are compared. No path has it."""
_LONGEST_PART, _LONGEST = 255, 1024
"""Bytes of a name, and of a path."""


def check(job: Job, path: str, problems: Problems) -> None:
    """Report patterns that cannot be replaced, paths that cannot be written, and paths that two tasks would share."""
    owners: dict[str, str] = {}
    folders: dict[str, str] = {}
    for part in job.components.values():
        if part.output_file is None:
            continue
        where = join(join(join(join(path, "components"), part.name), "output"), "file")
        problem = _of_pattern(part.output_file, part) or _of_job(job) or _of_paths(job, part, owners, folders)
        if problem:
            problems.add(where, problem)


def _of_job(job: Job) -> str:
    if job.ending.clean is Clean.ALL:
        return "cannot be combined with `clean: all`, which removes the log that the file is made of"
    return ""


def _of_pattern(pattern: str, part: Component) -> str:
    words = words_of(pattern)
    known = ", ".join(f"{{{word}}}" for word in WORDS)
    if unknown := [word for word in words if word not in WORDS]:
        return f"unknown {{{unknown[0]}}}; use {known}"
    if {"{", "}"} & set(rest_of(pattern)):
        return f"must have braces only around a word; use {known}"
    if "entry" in words and not part.entries:
        return "has {entry}, but the tasks have none; it needs `from` with array, lines, json or entries"
    name = namer(pattern, "-", part)
    beside = name(0, _ANY_ATTEMPT).split(_ANY_ATTEMPT)
    if any(left[-1:].isdigit() for left in beside[:-1]) or any(right[:1].isdigit() for right in beside[1:]):
        return "must not have digits beside {attempt}: attempt 11 of task 1 and attempt 1 of task 11 would be the same"
    return ""


def _of_paths(job: Job, part: Component, owners: dict[str, str], folders: dict[str, str]) -> str:
    """Return the first problem of the paths, and add them to those of other tasks. ``folders``: path → a task below."""
    assert part.output_file is not None
    name = namer(part.output_file, job.name, part)
    count = max(part.replicas, part.max or 2) if part.elastic else part.replicas
    for index in range(count):
        task, file = f"{part.name}.{index}", name(index, _ANY_ATTEMPT)
        shown = file.replace(_ANY_ATTEMPT, "{attempt}")
        if wrong := _of_path(file):
            return f"{wrong}: {shown[:_LONGEST_PART]!r}" if shown != part.output_file else wrong
        above = [file[:at] for at, character in enumerate(file) if character == "/"]
        other = owners.get(file) or folders.get(file) or next((owners[each] for each in above if each in owners), None)
        if other is not None and file in owners:
            return f"would be the same file for {other} and {task}: {shown!r}; add {{component}} or {{index}}"
        if other is not None:
            return f"would need a folder and a file of one name, for {other} and {task}: {shown!r}; name them apart"
        owners[file] = task
        folders.update(dict.fromkeys(above, task))
    return ""


def _of_path(file: str) -> str:
    parts = file.split("/")
    if file.startswith("/"):
        return "must be a path in the job's output folder, not an absolute one"
    if ".." in parts:
        return "must not leave the job's output folder with `..`"
    if "" in parts or "." in parts:
        return "must be the path of a file, such as train-{index}.log"
    if any(character != _ANY_ATTEMPT and (character < " " or character == "\x7f") for character in file):
        return "must not have line ends or other control characters"
    if len(file.encode()) > _LONGEST or any(len(each.encode()) > _LONGEST_PART for each in parts):
        return f"must have at most {_LONGEST_PART} bytes between slashes, and {_LONGEST} in all"
    return ""
