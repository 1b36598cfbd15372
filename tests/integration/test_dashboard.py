"""The dashboard in a real browser, on a live local cluster."""

from __future__ import annotations

import http.client
import json
import os
import platform
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import click
import pytest

from grass.api import keyring
from grass.api.client import Client
from grass.api.user_files import register_user
from grass.cli.dashboard_start import JobFiles
from grass.cli.main import grass as grass_commands
from grass.dashboard.server import DashboardServer
from grass.errors import NotAllowedError, NotFoundError
from grass.files.access import access_to
from grass.files.browse import SharedFiles
from grass.manifest.local_settings import LocalSettings, OfferedResources
from grass.system.clock import steady
from grass.wire.cloud import CloudCost, CloudCosts
from tests.support.browser import chromium, opened, run_script, tab, tabs
from tests.support.local_cluster import LocalCluster
from tests.support.nvml import StubDriver
from tests.support.rsa_keys import public_jwk
from tests.support.waiting import wait_until

pytestmark = pytest.mark.needs_redis


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StubDriver]:
    with pytest.MonkeyPatch.context() as patch:
        made = StubDriver(tmp_path_factory.mktemp("driver"))
        for name in ("LD_LIBRARY_PATH", "NVIDIA_STUB"):
            patch.setenv(name, made.env[name])
        yield made


@pytest.fixture(scope="module")
def cluster(driver: StubDriver) -> Iterator[LocalCluster]:
    with LocalCluster(LocalSettings(resources=OfferedResources(cpu=4000, memory=4 << 30, gpu=4000))).running() as made:
        yield made


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


@contextmanager
def served(connect: Any, **options: Any) -> Iterator[str]:
    """Yield the link of a dashboard in this process."""
    server = DashboardServer(connect, 0, **options)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server.link
    finally:
        server.close()
        thread.join()


@pytest.fixture(scope="module")
def link(cluster: LocalCluster) -> Iterator[str]:
    files = SharedFiles(lambda: access_to("local", cluster.home))
    with served(cluster.client, files=files, job_files=JobFiles()) as link:
        yield link


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[Any]:
    with tabs(browser) as context:
        yield context


@pytest.fixture
def page(context: Any, link: str) -> Iterator[Any]:
    with tab(context, link) as page:
        yield page


def to(page: Any, address: str) -> None:
    run_script(page, "location.hash = argument", address)


def until(page: Any, condition: str, what: str = "") -> None:
    """Wait for a condition in the page. The page's policy forbids playwright to poll it there."""
    wait_until(lambda: run_script(page, condition), what=what or condition)


def answer(link: str, path: str, method: str = "GET", body: str | None = None, **headers: str) -> tuple[int, str]:
    """Send one request with exactly these headers (``_`` for ``-``)."""
    connection = http.client.HTTPConnection(urlsplit(link).netloc, timeout=10)
    try:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        connection.request(method, path, body, named)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def cookie_of(link: str) -> str:
    connection = http.client.HTTPConnection(urlsplit(link).netloc, timeout=10)
    connection.request("GET", urlsplit(link).path)
    given = connection.getresponse().getheader("Set-Cookie") or ""
    connection.close()
    assert "HttpOnly" in given and "SameSite=Strict" in given
    return given.partition(";")[0]


def job(name: str, command: str, **component: Any) -> dict[str, Any]:
    part = {"command": command, "resources": {"cpu": 0.1}, **component}
    return {"name": name, "components": {"main": part}}


def test_only_who_has_the_link_gets_in_and_only_from_the_page_itself(link: str) -> None:
    host, cookie = urlsplit(link).netloc, cookie_of(link)
    assert answer(link, "/")[0] == 401
    assert answer(link, "/open/wrong")[0] == 401
    assert answer(link, "/me", Cookie=cookie)[0] == 200
    assert answer(link, "/me", Cookie=cookie[:-1] + "-")[0] == 401
    assert answer(link, "/me", Cookie=cookie, Host="attacker.example")[0] == 421
    assert answer(link, "/me", Cookie=cookie, Origin="http://attacker.example")[0] == 403
    assert answer(link, "/me", Cookie=cookie, Sec_Fetch_Site="cross-site")[0] == 403
    post = {"method": "POST", "body": "{}", "Cookie": cookie, "Content_Type": "application/json"}
    assert answer(link, "/do/job-stop", **post)[0] == 403  # not from the page
    assert answer(link, "/do/job-stop", **post, Origin=f"http://{host}")[0] == 400
    assert answer(link, "/do/nothing", **post, Origin=f"http://{host}")[0] == 404
    assert "opened the dashboard" in answer(link, "/", Accept="text/html")[1]


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../app.py",
        "/assets/%2e%2e/app.py",
        "/assets/nothing.js",
        "/ask/nothing",
        "/ask/why",
        "/logs?tail=x",
        "/x",
    ],
)
def test_nonsense_is_refused_with_a_message(link: str, path: str) -> None:
    status, text = answer(link, path, Cookie=cookie_of(link))
    assert status in (400, 404) and json.loads(text)["error"]["message"]


def test_every_file_of_the_page_has_headers_that_allow_no_other_source(link: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(link).netloc, timeout=10)
    connection.request("GET", "/assets/app.js")
    headers = connection.getresponse().headers
    connection.close()
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe-inline" not in policy
    assert (
        headers["Grass-Speaks"].startswith("2.")
        and headers["X-Content-Type-Options"] == "nosniff"
        and headers["Referrer-Policy"] == "no-referrer"
    )


TRAIN = """# the third trial
name: train
components:
  main: {command: COMMAND, replicas: 3, resources: {cpu: 0.1}, env: {API_TOKEN: hidden}}
"""


