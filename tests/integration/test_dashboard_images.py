"""The images of the guide: each page at desktop and phone width, in both themes, of a live cluster.

``GRASS_IMAGES=docs/guide/images`` keeps them there; without it, they are only made. Look at each before you commit it.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grass.api.client import Client
from grass.files.access import access_to
from grass.files.browse import SharedFiles
from grass.manifest.local_settings import LocalSettings, OfferedResources
from grass.model.lifecycle import TaskState
from tests.integration.test_dashboard import served, snapshot, to, until
from tests.support.browser import chromium, opened, tab, tabs
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.needs_redis, pytest.mark.nightly, pytest.mark.timeout(300)]

WIDTHS = {"desktop": (1240, 860), "phone": (390, 800)}
PAGES = {
    "overview": ("/", "section[aria-label='Capacity and use'] canvas"),
    "job": ("/jobs/EVOLVE", "canvas[aria-label*='succeeded']"),
    "results": ("/jobs/SWEEP", "tr.chosen"),
    "curves": ("/jobs/SWEEP/curves", ".chart[aria-label*='loss'] canvas"),
    "usage": ("/jobs/DIGITS/usage", ".chart[aria-label*='loss'] canvas"),
}
"""Page → its address, and what is there once it is complete."""
CLICKS = {"results": "th button:has-text('loss')"}
CHOICES = {"curves": ("[aria-label=Lines]", "seed")}
"""What a reader clicks and chooses on these pages."""
NODES = 300
FOLDER = os.environ.get("GRASS_IMAGES")
LARGEST = 75_000

TRAIN = """
import math, os, time
index = int(os.environ["GRASS_INDEX"])
for step in range(1, 100000):
    loss = 2.3 * math.exp(-step / (9 + 2 * index)) + 0.08
    print(f"GRASS_METRIC loss={loss:.4f} accuracy={1 - loss / 2.6:.4f} step={step}", flush=True)
    until = time.process_time() + 0.01
    while time.process_time() < until:
        pass
    time.sleep(0.5)
"""

SWEEP = """
import math, os, random
lr, chance = float(os.environ["lr"]), random.Random(os.environ["lr"] + os.environ["seed"])
best = 0.21 + 0.05 * math.log10(lr / 0.02) ** 2
for step in range(0, 60):
    if lr > 0.2 and step == 41:
        raise ValueError("diverged: loss is nan")
    loss = best + 2.1 * math.exp(-step * (2 + 40 * min(lr, 0.1)) / 60) + 0.25 * chance.random() * math.exp(-step / 40)
    print(f"GRASS_METRIC loss={loss:.4f} accuracy={1 - loss / 2.6:.4f} step={step}", flush=True)
