"""The screens of `grass top`: what fits, what is marked, and what hostile text becomes."""

from __future__ import annotations

import pytest

from grass.cli import cells
from grass.cli.sparkline import curve_lines, sparkline
from grass.cli.top_actions import offered, question
from grass.cli.top_screen import everything, overview, page
from grass.cli.top_state import State
from grass.wire.job_views import JobView
from grass.wire.node_views import NodeView
from grass.wire.status_views import DiskView
from tests.support import sample_views
from tests.support.job_views import job_view
from tests.support.sample_views import curves, metrics, piece

USAGE = {"cpu": 50.0, "memory": 1, "memory_total": 2, "load": 1.5, "disk_free": 1 << 30, "disk_total": 2 << 30}


def job(number: int, state: object = "RUNNING", name: object = "", **more: object) -> JobView:
    more = {"state": state, "name": name or f"j{number}", "submitted": float(number), "counts": {"RUNNING": 1}, **more}
    return job_view(id=f"j{number}-1", **more)


def node(name: str, state: str = "READY", **more: object) -> NodeView:
    amounts = {"cpu": 4000, "memory": 8 << 30, "gpu": 0}
    given = {"state": state, "resources": amounts, "free": amounts, "usage": USAGE, "tasks": 3, **more}
    return sample_views.node(name, **given)


def state_of(jobs: int, nodes: int = 1) -> State:
    state = State()
    known = [node(f"n{at}") for at in range(nodes)]
    state.apply(piece(snapshot=True, complete=False, time=1e9, nodes=known))
    assert not state.complete
    state.apply(piece(jobs=[job(at) for at in range(jobs)], counts={"RUNNING": jobs}, time=1e9))
    return state


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (40, 10), (10, 5)])
def test_a_screen_is_filled_exactly_and_never_overflows(width: int, height: int) -> None:
    state = state_of(500, 30)
    state.jobs["j7-1"] = job(7, name="a-name-that-is-far-too-long-" * 4)
    lines = overview(state, width, height, "j7-1")
    assert len(lines) == height
    assert all(cells.width(line.text) <= width for line in lines)
    assert "selected" in [line.style for line in lines] or height < 10


def test_the_selected_job_is_on_the_screen_wherever_it_is() -> None:
    state = state_of(300)
    for number in (0, 150, 299):
        [marked] = [line for line in overview(state, 80, 24, f"j{number}-1") if line.style == "selected"]
        assert marked.text.startswith(f"j{number} ")


def test_why_the_selected_job_waits_is_said_where_no_column_has_room_for_it() -> None:
    state, why = state_of(20), "needs 900 cpu per task; the largest node has 16"
    waiting = job(3, "QUEUED", "too-large-for-any-machine-here", reason={"code": "too-large", "message": why})
    state.apply(piece(jobs=[waiting]))
    lines = overview(state, 80, 24, "j3-1")
    assert len(lines) == 24 and lines[-2].text == f"{waiting.name}: {why}"
    assert overview(state, 80, 24, "j4-1")[-2].text == ""


def test_nodes_that_need_attention_come_first() -> None:
    state = state_of(1, 40)
    state.apply(piece(nodes=[node("n39", "LOST")]))
    text = [line.text for line in overview(state, 80, 24, None)]
    assert text[2] == "lost: n39" and "n39" in text[4] and any("more" in line for line in text)


def test_alerts_are_one_line_that_goes_when_all_is_well() -> None:
    state = state_of(1, 4)
    assert state.alerts() == [] and not any(line.style == "bad" for line in overview(state, 80, 24, None)[:3])
    full = node("n3", usage={**USAGE, "disk_free": 1, "disk_total": 100})
    gpus = [{"id": 0, "error": "timeout"}, {"id": 1, "error": "GPU is lost"}]
    ill = node("n2", "QUARANTINED", quarantine={"1": "GPU is lost"}, usage={**USAGE, "gpus": gpus})
    away = [node("n1", "SILENT"), node("n0", "SILENT"), ill, full]
    state.apply(piece(nodes=away, store={"code": "full", "message": "out of memory"}))
    said = (
        "the store refuses writes: out of memory; quarantined: n2; silent: n0, n1; "
        "gpu in quarantine or lost: n2 0, n2 1; disk almost full: n3"
    )
    assert (said, "bad") in overview(state, 160, 24, None)
    assert said in everything(state, None, "state")
    state.apply(piece(nodes=[node(f"n{at}") for at in range(4)], store=None))
    assert state.alerts() == []
    state.disks = [DiskView("state", 1, 100), DiskView("logs", 50, 100)]
    assert state.alerts() == ["the master's disk is almost full: state"]


