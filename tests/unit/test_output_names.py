"""The files that `output: {file: …}` names: one for each task, in the job's folder; everything else is refused."""

from __future__ import annotations

from typing import Any

import pytest

from grass.api.client_views import LogLine
from grass.api.output_files import FileText
from grass.cli.job_spec import spec_lines
from grass.errors import ManifestError
from grass.manifest import parse_job
from grass.model.output_name import namer


def component(file: str, **keys: Any) -> dict[str, Any]:
    return {"command": "c", "output": {"file": file}, **keys}


def names_of(file: str, count: int, attempt: int = 1, **keys: Any) -> list[str]:
    job = parse_job({"name": "j", "components": {"w": component(file, **keys)}}).job
    return [namer(file, job.name, job.components["w"])(index, attempt) for index in range(count)]


def problem_of(parts: dict[str, Any], **job: Any) -> str:
    with pytest.raises(ManifestError) as refused:
        parse_job({"name": "j", **job, "components": parts})
    return str(refused.value)


def test_a_pattern_names_a_file_for_each_task() -> None:
    assert names_of("logs/{job}-{component}.{index}", 2, replicas=2) == ["logs/j-w.0", "logs/j-w.1"]
    assert names_of("{index}/{attempt}.log", 2, attempt=3, replicas=2) == ["0/3.log", "1/3.log"]
    assert names_of("{entry}.log", 2, **{"from": {"entries": ["a", "{index}"]}}) == ["a.log", "{index}.log"]
    assert names_of("all.log", 1) == ["all.log"]


def test_a_job_file_may_have_both_limit_and_file() -> None:
    part = {"command": "c", "output": {"limit": "2MiB", "file": "a.log"}}
    found = parse_job({"name": "j", "components": {"w": part}}).job.components["w"]
    assert (found.output_limit, found.output_file) == (2 << 20, "a.log")


def test_job_show_says_where_the_file_is() -> None:
    job = parse_job({"name": "j", "components": {"w": component("a.log")}}).job
    assert any("Output file" in line and "a.log, by `grass job pull`" in line for line in spec_lines(job, None))


@pytest.mark.parametrize(
    ("file", "keys", "problem"),
    [
        ("/tmp/a", {}, "must be a path in the job's output folder, not an absolute one"),
        ("a/../../b", {}, "must not leave the job's output folder with `..`"),
        ("a//b", {}, "must be the path of a file, such as train-{index}.log"),
        ("a/", {}, "must be the path of a file"),
        (".", {}, "must be the path of a file"),
        ("a\nb", {}, "must not have line ends or other control characters"),
        ("x" * 256, {}, "must have at most 255 bytes between slashes, and 1024 in all"),
        ("{lr}.log", {}, "unknown {lr}; use {job}, {component}, {index}, {attempt}, {entry}"),
        ("{index", {}, "must have braces only around a word"),
        ("{entry}.log", {"replicas": 2}, "has {entry}, but the tasks have none"),
        ("{index}{attempt}", {"replicas": 2}, "must not have digits beside {attempt}"),
        ("a.log", {"replicas": 2}, "would be the same file for w.0 and w.1: 'a.log'; add {component} or {index}"),
        ("a-{attempt}.log", {"replicas": 2}, "would be the same file for w.0 and w.1: 'a-{attempt}.log'"),
        ("a.log", {"max": 3}, "would be the same file for w.0 and w.1"),
        ("a.log", {"min": 1}, "would be the same file for w.0 and w.1"),
        ("{entry}", {"from": {"entries": ["a", "../b"]}}, "must not leave the job's output folder with `..`: '../b'"),
        ("{entry}", {"from": {"entries": ["a", "a/b"]}}, "would need a folder and a file of one name, for w.0 and w.1"),
        ("{entry}", {"from": {"entries": ["a/b", "a"]}}, "would need a folder and a file of one name, for w.0 and w.1"),
    ],
)
def test_what_cannot_be_the_file_of_one_task_is_refused_with_its_path(
    file: str, keys: dict[str, Any], problem: str
) -> None:
    assert f"components.w.output.file: {problem}" in problem_of({"w": component(file, **keys)})


def test_components_do_not_share_a_file() -> None:
    both = {"a": component("run-{index}.log", replicas=2), "b": component("run-1.log")}
    assert "components.b.output.file: would be the same file for a.1 and b.0: 'run-1.log'" in problem_of(both)


def test_a_log_that_is_removed_with_the_end_of_the_job_can_be_no_file() -> None:
    said = problem_of({"w": component("a.log")}, clean="all")
    assert "components.w.output.file: cannot be combined with `clean: all`, which removes the log" in said


def test_the_file_of_a_task_has_every_byte_of_its_log_and_no_line_runs_into_another() -> None:
    text = FileText()

    def add(attempt: int, stream: str, words: str, *, newline: bool = False, lost: int = 0) -> bytes:
        return text.of(LogLine("w.0", attempt, stream, 1.0, words, newline, lost))

    written = [
        add(1, "stdout", "one\ntwo", newline=True),
        add(1, "stdout", "long "),
        add(1, "stdout", "line \udcff", newline=True),
        add(1, "stdout", "no end"),
        add(1, "stderr", "error"),
        add(2, "stdout", "again"),
        add(2, "stdout", "last", newline=True, lost=3 << 20),
    ]
    *first, gap, last = b"".join(written).split(b"\n")[:-1]
    assert first == [b"one", b"two", b"long line \xff", b"no end", b"error", b"again"]
    assert gap.startswith(b"[3MiB of output are missing here") and last == b"last"
