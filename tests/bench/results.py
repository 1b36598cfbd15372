"""The table of a sweep of 5,000 tasks with six figures each: the CLI, and the page. Needs chromium.

Also what the figures cost the monitor: 5,000 tasks that report ten times a second together, as CPU time of this process
in the same calls, and the memory that they take. The figures of the table are written into the store directly.
"""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import figures
from dashboard import dashboard
from local_cluster import GRASS, LocalCluster

from grass.config import ClusterConfig, Secrets
from grass.store.connect import open_backend
from grass.store.history_store import HistoryStore
from grass.store.keys import Keys
from master.monitor.own_curves import OwnCurves

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.browser import PACKAGE, program

TASKS, STEPS, TURN = 5_000, 20, 10.0
NAMES = ("loss", "accuracy", "val/loss", "val/accuracy", "rate", "norm")
_CHANCE = random.Random(1)
_SCROLL = """async () => {
  const element = document.querySelector(".window"), found = [];
  for (let at = 0; at < 40; at += 1) {
    const begin = performance.now();
    element.scrollTop = (at * 3677) % 150000;
    element.dispatchEvent(new Event("scroll"));
    element.offsetHeight;
    found.push(performance.now() - begin);
    await new Promise(requestAnimationFrame);
  }
  return found;
}"""


def fill(cluster: LocalCluster, job: str) -> None:
    config = ClusterConfig.load(cluster.home / "clusters" / "local" / "cluster.json")
    history = HistoryStore(open_backend(config, Secrets.load(config.home), "agent"), keys := Keys(config.key_prefix))
    own = OwnCurves(history.texts)
    for step in range(STEPS):
        own.add(
            (keys.job_history(job), f"main.{task}", name, float(step), _value(task, step), time.time())
            for task in range(TASKS)
            for name in NAMES
        )
    ops = own.operations()
    for at in range(0, len(ops), 500):
        history.write(ops[at : at + 500])


def _value(task: int, step: int) -> float:
    return _CHANCE.random() * math.exp(-step / 9) + task / TASKS


def monitor_costs(rounds: int) -> tuple[list[float], float]:
    """Percent of a core, and MiB, of the figures of all tasks, ten reports a second together, over a quarter hour."""
    own, shares = OwnCurves(lambda key, fields: {}), []
    tracemalloc.start()
    own.add(("job", f"main.{task}", "loss", 0.0, 1.0, 0.0) for task in range(TASKS))
    memory = tracemalloc.get_traced_memory()[0] / 2**20
    tracemalloc.stop()
    for _ in range(rounds):
        begin = time.process_time()
        for turn in range(90):
            own.add(
                ("job", f"main.{_CHANCE.randrange(TASKS)}", "loss", float(turn), _CHANCE.random(), TURN * turn)
                for _ in range(int(10 * TURN))
            )
            own.operations()
        shares.append(100 * (time.process_time() - begin) / (90 * TURN))
    return shares, memory


def page(link: str, job: str, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds until the first rows are there, and of each frame while the table moves."""
    from playwright.sync_api import sync_playwright

    rows: list[float] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        shown: Any = browser.new_page()
        shown.goto(link)
        shown.wait_for_selector(".tile")
        for _ in range(rounds):
            shown.evaluate("location.hash = '/jobs'")
            shown.wait_for_selector("main h1:has-text('Jobs')")
            begin = time.perf_counter()
            shown.evaluate("job => { location.hash = `/jobs/${job}` }", job)
            shown.wait_for_selector(".window tbody tr:has-text('main.5')")
            rows.append(1000 * (time.perf_counter() - begin))
        frames: list[float] = shown.evaluate(_SCROLL)
        browser.close()
    return rows, frames


def main() -> None:
    options = figures.arguments(__doc__, rounds=5).parse_args()
    if program() is None:
        sys.exit(f"this bench needs Debian's {PACKAGE}")
    with LocalCluster() as cluster:
        matrix = {"rate": list(range(50)), "seed": list(range(TASKS // 50))}
        part = {"command": "true", "matrix": matrix, "resources": {"memory": "1TiB"}}
        job = cluster.client.start({"name": "swept", "components": {"main": part}}).id
        fill(cluster, job)
        times = []
        for _ in range(options.rounds + 1):
            begin = time.perf_counter()
            subprocess.run([GRASS, "job", "results", job], stdout=subprocess.DEVNULL, check=True)
            times.append(time.perf_counter() - begin)
        with dashboard() as link:
            rows, frames = page(link, job, options.rounds)
    shares, memory = monitor_costs(options.rounds)
    found = [
        figures.Figure("grass job results", times[1:], "s"),
        figures.Figure("first rows of the page", rows, "ms"),
        figures.Figure("frame of the table", frames, "ms"),
        figures.Figure("monitor", shares, "%"),
        figures.Figure("memory of figures", [memory], "MiB"),
    ]
    figures.report(options, "results", found, "at most 0.5 s, 1 s, 50 ms, 10 % of a core, 64 MiB")


if __name__ == "__main__":
    main()
