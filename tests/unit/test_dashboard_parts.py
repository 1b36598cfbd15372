"""The pure parts of the dashboard: who gets in, how pieces of the feed are merged, lines of a log; and its files."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from grass.api.client_views import LogLine
from grass.dashboard.access import PageAccess, RefusedError
from grass.dashboard.actions import ACTIONS
from grass.dashboard.app import asset, edition
from grass.dashboard.connection import Connection
from grass.dashboard.logs import LONGEST, LogWords, shown
from grass.dashboard.merged_feed import MOST_JOBS, MergedFeed, Message
from grass.dashboard.mirror import Mirror, Mirrors
from grass.dashboard.one_file import bundle
from grass.dashboard.server import DashboardServer
from grass.errors import InputError, UnreachableError
from grass.system import clock
from grass.wire.change_views import ChangePiece
from grass.wire.event_views import EventView
from grass.wire.job_views import JobView
from grass.wire.status_views import StatusView
from tests.support import sample_views
from tests.support.needs import require
from tests.support.sample_views import node, piece

PAGE = Path(__file__).parents[2] / "grass" / "dashboard" / "page"
ACCESS = PageAccess("127.0.0.1:80", "secret", "cookie", aliases=("localhost:80",))
HOST = {"Host": "127.0.0.1:80"}


def refusal(
    access: PageAccess = ACCESS, method: str = "GET", path: str = "/", cookie: str = "cookie", **headers: str
) -> int:
    """The status of the refusal; 0: admitted."""
    try:
        access.check(
            method, path, {**HOST, **{name.replace("_", "-"): text for name, text in headers.items()}}, cookie, 5.0
        )
    except RefusedError as error:
        return error.status
    return 0


def test_the_gate_admits_the_page_and_nobody_else() -> None:
    assert refusal() == refusal(Host="localhost:80") == refusal(Sec_Fetch_Site="none") == 0
    assert refusal(method="POST", Origin="http://127.0.0.1:80") == 0
    assert refusal(cookie="") == refusal(cookie="cookies") == refusal(cookie="çookie") == 401
    assert refusal(Host="attacker.example") == refusal(Host="127.0.0.1") == refusal(Host="") == 421
    assert refusal(Origin="http://localhost:80") == refusal(Origin="null") == 403
    assert refusal(Sec_Fetch_Site="cross-site") == refusal(Sec_Fetch_Site="same-site") == 403
    assert refusal(method="POST") == 403
    assert refusal(path="/open/x", cookie="", Sec_Fetch_Site="cross-site") == refusal(path="/assets/x", cookie="") == 0
    assert ACCESS.accepts("secret") and not ACCESS.accepts("") and not ACCESS.accepts("sécret")
    assert "secret" not in repr(ACCESS) and "cookie=" not in repr(ACCESS)


def test_nothing_is_served_after_the_expiry() -> None:
    access = PageAccess("127.0.0.1:80", "secret", "cookie", expires=5.0)
    assert refusal(access) == refusal(access, path="/open/secret") == 401
    assert not access.expired(4.9)


def job(name: str, state: str = "RUNNING", ended: float | None = None) -> JobView:
    return sample_views.job(name, state=state, ended=ended)


def event(event_id: str) -> EventView:
    return EventView(id=event_id, time=1.0, kind="job-ended", message="")


def ids(message: Message) -> list[str]:
    """The ids of the jobs in a message."""
    jobs = message.get("jobs", [])
    assert isinstance(jobs, list)
    return [each.id for each in jobs]


def test_a_pile_has_the_newest_version_of_each_thing() -> None:
    feed = MergedFeed()
    assert not feed
    feed.add(piece(time=1.0))
    assert not feed, "the time alone is no news"
    feed.add(piece(jobs=[job("a"), job("b")], events=[event("1")], time=2.0))
    feed.add(piece(jobs=[job("a", "FAILED", 3.0)], removed={"jobs": ["b"]}, events=[event("2")], time=3.0))
    assert feed.drain() == {
        "time": 3.0,
        "jobs": [job("a", "FAILED", 3.0)],
        "removed": {"jobs": ["b"]},
        "events": [event("1"), event("2")],
    }
    assert not feed and feed.drain() == {}


def test_a_snapshot_replaces_all_that_was_known_but_the_link() -> None:
    feed = MergedFeed()
    feed.add(piece(jobs=[job("old")]))
    feed.say("link", {"up": True})
    feed.add(piece(snapshot=True, complete=False, jobs=[job("new")]))
    feed.add(piece(nodes=[node("n")]))
    known = {"jobs": [job("new")], "nodes": [node("n")], "link": {"up": True}, "complete": True}
    assert feed.opened(7.0).drain() == {"snapshot": True, "time": 7.0, **known}
    assert feed.drain()["snapshot"] is True


def test_a_reader_knows_whether_more_of_a_snapshot_comes() -> None:
    state = MergedFeed()
    state.add(piece(snapshot=True, complete=False, jobs=[job("a")]))
    reader = state.opened(1.0)
    assert reader.drain()["complete"] is False
    for feed in (state, reader):
        feed.add(piece(complete=False, jobs=[job("b")]))
    assert "complete" not in reader.drain()
    for feed in (state, reader):
        feed.add(piece(time=2.0))
    assert reader.drain() == {"time": 2.0, "complete": True}
    assert state.opened(3.0).drain()["complete"] is True


def test_a_pile_drops_the_jobs_that_ended_first() -> None:
    feed = MergedFeed()
    feed.add(piece(jobs=[job("active"), *(job(f"e{at}", "SUCCEEDED", float(at)) for at in range(MOST_JOBS + 9))]))
    names = ids(feed.drain())
    assert len(names) == MOST_JOBS and "active" in names and "e9" not in names and f"e{MOST_JOBS + 8}" in names


def test_the_state_does_not_grow_with_what_is_gone() -> None:
    state = MergedFeed()
    state.add(piece(snapshot=True, jobs=[job("a", "FAILED", 1.0), job("b", "RUNNING")]))
    tab = state.opened(1.0)
    tab.drain()
    for feed in (state, tab):
        feed.add(piece(removed={"jobs": ["a"]}))
    message = state.opened(1.0).drain()
    assert "removed" not in message and ids(message) == ["b"]
    assert tab.drain() == {"time": 1.0, "removed": {"jobs": ["a"]}}


def test_a_file_of_the_page_has_one_edition_in_its_address() -> None:
    assert asset(f"{edition()}/keys.js").cache_control.immutable and not asset("keys.js").cache_control.immutable
    for name in (f"{edition()}/" * 2000 + "keys.js", edition(), f"{edition()}/../app.py", "x" * 300 + ".js"):
        with pytest.raises(RefusedError):
            asset(name)


def test_a_long_line_is_cut_and_bytes_that_are_no_text_are_replaced() -> None:
    line = LogLine("w.0", 1, "stdout", 1.0, "x" * (LONGEST + 7), True, 0)
    assert shown(line) == {**structs.asdict(line), "text": "x" * LONGEST, "more": 7}
    json.dumps(shown(structs.replace(line, text="\udcff\udcfe"))["text"]).encode()
    assert shown(structs.replace(line, text="\udcff"))["text"] == "\ufffd"


@pytest.mark.parametrize("words", [{}, {"job": ""}, {"job": "j", "tail": "-1"}, {"job": "j", "tail": "99999"}])
def test_a_log_that_is_not_named_well_is_refused(words: dict[str, str]) -> None:
    with pytest.raises(InputError, match="query parameter"):
        LogWords.parse(words)


class Untouched:
    """A client that must not be called."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: pytest.fail(f"{name} was called")


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("job-stop", {}),
        ("job-stop", {"job": 7}),
        ("node-drain", {"node": "n", "deadline": "soon"}),
        ("node-drain", {"node": "n", "deadline": -1}),
    ],
)
def test_an_action_without_sense_changes_nothing(action: str, body: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        ACTIONS[action](Untouched(), body)  # type: ignore[arg-type]


class Defective:
    """A cluster whose second piece cannot be merged, the first time that the feed is read."""

    def __init__(self) -> None:
        self.reads = 0

    folder = Path("/nowhere")

    def close(self) -> None: ...

    def status(self) -> StatusView:
        return sample_views.status()

    def changes(self, _: str | None = None) -> Iterator[ChangePiece]:
        self.reads += 1
        yield piece(snapshot=True, time=float(self.reads), jobs=[job(f"j{self.reads}")])
        if self.reads == 1:
            yield ChangePiece(cursor="1", time=1.0, jobs=("no job",))  # type: ignore[arg-type]
        while not threading.Event().wait(0.02):  # the mirror reads one more piece when it is closed
            yield piece(time=9.0)


def test_a_mirror_with_a_defect_says_so_and_reads_the_state_again(caplog: pytest.LogCaptureFixture) -> None:
    mirror = Mirror(Connection(Defective))  # type: ignore[arg-type]
    try:
        with mirror.open() as tab:
            links: list[str] = []
            jobs: list[str] = []
            while "j2" not in jobs:
                message = tab.wait_for_news(10.0)
                assert message is not None, links
                links += [str(message["link"])] if "link" in message else []
                jobs += ids(message)
        assert any("internal error (AttributeError)" in each for each in links) and mirror.running
        assert "AttributeError: 'str' object has no attribute 'id'" in caplog.text
    finally:
        mirror.close()
        mirror.join()


def test_a_tab_that_opens_after_the_end_of_the_page_gets_no_news() -> None:
    mirrors = Mirrors(Defective)  # type: ignore[arg-type]
    mirrors.close()
    for job in (None, "j1"):
        with mirrors.open(job) as tab:
            assert tab.closed


class HourAhead(Defective):
    """A cluster whose clock is an hour ahead. It goes away after its first piece."""

    def changes(self, _: str | None = None) -> Iterator[ChangePiece]:
        self.reads += 1
        if self.reads == 1:
            yield piece(snapshot=True, time=clock.wall() + 3600)
        raise UnreachableError("the cluster is away")


def test_a_lost_connection_is_told_with_the_time_of_the_master() -> None:
    mirror = Mirror(Connection(HourAhead))  # type: ignore[arg-type]
    try:
        with mirror.open() as tab:
            link: Any = {}
            while link.get("message") != "the cluster is away":
                message = tab.wait_for_news(10.0)
                assert message is not None, link
                link = message.get("link", link)
        assert link["since"] == pytest.approx(clock.wall() + 3600, abs=60)
    finally:
        mirror.close()
        mirror.join()


def test_a_shared_page_listens_at_the_address_that_its_name_means_and_at_no_other() -> None:
    for name, said in (
        ("localhost", "cannot reach"),
        ("no-such-name.invalid", "does not know"),
        ("192.0.2.1", "--address"),
    ):
        with pytest.raises(InputError, match=said):
            DashboardServer(lambda: pytest.fail("asked the cluster"), 0, address=name)


def vendored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PAGE / "vendor" / "versions.json").read_text())
    return found


