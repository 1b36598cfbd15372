"""The file of `grass report`: complete, small, and harmless whatever a job is called or prints."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from grass.cli.report_page import Content, page
from grass.cli.report_svg import CURVE_WIDTH, curve
from grass.wire.event_views import EventView
from grass.wire.job_details import JobDetails
from tests.support import sample_views
from tests.support.browser import chromium
from tests.support.job_views import attempt_view, job_details, task_view
from tests.support.sample_views import curves, metrics

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e&\"'"


def job(**more: Any) -> JobDetails:
    view = {"id": "j-1", "name": "j", "state": "FAILED", "user": "ann", "reason": None, "exit_code": 3, "restarts": 1}
    view |= {"submitted": 1e9, "started": 1e9 + 1, "ended": 1e9 + 100, "counts": {"FAILED": 1}, "rerun_of": None}
    return job_details(**{**view, "specification": specification("x", TOKEN="[REDACTED]"), **more})


def specification(command: str, **env: str) -> dict[str, Any]:
    part = {"name": "t", "command": command, "env": env}
    return {"name": "j", "components": {"t": part}, "success": ["t"]}


def task(index: int, **more: Any) -> dict[str, Any]:
    view = {"task": f"t.{index}", "state": "SUCCEEDED", "attempt": 1, "node": "n1", "exit_code": 0, "signal": None}
    return {**view, "reason": None, "started": 1e9 + index / 100, "ended": 1e9 + index / 100 + 5, **more}


def content(count: int = 3, **more: Any) -> Content:
    tasks = [task(index) for index in range(count)]
    given: dict[str, Any] = {
        "status": sample_views.status(),
        "job": job(),
        "tasks": tasks,
        "attempts": tasks,
        "events": [],
        "nodes": [],
        "usage": sample_views.job_usage(),
        "metrics": metrics(),
        **more,
    }
    given["tasks"] = [task_view(**each) for each in given["tasks"]]
    given["attempts"] = [attempt_view(**each) for each in given["attempts"]]
    return Content(**given)


class Checker(HTMLParser):
    """Collects tags and attributes, and checks that tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(text: str) -> Checker:
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    return checker


def test_a_report_of_5000_tasks_is_small_and_has_every_task() -> None:
    reason = {"code": "exit-code", "message": "ended with exit code 137; " + "x" * 300, "details": {}}
    tasks = [task(index, state="FAILED", exit_code=137, reason=reason) for index in range(5000)]
    text = page(content(0, tasks=tasks, attempts=tasks), 1e9 + 500)
    assert len(text.encode()) <= 2 << 20
    assert all(f"<td>t.{index}</td>" in text for index in range(0, 5000, 499))
    checked(text)


def test_a_report_of_5000_retried_tasks_with_events_curves_and_a_long_specification_is_small() -> None:
    reason = {"code": "exit-code", "message": "ended with exit code 137; " + "x" * 300, "details": {}}
    tasks = [task(index, attempt=2, state="FAILED", exit_code=137, reason=reason) for index in range(5000)]
    attempts = [{**each, "attempt": attempt} for each in tasks for attempt in (1, 2)]
    events = [EventView(id="1-0", time=1e9, kind="task-retried", message="y" * 300, user="ann")] * 1000
    values = [index / 7 for index in range(1000)]
    own = metrics(*({"name": f"m{one}", "steps": list(range(1000)), "values": values} for one in range(40)))
    long = job(specification=specification("z" * 1_000_000))
    given = content(0, job=long, tasks=tasks, attempts=attempts, events=events, metrics=own)
    text = page(given, 1e9 + 500)
    assert len(text.encode()) <= 2 << 20
    assert "… and 9000 more attempts" in text and "more characters" in text
    assert all(f"<td>t.{index}</td>" in text for index in range(0, 5000, 499))
    checked(text)


def test_a_report_runs_nothing_and_refers_to_nothing_outside() -> None:
    hostile = content(
        0,
        job=job(name=HOSTILE, user=HOSTILE, reason={"code": "signal", "message": HOSTILE, "details": {}}),
        tasks=[task(0, task=HOSTILE, node=HOSTILE)],
        attempts=[task(0, task=HOSTILE), task(0, task=HOSTILE, attempt=2)],
        events=[EventView(id="1-0", time=1e9, kind=HOSTILE, message=HOSTILE)],
        metrics=metrics({"task": HOSTILE, "name": HOSTILE, "steps": [1, 2], "values": [1.0, 2.0]}),
        histories={HOSTILE: curves({"cpu": [1.0, None, 3.0]}, 1e9)},
    )
    text = page(hostile, 1e9 + 500)
    checker = checked(text)
    assert not checker.tags & {"script", "link", "img", "iframe", "object", "base", "form"}
    assert not {name for name in checker.attributes if name.startswith("on")} | checker.attributes & {"src", "href"}
    assert not re.search(r"https?://|url\(|@import", text)
    assert "\x1b" not in text and "\u202e" not in text and "&lt;script&gt;" in text
    assert "Content-Security-Policy" in text and "default-src 'none'" in text


