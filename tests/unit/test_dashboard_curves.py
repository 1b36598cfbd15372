"""Histories of the API as charts of the page."""

from __future__ import annotations

import pytest

from grass.dashboard.curves import capacity, last, node_charts, own_charts, task_charts
from grass.dashboard.questions import QUESTIONS
from grass.errors import InputError


def history(**curves: list[float | None]) -> dict[str, object]:
    return {"start": 100.0, "step": 2.0, "curves": curves}


def test_curves_of_one_unit_are_on_one_chart_and_unknown_ones_are_left_out() -> None:
    curves = {
        "cpu": [1.0, None],
        "gpu0.utilisation": [5.0, 6.0],
        "gpu11.utilisation": [7.0, 8.0],
        "power": [None, None],
    }
    charts = node_charts(history(**curves))
    assert [(chart["title"], chart["unit"], chart["x"]) for chart in charts] == [
        ("CPU", "percent", [100.0, 102.0]),
        ("GPU", "percent", [100.0, 102.0]),
    ]
    assert charts[1]["series"] == [
        {"name": "gpu 0", "values": [5.0, 6.0]},
        {"name": "gpu 11", "values": [7.0, 8.0]},
    ]
    assert task_charts(history()) == []


def test_capacity_is_in_percent_of_what_the_cluster_has() -> None:
    shown = capacity(
        history(cpu=[1.0, None], cpu_allocated=[2.0, 4.0], cpu_capacity=[4.0, 4.0], gpu_capacity=[0.0, 0.0])
    )
    assert shown == {
        "x": [100.0, 102.0],
        "series": [
            {"name": "cpu in use", "values": [25.0, None], "dash": False},
            {"name": "cpu allocated", "values": [50.0, 100.0], "dash": True},
        ],
    }
    assert capacity(history()) == {"x": [], "series": []}


def test_only_the_newest_part_of_a_history_is_shown() -> None:
    assert last(history(cpu=[1.0, 2.0, 3.0]), 4) == {"start": 102.0, "step": 2.0, "curves": {"cpu": [2.0, 3.0]}}
    assert last(history(), 4)["curves"] == {}


def test_own_figures_of_tasks_share_their_steps() -> None:
    own = [
        {"task": "w.0", "name": "loss", "steps": [1, 3], "values": [9.0, 7.0]},
        {"task": "w.1", "name": "loss", "steps": [2], "values": [8.0]},
    ]
    [chart] = own_charts({"curves": own})
    assert chart["title"] == "loss" and chart["x"] == [1, 2, 3] and chart["time"] is False
    assert [each["values"] for each in chart["series"]] == [[9.0, None, 7.0], [None, 8.0, None]]


@pytest.mark.parametrize("text", ["0", "-1", "x", "²", "9999999", "9" * 40])
def test_a_range_without_sense_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="range"):
        QUESTIONS["node-usage"].ask(None, {"node": "n", "range": text})  # type: ignore[arg-type]
