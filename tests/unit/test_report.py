"""The file of `grass report`: complete, small, and harmless whatever a job is called or prints."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from grass.cli.report_page import MOST_CHARTS, MOST_LANES, MOST_POINTS, Content, page
from grass.dashboard.one_file import source
from grass.wire.event_views import EventView
from grass.wire.job_details import JobDetails
from tests.support import sample_views
from tests.support.browser import chromium, run_script
from tests.support.job_views import attempt_view, job_details, task_view
from tests.support.sample_views import curves, metrics

HOSTILE = "</script><!--<script>alert(1)</script>\x1b[31m\u202e&\"'"
SHOWN = "</script><!--<script>alert(1)</script>\\x1b[31m\\u202e&\"'"


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


def drawn(text: str) -> Any:
    """What the script of a report draws."""
    found = re.findall(r'<script type="application/json" id="data">([^<]*)</script>', text)
    assert len(found) == 1
    return json.loads(found[0])


def hostile() -> Content:
    values = curves({"cpu": [1.0, None, 3.0]}, 1e9)
    return content(
        0,
        job=job(name=HOSTILE, user=HOSTILE, reason={"code": "signal", "message": HOSTILE, "details": {}}),
        tasks=[task(0, task=HOSTILE, node=HOSTILE)],
        attempts=[task(0, task=HOSTILE), task(0, task=HOSTILE, attempt=2)],
        events=[EventView(id="1-0", time=1e9, kind=HOSTILE, message=HOSTILE)],
        metrics=metrics({"task": HOSTILE, "name": HOSTILE, "steps": [1, 2], "values": [1.0, 2.0]}),
        histories={HOSTILE: values},
    )


def test_a_report_runs_only_its_own_scripts_and_refers_to_nothing_outside() -> None:
    text = page(hostile(), 1e9 + 500)
    checker = checked(text)
    assert not checker.tags & {"link", "img", "iframe", "object", "base", "form"}
    assert not {name for name in checker.attributes if name.startswith("on")} | checker.attributes & {"src", "href"}
    assert not re.search(r"url\(|@import", text)
    assert "\x1b" not in text and "\u202e" not in text and "&lt;script&gt;" in text
    inline = [each[1] for each in re.finditer(r"<script(?: type=\"module\")?>(.*?)</script>", text, re.DOTALL)]
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert len(inline) == 2 and len(style) == 1 and text.count("<script") == text.count("</script") == 3
    assert policy == [
        f"default-src 'none'; script-src {source(inline[0])} {source(inline[1])}; style-src {source(style[0])}; "
        "base-uri 'none'; form-action 'none'"
    ]
    assert "Permission is hereby granted" in inline[0], "the licence of uPlot goes with it"


def test_a_report_shows_result_timeline_curves_attempts_events_and_specification() -> None:
    events = [EventView(id="1-0", time=1e9, kind="job-submitted", message="j submitted", user="ann")]
    attempts = [task(0, exit_code=3, ended=1e9 + 2), task(0, attempt=2, started=1e9 + 3)]
    history = {"t.0": curves({"memory": [1.0, 2.0, 4.0]}, 1e9)}
    own = metrics({"name": "loss", "steps": [1, 2, 3], "values": [3.0, 2.0, 1.0]})
    given = content(1, events=events, attempts=attempts, histories=history, metrics=own)
    text = page(given, 1e9 + 500)
    for said in ("FAILED", "t.0#1", "j submitted", "[REDACTED]", "grass/local"):
        assert said in text, said
    data = drawn(text)
    assert data["job"] == {"id": "j-1", "submitted": 1e9, "ended": 1e9 + 100} and data["count"] == 1
    assert [(each["attempt"], each["started"]) for each in data["attempts"]] == [(1, 1e9), (2, 1e9 + 3)]
    assert [(title, [each["title"] for each in charts]) for title, charts in data["groups"]] == [
        ("Own figures", ["loss"]),
        ("t.0", ["Memory"]),
    ]


def test_usage_is_drawn_from_the_start_to_the_end_of_a_job_without_what_was_never_used() -> None:
    used: dict[str, list[float | None]] = {
        "cpu": [0.0, 0.0],
        "memory": [1 << 30, 2 << 30],
        "gpu": [0.0, 0.0],
        "written": [0.0, 1 << 20],
        "power": [None, None],
    }
    ((_, charts),) = drawn(page(content(1, histories={"t.0": curves(used, 1e9)}), 1e9 + 500))["groups"]
    assert [(each["title"], each["unit"]) for each in charts] == [
        ("CPU", "cores"),
        ("Memory", "bytes"),
        ("Files", "rate"),
    ]
    long: dict[str, list[float | None]] = {"memory": [float(at) for at in range(450)]}
    ((_, charts),) = drawn(page(content(1, histories={"t.0": curves(long, 1e9 - 10)}), 1e9 + 900))["groups"]
    assert (charts[0]["x"][0], charts[0]["x"][-1]) == (1e9, 1e9 + 100), "the job ran from 1 s to 100 s"
    assert charts[0]["series"][0]["values"][0] == 5.0


def test_of_many_tasks_figures_and_points_a_report_draws_some_and_says_so() -> None:
    tasks = [task(index) for index in range(300)] + [task(300, state="LOST"), task(301, state="RUNNING", ended=None)]
    names = [f"m{at:02}" for at in range(MOST_CHARTS + 3)]
    own = metrics(
        *({"name": name, "steps": list(range(1000)), "values": [at / 7 for at in range(1000)]} for name in names)
    )
    data = drawn(page(content(0, tasks=tasks, attempts=tasks, metrics=own), 1e9 + 500))
    assert data["count"] == 302 and len(data["tasks"]) == len(data["attempts"]) == MOST_LANES
    assert [each["task"] for each in data["tasks"][:3]] == ["t.300", "t.301", "t.0"]
    ((title, charts),) = data["groups"]
    assert title == f"Own figures: {MOST_CHARTS} of {len(names)}" and len(charts) == MOST_CHARTS
    assert len(charts[0]["x"]) == len(charts[0]["series"][0]["values"]) <= MOST_POINTS


def test_a_browser_without_network_draws_a_report(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    odd = {"cpu": [None, 0.0], "memory": [1.0, float(10**12)], "gpu": [None, 5.0], "power": [5.0, 5.0]}
    tasks = [task(index, task=f"a-component-with-a-long-name.{index}") for index in range(300)]
    ran = content(0, tasks=tasks, attempts=tasks, histories={"t.0": curves(odd, 1e9)})
    never = content(0, tasks=[], job=job(started=None, ended=None, state="QUEUED"))
    with chromium() as browser:
        context = browser.new_context(offline=True)
        shown, wrong = context.new_page(), []
        shown.on("console", lambda message: wrong.append(message.text))
        shown.on("pageerror", lambda error: wrong.append(str(error)))
        shown.on("dialog", lambda dialog: wrong.append(dialog.message))
        shown.on("request", lambda request: request.url == file.as_uri() or wrong.append(request.url))
        for given in (hostile(), never, ran):
            file.write_text(page(given, 1e9 + 500))
            shown.goto(file.as_uri())
            drawings = shown.locator(".chart canvas")
            assert drawings.count() == {id(ran): 4}.get(id(given), 2 if given is not never else 0) and wrong == []
            if given is not ran and given is not never:
                assert shown.locator(".lane span").first.inner_text() == SHOWN
                assert SHOWN in shown.locator(".u-legend").first.inner_text()
        assert shown.locator(".lane").count() == MOST_LANES
        assert "200 of 300 tasks" in shown.locator("section[aria-label=Timeline] header").inner_text()
        theme = "document.documentElement.dataset.theme"
        for width, scheme in ((1100, "light"), (390, "dark")):
            shown.set_viewport_size({"width": width, "height": 900})
            shown.emulate_media(color_scheme=scheme)
            assert run_script(shown, f"{theme}") == scheme
            assert run_script(shown, "document.documentElement.scrollWidth") <= width and wrong == []
        shown.emulate_media(media="print", color_scheme="dark")
        assert run_script(shown, theme) == "light" and wrong == []
        context.close()
        context = browser.new_context(java_script_enabled=False)
        plain = context.new_page()
        plain.goto(file.as_uri())
        assert plain.locator("noscript").inner_text() == "The timeline and the charts need JavaScript."
        assert plain.locator("td", has_text=tasks[299]["task"]).count() == 1
        context.close()


def test_a_job_that_goes_on_is_drawn_until_now() -> None:
    runs = [task(0, ended=None, state="RUNNING", exit_code=None)]
    data = drawn(page(content(0, job=job(ended=None, state="RUNNING"), tasks=runs, attempts=runs), 1e9 + 50))
    assert data["job"]["ended"] == 1e9 + 50 and "ended" not in data["tasks"][0]