def test_vendored_files_are_those_of_the_pinned_versions() -> None:
    pinned = {name: digest for package in vendored().values() for name, digest in package["files"].items()}
    there = {path.name for path in (PAGE / "vendor").iterdir()} - {"versions.json"}
    assert there == set(pinned)
    for name, digest in pinned.items():
        assert hashlib.sha256((PAGE / "vendor" / name).read_bytes()).hexdigest() == digest, name


@pytest.mark.nightly
def test_vendored_files_are_those_of_the_registry(tmp_path: Path) -> None:
    require(shutil.which("npm") is not None, "npm")
    for name, package in vendored().items():
        done = subprocess.run(
            ["npm", "pack", f"{name}@{package['version']}"], cwd=tmp_path, capture_output=True, text=True
        )
        require(done.returncode == 0, "the registry of npm", done.stderr[-200:])
        with tarfile.open(tmp_path / done.stdout.split()[-1]) as archive:
            digests = {
                hashlib.sha256(file.read()).hexdigest()
                for member in archive
                if (file := archive.extractfile(member)) is not None
            }
        assert set(package["files"].values()) <= digests


def imported(module: str, found: set[str]) -> set[str]:
    """Return the modules that come with this one, itself included."""
    if module not in found:
        found.add(module)
        for name in re.findall(r'^import .* from "([^"]+)";', (PAGE / module).read_text(), re.MULTILINE):
            imported(str((PAGE / module).parent.joinpath(name).resolve().relative_to(PAGE)), found)
    return found


