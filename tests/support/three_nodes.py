"""A cluster of a master and three nodes on the hosts of a lab, and jobs that reveal the effects of a fault."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grass.api.client import Client
from grass.wire.job_views import JobView
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster, settings
from tests.support.waiting import wait_until

NODES = ("n1", "n2", "n3")
HOSTS = ("master", *NODES)
_NO_SWITCHES: Mapping[str, str] = {}
BUSYBOX = "lab-busybox:latest"
COUNT = (
    'trap "exit 0" TERM; i=0; until [ -e "$GRASS_SCRATCH/enough" ]; do echo "line $i"; i=$((i+1)); sleep 0.5; done; '
    'sleep 1; echo "end of $i"'
)
"""Prints numbered lines until the file ``enough`` exists; a lost or repeated line is detectable. The script ends a
second later: a container that ends at once takes the command that made the file with it (exit code 137)."""


@contextmanager
def three_nodes(
    lab: SessionLab,
    site: Path,
    folder: Path,
    name: str,
    prepare: Callable[[], object] = lambda: None,
    switches: Mapping[str, str] = _NO_SWITCHES,
    mounts: Sequence[str] = (),
    **more: Any,
) -> Iterator[Cluster]:
    """Yield a cluster on new hosts; nothing of it is left afterwards.

    ``site``: Grass. ``prepare`` is called when the hosts are up. ``switches``: node → its topology path.
    ``mounts``: folders of the nodes that containers may mount.
    """
    lab.renew(*HOSTS)
    prepare()
    nodes: list[dict[str, Any]] = [{"address": lab.hosts[node].address, "name": node} for node in NODES]
    for node in nodes:
        if mounts:
            node["mounts"] = [*mounts]
        if node["name"] in switches:
            node["topology"] = [switches[node["name"]]]
    made = Cluster(lab, site, folder / "home", settings(lab, name=name, nodes=nodes, **more))
    try:
        made.created()
        yield made
    finally:
        lab.make_whole()
        _reset(lab, *HOSTS)


def _reset(lab: SessionLab, *hosts: str) -> None:
    for host in hosts:
        lab.reset(host)


def counting(name: str, replicas: int = 3, containers: int = 3, **more: Any) -> dict[str, Any]:
    """Return a job of processes and containers, one of each on every node."""
    part = {"command": COUNT, "spread": "node", "resources": {"cpu": 0.05, "memory": "32MiB"}, "grace": "2s"}
    components = {"p": {**part, "replicas": replicas, "cwd": "/"}}
    if containers:
        components["c"] = {**part, "replicas": containers, "image": BUSYBOX, "runtime": "docker"}
    return {"name": name, "components": components, **more}


def places(client: Client, job: str) -> dict[str, str]:
    """Return task → node, for running tasks."""
    return {task.task: str(task.node) for task in client.tasks(job) if task.state == "RUNNING"}


def attempts(client: Client, job: str) -> dict[str, int]:
    return {task.task: task.attempt for task in client.tasks(job)}


def started(client: Client, job: dict[str, Any]) -> dict[str, str]:
    """Start the job and wait until all its tasks run and have printed something. Return task → node."""
    client.start(job)
    return running(client, job)


def running(client: Client, job: dict[str, Any]) -> dict[str, str]:
    """Wait until all tasks of the job run and have printed something. Return task → node."""
    tasks = sum(each["replicas"] for each in job["components"].values())
    try:
        wait_until(lambda: len(places(client, job["name"])) == tasks, 90, f"the start of {job['name']}", 0.2)
    except AssertionError as late:
        raise AssertionError(f"{late}: {client.why(job['name'])}") from late
    wait_until(lambda: len({one.task for one in client.logs(job["name"])}) == tasks, 30, "the first lines", 0.2)
    return places(client, job["name"])


def finish(client: Client, job: str, seconds: float = 90) -> JobView:
    """Tell every task, in its own scratch folder, to finish. Return the job's view after the job has ended."""
    for task in sorted(places(client, job)):
        done = client.execute(job, task, ["sh", "-c", 'touch "$GRASS_SCRATCH/enough"'])
        said = list(done.output())
        assert done.code == 0, (task, done.code, said)
    return client.wait(job, timeout=seconds)


def lines(client: Client, job: str) -> dict[tuple[str, int], list[str]]:
    """Return the lines that each attempt of each task printed."""
    found = defaultdict(list)
    for each in client.logs(job):
        assert not each.lost, each
        found[each.task, each.attempt].append(each.text)
    return dict(found)


def assert_complete(client: Client, job: str) -> None:
    """Check logs: the last attempt of each task has every line once, and earlier attempts have no gap."""
    printed = lines(client, job)
    last = attempts(client, job)
    assert {task for task, _ in printed} == set(last)
    for (task, attempt), said in printed.items():
        numbers = [int(line[5:]) for line in said if line.startswith("line ")]
        assert numbers == list(range(len(numbers))), (task, attempt, said)
        if attempt == last[task]:
            assert re.fullmatch(r"end of (\d+)", said[-1]) and said[-1] == f"end of {len(numbers)}", (task, said)


def states(client: Client) -> dict[str, str]:
    return {view.name: view.state for view in client.nodes()}
