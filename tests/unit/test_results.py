"""The results of jobs as one table: parameters that differ, figures, order."""

from __future__ import annotations

from typing import Any

import pytest

from grass.api.results import MOST_FIGURES, Results, number
from grass.model.lifecycle import TaskState
from grass.wire.own_curves import Summary
from grass.wire.result_views import ResultRow, ResultsView
from grass.wire.usage import OwnPoint
from master.api.results import add_unwritten


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


def test_figures_that_the_monitor_has_not_written_yet_are_added_once() -> None:
    figures = {"main.0": {"loss": Summary(3.0, 3.0, 3.0, 0)}}
    key = "j-1/main.0/1"
    points = [OwnPoint(key, "loss", 0, 3.0, 5.0), OwnPoint(key, "loss", 1, 2.0, 6.0), OwnPoint(key, "acc", 1, 0.5, 6.0)]
    others = [OwnPoint("j-2/main.0/1", "loss", 0, 9.0, 5.0), OwnPoint("nonsense", "loss", 0, 9.0, 5.0)]
    late = [OwnPoint("j-1/main.1/1", "loss", 1, 7.0, 6.0)]
    add_unwritten(figures, [*points, *others, *late], "j-1", 1)
    assert figures == {"main.0": {"loss": Summary(2.0, 2.0, 3.0, 1), "acc": Summary(0.5, 0.5, 0.5, 1)}, "main.1": {}}