def test_control_characters_and_markup_are_shown_and_not_sent() -> None:
    state = State()
    state.apply(piece(snapshot=True, jobs=[job(1, name="\x1b[2J<script>\u202e")], counts={}))
    shown = "".join(line.text for line in overview(state, 80, 24, None))
    assert "\x1b" not in shown and "\u202e" not in shown and "<script>" in shown
    assert "\x1b" not in page("t", ["\x1b]0;x\x07"], 80, 24, 0)[1].text


def test_what_changes_and_what_is_removed_is_followed_and_trouble_is_said() -> None:
    state = state_of(2, 2)
    state.apply(piece(jobs=[job(1, "FAILED")], removed={"jobs": ["j0-1"], "nodes": ["n1"]}, time=2e9))
    assert [each.state for each in state.jobs.values()] == ["FAILED"] and list(state.nodes) == ["n0"]
    state.trouble = "the cluster does not answer"
    assert "not up to date: the cluster does not answer" in [line.text for line in overview(state, 80, 24, None)]
    state.apply(piece())
    assert state.trouble == ""


@pytest.mark.parametrize(
    ("sort", "wanted"),
    [("state", "bca"), ("name", "abc"), ("age", "cba"), ("failed", "abc"), ("tasks", "bca")],
)
def test_jobs_are_sorted_as_asked(sort: str, wanted: str) -> None:
    state = State()
    jobs = [
        job(1, "FAILED", "a", counts={"FAILED": 2}),
        job(2, "RUNNING", "b", counts={"RUNNING": 9, "FAILED": 1}),
        job(3, "QUEUED", "c", counts={"PENDING": 3}),
    ]
    state.apply(piece(snapshot=True, jobs=jobs))
    assert "".join(each.name for each in state.sorted_jobs(sort)) == wanted
    assert [each.name for each in state.sorted_jobs(sort, reverse=True)] == list(wanted[::-1])


def test_scripts_get_everything() -> None:
    lines = everything(state_of(100, 5), None, "name")
    assert len([line for line in lines if line.startswith("j")]) == 100


@pytest.mark.parametrize(
    ("values", "room", "drawn"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], 8, "▁▂▃▄▅▆▇█"),
        ([0, 0, 7, 7, None, None, 3, 5], 4, "▁█ ▅"),
        ([5.0, 5.0], 8, "▁▁"),
        ([None, None], 8, ""),
        ([], 8, ""),
    ],
)
def test_a_curve_is_drawn_from_its_least_to_its_greatest_value(
    values: list[float | None], room: int, drawn: str
) -> None:
    assert sparkline(values, room) == drawn


def test_a_curve_of_use_begins_at_zero() -> None:
    assert sparkline([7.0, 7.0], 8, 0.0) == "██"


@pytest.mark.parametrize("width", [80, 200])
def test_curves_of_a_job_fit_the_screen_and_own_figures_come_first(width: int) -> None:
    history = curves({"cpu": [None, *[0.5] * 400, 1.0], "memory": [float(1 << 30)] * 401, "gpu": [0.0] * 401})
    own = metrics({"name": "\x1b[2J" + "long/" * 20, "steps": [1, 2], "values": [2.0, 1.0]})
    lines = curve_lines({"t.0": history}, own, width)
    assert len(lines) == 4 and all(cells.width(line) <= width for line in lines)
    assert lines[1].startswith("t.0 ") and "\x1b" not in lines[1] and "█▁" in lines[1]
    assert "1.00" in lines[2] and "█" in lines[2] and "1GiB" in lines[3]
    assert curve_lines({}, metrics(), width) == []


@pytest.mark.parametrize(
    ("user", "role", "given", "keys"),
    [
        ("ann", "user", {"state": "RUNNING"}, "x"),
        ("ann", "user", {"state": "QUEUED"}, "xh"),
        ("ann", "user", {"state": "SUCCEEDED"}, "R"),
        ("bob", "user", {"state": "RUNNING"}, ""),
        ("bob", "viewer", {"state": "RUNNING", "user": "bob"}, ""),
        ("root", "admin", {"state": "FAILED"}, "R"),
    ],
)
def test_a_user_is_offered_what_the_user_may_do(user: str, role: str, given: dict[str, object], keys: str) -> None:
    assert "".join(action.key for action in offered(job(1, **{"held": None, **given}), user, role)) == keys
    assert offered(None, user, role) == []


def test_what_is_asked_names_the_job_and_the_command_and_a_held_job_is_released() -> None:
    held = job(1, "QUEUED", held="ann")
    [stop, release] = offered(held, "ann", "user")
    assert question(release, held).startswith("Release j1 (y/n)?")
    assert question(stop, held).startswith("Stop j1 (y/n)? `grass job stop j1-1`. ")  # a narrow screen cuts the end
