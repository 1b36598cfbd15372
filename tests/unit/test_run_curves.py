"""The curves of all runs for one chart of the page."""

from __future__ import annotations

from msgspec.structs import replace

from grass.api.results import Results
from grass.dashboard.run_curves import MOST_POINTS, run_curves
from grass.model.lifecycle import TaskState
from grass.wire.result_views import ResultRow, ResultsView
from tests.support.sample_views import metrics


def results(job: str, *rates: str) -> ResultsView:
    rows = tuple(
        ResultRow(task=f"w.{at}", state=TaskState.RUNNING, values={"lr": rate}) for at, rate in enumerate(rates)
    )
    return ResultsView(job, job, {}, {"w": {}}, rows, False)


def test_a_curve_has_the_parameters_of_its_task() -> None:
    own = metrics(
        {"task": "w.1", "name": "loss", "steps": [1, 2], "values": [1 / 3, 0.5]},
        {"task": "w.0", "name": "acc", "steps": [1], "values": [9.0]},
    )
    found = run_curves(Results([results("j-1", "0.1", "0.2")]), [own])
    assert found["parameters"] == ["lr"] and found["figures"] == ["loss", "acc"]
    assert [(each["task"], each["values"]) for each in found["tasks"]] == [("w.1", {"lr": 0.2}), ("w.0", {"lr": 0.1})]
    assert found["curves"] == [[0, 0, [1, 2], [0.3333333, 0.5]], [1, 1, [1], [9.0]]]


def test_runs_of_several_jobs_are_told_apart_by_their_job() -> None:
    own = metrics({"task": "w.0", "name": "loss", "steps": [1], "values": [1.0]})
    found = run_curves(Results([results("j-1", "1"), results("j-2", "2")]), [own, replace(own, id="j-2")])
    assert found["parameters"] == ["job", "lr"]
    assert [each["values"] for each in found["tasks"]] == [{"job": "j-1", "lr": 1}, {"job": "j-2", "lr": 2}]


def test_the_curves_of_many_jobs_are_thinned_and_keep_their_last_point() -> None:
    steps = [*range(MOST_POINTS)]
    own = metrics(
        {"task": "w.0", "name": "a", "steps": steps, "values": steps},
        {"task": "w.1", "name": "a", "steps": [1, 2], "values": [1, 2]},
    )
    found = run_curves(Results([results("j-1", "1", "2")]), [replace(own, points=512)])
    long, short = found["curves"]
    assert long[2][:2] == [0, 2] and long[2][-1] == steps[-1] and len(long[2]) == MOST_POINTS // 2 + 1
    assert short[2] == [2] and found["points"] == 256
