"""The dashboard: first useful paint, a page with 5,000 tasks, and what open pages cost the master. Needs chromium.

The cost is CPU time of master-api-server, master-agent and redis together, in percent of a core, above that of the same
cluster without a page. The frame is the time to draw a page with 5,000 tasks anew.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import figures
import psutil
from local_cluster import GRASS, LocalCluster

from grass.api.client import Client
from grass.dashboard.questions import QUESTIONS

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.browser import PACKAGE, program

ASKS = 15.0
"""Seconds between questions of a page."""
MASTER = ("master-api-server", "master-agent", "redis")


@contextmanager
def dashboard() -> Any:
    """Yield the link of a dashboard in a process of its own."""
    command = [GRASS, "dashboard", "--no-browser", "-o", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.communicate()


def cpu_seconds(pids: list[int]) -> float:
    processes = [psutil.Process(pid) for pid in pids]
    every = [each for one in processes for each in (one, *one.children(recursive=True))]
    return sum(sum(process.cpu_times()[:2]) for process in every)


def cost(pids: list[int], seconds: float) -> float:
    """Percent of a core."""
    before = cpu_seconds(pids)
    time.sleep(seconds)
    return 100 * (cpu_seconds(pids) - before) / seconds


def follow(client: Client, first: threading.Event, ended: threading.Event) -> None:
    """Follow the changes, and ask what the overview asks (``page/views/overview.js``)."""
    asked = 0.0
    with client, closing(client.changes()) as pieces:
        for _ in pieces:
            if time.monotonic() - asked > ASKS:
                asked = time.monotonic()
                client.status()
                QUESTIONS["capacity"].ask(client, {"range": "3600"})
            first.set()
            if ended.is_set():
                return


@contextmanager
def pages(count: int) -> Any:
    """Keep so many change streams open, as dashboards of so many people do."""
    ended, firsts = threading.Event(), [threading.Event() for _ in range(count)]
    threads = [threading.Thread(target=follow, args=(Client(), first, ended)) for first in firsts]
    with ExitStack() as stack:
        for thread in threads:
            thread.start()
            stack.callback(thread.join)
        stack.callback(ended.set)
        for first in firsts:
            first.wait(30)
        yield


def first_paints(browser: Any, link: str, rounds: int) -> list[float]:
    """Milliseconds until the first node is on the page, in a browser that has nothing of it and opens the link."""
    found = []
    for _ in range(rounds):
        context = browser.new_context()
        page = context.new_page()
        begin = time.perf_counter()
        page.goto(link, wait_until="commit")
        page.wait_for_selector(".tile")
        found.append(1000 * (time.perf_counter() - begin))
        context.close()
    return found


def paints(browser: Any, link: str, rounds: int) -> list[float]:
    """Milliseconds from the navigation until the first node is on the page, in a browser that was there before."""
    page, found = browser.new_page(), []
    page.goto(link)
    page.wait_for_selector(".tile")
    for _ in range(rounds):
        page.goto("about:blank")
        begin = time.perf_counter()
        page.goto(link.partition("open/")[0], wait_until="commit")
        page.wait_for_selector(".tile")
        found.append(1000 * (time.perf_counter() - begin))
    page.close()
    return found


def wide_page(browser: Any, link: str, job: str, rounds: int) -> tuple[list[float], float]:
    """Milliseconds of drawing all tasks anew, and MiB of the page's memory."""
    page = browser.new_page()
    page.goto(link)
    page.wait_for_selector(".tile")
    page.evaluate("job => { location.hash = `/jobs/${job}` }", job)
    page.wait_for_selector("section[aria-label=Tasks] header:has-text('5,000 tasks')")
    draw = "const begin = performance.now(); dispatchEvent(new Event('grass-theme')); return performance.now() - begin"
    draw = f"() => {{ {draw} }}"
    frames = [page.evaluate(draw) for _ in range(rounds)]
    memory = page.evaluate("performance.memory.usedJSHeapSize") / 2**20
    page.close()
    return frames, memory


def main() -> None:
    parser = figures.arguments(__doc__, rounds=10)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each cost is measured")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    path = program()
    if path is None:
        sys.exit(f"this bench needs Debian's {PACKAGE}")
    with LocalCluster() as cluster:
        status = json.loads(subprocess.run([GRASS, "status", "-o", "json"], capture_output=True, check=True).stdout)
        pids = [daemon["pid"] for daemon in status["daemons"] if daemon["name"] in MASTER]
        part = {"command": "true", "replicas": 5000, "resources": {"memory": "1TiB"}}
        job = cluster.client.start({"name": "wide", "components": {"w": part}}).id
        with dashboard() as link, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
            first = first_paints(browser, link, options.rounds)
            painted = paints(browser, link, options.rounds)
            frames, memory = wide_page(browser, link, job, options.rounds)
            browser.close()
        costs = {}
        for count in (0, 1, 10):
            with pages(count):
                costs[count] = cost(pids, options.seconds)
    found = [
        figures.Figure("first useful paint", first, "ms"),
        figures.Figure("paint of a page opened before", painted, "ms"),
        figures.Figure("frame, 5,000 tasks", frames, "ms"),
        figures.Figure("memory, 5,000 tasks", [memory], "MiB"),
        *(figures.Figure(f"master, {count} page(s)", [max(0.0, costs[count] - costs[0])], "%") for count in (1, 10)),
    ]
    figures.report(options, "dashboard", found, "at most 500 ms, 50 ms, 150 MiB, 2 % and 5 % of a core")


if __name__ == "__main__":
    main()
