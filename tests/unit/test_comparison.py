"""Jobs and tasks side by side: parameters that differ, figures, files by digest."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from grass.api.comparison import Comparison, FigureSide, Target, comparison, grouped
from grass.api.results import Results
from grass.errors import InputError, NotFoundError
from grass.files.operations import FileDigest
from grass.files.share import digest_files
from grass.model.lifecycle import TaskState
from grass.wire.result_views import ResultRow, ResultsView


def view(name: str, rates: tuple[str, ...], losses: tuple[float, ...], **env: str) -> ResultsView:
    rows = tuple(
        ResultRow(
            task=f"w.{at}",
            state=TaskState.SUCCEEDED,
            values={"lr": rate, "seed": "1"},
            figures={"loss": (loss, loss - 1, loss + 1)},
            started=1.0,
            ended=3.5,
        )
        for at, (rate, loss) in enumerate(zip(rates, losses, strict=True))
    )
    return ResultsView(f"{name}-00000001", name, {}, {"w": {**env, "command": "train"}}, rows, False)


def compared(*words: str) -> Comparison:
    views = [view("a", ("0.1", "0.2"), (2.0, 4.0), SET="cifar"), view("b", ("0.1", "0.3"), (1.0, 1.0), SET="mnist")]
    targets = [Target.parse(word) for word in words]
    return comparison(targets, [f"{target.job}-00000001" for target in targets], Results(views))


def test_of_two_jobs_the_values_of_parameters_and_the_figures_stand_side_by_side() -> None:
    found = compared("a", "b")
    assert found.parameters == {"lr": ("0.1, 0.2", "0.1, 0.3"), "SET": ("cifar", "mnist")}
    assert found.figures == {"loss": (FigureSide(3.0, 1.0, 5.0, 2), FigureSide(1.0, 0.0, 2.0, 2))}
    assert [(side.name, side.tasks, side.states, side.seconds) for side in found.sides] == [
        ("a", 2, {"succeeded": 2}, 5.0),
        ("b", 2, {"succeeded": 2}, 5.0),
    ]


def test_tasks_are_compared_and_a_task_with_a_job() -> None:
    found = compared("a.w.0", "a.w.1")
    assert found.parameters == {"lr": ("0.1", "0.2")} and [side.name for side in found.sides] == ["a.w.0", "a.w.1"]
    assert compared("a.w.1", "b").parameters["lr"] == ("0.2", "0.1, 0.3")


def test_a_task_that_is_not_there_or_cannot_be_one_is_refused() -> None:
    with pytest.raises(NotFoundError, match=r"job a: it has no task w\.7"):
        compared("a", "a.w.7")
    with pytest.raises(InputError, match=r"'a\.w': name a job, or a task as JOB\.COMPONENT\.INDEX"):
        Target.parse("a.w")


def test_files_are_grouped_by_digest_and_those_too_large_by_size(tmp_path: Path) -> None:
    for side, texts in {"a": ("1", "2", "3"), "b": ("1", "x", "3")}.items():
        (tmp_path / side / "deep").mkdir(parents=True)
        for name, text in zip(("same", "deep/other", "large"), texts, strict=True):
            (tmp_path / side / name).write_text(text * (500 if name == "large" else 1))
    (tmp_path / "a" / "mine").write_text("")
    (tmp_path / "a" / ".hidden").write_text("")
    (tmp_path / "a" / "link").symlink_to("/etc/passwd")
    files = {side: digest_files(tmp_path, side, most_bytes=100) for side in ("a", "b")}
    found = grouped(files)
    assert (found.equal, found.differ, found.only, found.unread) == (2, ("deep/other",), {"a": ("mine",)}, 1)
    assert grouped({"a": [FileDigest("f", 1, "")], "b": [FileDigest("f", 2, "")]}).differ == ("f",)


def test_only_so_many_files_are_read(tmp_path: Path) -> None:
    for name in range(5):
        (tmp_path / str(name)).write_text("x")
    assert [each.name for each in digest_files(tmp_path, "", most=3)] == ["0", "1", "2"]
    with pytest.raises(NotFoundError, match="there is no such folder"):
        digest_files(tmp_path, "nothing")


def test_of_the_sides_only_values_that_are_not_finite_are_counted() -> None:
    one = view("a", ("0.1", "0.2"), (2.0, 4.0))
    said = [{"not_finite": {"loss": at + 2}, "parameters": {"width": str(at)}} for at in range(2)]
    rows = tuple(structs.replace(row, **each) for row, each in zip(one.rows, said, strict=True))
    results = Results([structs.replace(one, rows=rows)])
    targets = [Target.parse("a.w.1")]
    assert comparison(targets, [one.id], results).not_finite == {"loss": 3}
    both = comparison([Target.parse("a.w.0"), *targets], [one.id] * 2, results)
    assert both.not_finite == {"loss": 5} and both.parameters["width"] == ("0", "1")
