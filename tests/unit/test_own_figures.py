"""Figures that tasks print of themselves: what counts as one, and what is bounded."""

from __future__ import annotations

import ast
import itertools
import json
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest

import grass
from grass.task import own_figures
from grass.wire.usage import OwnNotFinite, OwnParameters
from node.agent.own_figures import MARK, MOST_NAMES, MOST_POINTS, MOST_SAID, OwnFigures, Reported, parse

KEY = "train-00000001/learner.0/1"


def found(*lines: str) -> list[tuple[str, float, float]]:
    figures = OwnFigures()
    figures.found(KEY, "".join(line + "\n" for line in lines), 5.0)
    return [(point.name, point.step, point.value) for point in figures.drain().points]


def test_a_line_names_figures_and_their_step() -> None:
    assert found("hello", "GRASS_METRIC loss=0.5 val/accuracy=91 step=7") == [("loss", 7, 0.5), ("val/accuracy", 7, 91)]


def test_without_a_step_points_are_numbered() -> None:
    assert found("GRASS_METRIC loss=3", "GRASS_METRIC loss=2") == [("loss", 0, 3), ("loss", 1, 2)]


@pytest.mark.parametrize(
    "line",
    [
        "GRASS_METRIC",
        "GRASS_METRIC loss",
        "GRASS_METRIC loss=",
        "GRASS_METRIC loss=much",
        'GRASS_METRIC {"loss": 1',
        "GRASS_METRIC {loss=1}",
        "GRASS_METRIC =4",
        "GRASS_METRIC <script>=4",
        f"GRASS_METRIC {'x' * 65}=1",
        "see GRASS_METRIC loss=1",
        "GRASS_METRICS loss=1",
    ],
)
def test_nonsense_is_ignored(line: str) -> None:
    assert found(line) == []


def test_a_flood_is_thinned_out_evenly_and_keeps_its_beginning() -> None:
    points = found(*(f"GRASS_METRIC loss={step} step={step}" for step in range(1000)))
    steps = [step for _, step, _ in points]
    assert steps[0] == 0 and MOST_POINTS / 2 <= len(steps) <= MOST_POINTS + 1
    assert len({after - before for before, after in itertools.pairwise(steps[:-1])}) == 1


def test_a_flood_keeps_its_last_least_and_greatest_value() -> None:
    values = {501: -7.0, 777: 9.0, 998: 2.5}
    points = found(*(f"GRASS_METRIC loss={values.get(step, 1.0)} step={step}" for step in range(999)))
    assert points[-1] == ("loss", 998, 2.5)
    assert min(points, key=lambda point: point[2])[1] == 501 and max(points, key=lambda point: point[2])[1] == 777
    assert [step for _, step, _ in points] == sorted(step for _, step, _ in points)


def test_an_attempt_has_a_bounded_number_of_figures() -> None:
    names = {name for name, _, _ in found(*(f"GRASS_METRIC figure{n}=1" for n in range(1000)))}
    assert len(names) == MOST_NAMES
    assert len(dict(parse("GRASS_METRIC " + " ".join(f"f{n}=1" for n in range(1000))))) == MOST_NAMES + 1


def test_points_are_taken_once() -> None:
    figures = OwnFigures()
    figures.found(KEY, "GRASS_METRIC loss=1\n", 5.0)
    assert len(figures.drain().points) == 1 and figures.drain() == Reported()


def test_what_a_task_reports_is_found(capfd: pytest.CaptureFixture[str]) -> None:
    grass.report(step=7, loss=0.1, **{"val/accuracy": Fraction(1, 2)})
    assert found(capfd.readouterr().out.rstrip()) == [("loss", 7, 0.1), ("val/accuracy", 7, 0.5)]