def test_the_page_preloads_the_modules_of_its_first_view_and_no_others() -> None:
    first = imported("app.js", set()) | imported("views/overview.js", set())
    named = re.findall(r'rel="modulepreload" href="/assets/([^"]+)"', (PAGE / "index.html").read_text())
    assert sorted(named) == sorted(first - {"app.js"})


def test_every_view_is_loaded_by_a_route_or_by_another_view() -> None:
    routed = re.findall(r'import\("\./([^"]+)"\)', (PAGE / "app.js").read_text())
    reached = set[str]().union(*(imported(name, set()) for name in ["app.js", *routed]))
    modules = {str(path.relative_to(PAGE)) for path in PAGE.rglob("*.js") if path.parent.name != "vendor"}
    assert reached == modules - {"recover.js", "report.js", "theme.js"}


def test_a_report_has_the_modules_of_the_page_that_it_draws_with() -> None:
    """Each import and each export has the form that ``bundle`` reads, and no module ends the script."""
    text = bundle("report.js")
    assert not re.search(r"^(import|export)\b|</script|<!--", text, re.MULTILINE)
    for module in imported("report.js", set()):
        assert text.count(f"const {re.sub(r'[^a-z0-9]', '_', module)} = (() => {{") == 1, module
        for name in re.findall(r"^export (?:async )?\w+ (\w+)", (PAGE / module).read_text(), re.MULTILINE):
            assert re.search(rf"^return {{ .*\b{name}\b.* }};$", text, re.MULTILINE), name


def test_no_file_of_the_page_names_another_machine_or_builds_markup() -> None:
    own = [path for path in PAGE.rglob("*") if path.is_file() and path.parent.name != "vendor"]
    assert len(own) > 20
    for path in own:
        text = path.read_text()
        assert set(re.findall(r"https?://[^\s\"'`)]+", text)) <= {"http://www.w3.org/2000/svg"}, path.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text), (
            path.name
        )
        assert path.suffix != ".html" or not re.search(r"\sstyle=|\son\w+=|<style|<script>", text), path.name
        assert len(text.splitlines()) <= 400, path.name
