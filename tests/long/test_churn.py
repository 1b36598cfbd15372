"""Jobs that are started, changed, rerun and deleted at random while daemons are killed: what is left of them."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from grass.api.client import Client
from grass.errors import ConflictError
from grass.manifest.local_settings import LocalSettings, OfferedResources
from grass.wire.job_views import JobView
from grass.wire.log_block import DELETED
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

SECONDS, USERS, EVERY = 60.0, 5, 2.5
"""How long, threads that churn, seconds between kills."""
VICTIMS = ("node-agent", "shepherd", "collector")
COMMANDS = (
    "echo hi; echo x > $GRASS_OUTPUT/f; touch $GRASS_SCRATCH/s",
    "true",
    "sleep 0.3; echo a; exit $((GRASS_ATTEMPT < 2))",
    "exec sleep 30",
    "cat $GRASS_ADDRESSES; echo x > $GRASS_OUTPUT/f",
    "mkdir $GRASS_OUTPUT/d; sleep 0.1",
)
FOREVER = 3
"""Index of the command that does not end by itself."""


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    settings = LocalSettings(resources=OfferedResources(cpu=6000, memory=4 << 30, gpu=0))
    with LocalCluster(settings).running() as made:
        yield made


def churn(cluster: LocalCluster, number: int, seed: int, until: float) -> list[JobView]:
    """Start, change, rerun and delete jobs. Return the views of those that failed."""
    chance, failed = random.Random(f"{seed} {number}"), list[JobView]()
    with cluster.client() as client:
        while time.monotonic() < until:
            kind = chance.randrange(len(COMMANDS))
            part: dict[str, Any] = {"command": COMMANDS[kind], "replicas": chance.randrange(1, 5)}
            part |= {"resources": {"cpu": 0.1}, "restart": {"policy": "on-failure", "limit": 9, "backoff": "50ms"}}
            job = client.start({"name": f"j{number}", "components": {"t": part}}).id
            time.sleep(chance.random() * 0.3)
            for change in chance.choices(changes(client, job), k=chance.randrange(3)):
                with suppress(ConflictError):  # it has ended, or another operation goes on
                    change()
                time.sleep(chance.random() * 0.1)
            failed += ended(client, job, stop=kind == FOREVER)
            again = client.rerun(job).id
            client.delete(job)
            failed += ended(client, again, stop=kind == FOREVER)
            client.delete(again)
    return failed


def changes(client: Client, job: str) -> list[Callable[[], object]]:
    return [
        lambda: client.suspend(job, 0.0),
        lambda: client.resume(job),
        lambda: client.restart(job, 0.0),
        lambda: client.stop(job, tasks=["t.0"]),
        lambda: list(client.logs(job)),
    ]


def ended(client: Client, job: str, *, stop: bool) -> list[JobView]:
    """Wait for the end of a job; return its view if it failed."""
    with suppress(ConflictError):  # it is not suspended
        client.resume(job)
    if stop:
        with suppress(ConflictError):
            client.stop(job, grace=0.0)
    view = client.wait(job, timeout=60)
    return [view] if view.state == "FAILED" else []


def kill(cluster: LocalCluster, seed: int, stop: threading.Event) -> int:
    chance, count = random.Random(seed), 0
    while not stop.wait(EVERY):
        with suppress(ProcessLookupError):
            if pid := cluster.pid(chance.choice(VICTIMS)):
                os.kill(pid, signal.SIGKILL)
                count += 1
    return count


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_nothing_is_left_of_jobs_that_come_and_go_while_daemons_are_killed(cluster: LocalCluster) -> None:
    seed, until, stop = random.SystemRandom().randrange(1 << 32), time.monotonic() + SECONDS, threading.Event()
    print(f"seed {seed}")
    with ThreadPoolExecutor() as threads:
        kills = threads.submit(kill, cluster, seed, stop)
        users = [threads.submit(churn, cluster, number, seed, until) for number in range(USERS)]
        try:
            failed = [view for user in users for view in user.result()]
        finally:
            stop.set()
    assert not failed, failed
    assert kills.result() > SECONDS / EVERY / 2
    home = Path(cluster.config.home)

    def left() -> list[str]:
        folders = (home / "node" / "jobs", home / "node" / "attempts", home / "data" / "logs")
        found = [path for folder in folders for path in folder.iterdir()]
        found += [path for path in (home / "data" / "jobs").iterdir() if not any(path.iterdir())]  # others have output
        return [str(path) for path in found if not path.name.startswith((".next", DELETED))]

    with suppress(AssertionError):
        wait_until(lambda: not left(), 60, "the removal of all files")
    assert not left()
    logs = {path.name: path.read_text(errors="replace") for path in (home / "log").iterdir()}
    assert not [name for name, text in logs.items() if "Traceback" in text], logs
