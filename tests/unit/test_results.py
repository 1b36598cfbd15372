"""The results of jobs as one table: parameters that differ, figures, order."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from grass.api.results import MOST_FIGURES, Results, number
from grass.model.lifecycle import TaskState
from grass.wire.own_curves import MOST_FIGURES as MOST_FIGURES_KEPT
from grass.wire.own_curves import OwnIndex, OwnNotes, Summary
from grass.wire.result_views import ResultRow, ResultsView
from grass.wire.usage import NodeSample, OwnNotFinite, OwnParameters, OwnPoint, UsageSample
from master.api.results import Said, add_reported


def row(task: str, figures: dict[str, tuple[float, float, float]] | None = None, **values: str) -> ResultRow:
    return ResultRow(
        task=task,
        state=TaskState.SUCCEEDED,
        values=values,
        figures=figures or {},
        started=10.0,
        ended=12.5,
        exit_code=0,
    )


def view(name: str, *rows: ResultRow, tags: dict[str, str] | None = None, **env: str) -> ResultsView:
    return ResultsView(f"{name}-00000001", name, tags or {}, {"main": {**env, "command": "train"}}, rows, False)


def test_the_parameters_are_those_that_differ() -> None:
    rows = [row("main.0", lr="0.1", batch="8", seed="1"), row("main.1", lr="1e-3", batch="8", seed="2")]
    found = Results([view("a", *rows, HOME="/x")])
    assert found.parameters == ("lr", "seed")
    assert [each["lr"] for each in found] == [0.1, "1e-3"] and found[0]["seconds"] == 2.5


def test_between_jobs_their_variables_commands_and_tags_are_parameters() -> None:
    found = Results([view("a", row("main.0"), tags={"exp": "1"}, LR="1"), view("b", row("main.0"), LR="2")])
    assert found.parameters == ("LR", "exp")
    assert [(each["job"], each["LR"], each["exp"]) for each in found] == [("a", 1, 1), ("b", 2, "")]


def test_keys_of_json_entries_are_parameters() -> None:
    entries = ['{"lr": 0.1, "net": {"deep": 2}}', '{"lr": 0.2, "net": {"deep": 2}}', "{no json"]
    found = Results([view("a", *(row(f"main.{at}", entry=each) for at, each in enumerate(entries)))])
    assert found.parameters == ("lr", "net", "entry")
    assert [each["lr"] for each in found] == [0.1, 0.2, ""] and found[2]["entry"] == "{no json"


def test_a_figure_has_its_last_least_and_greatest_value_and_never_hides_a_parameter() -> None:
    rows = [
        row("main.0", {"loss": (2, 1, 3)}, loss="l1"),
        row("main.1", {"loss": (1, 1, 4), "acc": (5, 5, 5)}, loss="l2"),
    ]
    found = Results([view("a", *rows)])
    assert found.figures == ("loss:last", "acc")
    assert [each["loss"] for each in found] == ["l1", "l2"]
    assert [each["task"] for each in found.ordered("loss:last")] == ["main.1", "main.0"]
    assert [each["task"] for each in found.ordered("-loss:max")] == ["main.1", "main.0"]
    assert [each["task"] for each in found.ordered("acc")] == ["main.1", "main.0"]
    assert all(list(each) and set(each) == set(found.columns()) for each in found)


def test_of_too_many_names_those_that_most_tasks_reported_have_columns() -> None:
    def reported(task: int) -> dict[str, tuple[float, float, float]]:
        return {name: (1, 1, 1) for name in ("loss", *(f"x{task}/{at}" for at in range(32)))}

    found = Results([view("a", *(row(f"main.{at}", reported(at)) for at in range(300)))])
    assert len(found.figures) == MOST_FIGURES and "loss" in found.figures
    assert found.further == 300 * 32 + 1 - MOST_FIGURES and len(found.columns()) < 4 * MOST_FIGURES


@pytest.mark.parametrize(
    ("text", "cell"),
    [("1", 1), ("0.5", 0.5), ("007", "007"), ("1e-3", "1e-3"), ("nan", "nan"), ("", ""), ("adam", "adam")],
)
def test_only_a_number_that_is_written_in_just_this_way_is_one(text: str, cell: Any) -> None:
    assert number(text) == cell and type(number(text)) is type(cell)


def saying(task: str, said: dict[str, str], **values: str) -> ResultRow:
    return structs.replace(row(task, **values), parameters=said)


def test_what_tasks_say_of_themselves_are_parameters_among_those_that_said_anything() -> None:
    rows = [
        saying("main.0", {"width": "8", "net": "a"}, lr="0.1"),
        saying("main.1", {"width": "16", "net": "a"}, lr="0.2"),
        row("main.2", lr="0.1"),
    ]
    found = Results([view("a", *rows)])
    assert (found.parameters, found.alike) == (("lr", "width"), ("net",))
    assert found.columns()[:6] == ["job", "task", "lr", "width", "net", "state"]
    assert [(each["width"], each["net"]) for each in found] == [(8, "a"), (16, "a"), ("", "")]
    assert Results([view("a", rows[0])]).parameters == ("width", "net")
    assert Results([view("a", rows[0], rows[2])]).parameters == ()
    several = Results([view("a", rows[0]), view("b", rows[1])])
    assert several.parameters == ("lr", "width") and several.alike == ("net",)


def test_what_a_task_says_counts_more_than_its_job_file_unless_it_is_the_same_number() -> None:
    rows = [saying("main.0", {"lr": "0.0001", "n": "9"}, lr="1e-4", n="1"), row("main.1", lr="1e-3", n="1")]
    found = Results([view("a", *rows)])
    assert [(each["lr"], each["n"]) for each in found] == [("1e-4", 9), ("1e-3", 1)]
    assert found.parameters == ("lr", "n")


def test_values_that_are_not_finite_have_a_column_where_there_are_any_and_are_counted_together() -> None:
    rows = [
        structs.replace(row("main.0", {"loss": (2, 1, 3)}), not_finite={"loss": 3}),
        structs.replace(row("main.1"), not_finite={"loss": 1}),
        row("main.2", {"acc": (1, 1, 1)}),
    ]
    found = Results([view("a", *rows)])
    assert found.figures == ("loss", "acc") and found.not_finite == {"loss": 4}
    assert [(each["loss"], each["loss:not_finite"]) for each in found] == [(2, 3), (None, 1), (None, 0)]
    assert "acc:not_finite" not in found.columns()


def test_what_the_monitor_has_not_written_yet_is_added() -> None:
    key = "j-1/main.0/1"
    said = {"main.0": Said({"loss": Summary(3.0, 3.0, 3.0, 0)}, OwnNotes({"lr": "1"}, {"loss": 2}))}
    points = (OwnPoint(key, "loss", 1, 2.0, 6.0), OwnPoint(key, "acc", 1, 0.5, 6.0))
    others = (OwnPoint("j-2/main.0/1", "loss", 0, 9.0, 5.0), OwnPoint("nonsense", "loss", 0, 9.0, 5.0))
    late = (OwnPoint("j-1/main.1/1", "loss", 1, 7.0, 6.0),)
    notes = (OwnNotFinite(key, "loss", 2, 1), OwnNotFinite("j-2/main.0/1", "loss", 2, 1))
    node = NodeSample(cpu=1.0, memory=1, memory_total=1, disk_used=1, disk_total=1, network_sent=0, network_received=0)
    sample = UsageSample(6.0, node, (), (*points, *others, *late), notes, (OwnParameters(key, {"lr": "2"}),))
    add_reported(said, sample, "j-1", OwnIndex(figures=MOST_FIGURES_KEPT - 1))
    assert said["main.0"] == Said(
        {"loss": Summary(2.0, 2.0, 3.0, 1), "acc": Summary(0.5, 0.5, 0.5, 1)}, OwnNotes({"lr": "2"}, {"loss": 3})
    )
    assert said["main.1"].figures == {}, "the job has as many figures as are kept"