@pytest.mark.parametrize("figures", [{}, {"a b": 1}, {"loss": [1]}, {"loss": None}, {"": 1}])
def test_a_report_that_says_nothing_is_refused(figures: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^report: "):
        grass.report(step=1, **figures)


def test_reporting_loads_nothing_else_of_grass() -> None:
    program = "import sys; before = set(sys.modules); import grass; grass.report; print(set(sys.modules) - before)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    loaded = ast.literal_eval(said)
    assert {name for name in loaded if name.startswith("grass")} == {
        *("grass", "grass.release", "grass.task", "grass.task.own_figures")
    }
    assert "pathlib" not in loaded  # nor anything as large: a program may report from thousands of tasks


def test_values_that_are_not_finite_are_counted_and_are_no_points(capfd: pytest.CaptureFixture[str]) -> None:
    for step, loss in enumerate((1.0, float("nan"), float("-inf"), 10**400, 2.0)):
        grass.report(step=step, loss=loss)
    figures = OwnFigures()
    figures.found(KEY, capfd.readouterr().out, 5.0)
    reported = figures.drain()
    assert [(point.step, point.value) for point in reported.points] == [(0, 1.0), (4, 2.0)]
    assert reported.not_finite == (OwnNotFinite(KEY, "loss", 3.0, 3),)
    assert found("GRASS_METRIC loss=nan", "GRASS_METRIC loss=1", "GRASS_METRIC loss=2 step=inf") == [
        ("loss", 1, 1),
        ("loss", 2, 2),
    ]


def test_a_step_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="report: step must be a finite number, got nan"):
        grass.report(step=float("nan"), loss=1)


@pytest.fixture
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_figures, "_parameters", set())


def said(text: str) -> tuple[OwnParameters, ...]:
    figures = OwnFigures()
    figures.found(KEY, text, 5.0)
    return figures.drain().parameters


@pytest.mark.usefixtures("unsaid")
def test_parameters_are_said_as_text_and_the_newest_value_counts(capfd: pytest.CaptureFixture[str]) -> None:
    grass.log_params(lr=1e-4, net="a b=c\n\x1b[31m \ud800é", nesterov=True, warmup=None, layers=[1, 2])
    grass.log_params(lr=0.2, **{"data/path": "x" * 300})
    [found] = said(capfd.readouterr().out)
    assert found.values.pop("data/path") == "x" * 199 + "…"
    assert found == OwnParameters(
        KEY, {"lr": "0.2", "net": "a b=c [31m é", "nesterov": "true", "warmup": "null", "layers": "[1, 2]"}
    )


@pytest.mark.usefixtures("unsaid")
def test_too_many_parameters_and_names_that_are_none_are_refused_and_nothing_is_said(
    capfd: pytest.CaptureFixture[str],
) -> None:
    grass.log_params(**{f"p{at}": at for at in range(50)})
    capfd.readouterr()
    with pytest.raises(ValueError, match=r"^log_params: at most 50 names, got 51$"):
        grass.log_params(p1=2, more=1)
    with pytest.raises(ValueError, match=r"^log_params: 'a b' is not a name"):
        grass.log_params(p1=2, **{"a b": 1})
    grass.log_params(p1=3)
    assert said(capfd.readouterr().out) == (OwnParameters(KEY, {"p1": "3"}),)


def test_parameters_of_any_program_are_bounded_and_those_that_are_left_out_are_counted() -> None:
    line = f"{MARK}{json.dumps({f'p{at}': 'x' * 999 for at in range(60)} | {'a b': 1})}\n"
    [found] = said(line)
    assert len(found.values) == 50 and set(found.values.values()) == {"x" * 200} and found.left_out == 10


def test_parameters_of_many_attempts_are_sent_in_turn_and_those_that_were_not_sent_again() -> None:
    figures = OwnFigures()
    for at in range(MOST_SAID + 1):
        figures.found(f"{KEY}{at}", f'{MARK}{{"a": 1}}\n', 5.0)
    first, second = figures.drain().parameters, figures.drain().parameters
    assert (len(first), len(second)) == (MOST_SAID, 1)
    figures.found(first[0].key, f'{MARK}{{"a": 2}}\n', 6.0)
    figures.take_back(Reported(parameters=first[:2]))
    assert [each.values["a"] for each in figures.drain().parameters] == ["2", "1"]


def test_the_figures_of_an_attempt_that_has_ended_are_sent_at_once() -> None:
    sooner: list[str] = []
    figures = OwnFigures(lambda: sooner.append("now"))
    figures.found(KEY, "GRASS_METRIC loss=3\n", 5.0)
    figures.end("train-00000001/silent.0/1")
    assert sooner == []
    figures.end(KEY)
    assert sooner == ["now"]
    figures.found(KEY, "GRASS_METRIC loss=2\n", 5.0)  # the last of its output
    figures.found("train-00000001/silent.0/1", "done\n", 5.0)
    assert sooner == ["now", "now"]
    figures.forget(KEY)
    figures.found(KEY, "GRASS_METRIC loss=2\n", 5.0)
    assert sooner == ["now", "now"]