def test_a_report_shows_result_timeline_curves_attempts_events_and_specification() -> None:
    events = [EventView(id="1-0", time=1e9, kind="job-submitted", message="j submitted", user="ann")]
    attempts = [task(0, exit_code=3, ended=1e9 + 2), task(0, attempt=2, started=1e9 + 3)]
    history = {"t.0": curves({"memory": [1.0, 2.0, 4.0]}, 1e9)}
    own = metrics({"name": "loss", "steps": [1, 2, 3], "values": [3.0, 2.0, 1.0]})
    given = content(1, events=events, attempts=attempts, histories=history, metrics=own)
    text = page(given, 1e9 + 500)
    for said in ("FAILED", "t.0#1", "j submitted", "t.0: loss", "t.0: memory", "[REDACTED]", "grass/local"):
        assert said in text, said
    assert text.count("<svg") == 3


def test_usage_is_drawn_from_zero_on_with_its_unit_and_without_what_was_never_used() -> None:
    used: dict[str, list[float | None]] = {
        "cpu": [0.0, 0.0],
        "memory": [1 << 30, 2 << 30],
        "gpu": [0.0, 0.0],
        "written": [0.0, 1 << 20],
    }
    text = page(content(1, histories={"t.0": curves(used, 1e9)}), 1e9 + 500)
    assert [name for name in used if f"t.0: {name}" in text] == ["cpu", "memory", "written"]
    for said in (">2GiB<", ">0B<", ">1MiB/s<", ">0B/s<", ">0 cores<"):
        assert said in text, said
    later = {"cpu": [2.0, *[1.0] * 50, *[None] * 400], "power": [None, 700.0, *[None] * 448]}
    text = page(content(1, histories={"t.0": curves(later, 1e9)}), 1e9 + 900)
    assert ">700 W<" in text and f"L{CURVE_WIDTH}.0" in text, "the job's last point is at the right edge"


def test_what_was_never_used_is_a_line_at_the_bottom() -> None:
    text = page(content(1, histories={"t.0": curves({"cpu": [0.0, 0.0]}, 1e9)}), 1e9 + 500)
    assert "76.0L" in text  # a cpu that was never used is a line at the bottom


def test_a_browser_without_network_shows_a_report(tmp_path: Path) -> None:
    history = curves({"memory": [1.0, 2.0, 4.0]}, 1e9)
    tasks = [task(index, task=f"a-component-with-a-long-name.{index}") for index in range(300)]
    file = tmp_path / "report.html"
    file.write_text(page(content(0, tasks=tasks, attempts=tasks, histories={"t.0": history}), 1e9 + 500))
    with chromium() as browser:
        context = browser.new_context(offline=True, java_script_enabled=False)
        shown, wrong = context.new_page(), []
        shown.on("console", lambda message: wrong.append(message.text))
        shown.on("request", lambda request: request.url == file.as_uri() or wrong.append(request.url))
        shown.goto(file.as_uri())
        assert shown.locator("svg").count() == 2 and shown.locator("h1").inner_text().startswith("j (j-1)")
        for width, scheme in ((1100, "light"), (390, "dark")):
            shown.set_viewport_size({"width": width, "height": 900})
            shown.emulate_media(color_scheme=scheme)
            right = shown.locator("body").bounding_box()
            assert right["x"] + right["width"] <= width and wrong == []
        context.close()


def test_a_job_that_never_started_and_one_that_goes_on_have_reports() -> None:
    never = job(started=None, ended=None, state="QUEUED")
    waits = [task(0, started=None, ended=None, attempt=0, node=None, state="PENDING", exit_code=None)]
    assert "No task has started" in page(content(0, job=never, tasks=waits), 1e9 + 5)
    runs = [task(0, ended=None, state="RUNNING", exit_code=None)]
    going_on = content(0, job=job(ended=None, state="RUNNING"), tasks=runs, attempts=runs)
    assert 'class="running"' in page(going_on, 1e9 + 50)


@pytest.mark.parametrize("values", [[], [None, None], [1.0], [5.0, 5.0], [1.0, None, float(10**12)]])
def test_a_curve_of_odd_values_is_drawn_or_left_out(values: list[float | None]) -> None:
    drawn = curve("x", [float(at) for at in range(len(values))], values)
    assert "nan" not in drawn and "inf" not in drawn
    assert bool(drawn) is any(value is not None for value in values)