"""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, dict[str, str]]]:
    """A cluster as on a working day, and the ids of its jobs."""
    folder = tmp_path_factory.mktemp("jobs")
    for name, text in (("train.py", TRAIN), ("sweep.py", SWEEP)):
        (folder / name).write_text(text)
    made = LocalCluster(LocalSettings(name="lab", resources=OfferedResources(cpu=16_000, memory=20 << 30, gpu=0)))
    try:
        made.create()
        with made.client() as client:
            yield made, start_jobs(client, f"{sys.executable} {folder}/train.py", f"{sys.executable} {folder}/sweep.py")
    finally:
        made.end()


def start_jobs(client: Client, train: str, sweep: str) -> dict[str, str]:
    def start(name: str, command: str, **part: Any) -> str:
        return str(client.start({"name": name, "components": {"worker": {"command": command, **part}}}).id)

    never = {"restart": {"policy": "never"}}
    worker = {"cpu": 1.5, "memory": "1GiB"}
    digits = start("digits", train, replicas=4, min=2, max=6, resources=worker)
    failed = start("preprocess", "echo 'cannot open shards/0017: no such file' >&2; exit 3", **never)
    client.wait(failed, timeout=60)
    client.wait(start("evaluate", "true"), timeout=60)
    small = {"resources": {"cpu": 0.1, "memory": "64MiB"}, **never}
    matrix = {"lr": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3], "seed": [1, 2, 3]}
    swept = start("sweep", sweep, matrix=matrix, **small)
    client.wait(swept, timeout=90)
    evolve = start("evolve", "[ $((GRASS_INDEX % 97)) != 96 ] || exit 1; [ $GRASS_INDEX -lt 640 ] || sleep 600",
                   replicas=800, **small)  # fmt: skip
    part = {"command": "sleep 600", "replicas": 8, "resources": {"cpu": 2, "memory": "2GiB"}}
    client.start({"name": "pretrain", "gang": True, "components": {"worker": part}})
    well = 634  # of the first 640 tasks, six fail; a later one may have failed, too
    wait_until(lambda: client.job(evolve).counts.get(TaskState.SUCCEEDED) == well, seconds=90, what="640 tasks to end")
    wait_until(lambda: client.job(digits).counts.get(TaskState.RUNNING) == 4, seconds=30)
    curves = lambda: client.job_metrics(digits).curves  # noqa: E731
    wait_until(lambda: any(len(each.values) > 30 for each in curves()), seconds=90, what="figures of 30 steps")
    return {"EVOLVE": evolve, "DIGITS": digits, "SWEEP": swept}


def fleet(link: str) -> str:
    """Return a feed of the cluster's jobs and of many nodes, some of them silent or lost."""
    pieces = snapshot(link)
    (node,) = next(piece["nodes"] for piece in pieces if piece.get("nodes"))
    made = []
    for number in range(NODES):
        share = abs(math.sin(number / 17)) * (0.55 + 0.4 * abs(math.sin(number * 2.4)))
        used = {"cpu": 100 * share, "memory": int(share * node["usage"]["memory_total"])}
        free = {**node["free"], "cpu": int(node["resources"]["cpu"] * (1 - share))}
        state = {23: "LOST", 71: "SILENT", 190: "SILENT", 244: "SILENT"}.get(number, "READY")
        tasks = int(8 * share)
        made.append({**node, "name": f"gpu-{number + 1}", "state": state, "tasks": tasks, "free": free,
                     "usage": {**node["usage"], **used}})  # fmt: skip
    whole = [{**piece, **({"nodes": made} if piece.get("nodes") else {})} for piece in pieces]
    return "".join(f"data: {json.dumps(piece)}\n\n" for piece in whole)


def picture(page: Any) -> bytes:
    """Return what is on the screen, in the best quality that is small enough."""
    session = page.context.new_cdp_session(page)
    for quality in (88, 76, 64):
        image = session.send("Page.captureScreenshot", {"format": "webp", "quality": quality})
        if len(content := base64.b64decode(image["data"])) < LARGEST:
            return content
    raise AssertionError(f"{page.url}: the picture has {len(content)} bytes")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_images_of_the_guide_are_made(
    jobs: tuple[LocalCluster, dict[str, str]], tmp_path: Path, theme: str
) -> None:
    cluster, ids = jobs
    folder = Path(FOLDER) if FOLDER else tmp_path

    def take(page: Any, name: str) -> None:
        until(page, "document.documentElement.scrollWidth <= innerWidth")
        (folder / f"dashboard-{name}-{theme}.webp").write_bytes(picture(page))

    with (
        chromium() as browser,
        served(cluster.client, files=SharedFiles(lambda: access_to("lab", cluster.home))) as link,
    ):
        feed = fleet(link)
        for screen, (width, height) in WIDTHS.items():
            size = {"width": width, "height": height}
            with opened(browser, link, color_scheme=theme) as page:
                page.set_viewport_size(size)
                for name, (address, complete) in PAGES.items():
                    to(page, re.sub("|".join(ids), lambda found: ids[found[0]], address))
                    page.wait_for_selector(complete)
                    if name in CLICKS:
                        page.click(CLICKS[name])
                        page.locator(".window").evaluate("each => each.scrollTo(0, 0)")
                    if name in CHOICES:
                        page.select_option(*CHOICES[name])
                    take(page, f"{name}-{screen}")
            with tabs(browser, color_scheme=theme) as context:
                context.route("**/feed", lambda route: route.fulfill(body=feed, content_type="text/event-stream"))
                with tab(context, link) as page:
                    page.set_viewport_size(size)
                    page.wait_for_selector(f".heat a >> nth={NODES - 1}")
                    page.locator("section[aria-label=Nodes]").evaluate("each => each.scrollIntoView()")
                    take(page, f"nodes-{screen}")
