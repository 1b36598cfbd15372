"""The images of the guide: each page at desktop and phone width, in both themes, of a live cluster.

``GRASS_IMAGES=docs/guide/images`` keeps them there; without it, they are only made. Look at each before you commit it.
"""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grass.api.client import Client
from grass.manifest.local_settings import LocalSettings, OfferedResources
from grass.model.lifecycle import TaskState
from tests.integration.test_dashboard import served, to, until
from tests.support.browser import chromium, opened
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.needs_redis, pytest.mark.nightly, pytest.mark.timeout(300)]

WIDTHS = {"desktop": (1240, 860), "phone": (390, 800)}
PAGES = {
    "overview": ("/", "section[aria-label='Capacity and use'] canvas"),
    "job": ("/jobs/EVOLVE", "canvas[aria-label*='succeeded']"),
    "usage": ("/jobs/DIGITS/usage", ".chart[aria-label*='loss'] canvas"),
}
"""Page → its address, and what is there once it is complete."""
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


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, dict[str, str]]]:
    """A cluster as on a working day, and the ids of its jobs."""
    script = tmp_path_factory.mktemp("jobs") / "train.py"
    script.write_text(TRAIN)
    made = LocalCluster(LocalSettings(name="lab", resources=OfferedResources(cpu=16_000, memory=20 << 30, gpu=0)))
    try:
        made.create()
        with made.client() as client:
            yield made, start_jobs(client, f"{sys.executable} {script}")
    finally:
        made.end()


def start_jobs(client: Client, train: str) -> dict[str, str]:
    def start(name: str, command: str, **part: Any) -> str:
        return str(client.start({"name": name, "components": {"worker": {"command": command, **part}}}).id)

    never = {"restart": {"policy": "never"}}
    worker = {"cpu": 1.5, "memory": "1GiB"}
    digits = start("digits", train, replicas=4, min=2, max=6, resources=worker)
    failed = start("preprocess", "echo 'cannot open shards/0017: no such file' >&2; exit 3", **never)
    client.wait(failed, timeout=60)
    client.wait(start("evaluate", "true"), timeout=60)
    small = {"resources": {"cpu": 0.1, "memory": "64MiB"}, **never}
    evolve = start("evolve", "[ $((GRASS_INDEX % 97)) != 96 ] || exit 1; [ $GRASS_INDEX -lt 640 ] || sleep 600",
                   replicas=800, **small)  # fmt: skip
    part = {"command": "sleep 600", "replicas": 8, "resources": {"cpu": 2, "memory": "2GiB"}}
    client.start({"name": "pretrain", "gang": True, "components": {"worker": part}})
    well = 634  # of the first 640 tasks, six fail; a later one may have failed, too
    wait_until(lambda: client.job(evolve).counts.get(TaskState.SUCCEEDED) == well, seconds=90, what="640 tasks to end")
    wait_until(lambda: client.job(digits).counts.get(TaskState.RUNNING) == 4, seconds=30)
    curves = lambda: client.job_metrics(digits).curves  # noqa: E731
    wait_until(lambda: any(len(each.values) > 30 for each in curves()), seconds=90, what="figures of 30 steps")
    return {"EVOLVE": evolve, "DIGITS": digits}


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
    with chromium() as browser, served(cluster.client) as link:
        for screen, (width, height) in WIDTHS.items():
            with opened(browser, link, color_scheme=theme) as page:
                page.set_viewport_size({"width": width, "height": height})
                for name, (address, complete) in PAGES.items():
                    to(page, re.sub("|".join(ids), lambda found: ids[found[0]], address))
                    page.wait_for_selector(complete)
                    until(page, "document.documentElement.scrollWidth <= innerWidth")
                    (folder / f"dashboard-{name}-{screen}-{theme}.webp").write_bytes(picture(page))