def test_a_job_is_started_its_tasks_turn_green_a_line_is_read_as_it_is_written_and_it_is_stopped(
    page: Any, client: Client, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    command = (
        f"echo hello; until [ -e {go} ]; do sleep 0.05; done; echo arrived; [ $GRASS_INDEX = 0 ] || exit 0; sleep 600"
    )
    file = tmp_path / "my train.yml"
    file.write_text(TRAIN.replace("COMMAND", json.dumps(command)))
    to(page, "/jobs")
    page.click("button:text-is('Start a job')")
    assert page.is_disabled(".dialog .primary")
    page.set_input_files(".dialog input[type=file]", file)
    page.wait_for_selector(".dialog code:text-is(\"grass job start 'my train.yml'\")")
    page.fill(".dialog textarea", file.read_text().replace("cpu: 0.1", "cpu: many"))
    page.click(".dialog button:text-is('Check')")
    page.wait_for_selector(".dialog .error:has-text('my train.yml: components.main.resources.cpu:')")
    page.fill(".dialog textarea", file.read_text())
    page.click(".dialog button:text-is('Check')")
    page.wait_for_selector(".dialog h2:text-is('train would start now')")
    assert page.inner_text(".dialog tbody tr").split() == ["main", "3", "local"]
    page.click(".dialog button:text-is('Start job')")
    page.wait_for_selector("canvas[aria-label='Tasks of main: 3 running']")
    job_id = page.evaluate("location.hash").rpartition("/")[2]
    page.click("nav.tabs a:has-text('Logs')")
    page.wait_for_selector(".log .text:has-text('hello') >> nth=2")
    assert page.locator(".log .text:has-text('arrived')").count() == 0
    go.touch()
    page.wait_for_selector(".log .text:has-text('arrived') >> nth=2")
    page.fill("input[aria-label='Filter lines']", "/^arr.*d$/")
    until(page, "document.querySelectorAll('.log .text').length === 3")
    page.click("nav.tabs a:has-text('Tasks')")
    page.wait_for_selector("canvas[aria-label='Tasks of main: 1 running, 2 succeeded']")
    page.go_back()
    page.wait_for_selector(".log")
    page.click(".actions button:has-text('Stop')")
    assert page.inner_text(".dialog .command code") == f"grass job stop {job_id}"
    page.click(".dialog button:has-text('Stop job')")
    page.wait_for_selector(".head .state:has-text('stopped')")
    assert client.wait(job_id, timeout=20).state == "STOPPED"
    page.click("nav.tabs a:has-text('Timeline')")
    page.wait_for_selector(".lane >> nth=2")
    page.wait_for_selector(".lane i.waiting[title*='on local: waited'] >> nth=2", state="attached")
    page.wait_for_selector(".lane i.tone-succeeded[title*='exit code 0']", state="attached")
    page.click("nav.tabs a:has-text('About')")
    shown = file.read_text().replace("hidden", '"[REDACTED]"')
    assert page.text_content("section[aria-label='Job file'] .source") == shown
    with page.expect_download() as saved:
        page.click("section[aria-label='Job file'] a:text-is('Download')")
    assert (saved.value.suggested_filename, Path(saved.value.path()).read_text()) == (file.name, shown)
    page.click("button:text-is('Start a changed copy')")
    assert page.input_value(".dialog textarea") == shown
    page.click(".dialog button:text-is('Check')")
    page.wait_for_selector(".dialog .error:has-text('secrets read [REDACTED]; put them back')")


def test_a_waiting_job_tells_why_and_a_node_is_drained_and_comes_back(page: Any, client: Client) -> None:
    job_id = client.start(job("large", "true", resources={"cpu": 3.5})).id
    client.wait(job_id, timeout=20)
    page.click("nav a:has-text('Nodes')")
    page.click("td a:has-text('local')")
    page.click("button:has-text('Drain')")
    page.fill(".dialog input[name=deadline]", "1")
    assert page.inner_text(".dialog .command code") == "grass node drain local --deadline 1m"
    page.click(".dialog button.primary")
    page.wait_for_selector(".head .state:has-text('drained')")
    waiting = client.start(job("large", "true", resources={"cpu": 3.5})).id
    to(page, "/")
    page.wait_for_selector("section[aria-label=Queue] td:has-text('node')")
    page.click(f"section[aria-label=Queue] a[href='#/jobs/{waiting}']")
    page.wait_for_selector("section[aria-label='Why it waits'] td:has-text('no node')")
    to(page, "/nodes/local")
    page.click("button:has-text('Uncordon')")
    page.click(".dialog button.primary")
    page.wait_for_selector(".head .state:has-text('ready')")
    to(page, f"/jobs/{waiting}")
    page.wait_for_selector("canvas[aria-label='Tasks of main: 1 succeeded']")


def test_the_nodes_of_a_cluster_in_a_cloud_have_their_costs(page: Any, client: Client) -> None:
    to(page, "/nodes")
    page.wait_for_selector("td a:has-text('local')")
    assert page.query_selector("section[aria-label='Costs by list price']") is None, "this cluster is in no cloud"
    now = client.status().time
    costs = CloudCosts(now - 7200, now, (
        CloudCost("local", "Standard_B2s", "running", 2.0, 0.05, 0.1, True),
        CloudCost("gone", "Standard_D2s_v3", "removed", 1.0, None, 0.0, False),
    ), ("list prices in US dollars",))  # fmt: skip
    client.tell_cloud(costs=costs)
    to(page, "/")
    to(page, "/nodes")
    page.wait_for_selector("section[aria-label='Costs by list price'] td a:has-text('local')")
    text = page.inner_text("section[aria-label='Costs by list price']")
    assert "not known an hour now, over $0.10 since" in text and "list prices in US dollars" in text
    assert [cell.split("\t")[:3] for cell in text.splitlines() if cell.startswith("gone\t")] == [
        ["gone", "removed", "Standard_D2s_v3"]
    ]


def confirm(page: Any, button: str, **fields: str) -> None:
    """Click an action and confirm it; check that its command line is one that `grass` understands."""
    page.click(f"main button:text-is('{button}')")
    for name, value in fields.items():
        page.fill(f".dialog input[name={name}]", value)
    check_command(page.inner_text(".dialog .command code"))
    page.click(".dialog footer .primary")
    page.wait_for_selector(".dialog", state="detached")


def check_command(line: str) -> None:
    """Fail unless the line is a whole command of `grass`, without running it."""
    command, (program, *words) = grass_commands, shlex.split(line)
    assert program == "grass"
    with click.Context(command) as context:
        while isinstance(command, click.Group):
            _, found, words = command.resolve_command(context, words)
            assert found is not None
            command = found
        command.make_context(command.name, words)


ATTEMPT = "dl.facts dt:text-is('Attempt') + dd"


def test_a_job_is_changed_from_its_page_as_its_command_lines_would(page: Any, client: Client) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    client.cordon("local")
    job_id = client.start(job("changed", "exec sleep 600", restart={"policy": "never"})).id
    to(page, f"/jobs/{job_id}")
    page.click("main button:text-is('Hold')")
    page.click(".dialog button:text-is('Copy')")
    page.wait_for_selector(".dialog button:text-is('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == f"grass job hold {job_id}"
    page.click(".dialog button:text-is('Cancel')")
    assert client.job(job_id).held is None
    confirm(page, "Hold")
    page.wait_for_selector("main button:text-is('Release')")
    assert client.job(job_id).held
    confirm(page, "Priority", priority="700")
    to(page, f"/jobs/{job_id}/about")
    page.wait_for_selector("dl.facts dt:text-is('Priority') + dd:text-is('700')")
    to(page, f"/jobs/{job_id}")
    confirm(page, "Release")
    client.uncordon("local")
    running = "canvas[aria-label='Tasks of main: 1 running']"
    page.wait_for_selector(running)
    confirm(page, "Suspend")
    page.wait_for_selector(".head .state:has-text('suspended')")
    confirm(page, "Resume")
    page.wait_for_selector(running)
    to(page, f"/jobs/{job_id}/tasks/main.0")
    before = int(page.inner_text(ATTEMPT))
    confirm(page, "Restart")
    wait_until(lambda: int(page.inner_text(ATTEMPT)) > before)
    page.wait_for_selector(running)
    client.stop(job_id)
    client.wait(job_id, timeout=30)


def reload_until_answered(page: Any, *questions: str) -> None:
    """Load a page anew. Afterwards, these questions are not on their way while somebody deletes their job."""
    with ExitStack() as answers:
        for name in questions:
            answers.enter_context(page.expect_response(f"**/ask/{name}?*"))
        page.reload()


def test_a_task_is_replaced_and_stopped_and_its_job_runs_again_and_is_deleted(page: Any, client: Client) -> None:
    job_id = client.start(job("renewed", "exec sleep 600", restart={"policy": "never"})).id
    running = "canvas[aria-label='Tasks of main: 1 running']"
    to(page, f"/jobs/{job_id}/tasks/main.0")
    page.wait_for_selector(running)
    confirm(page, "Replace task")  # there is no other node: the task waits for one
    to(page, f"/jobs/{job_id}/operations")
    page.wait_for_selector("td:has-text('replace main')")
    assert page.locator("main button:text-is('Cancel')").count() == 0
    to(page, f"/jobs/{job_id}/tasks/main.0")
    confirm(page, "Stop task")
    page.wait_for_selector("canvas[aria-label='Tasks of main: 1 stopped']")
    runs = [job_id]
    for action in ("Rerun", "Rerun failed"):
        confirm(page, action)
        wait_until(lambda: runs[-1] not in page.evaluate("location.hash"))
        runs.append(page.evaluate("location.hash").rpartition("/")[2])
        page.wait_for_selector(running)
        confirm(page, "Stop")
        page.wait_for_selector("canvas[aria-label='Tasks of main: 1 stopped']")
    assert client.job(runs[-1]).rerun_of == runs[1]
    reload_until_answered(page, "array", "glance")
    page.wait_for_selector("canvas[aria-label='Tasks of main: 1 stopped']")
    confirm(page, "Delete")
    wait_until(lambda: page.evaluate("location.hash") == "#/jobs")
    with pytest.raises(NotFoundError):
        client.job(runs[-1])


@pytest.mark.parametrize("section", ["", "/usage"])
def test_a_page_asks_nothing_more_about_a_job_that_somebody_deleted(page: Any, client: Client, section: str) -> None:
    job_id = client.start(job("short", "true")).id
    client.wait(job_id, timeout=20)
    page.clock.install()
    to(page, f"/jobs/{job_id}{section}")
    page.wait_for_selector(".head .state:has-text('succeeded')")
    reload_until_answered(page, "array", "job-usage" if section else "glance")
    page.wait_for_selector("section[aria-label='All tasks together']" if section else "canvas")
    if section:  # over a day it asks once a minute, so not while the job is deleted
        with page.expect_response("**/ask/job-usage*range=86400"):
            page.select_option("select[aria-label=Range]", label="1 day")
    asked: list[str] = []
    client.delete(job_id)
    page.on("request", lambda request: job_id in request.url and asked.append(request.url))
    page.wait_for_selector("main:has-text('This job was deleted')")
    page.clock.fast_forward(120_000)
    page.click("nav a:has-text('Nodes')")
    page.wait_for_selector("td a:has-text('local')")
    assert asked == []


def test_a_page_asks_nothing_about_a_node_or_job_that_is_not_there(page: Any) -> None:
    to(page, "/nodes/nobody")
    page.wait_for_selector("main:has-text('No such node')")
    to(page, "/jobs/nothing")
    page.wait_for_selector("main:has-text('job nothing: not found')")


def test_schedules_are_changed_from_their_page(page: Any, client: Client) -> None:
    part = {"command": "true", "resources": {"cpu": 0.1}}
    client.start_schedule({"name": "nightly", "cron": "0 3 1 1 *", "job": {"components": {"main": part}}})
    to(page, "/schedules")
    row = "tr:has-text('nightly')"
    for action, after in (("Run now", "td a:has-text('nightly')"), ("Pause", ".state:has-text('paused')"),
                          ("Resume", ".state:has-text('active')"), ("Stop", ".state:has-text('stopped')")):  # fmt: skip
        confirm(page, action)
        page.wait_for_selector(f"{row} {after}")
    confirm(page, "Delete")
    page.wait_for_selector(row, state="detached")
    assert "nightly" not in [each.name for each in client.schedules()]


HOSTILE = r"""
import sys
print("<script>document.title='taken'</script><img src=x onerror=alert(1)>")
print("\x1b[31mred\x1b[0m plain \x1b]8;;http://attacker.example\x07link\x1b]8;;\x07 ", end="")
print("\x1b[2J\x1b[1;38;5;208morange\x1b[0m")
print("10%\r50%\r100%")
print("\u202eright to left \u05e9\u05dc\u05d5\u05dd")
sys.stdout.buffer.write(b"bytes \xff\xfe\n")
print("x" * 1048576 + "END", flush=True)
"""


REDRAWN = """import(document.querySelector('script[type=module]').src.replace('app.js', 'state.js')).then((state) => {
  state.cluster.changed();
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
})"""
"""Has the page drawn again, as it is each second."""


SCROLLED_UP = """new Promise((done) => {
  [...document.querySelectorAll('.filters button')].find((each) => each.textContent.startsWith('Times')).onclick();
  let frames = 0;
  const count = () => {
    frames += 1;
    if (frames === 2) document.querySelector('.log').scrollTop = 7;
    if (frames < 8) requestAnimationFrame(count); else done();
  };
  requestAnimationFrame(count);
})"""
"""Has the log drawn anew, which takes it to its end in some frames, and scrolls up meanwhile."""


def test_hostile_lines_of_a_log_are_shown_and_not_run(page: Any, client: Client, tmp_path: Path) -> None:
    script = tmp_path / "hostile.py"
    script.write_text(HOSTILE)
    job_id = client.start(job("hostile", f"{sys.executable} {script}")).id
    client.wait(job_id, timeout=20)
    to(page, f"/jobs/{job_id}/logs")
    page.wait_for_selector(".log .gap:has-text('more characters')")
    text = page.text_content(".log")  # rendered or not: the browser leaves out rows that are out of sight
    assert "<script>document.title='taken'</script><img src=x onerror=alert(1)>" in text
    assert "red plain link orange" in text and "\x1b" not in text
    assert "100%" in text and "50%" not in text and "שלום" in text
    assert page.locator(".log img, .log script").count() == 0 and "taken" not in page.title()
    assert page.locator(".log .a-1:has-text('red')").count() == 1
    until(
        page,
        "(({ scrollTop, scrollHeight, clientHeight }) => scrollHeight - clientHeight - scrollTop < 2)"
        "(document.querySelector('.log'))",
        "the end of the log to be in view",
    )
    page.focus("input[aria-label='Filter lines']")
    page.evaluate(SCROLLED_UP)  # while it goes to the end
    page.evaluate(REDRAWN)
    assert page.evaluate("document.querySelector('.log').scrollTop") == 7
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Filter lines"
    page.click("button:has-text('Colours')")
    until(page, "!document.querySelector('.log .a-1') && document.documentElement.scrollWidth <= innerWidth")


RUNS = '"><img src=x onerror=taken=1><script>taken=1</script>\u202e\u05e9'
"""What a name would be that the grammar of names forbids."""


def forged(value: Any, words: Sequence[str]) -> Any:
    """Return data of the cluster as hostile as possible: ``words`` are replaced, and each message begins with RUNS."""
    if isinstance(value, dict):
        return {
            forged(key, words): RUNS + "x" * 3000 + each if key == "message" and each else forged(each, words)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [forged(each, words) for each in value]
    for word in words if isinstance(value, str) else ():
        value = value.replace(word, RUNS)
    return value


def snapshot(link: str) -> list[Any]:
    """Return the messages of the feed up to the whole state."""
    found: list[Any] = []
    with closing(http.client.HTTPConnection(urlsplit(link).netloc, timeout=10)) as connection:
        connection.request("GET", "/feed", headers={"Cookie": cookie_of(link)})
        reply = connection.getresponse()
        while not any("jobs" in piece for piece in found):
            if (line := reply.readline()).startswith(b"data: "):
                found.append(json.loads(line[6:]))
    return found


def test_hostile_names_tags_and_reasons_are_shown_and_not_run(browser: Any, link: str, client: Client) -> None:
    failing = {**job("innocent", "exit 3", restart={"policy": "never"}), "tags": {"colour": RUNS}}
    job_id = client.wait(client.start(failing).id, timeout=30).id
    waiting = client.start(job("innocent", "true", resources={"cpu": 900})).id
    words = ("innocent", client.status().user, "local")
    feed = "".join(f"data: {json.dumps(forged(piece, words))}\n\n" for piece in snapshot(link))

    def forge(route: Any) -> None:
        asked = urlsplit(route.request.url)
        if asked.path == "/feed":
            route.fulfill(body=feed, content_type="text/event-stream")
            return
        query = urlencode([(name, text.replace(RUNS, "innocent")) for name, text in parse_qsl(asked.query)])
        reply = route.fetch(url=asked._replace(query=query).geturl())
        said = reply.json()
        if asked.path == "/ask/status":
            said["disks"] = [{"holds": "state", "free": 1, "total": 1000}]
        route.fulfill(json=forged(said, words), status=reply.status)

    with tabs(browser) as context:
        context.route("**/feed*", forge)
        context.route("**/ask/**", forge)
        with tab(context, link, ("404",)) as page:  # what the cluster does not know by these names
            page.wait_for_selector(".tile")
            page.wait_for_selector(".alerts li.bad:has-text('the disk of state is almost full')")
            shown = [quote(each.replace("innocent", RUNS), safe="") for each in (job_id, waiting)]
            node = quote(RUNS, safe="")
            places = [f"/jobs/{shown[0]}{part}" for part in ("", "/timeline", "/usage", "/events", "/about")]
            compare = f"/compare/{shown[0]}/{shown[1]}"
            for address in (
                "/",
                "/jobs",
                f"/jobs/{shown[1]}",
                *places,
                compare,
                "/nodes",
                f"/nodes/{node}",
                "/users",
                "/events",
            ):
                to(page, address)
                page.wait_for_selector("main :text('<script>')")
                for width in (390, 1360):
                    page.set_viewport_size({"width": width, "height": 900})
                    until(page, "document.documentElement.scrollWidth <= innerWidth", f"{address} to fit {width}")
            page.keyboard.press("/")
            page.wait_for_selector(".found a:has-text('<script>')")
            assert page.locator("main img, main script, .dialog img").count() == 0
            assert page.evaluate("window.taken") is None
            context.unroute_all(behavior="ignoreErrors")
    client.stop(waiting)


def test_the_page_says_what_the_state_says(browser: Any, link: str, client: Client) -> None:
    job_id = client.start(job("partly", "sleep 600", replicas=2, resources={"cpu": 3})).id
    here = lambda pieces: [job for piece in pieces for job in piece.get("jobs", ()) if job["id"] == job_id]  # noqa: E731
    wait_until(lambda: [job for job in here(snapshot(link)) if job["components"]["main"]["reason"]], what="a reason")
    pieces = snapshot(link)
    for node in (node for piece in pieces for node in piece.get("nodes", ())):
        node["usage"] = {**node["usage"], "cpu": 100.0, "cores": [100.0, 100.0]}  # of the four cores that it offers
        node["resources"]["custom"], node["free"]["custom"] = {"licences": 3}, {"licences": 2}
    for each in here(pieces):
        each["counts"] = {"RUNNING": 1, "ASSIGNED": 200, "PENDING": 4000}
    feed = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces)
    with tabs(browser) as context:
        context.route("**/feed", lambda route: route.fulfill(body=feed, content_type="text/event-stream"))
        with tab(context, link) as page:
            fill = "document.querySelector('.capacity .meter i:not(.under)').style.getPropertyValue('--fill')"
            until(page, f"{fill} === '50.0%'")
            to(page, "/jobs")
            row = page.locator("tr:has-text('partly')")
            row.locator("td:has-text('waits for free resources')").wait_for()
            assert row.locator(".tally > span").all_inner_texts() == [
                "1\nrunning",
                "4,200\n200 assigned, 4,000 pending",
            ]
            to(page, "/nodes/local")
            page.wait_for_selector("dt:text-is('licences') + dd:text-is('2 of 3 free')")
            context.unroute_all(behavior="ignoreErrors")
    client.stop(job_id)
    client.wait(job_id, timeout=30)


def fleet(pieces: list[Any], count: int) -> str:
    """Return a feed with so many nodes: each sixtieth is silent, and one is lost."""
    for piece in pieces:
        if nodes := piece.get("nodes"):
            made = [{**nodes[0], "name": f"n{number}", "tasks": number} for number in range(1, count + 1)]
            made[100]["state"] = "LOST"
            for each, free in zip(made, (300, *[100] * count), strict=False):
                each["free"] = {**each["free"], "cpu": free}
            for each in made[7::60]:
                each["state"] = "SILENT"
            piece["nodes"] = made[::-1]
    return "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces)


def test_an_overview_of_300_nodes_is_bounded_and_leads_to_each_of_them(browser: Any, link: str, client: Client) -> None:
    client.wait(client.start(job("beside-nodes", "true")).id, timeout=30)
    feed = fleet(snapshot(link), 300)
    with tabs(browser) as context:
        context.route("**/feed", lambda route: route.fulfill(body=feed, content_type="text/event-stream"))
        with tab(context, link, ("404",)) as page:  # there is no n10
            page.wait_for_selector(".heat a >> nth=299")
            sections = page.locator("main section.panel").evaluate_all("all => all.map((each) => each.ariaLabel)")
            assert sections[1:] == ["Queue", "Recent failures", "Running", "Nodes", "Capacity and use"]
            names = page.locator(".heat a").evaluate_all("all => all.map((each) => each.ariaLabel.split(':')[0])")
            assert names == [f"n{number}" for number in range(1, 301)]
            assert page.locator(".alerts li").count() == 6
            page.wait_for_selector(".capacity .meter:has-text('1,169.8 of 1,200')")
            axe = Accessibility(page)
            assert axe.faults("light") == [] and axe.faults("dark", runOnly=["color-contrast"]) == []
            for width, most in ((390, 4500), (820, 3500), (1360, 2500)):
                page.set_viewport_size({"width": width, "height": 900})
                until(page, "document.documentElement.scrollWidth <= innerWidth")
                assert page.evaluate("document.documentElement.scrollHeight") < most
            page.select_option("[aria-label='What the colour of a node means']", "allocated")
            page.wait_for_selector(".heat[aria-label='Nodes by cores allocated']")
            page.click("section[aria-label=Nodes] a:has-text('5 silent')")
            page.wait_for_selector("td a:text-is('n248')")
            assert page.locator("tbody tr").count() == 5
            page.fill("input[aria-label='Filter nodes']", "state:attention")
            page.wait_for_selector("td a:text-is('n101')")
            page.fill("input[aria-label='Filter nodes']", "")
            page.click("button:text-is('Show all 300 nodes')")
            page.wait_for_selector("td a:text-is('n300')")
            page.keyboard.press("g")
            page.keyboard.press("o")
            page.click(".heat a[aria-label^='n10:']")
            until(page, "location.hash === '#/nodes/n10'")
            context.unroute_all(behavior="ignoreErrors")


def rows(page: Any) -> list[str]:
    return list(page.locator("table.jobs tbody tr td.main a").all_inner_texts())


def test_jobs_are_found_by_tag_sorted_by_any_column_and_a_row_leads_to_its_job(page: Any, client: Client) -> None:
    for number, tag in (("10", "t7"), ("2", "t7"), ("1", "b2")):
        client.wait(client.start({**job(f"tagged-{number}", "true"), "tags": {"exp": tag}}).id, timeout=30)
    failed = client.wait(client.start({**job("tagged-3", "exit 3"), "tags": {"exp": "t7"}}).id, timeout=30).id
    to(page, "/jobs?q=tagged-")
    page.wait_for_selector("tr:has-text('tagged-3')")
    assert rows(page) == ["tagged-3", "tagged-1", "tagged-2", "tagged-10"]
    page.click("th button:text-is('Job')")
    until(page, "document.querySelector('th[aria-sort=ascending]')?.textContent.startsWith('Job')")
    assert rows(page) == ["tagged-1", "tagged-2", "tagged-3", "tagged-10"]
    page.fill("input[aria-label='Filter jobs']", "tag:exp=t7 state:fail")
    until(page, "document.querySelectorAll('table.jobs tbody tr').length === 1")
    page.click("summary:has-text('Columns')")
    page.uncheck(".choice label:has-text('Reason') input")
    page.check(".choice label:has-text('Restarts') input")
    page.evaluate(REDRAWN)
    assert page.is_visible(".choice label:has-text('Restarts')")
    page.reload()
    page.wait_for_selector("th:has-text('Restarts')")
    assert page.locator("th:has-text('Reason')").count() == 0
    assert page.input_value("input[aria-label='Filter jobs']") == "tag:exp=t7 state:fail"
    page.click("td.tags a:text-is('exp=t7')")
    until(page, "document.querySelectorAll('table.jobs tbody tr').length === 3")
    page.evaluate("localStorage.clear()")
    page.click("tr:has-text('tagged-3') .progress")
    until(page, f"location.hash === '#/jobs/{failed}'")


def test_counts_of_jobs_are_true_while_the_page_loads_and_older_jobs_are_looked_for(
    browser: Any, link: str, client: Client
) -> None:
    old = client.wait(client.start({**job("of-old", "true"), "tags": {"age": "old"}}).id, timeout=30).id
    pieces = snapshot(link)
    for piece in pieces:
        piece["jobs"] = [each for each in piece.get("jobs", ()) if each["id"] != old]
        if "counts" in piece:
            piece.update(complete=False, counts={"QUEUED": 20_000, "SUCCEEDED": 3000})
    feeds = ["".join(f"data: {json.dumps(each)}\n\n" for each in pieces)]
    with tabs(browser) as context:
        context.route("**/feed", lambda route: route.fulfill(body=feeds[-1], content_type="text/event-stream"))
        with tab(context, link) as page:
            page.wait_for_selector("#top nav .badge:text-is('20,000')")
            to(page, "/jobs?q=tag:age=old")
            page.wait_for_selector("button:has-text('Waiting'):has-text('20,000')")
            page.wait_for_selector("section[aria-label=Jobs] [role=status]:has-text('loading 22,')")
            assert page.locator("button:has-text('older jobs')").count() == 0
            feeds.append(feeds[0].replace('"complete": false', '"complete": true'))
            page.reload()
            page.wait_for_selector("[role=status]:has-text('older ones are not here')")
            page.click("button:text-is('Look among older jobs')")
            page.wait_for_selector(f"td.main a[href='#/jobs/{old}']")
            context.unroute_all(behavior="ignoreErrors")


def test_the_first_tab_of_a_job_says_what_it_does_and_what_it_last_said(page: Any, client: Client) -> None:
    command = "echo 'GRASS_METRIC loss=0.25 step=1'; echo starting; echo diverged >&2; sleep 600"
    job_id = client.start({**job("glanced", command), "tags": {"exp": "a7"}}).id
    wait_until(lambda: client.job_metrics(job_id).curves, what="a figure")
    to(page, f"/jobs/{job_id}")
    page.wait_for_selector(f"section[aria-label='At a glance'] .source:text-is(\"{command}\")")
    page.wait_for_selector("section[aria-label='At a glance'] a.chip:text-is('exp=a7')")
    page.wait_for_selector("section[aria-label='Last figures'] tr:has-text('main.0'):has-text('0.25')")
    lines = page.locator("section[aria-label='Last lines'] .text")
    assert sorted(lines.all_inner_texts()) == ["diverged", "starting"]
    client.stop(job_id)
    client.wait(job_id, timeout=30)
    many = client.start(job("glanced-many", "echo $GRASS_INDEX; exit $((GRASS_INDEX == 51))", replicas=52,
                            resources={"cpu": 0.05}, restart={"policy": "never"})).id  # fmt: skip
    client.wait(many, timeout=60)
    to(page, f"/jobs/{many}")
    page.wait_for_selector("section[aria-label='Last lines']:has-text('of main.51') .text:text-is('51')")


def test_the_stacks_of_a_running_task_are_on_its_page_on_demand(page: Any, client: Client, tmp_path: Path) -> None:
    program = "import time\ndef waits():\n    print('here', flush=True)\n    time.sleep(600)\nwaits()"
    job_id = client.start(job("stacked", shlex.join([sys.executable, "-c", program]))).id
    to(page, f"/jobs/{job_id}/logs")
    page.wait_for_selector(".log .text:text-is('here')")
    to(page, f"/jobs/{job_id}/tasks/main.0")
    page.click("button:text-is('Stacks')")
    page.wait_for_selector("section[aria-label=Stacks] .source:has-text('waits (<string>:4)')")
    is_accessible_and_fits(page, Accessibility(page), f"/jobs/{job_id}/tasks/main.0", tmp_path)
    client.stop(job_id)
    client.wait(job_id, timeout=30)


def test_five_thousand_tasks_fit_on_a_page(page: Any, client: Client) -> None:
    job_id = client.start(job("wide", "true", replicas=5000, resources={"cpu": 4}, restart={"policy": "never"})).id
    to(page, f"/jobs/{job_id}")
    page.wait_for_selector("section[aria-label=Tasks] header:has-text('5,000 tasks')")
    height = page.evaluate("document.querySelector('canvas').clientHeight")
    assert 100 < height < 900
    client.stop(job_id)
    client.wait(job_id, timeout=30)


def test_a_job_is_scaled_and_its_operation_is_followed(page: Any, client: Client) -> None:
    job_id = client.start(job("elastic", "sleep 600", replicas=1, min=1, max=3)).id
    to(page, f"/jobs/{job_id}")
    page.wait_for_selector("canvas[aria-label='Tasks of main: 1 running']")
    page.click("button:has-text('Scale')")
    page.fill(".dialog input[name=size]", "2")
    assert page.inner_text(".dialog .command code") == f"grass job scale {job_id} main 2"
    page.click(".dialog button.primary")
    page.wait_for_selector("section[aria-label=Operations] .state:has-text('done')")
    page.click("nav.tabs a:has-text('Tasks')")
    page.wait_for_selector("canvas[aria-label='Tasks of main: 2 running']")
    client.cordon("local")
    client.scale(job_id, "main", 3)
    to(page, f"/jobs/{job_id}/operations")
    confirm(page, "Cancel")
    page.wait_for_selector("section[aria-label=Operations] .state:has-text('cancelled')")
    client.scale(job_id, "main", 3, reason="a machine is free")
    page.wait_for_selector("section[aria-label=Operations] td:has-text('a machine is free')")
    page.set_viewport_size({"width": 390, "height": 844})
    until(page, "[...document.querySelectorAll('main .scroll')].every((a) => a.scrollWidth <= a.clientWidth)")
    client.uncordon("local")
    client.stop(job_id)
    client.wait(job_id, timeout=30)


SAYS_ITS_COOKIES = """
import http.server, os
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"cookies: {self.headers['Cookie']}".encode())
http.server.HTTPServer(("127.0.0.1", int(os.environ["GRASS_PORT_WEB"])), Page).serve_forever()
"""


def test_the_web_page_of_a_task_is_opened_and_gets_no_cookie_of_the_dashboard(page: Any, client: Client) -> None:
    program = shlex.join([sys.executable, "-c", SAYS_ITS_COOKIES])
    job_id = client.start(job("paged", program, ports=["web"], web="web", ready={"port": "web"})).id
    wait_until(lambda: client.tasks(job_id)[0].ready)
    to(page, f"/jobs/{job_id}")
    page.click("main button:text-is('Web page')")
    check_command(page.inner_text(".dialog .command code"))
    page.click(".dialog footer .primary")
    with page.expect_popup() as popup:
        page.click(".dialog a[href^='http://localhost:']")
    popup.value.wait_for_selector("body:has-text('cookies')")  # at first, nothing of the page may be there
    assert popup.value.inner_text("body") == "cookies: None"
    popup.value.close()
    client.stop(job_id)
    client.wait(job_id, timeout=30)


def test_the_keyboard_suffices(page: Any, client: Client) -> None:
    client.wait(client.start(job("keyboard", "true")).id, timeout=20)
    page.keyboard.press("?")
    page.wait_for_selector(".dialog h1:has-text('Keyboard')")
    axe = Accessibility(page)
    assert axe.faults("light") == [] and axe.faults("dark", runOnly=["color-contrast"]) == []
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.wait_for_selector(".dialog textarea:focus")
    page.keyboard.press("Escape")
    page.wait_for_selector(".dialog", state="detached")
    page.keyboard.press("/")
    page.keyboard.type("keyb")
    page.wait_for_selector(".found li.chosen:has-text('keyboard')")
    assert axe.faults("light") == [] and axe.faults("dark", runOnly=["color-contrast"]) == []
    page.keyboard.press("Enter")
    page.wait_for_selector(".head h1:has-text('keyboard')")
    page.clock.set_fixed_time(time.time())  # both keys count together if they come within a second
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_selector("main h1:has-text('Jobs')")
    page.wait_for_selector("td.main:has-text('keyboard')")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    first = page.evaluate("document.activeElement.getAttribute('href')")
    page.keyboard.press("Enter")
    wait_until(lambda: page.evaluate("location.hash") == first)


def test_a_search_finds_a_finished_job_that_the_tab_does_not_know_by_its_tag(page: Any, client: Client) -> None:
    found = client.wait(client.start({**job("forgotten", "true"), "tags": {"paper": "icml"}}).id, timeout=20)
    page.wait_for_selector(".tile")
    known = "[...document.querySelectorAll('.found a')].map((each) => each.textContent).join()"
    state = "import(document.querySelector('script[type=module]').src.replace('app.js', 'state.js'))"
    page.evaluate(f"{state}.then(({{ cluster }}) => cluster.jobs.clear())")
    for words in ("paper=icml", "rgott", "forgotten succeeded"):
        page.keyboard.press("/")
        page.keyboard.type(words)
        until(page, f"{known}.includes('{found.id}')")
        page.keyboard.press("Escape")


def test_a_viewer_is_offered_nothing_and_refused_everything(
    browser: Any, cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    viewer = add_viewer(cluster, tmp_path)
    job_id = client.start(job("guarded", "sleep 600")).id
    with served(viewer, job_files=JobFiles()) as link, opened(browser, link) as page:
        to(page, f"/jobs/{job_id}")
        page.wait_for_selector("canvas[aria-label='Tasks of main: 1 running']")
        assert page.locator(".actions button").count() == 0
        to(page, "/nodes/local")
        page.wait_for_selector(".head h1:has-text('local')")
        assert page.locator(".actions button").count() == 0
        to(page, f"/jobs/{job_id}")
        page.wait_for_selector(".actions:has-text('You are a viewer')")
        post = {"Cookie": cookie_of(link), "Content_Type": "application/json", "Origin": link.partition("/open")[0]}
        for action, body in (("stop", {"job": job_id}), ("start", {"text": TRAIN.replace("COMMAND", "'true'")})):
            status, text = answer(link, f"/do/job-{action}", "POST", json.dumps(body), **post)
            assert status == 403 and "viewer" in text
        to(page, "/jobs")
        page.wait_for_selector("tr:has-text('guarded')")
        page.keyboard.press("n")
        assert page.locator("button:text-is('Start a job')").count() == 0
        assert page.locator(".dialog").count() == 0
    client.stop(job_id)
    client.wait(job_id, timeout=30)


def test_a_page_of_a_cluster_that_never_answers_says_so(browser: Any, cluster: LocalCluster, tmp_path: Path) -> None:
    source, folder = Path(cluster.config.home) / "client", tmp_path / "clusters" / "local" / "client"
    shutil.copytree(source, folder)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the system accepts connections; nobody reads them
        profile = keyring.load_profile(source)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        keyring.save_profile(
            folder, replace(profile, url=address, tunnel=None), json.loads((source / "master.pub.json").read_text())
        )
        with served(lambda: Client("local", home=tmp_path)) as link:
            # What a view asks for itself ends with 502 after the client's 5 s, as the browser says by itself.
            with opened(browser, link, ("502",)) as page:
                page.wait_for_selector("main h1:has-text('Overview')")
                page.wait_for_selector("#link:has-text('has not answered for'), #link:has-text('does not answer')")
                page.wait_for_selector("#link:has-text('The cluster does not answer')")
            with opened(browser, link, ("502",)) as page:
                page.wait_for_selector("#link:has-text('The cluster does not answer')")
                assert page.locator(".tile, .sums").count() == 0  # nothing is claimed that nobody knows


def test_a_machine_that_slept_for_an_hour_gets_the_present_state(browser: Any, link: str, client: Client) -> None:
    job_id = client.start(job("sleeper", "true")).id
    client.wait(job_id, timeout=60)
    with opened(browser, link, ("ERR_FAILED", "Failed to load resource")) as page:
        page.clock.install()
        page.reload()
        to(page, "/jobs")
        page.wait_for_selector("tr:has-text('sleeper')")
        page.route("**/feed", lambda route: route.abort())
        page.clock.fast_forward(3_600_000)
        page.wait_for_selector("#link:has-text('perhaps this machine slept')")
        awake = client.start(job("awake", "true")).id
        client.wait(awake, timeout=60)
        page.unroute("**/feed")
        page.wait_for_selector("tr:has-text('awake')")
        until(page, "!document.getElementById('link').textContent")


def test_a_page_that_expires_says_so_and_shows_nothing_new(browser: Any, cluster: LocalCluster) -> None:
    now = [0.0]
    allowed = ("401", "Failed to load resource", "MIME type")  # the page loads its other views after the first
    options = {"address": "127.0.0.1", "expires": 10.0, "steady": lambda: now[0]}
    with served(cluster.client, **options) as link, opened(browser, link, allowed) as page:
        page.wait_for_selector(".tile")
        cookie = cookie_of(link)
        assert answer(link, "/me", Cookie=cookie)[0] == 200
        now[0] = 11.0
        page.wait_for_selector("#link:has-text('this shared page has expired')")
        assert answer(link, "/me", Cookie=cookie)[0] == answer(link, urlsplit(link).path)[0] == 401


def test_a_browser_that_lost_its_cookie_is_told_which_link_to_open(context: Any, link: str) -> None:
    with tab(context, link, ("401", "Failed to load resource", "MIME type")) as page:
        page.wait_for_selector(".tile")
        page.context.clear_cookies()
        page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # a hidden tab closes its feed
        page.evaluate("delete document.hidden")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.wait_for_selector("#link:has-text('this browser has not opened the dashboard')")
        axe = Accessibility(page)
        assert axe.faults("light") == [] and axe.faults("dark", runOnly=["color-contrast"]) == []


def test_a_page_whose_files_get_lost_on_the_way_draws_itself_in_the_end(browser: Any, link: str) -> None:
    loads, lost = [], []

    def drop(route: Any) -> None:
        name = route.request.url.rpartition("/")[2]
        if len(loads) > 2 and (name != "base.css" or name in lost[-1:]):
            route.fallback()
        else:
            lost.append(name)
            route.abort("internetdisconnected")

    with tabs(browser) as context:
        context.route("**/assets/**", drop)
        context.on("request", lambda request: request.is_navigation_request() and loads.append(request.url))
        with tab(context, link, ("ERR_INTERNET_DISCONNECTED",)) as page:
            page.wait_for_selector("section[aria-label=Nodes] .tile")
            until(page, "getComputedStyle(document.body).marginTop === '0px'")
            assert len(loads) == 3 and {"app.js", "dom.js", "base.css"} <= {*lost}
            page.reload()  # the browser has kept all files
            page.wait_for_selector("section[aria-label=Nodes] .tile")


WRITES = """
import os, pathlib
out = pathlib.Path(os.environ["GRASS_OUTPUT"])
(out / "deep").mkdir()
(out / "deep" / "a b<c>.txt").write_text("content")
with open(out / "large.bin", "wb") as file:
    for at in range(24):
        file.write(bytes([at]) * (1 << 20))
(out / "secret").symlink_to("/etc/passwd")
(out / "out").symlink_to("/etc")
os.mkfifo(out / "pipe")
"""


def test_a_view_that_cannot_be_loaded_says_so_and_is_loaded_again(browser: Any, link: str) -> None:
    with tabs(browser) as context:
        context.route("**/views/users.js", lambda route: route.abort())
        with tab(context, link, ("ERR_FAILED", "Failed to load", "Failed to fetch")) as page:
            to(page, "/users")
            page.wait_for_selector("main .empty:has-text('could not be loaded')")
            to(page, "/jobs")
            page.wait_for_selector("main h1:has-text('Jobs')")
            to(page, "/users")
            page.wait_for_selector("main .empty:has-text('could not be loaded')")
            context.unroute("**/views/users.js")
            page.wait_for_selector("main h1:has-text('Users')")


def test_a_link_on_another_site_opens_the_page_and_its_secret_leaves_the_address(browser: Any, link: str) -> None:
    class Mail(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f"<a href='{link}'>the dashboard</a>".encode())

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Mail) as mail, tabs(browser) as context:
        threading.Thread(target=mail.serve_forever, args=(0.05,), daemon=True).start()
        page, secret = context.new_page(), urlsplit(link).path.rpartition("/")[2]
        page.goto(f"http://localhost:{mail.server_port}/")  # another site than 127.0.0.1
        page.click("a")
        page.wait_for_selector(".tile")
        assert secret not in page.url
        page.reload()
        page.wait_for_selector(".tile")
        mail.shutdown()


def test_files_of_a_job_are_listed_and_downloaded_and_no_others(
    page: Any, link: str, client: Client, tmp_path: Path
) -> None:
    script = tmp_path / "writes.py"
    script.write_text(WRITES)
    job_id = client.start(job("writer", f"{sys.executable} {script}")).id
    assert client.wait(job_id, timeout=60).state == "SUCCEEDED"
    to(page, f"/jobs/{job_id}/files")
    with page.expect_download() as large:
        page.click("a[aria-label='Download large.bin']")
    assert large.value.suggested_filename == "large.bin"
    content = Path(large.value.path()).read_bytes()
    assert content == b"".join(bytes([at]) * (1 << 20) for at in range(24))
    assert page.locator("tr:has-text('symbolic link') a").count() == 0
    page.click("td a:has-text('deep/')")
    with page.expect_download() as small:
        page.click("a[aria-label='Download a b<c>.txt']")
    assert Path(small.value.path()).read_text() == "content"
    to(page, f"/jobs/{job_id}/about")
    with page.expect_download() as file:
        page.click("section[aria-label*='with defaults'] a:text-is('Download')")
    assert "main" in json.loads(Path(file.value.path()).read_text())["components"]
    cookie = cookie_of(link)
    for path in ("../cluster.json", "/etc/passwd", "jobs/%2e%2e/%2e%2e/cluster.json", "", "jobs", "nothing"):
        assert answer(link, f"/file?path={path}", Cookie=cookie)[0] in (400, 404), path
    for name in ("secret", "out/passwd", "pipe", "deep"):
        assert answer(link, f"/file?path=jobs/{job_id}/{name}", Cookie=cookie)[0] == 400, name
    assert answer(link, f"/files?path=jobs/{job_id}/out", Cookie=cookie)[0] == 400
    assert answer(link, f"/file?path=jobs/{job_id}/large.bin")[0] == 401


OUTPUTS = """
import os, pathlib
out = pathlib.Path(os.environ["GRASS_OUTPUT"])
(out / "step 10").mkdir()
(out / "step 10" / "m.csv").write_text('step,note\\n1,"<b>a</b>, b"\\n')
(out / "run.html").write_text("<script>window.top.taken=1</script>")
(out / "run.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><script>window.top.taken=1</script></svg>')
dot = "89504e470d0a1a0a0000000d4948445200000001000000010806000000" \
    "1f15c4890000000d49444154789c6360f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
(out / "dot.bin").write_bytes(bytes.fromhex(dot))
print("line 1")
print("line 2", end="")
"""


def test_outputs_are_shown_and_nothing_of_them_runs_and_the_whole_log_is_downloaded(
    page: Any, link: str, client: Client, tmp_path: Path
) -> None:
    script = tmp_path / "outputs.py"
    script.write_text(OUTPUTS)
    job_id = client.wait(client.start(job("outputs", f"{sys.executable} {script}")).id, timeout=60).id
    to(page, "/jobs/outputs/files")  # by the name of the job
    until(page, f"location.hash === '#/jobs/{job_id}/files'")
    page.click("td a:text-is('step 10/')")
    until(page, f"location.hash === '#/jobs/{job_id}/files/jobs/{job_id}/step%2010'")
    page.click("td a:text-is('m.csv')")
    page.wait_for_selector("section[aria-label='File m.csv'] td:text-is('<b>a</b>, b')")
    axe = Accessibility(page)
    is_accessible_and_fits(page, axe, f"/jobs/{job_id}/file", tmp_path)
    for name in ("run.html", "run.svg"):
        to(page, f"/jobs/{job_id}/file/jobs/{job_id}/{name}")
        page.wait_for_selector(".source:has-text('<script>window.top.taken=1</script>')")
    to(page, f"/jobs/{job_id}/file/jobs/{job_id}/dot.bin")
    until(page, "document.querySelector('.picture img')?.naturalWidth === 1")
    is_accessible_and_fits(page, axe, f"/jobs/{job_id}/file", tmp_path)
    assert page.evaluate("window.taken") is None
    cookie = cookie_of(link)
    for address, disposition in (
        (f"jobs/{job_id}/run.svg", "attachment"),
        (f"jobs/{job_id}/dot.bin&picture=1", "inline"),
    ):
        with closing(http.client.HTTPConnection(urlsplit(link).netloc, timeout=10)) as connection:
            connection.request("GET", f"/file?path={address}", headers={"Cookie": cookie})
            headers = connection.getresponse().headers
        assert headers["Content-Disposition"].startswith(disposition) and headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert answer(link, f"/file?path=jobs/{job_id}/run.svg&picture=1", Cookie=cookie)[0] == 400
    assert answer(link, f"/preview?path=jobs/{job_id}/../../cluster.json", Cookie=cookie)[0] in (400, 404)
    to(page, f"/jobs/{job_id}/logs")
    with page.expect_download() as log:
        page.click(".filters a:text-is('Download')")
    assert Path(log.value.path()).read_bytes() == b"line 1\nline 2"
    assert log.value.suggested_filename == f"{job_id}.log"
    assert answer(link, "/log-file?job=nothing", Cookie=cookie)[0] == 404


def test_a_cluster_that_was_made_anew_under_its_name_is_named_and_shown(
    browser: Any, cluster: LocalCluster, tmp_path: Path
) -> None:
    source, folder = Path(cluster.config.home) / "client", tmp_path / "clusters" / "local" / "client"
    shutil.copytree(source, folder)
    for name in ("user.pem", "session.json"):
        (folder / name).unlink(missing_ok=True)
    keyring.create_user_key(folder)  # the master knows no such key
    (folder / "master.pub.json").write_text(json.dumps({**public_jwk("cluster-1"), "kid": "former"}))
    with served(lambda: Client("local", home=tmp_path)) as link, opened(browser, link, ("50", "403")) as page:
        page.wait_for_selector("#link:has-text('this page tries again')")
        for name in ("user.pem", "master.pub.json"):
            shutil.copyfile(source / name, tmp_path / name)
            os.replace(tmp_path / name, folder / name)
        page.wait_for_selector(".tile")
        page.wait_for_selector("#link:has-text('was made anew under this name')")


def test_two_runs_are_compared_with_curves_and_files_although_the_network_drops_a_question(
    context: Any, link: str, client: Client
) -> None:
    ids = []
    for rate in ("0.1", "0.2"):
        report = f"for s in 1 2 3; do echo GRASS_METRIC loss={rate} step=$s; done; echo {rate} > $GRASS_OUTPUT/rate"
        report += f"; echo 'GRASS_METRIC {{\"width\": {rate}}}'; echo GRASS_METRIC loss=nan"
        ids.append(client.start({**job("compared", report, resources={"cpu": float(rate)}), "tags": {"rate": rate}}).id)
        assert client.wait(ids[-1], timeout=60).state == "SUCCEEDED"
    for job_id in ids:  # a NaN is the last thing that it says
        wait_until(lambda job_id=job_id: client.results(job_id).not_finite.get("loss"))

    def too_early(route: Any) -> None:
        """Answer as if the last job had just ended: its figures are not there yet."""
        response = route.fetch()
        told = response.json()
        told["jobs"][1]["ended"] += 3600
        told["found"] |= {"parameters": {}, "figures": {}, "not_finite": {}}
        route.fulfill(response=response, json=told)

    with tab(context, link, ("ERR_INTERNET_DISCONNECTED",)) as page:
        page.route("**/ask/comparison?*", too_early, times=1)
        page.route("**/file-groups?*", lambda route: route.abort("internetdisconnected"), times=1)
        to(page, f"/compare/{ids[0]}/{ids[1]}")
        page.wait_for_selector(f".chart[aria-label*='{ids[0]} main.0'][aria-label*='now 0.1'][aria-label*='now 0.2']")
        page.wait_for_selector("section[aria-label='Differences of the job files'] th:has-text('main.command')")
        page.wait_for_selector("section[aria-label=Comparison] tr:has(th:text-is('rate')) td.chosen:text-is('0.2')")
        page.wait_for_selector("section[aria-label=Comparison] tr:has(th:text-is('width')) td.chosen:text-is('0.2')")
        page.wait_for_selector(
            "section[aria-label=Comparison] p:text-is('loss: 2 values were not finite (NaN or infinite).')"
        )
        page.wait_for_selector("section[aria-label=Comparison] td:text-is('1 succeeded') >> nth=1")
        page.wait_for_selector("tr:has(th:text-is('components.main.resources.cpu')) td:text-is('0.2')")
        page.wait_for_selector("section[aria-label='Output files']:has-text('0 equal, 1 differ')")
        page.click("summary:text-is('Differ: 1 file')")
        page.wait_for_selector("details p:text-is('rate')")
        to(page, f"/compare/{ids[0]}/{ids[1]}.main.0")
        page.wait_for_selector(f"section[aria-label=Comparison] th:has-text('{ids[1]}.main.0')")
        to(page, f"/jobs/{ids[0]}/about")
        page.wait_for_selector("section[aria-label*='with defaults'] .source:has-text('cpu: 0.1')")


REPORT = """for s in 0 1 2 3; do echo GRASS_METRIC loss=$lr$seed step=$s; done; echo GRASS_METRIC loss=inf step=4
[ $lr$seed != 0.22 ]"""


SMOOTHED_AT_ONCE = """(() => {
  const lines = document.querySelector("[aria-label=Lines]"), smooth = document.querySelector("[aria-label=Smoothing]");
  lines.value = ""; lines.dispatchEvent(new Event("change"));
  smooth.value = 0.6; smooth.dispatchEvent(new Event("input"));
})()"""
"""Changes a chart twice before it is drawn."""


@pytest.fixture(scope="module")
def sweep(client: Client) -> str:
    """Four runs with a figure; the last one fails."""
    matrix = {"matrix": {"lr": [0.1, 0.2], "seed": [1, 2]}, "restart": {"policy": "never"}}
    started: str = client.start(job("swept", REPORT, **matrix)).id
    client.wait(started, timeout=60)
    wait_until(lambda: len(client.job_metrics(started).curves) == 4)
    return started


REPORTS = """
import os, pathlib, struct, zlib
import grass

def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

here = pathlib.Path(os.environ["GRASS_SCRATCH"])
for step in (0, 10, 20):
    size = 40 + step
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0))
    lines = chunk(b"IDAT", zlib.compress(size * (bytes([0]) + size * bytes([step * 9]))))
    (here / "cm.png").write_bytes(b"\\x89PNG\\r\\n\\x1a\\n" + head + lines + chunk(b"IEND", b""))
    (here / "hits.csv").write_text(f"class,hits\\n<script>alert(1)</script>,{step}\\n")
    grass.report(step=step, sample=f"once <b>upon</b>\\n{step}", hits=here / "hits.csv", **{"val/cm": here / "cm.png"})
(here / "drawn.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
(here / "false.png").write_text("<!doctype html><script>alert(1)</script>")
with open(here / "huge.png", "wb") as file:
    file.truncate(1 << 30)
grass.report(step=20, drawn=here / "drawn.svg", false=here / "false.png", huge=here / "huge.png")
"""


def test_what_a_task_reported_is_shown_by_its_step_to_its_user_and_nothing_of_it_can_run(
    browser: Any, link: str, client: Client, cluster: LocalCluster, tmp_path: Path
) -> None:
    script = tmp_path / "reports.py"
    script.write_text(REPORTS)
    job_id = client.start(job("reporting", f"{sys.executable} {script}", replicas=2)).id
    assert client.wait(job_id, timeout=60).state == "SUCCEEDED"
    view = client.media(job_id, "main.1")
    files = {each.name: each.file for each in view.media}
    assert view.tasks == ("main.0", "main.1") and files["val/cm"] == f"jobs/{job_id}/reported/main.1/val,cm.20.png"
    assert [(each.name, each.step) for each in view.media if each.kind == "text"] == [
        ("sample", step) for step in (0, 10, 20)
    ]
    with tabs(browser) as context, tab(context, link, ("status of 400",)) as page:
        to(page, f"/jobs/{job_id}/results")
        page.wait_for_selector(".note:has-text('main.1: not kept: huge, step 20'):has-text('has 1024.0 MiB')")
        page.select_option("[aria-label='Task whose reports are shown']", "main.1")
        page.wait_for_selector(".text[aria-label='Text of sample']:text-is('once <b>upon</b> 20')")
        page.wait_for_selector("div[aria-label='Table hits'] td:text-is('<script>alert(1)</script>')")
        page.wait_for_selector("figure:has-text('drawn') p:has-text('only downloaded')")
        until(page, "document.querySelector('img[alt=\"val/cm at step 20\"]')?.naturalWidth === 60")
        page.fill("input[aria-label='Step of val/cm']", "0")
        until(page, "document.querySelector('img[alt=\"val/cm at step 0\"]')?.naturalWidth === 40")
        page.wait_for_selector(
            "figure:has-text('false') p:has-text('false.20.png'):has-text('cannot show it as a picture')"
        )
        assert page.locator(".note:has-text('not kept: huge')").count() == 2  # once for each task
        with page.expect_download() as drawn:
            page.click("a[aria-label='Download drawn']")
        assert drawn.value.suggested_filename == "drawn.20.svg"
        to(page, f"/jobs/{job_id}/tasks/main.0")
        page.wait_for_selector("section[aria-label='Reported by main.0'] img[alt='val/cm at step 20']")
        is_accessible_and_fits(page, Accessibility(page), f"/jobs/{job_id}/tasks/main.0", tmp_path)
    with (
        add_viewer(cluster, tmp_path, "mallory", keyring.Role.USER)() as other,
        pytest.raises(NotAllowedError, match="may use only their own"),
    ):
        other.media(job_id)
    cookie = cookie_of(link)
    for name in ("drawn", "false"):  # no content of theirs has a type that a browser runs or draws
        assert answer(link, f"/file?path={quote(files[name])}&picture", Cookie=cookie)[0] == 400, name


def test_the_first_tab_of_a_sweep_is_its_table_which_marks_the_best_run_sorts_and_filters(
    page: Any, sweep: str
) -> None:
    to(page, f"/jobs/{sweep}")
    page.wait_for_selector("nav.tabs a:first-child[aria-current]:text-is('Results')")
    page.wait_for_selector("section[aria-label='What went wrong']")
    page.wait_for_selector(".best:has-text('least loss'):has-text('0.11'):has-text('lr 0.1, seed 1')")
    page.wait_for_selector("tr.chosen:has-text('best'):has-text('main.0')")
    page.wait_for_selector("p.note:text-is('loss: 4 values were not finite (NaN or infinite).')")
    page.wait_for_selector("tr:has-text('main.1') td[title$=', 1 not finite']")
    page.select_option("[aria-label='Which row is the best']", label="greatest loss")
    page.wait_for_selector("tr.chosen:has-text('main.3')")
    page.click("th button:text-is('loss')")
    page.click("th button:text-is('loss ↑')")
    page.wait_for_selector("th[aria-sort=descending]")
    assert page.inner_text(".window tbody tr >> nth=0").startswith("main.3")
    page.fill("[aria-label='Filter rows']", "seed=1")
    until(page, "document.querySelectorAll('.window tbody tr').length === 2")
    page.fill("[aria-label='Filter rows']", "failed")
    until(page, "document.querySelectorAll('.window tbody tr').length === 1")
    page.wait_for_selector(".window tr:has-text('main.3') .chip:text-is('user error')")
    page.set_viewport_size({"width": 390, "height": 900})
    page.locator(".window").evaluate("each => each.scrollTo(200, 0)")
    until(page, "document.querySelector('.window td.main').getBoundingClientRect().left >= 0")
    page.set_viewport_size({"width": 1360, "height": 900})
    assert page.get_attribute(".window a:text-is('log')", "href") == f"#/jobs/{sweep}/logs/main.3"
    page.click(".window a:text-is('output')")
    page.wait_for_selector("nav.crumbs")


def test_curves_of_all_runs_are_coloured_averaged_over_seeds_picked_and_hidden(page: Any, sweep: str) -> None:
    run_script(page, "window.grassTheme.choose('light')")
    to(page, f"/jobs/{sweep}/curves")
    page.wait_for_selector("section[aria-label=Curves] :text-is('4 values were not finite (NaN or infinite).')")
    page.wait_for_selector(".chart[aria-label*='loss: 4 lines'][aria-label*='main.3: lr 0.2, seed 2 now 0.22'] canvas")
    page.click("[aria-label='Colours: lr'] button:text-is('0.2')")  # hides them
    page.wait_for_selector(".chart[aria-label*='loss: 2 lines']")
    page.click("[aria-label='Colours: lr'] button:text-is('0.2')")
    page.select_option("[aria-label=Lines]", "seed")
    page.wait_for_selector(".chart[aria-label*='loss: 2 lines'][aria-label*='lr 0.1 now 0.115']")
    page.fill("[aria-label='Filter runs']", "seed=2")
    page.wait_for_selector(".chart[aria-label*='lr 0.1 now 0.12']")
    run_script(page, SMOOTHED_AT_ONCE)
    page.wait_for_selector("label:has-text('0.60') [aria-label=Smoothing]")
    drawn = page.locator(".chart canvas").evaluate(
        "(each) => [...each.getContext('2d').getImageData(0, 0, each.width, each.height).data]"
        ".some((part, at) => at % 4 === 0 && part === 0x2b)"  # the red part of the first colour
    )
    assert drawn, "the lines are not there"
    page.select_option("[aria-label=Lines]", "")
    page.check("label:has-text('logarithmic') input")
    box = page.locator(".chart .u-over").bounding_box()
    for part in range(1, 40):
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * part / 40)
        if "main." in page.inner_text(".said"):
            break
    assert "seed 2: loss 0." in page.inner_text(".said")
    page.mouse.down()
    page.mouse.up()
    page.click("li.chip button:text-is('hide')")
    page.wait_for_selector(".chart[aria-label*='loss: 1 lines']")
    page.click("button:has-text('show 1 hidden run')")
    page.wait_for_selector(".chart[aria-label*='loss: 2 lines']")


def test_curves_with_other_steps_are_smoothed_averaged_and_thinned(page: Any) -> None:
    page.wait_for_selector("#top nav")
    module = run_script(page, "[...document.querySelectorAll('script[src]')].map((each) => each.src)[0]")
    found = page.locator(":root").evaluate(
        """async (_, address) => {
          const { linesOf, smoothed } = await import(new URL("run_lines.js", address));
          const { few } = await import(new URL("charts.js", address));
          const run = (key, steps, points, seed) => ({ key, label: key, steps, points, values: { lr: 1, seed } });
          const options = { parameters: ["lr", "seed"], colour: "lr", over: "seed", smooth: 0 };
          const mean = linesOf([run("a", [0, 2], [0, 2], 1), run("b", [1, 2], [3, 4], 2)], options);
          const long = linesOf([run("a", [...Array(5000).keys()], Array(5000).fill(7), 1)], { ...options, over: "" });
          return [
            mean.x, mean.lines[0].y, mean.lines[0].high, smoothed([1, 1, 4], 0.5), long.x.length, long.lines[0].y[9],
            few([null, 1, undefined, 2]), few([1, null, 2, 3]),
          ];
        }""",
        module,
    )
    assert found == [[0, 1, 2], [0, 2, 3], [0, 3, 4], [1, 1, 2.7142857142857144], 1024, 7, True, False]


def test_the_whole_event_log_is_filtered_by_the_cluster_and_read_page_by_page(page: Any, client: Client) -> None:
    for _ in range(52):
        client.cordon("local")
        client.uncordon("local")
    to(page, "/events")
    page.fill("input[aria-label='Node of events']", "local")
    page.fill("input[aria-label='Filter events']", "cordon")
    page.click("button:has-text('Show older events')")
    until(page, "document.querySelectorAll('.event').length >= 104")
    page.fill("input[aria-label='Filter events']", "no such word")
    page.wait_for_selector(".empty:has-text('No event that is kept matches')")
    page.fill("input[aria-label='Filter events']", "")
    page.select_option("select[aria-label='Kind of event']", "node-cordoned")
    until(
        page,
        "document.querySelectorAll('.event').length > 40 && ![...document.querySelectorAll('.event .mono')].some("
        "(each) => each.textContent !== 'node-cordoned')",
    )


def test_a_node_with_many_tasks_shows_the_others_when_they_are_wanted(page: Any, client: Client) -> None:
    def crowd(route: Any) -> None:
        reply = route.fetch()
        tasks = [{"key": f"crowd-0000000a/main.{number}/1", "cpu": 0.5} for number in range(60)]
        route.fulfill(json={**reply.json(), "tasks": tasks})

    rows = page.locator("section[aria-label=Tasks] tbody tr")
    page.route("**/ask/node-usage*", crowd)
    to(page, "/nodes/local")
    page.wait_for_selector("button:text-is('Show all 60 tasks')")
    assert rows.count() == 50
    page.click("button:text-is('Show all 60 tasks')")
    page.wait_for_selector("td a:text-is('crowd-0000000a main.59')")
    assert rows.count() == 60
    page.unroute_all(behavior="ignoreErrors")


def add_viewer(
    cluster: LocalCluster, home: Path, name: str = "eve", role: keyring.Role = keyring.Role.VIEWER
) -> Callable[[], Client]:
    """Register a viewer, or a user of another role; return what makes a client of that user."""
    source, folder = Path(cluster.config.home) / "client", home / "clusters" / "local" / "client"
    profile, master = keyring.load_profile(source), json.loads((source / "master.pub.json").read_text())
    key = keyring.create_user_key(folder)
    register_user(cluster.config.master_dir, name, role, key)
    keyring.save_profile(folder, replace(profile, user=name, key_id=key["kid"]), master)
    return lambda: Client("local", home=home)


def test_a_cluster_that_goes_away_is_named_and_comes_back(browser: Any, cluster: LocalCluster, client: Client) -> None:
    allowed = ("502", "ERR_", "Failed to load resource")
    with (
        served(lambda: Client("local", home=cluster.home, timeout=1)) as link,
        opened(browser, link, allowed) as page,
    ):
        page.wait_for_selector(".tile")
        pid = cluster.pid("master-api-server")
        assert pid is not None
        group = os.getpgid(pid)
        os.killpg(group, signal.SIGSTOP)
        try:
            page.wait_for_selector("#link:has-text('does not answer')")
            assert page.locator(".tile").count() == 1  # the last known state stays
        finally:
            with suppress(ProcessLookupError):  # the watchdog may have restarted it
                os.killpg(group, signal.SIGCONT)
        until(page, "!document.getElementById('link').textContent")
        client.wait(client.start(job("after", "true")).id, timeout=20)
        to(page, "/jobs")
        page.wait_for_selector("td.main:has-text('after')")


def test_a_dashboard_that_ended_is_named(browser: Any, cluster: LocalCluster) -> None:
    with served(cluster.client) as link, opened(browser, link, ("ERR_", "Failed to load")) as page:
        page.wait_for_selector(".tile")
        for path in ("**/feed", "**/me"):
            page.route(path, lambda route: route.abort())
        page.reload()
        page.wait_for_selector("#link:has-text('may have been ended')")
        page.unroute_all()
        until(page, "!document.getElementById('link').textContent")


def test_a_browser_with_a_wrong_clock_shows_right_ages(page: Any, client: Client) -> None:
    client.wait(client.start(job("fresh", "true")).id, timeout=20)
    page.add_init_script("const real = Date.now; Date.now = () => real() - 3600000;")
    page.reload()
    to(page, "/jobs")
    page.wait_for_selector("tr:has-text('fresh')")
    assert " h " not in page.inner_text("tr:has-text('fresh') td.num >> nth=0")


def test_a_shared_page_shows_and_changes_nothing(browser: Any, cluster: LocalCluster, client: Client) -> None:
    job_id = client.start(job("walled", "echo secret; sleep 600")).id
    with served(cluster.client, address="127.0.0.1", expires=steady() + 3600) as link:
        with opened(browser, link) as page:
            page.wait_for_selector("section[aria-label=Running] a:has-text('walled')")
            to(page, f"/jobs/{job_id}")
            page.wait_for_selector("canvas[aria-label='Tasks of main: 1 running']")
            assert page.locator("nav.tabs a:has-text('Logs')").count() == 0
            assert page.locator(".actions button").count() == 0
        given = {"Cookie": cookie_of(link)}
        for address in (
            f"/logs?job={job_id}",
            f"/log-file?job={job_id}",
            "/preview?path=x",
            f"/ask/glance?job={job_id}",
        ):
            assert answer(link, address, **given)[0] in (403, 404), address
        assert answer(link, "/files?path=jobs", **given)[0] == answer(link, "/file?path=x", **given)[0] == 403
        post = {**given, "Content_Type": "application/json", "Origin": link.partition("/open")[0]}
        assert answer(link, "/do/job-stop", "POST", json.dumps({"job": job_id}), **post)[0] == 403
    with served(cluster.client, address="127.0.0.1", expires=steady() - 1) as link:
        status, text = answer(link, urlsplit(link).path)
        assert status == 401 and "expired" in text
    client.stop(job_id)
    client.wait(job_id, timeout=30)


def test_a_phone_shows_the_chosen_tab_of_a_row_that_is_wider_than_the_screen(page: Any, client: Client) -> None:
    job_id = client.wait(client.start(job("narrow", "true")).id, timeout=20).id
    page.set_viewport_size({"width": 390, "height": 844})
    inside = (
        "[...document.querySelectorAll('#top nav [aria-current], nav.tabs [aria-current]')].every((each) =>"
        " each.getBoundingClientRect().left >= 0 && each.getBoundingClientRect().right <= innerWidth)"
    )
    for address in ("/events", f"/jobs/{job_id}/about", f"/jobs/{job_id}", "/"):
        to(page, address)
        page.wait_for_selector(f"[aria-current][href='#{address}']", state="attached")
        until(page, inside)


PAGES = ("/", "/jobs", "/nodes", "/nodes/local", "/schedules", "/users", "/events")
CARDS = ("/jobs", "/nodes", "/schedules", "/users")
"""Pages of which a phone shows the whole table: each row is a card."""
PAGES_OF_A_JOB = (
    "JOB",
    "JOB/results",
    "JOB/curves",
    "JOB/timeline",
    "JOB/logs",
    "JOB/usage",
    "JOB/files",
    "JOB/operations",
    "JOB/events",
    "JOB/tasks/main.1",
    "JOB/about",
    "/compare/OTHER/ID",
)


class Accessibility:
    """axe-core, loaded once into a page. ``theme``: chosen on the page, as a user does."""

    def __init__(self, page: Any) -> None:
        from axe_playwright_python.sync_playwright import Axe

        self._page = page
        page.evaluate(Axe().axe_script)

    def faults(self, theme: str, **options: Any) -> list[str]:
        self._page.evaluate("theme => window.grassTheme.choose(theme)", theme)
        given = {"resultTypes": ["violations"], "iframes": False, **options}
        found = self._page.evaluate("options => axe.run(options)", given)["violations"]
        return [each["id"] + str(each["nodes"][:2]) for each in found]


@dataclass(frozen=True)
class SeenJobs:
    """Two runs, each with a failed task."""

    ended: str
    other: str

    def at(self, address: str) -> str:
        return address.replace("JOB", f"/jobs/{self.ended}").replace("OTHER", self.other).replace("ID", self.ended)


@pytest.fixture(scope="module")
def seen(client: Client) -> SeenJobs:
    command = "echo $GRASS_INDEX; exit $GRASS_INDEX"
    ended, other = (client.start(job(name, command, replicas=2)).id for name in ("seen", "seen-again"))
    for job_id in (ended, other):
        client.wait(job_id, timeout=60)
    return SeenJobs(ended, other)


@pytest.fixture
def lost_gpu(client: Client, driver: StubDriver) -> Iterator[None]:
    """GPU 0 is busy, and GPU 3 is lost and in quarantine."""
    driver.set(_0_util=71, _0_temp=64, _0_used=48 << 30, _3_fails=15)
    wait_until(lambda: client.node("local").quarantine, what="the loss of a GPU")
    yield
    driver.set(_3_fails=0)


def is_accessible_and_fits(page: Any, axe: Accessibility, address: str, folder: Path) -> None:
    assert axe.faults("light") == [], address
    assert axe.faults("dark", runOnly=["color-contrast"]) == [], address  # the rest is the same in both
    for width in (390, 820, 1360):
        page.set_viewport_size({"width": width, "height": 900})
        try:
            until(page, "document.documentElement.scrollWidth <= innerWidth")
            if address in CARDS or address.startswith("/jobs/"):
                until(
                    page, "[...document.querySelectorAll('main .scroll')].every((a) => a.scrollWidth <= a.clientWidth)"
                )
        except AssertionError:
            page.screenshot(path=folder / f"{address.strip('/').replace('/', '-') or 'overview'}-{width}.png")
            raise


def test_each_page_of_the_cluster_is_accessible_in_both_themes_and_fits_its_screen(
    page: Any, seen: SeenJobs, lost_gpu: None, tmp_path: Path
) -> None:
    axe = Accessibility(page)
    page.wait_for_selector(".alerts li.bad:has-text('GPU 3 in quarantine')")
    page.wait_for_selector(".tile .meter:has-text('gpu 0'):has-text('71 %')")
    for address in PAGES:
        to(page, address)
        page.wait_for_selector("main h1, main .head", state="attached")
        is_accessible_and_fits(page, axe, address, tmp_path)
        if address == "/nodes/local":
            versions = {
                "Kernel": platform.release(),
                "Python": platform.python_version(),
                "GPU driver": "550.54.14",
            }
            for name, version in versions.items():
                assert page.inner_text(f"dl.facts dt:text-is('{name}') + dd") == version


def test_the_pages_of_a_sweep_are_accessible_in_both_themes_and_fit_their_screen(
    page: Any, sweep: str, tmp_path: Path
) -> None:
    axe = Accessibility(page)
    for address, there in (
        (f"/jobs/{sweep}", "tr.chosen"),
        (f"/jobs/{sweep}/curves", ".chart canvas"),
        (f"/compare/{sweep}.main.0/{sweep}.main.1", ".chart canvas"),
    ):
        to(page, address)
        page.wait_for_selector(there)
        is_accessible_and_fits(page, axe, address, tmp_path)


@pytest.mark.parametrize(
    "addresses", [PAGES_OF_A_JOB[:4], PAGES_OF_A_JOB[4:8], PAGES_OF_A_JOB[8:]], ids=["work", "use", "history"]
)
def test_each_page_of_a_job_is_accessible_in_both_themes_and_fits_its_screen(
    page: Any, seen: SeenJobs, addresses: tuple[str, ...], tmp_path: Path
) -> None:
    axe = Accessibility(page)
    for address in addresses:
        to(page, seen.at(address))
        page.wait_for_selector("main h1, main .head", state="attached")
        if address == "JOB/usage":
            page.wait_for_selector("section[aria-label='All tasks together']")
        if address == "JOB/about":
            page.click("button:text-is('Start a changed copy')")  # a dialog, over the page
        is_accessible_and_fits(page, axe, address, tmp_path)


def test_the_command_prints_a_link_and_ends_with_an_interrupt(cluster: LocalCluster) -> None:
    program = [
        sys.executable,
        "-c",
        "from grass.cli.main import main; main()",
        "dashboard",
        "--no-browser",
        "-o",
        "json",
    ]
    environment = {**os.environ, "GRASS_HOME": str(cluster.home)}
    process = subprocess.Popen(
        program,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    try:
        link = json.loads(process.stdout.readline())["url"]
        assert answer(link, "/me", Cookie=cookie_of(link))[0] == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.communicate()


def test_options_of_a_shared_page_need_share(cluster: LocalCluster) -> None:
    program = [sys.executable, "-c", "from grass.cli.main import main; main()", "dashboard", "--for", "1h"]
    environment = {**os.environ, "GRASS_HOME": str(cluster.home)}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "--share" in done.stderr
