"""Histories of the API as charts of the page."""

from __future__ import annotations

import pytest

from grass.dashboard.curves import (
    Run,
    capacity,
    comparison,
    during,
    job_charts,
    last,
    node_charts,
    own_charts,
    task_charts,
    thinned,
)
from grass.dashboard.questions import QUESTIONS
from grass.errors import InputError
from grass.wire.usage_views import Curves
from tests.support import sample_views
from tests.support.sample_views import metrics


def history(**curves: list[float | None]) -> Curves:
    return sample_views.curves(curves, 100.0)


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


def test_links_the_disk_and_the_load_of_a_node_are_drawn() -> None:
    names = ("rdma.mlx5_0/1.sent", "rdma.mlx5_0/1.received", "gpu0.nvlink_sent", "disk_used", "load")
    charts = node_charts(history(**{name: [1.0, 2.0] for name in names}))
    assert [(chart["title"], chart["unit"], [each["name"] for each in chart["series"]]) for chart in charts] == [
        ("RDMA", "rate", ["mlx5_0/1 sent", "mlx5_0/1 received"]),
        ("NVLink", "rate", ["gpu 0 sent"]),
        ("Disk in use", "bytes", ["used"]),
        ("Load", "number", ["load"]),
    ]


def test_the_gpus_of_a_job_are_counted() -> None:
    cpu, gpus = job_charts(history(cpu=[1.0, 2.0], gpu=[150.0, None]))
    assert (cpu["title"], cpu["unit"]) == ("CPU", "cores")
    assert (gpus["title"], gpus["unit"]) == ("GPUs in use", "number")
    assert gpus["series"] == [{"name": "gpus", "values": [1.5, None]}]


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
    assert last(history(cpu=[1.0, 2.0, 3.0]), 4) == Curves(102.0, 2.0, {"cpu": (2.0, 3.0)})
    assert last(history(), 4).curves == {}


def test_a_single_late_sample_leaves_no_gap_in_full_detail() -> None:
    values = [None, 1.0, None, 3.0, None, None, 8.0, None]
    expected = (1.0, 2.0, 3.0, None, None, 8.0, None)
    assert last(history(cpu=values), 60).curves == {"cpu": expected}
    minutes = sample_views.curves({"cpu": [1.0, None, 3.0]}, step=60.0)
    assert last(minutes, 180).curves == {"cpu": (1.0, None, 3.0)}


@pytest.mark.parametrize(
    ("begin", "end", "start", "values"),
    [
        (0.0, 1e9, 100.0, (1.0, 2.0, 3.0)),
        (103.0, 104.0, 102.0, (2.0, 3.0)),
        (0.0, 103.0, 100.0, (1.0, 2.0)),
        (0.0, 50.0, 100.0, ()),
        (200.0, 300.0, 200.0, ()),
    ],
)
def test_what_a_task_used_between_two_times(begin: float, end: float, start: float, values: tuple[float, ...]) -> None:
    found = during(history(memory=[1.0, 2.0, 3.0], gpu=[0.0, 0.0, 0.0]), begin, end)
    assert (found.start, found.curves) == (start, {"memory": values})


def test_a_point_of_a_thinned_chart_is_the_first_known_one_of_those_that_it_stands_for() -> None:
    chart = {"title": "x", "x": [1, 2, 3, 4, 5], "series": [{"name": "a", "values": [None, 2 / 3, None, None, 7.0]}]}
    assert thinned(chart, 3) == {
        "title": "x",
        "x": [1, 3, 5],
        "series": [{"name": "a", "values": [0.66667, None, 7.0]}],
    }
    assert thinned(chart, 5)["x"] == chart["x"] and thinned({"x": [], "series": []}, 5) == {"x": [], "series": []}


def test_runs_are_compared_by_the_time_since_their_start() -> None:
    late = sample_views.curves({"cpu": [9.0, 0.5, None, 9.0], "memory": []}, 500.0)
    one = Run("one", 101.0, None, history(cpu=[1.0, 2.0]))
    two = Run("two", 502.0, 503.0, late)
    [cpu] = comparison([one, two, Run("three", 0.0, None, None)])
    assert (cpu["title"], cpu["unit"], cpu["x"], cpu["time"]) == ("CPU", "cores", [0, 2], False)
    assert cpu["along"] == "seconds"
    assert [each["values"] for each in cpu["series"]] == [[1.0, 2.0], [0.5, None], [None, None]]


def test_own_figures_of_tasks_share_their_steps() -> None:
    own = metrics(
        {"task": "w.0", "name": "loss", "steps": [1, 3], "values": [9.0, 7.0]},
        {"task": "w.1", "name": "loss", "steps": [2], "values": [8.0]},
    )
    [chart] = own_charts(own)
    assert chart["title"] == "loss" and chart["x"] == [1, 2, 3] and chart["time"] is False
    assert [each["values"] for each in chart["series"]] == [[9.0, None, 7.0], [None, 8.0, None]]


@pytest.mark.parametrize("text", ["0", "-1", "x", "²", "9999999", "9" * 40])
def test_a_range_without_sense_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="range"):
        QUESTIONS["node-usage"].ask(None, {"node": "n", "range": text})  # type: ignore[arg-type]
