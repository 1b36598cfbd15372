"""Elastic jobs on a real cluster: real processes come and go, and operations survive a kill of the master-agent."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from grass.api.client import Client
from grass.errors import ConflictError, InputError, ManifestError, NotFoundError
from grass.supervision import processes
from grass.wire.job_views import OperationView
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

SECONDS = 30.0


@pytest.fixture(scope="module", autouse=True)
def _room(cluster: LocalCluster) -> None:
    cluster.stop_jobs()


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


def start(client: Client, name: str, **more: object) -> str:
    worker = {"command": "exec sleep 1000", "replicas": 2, "min": 1, "max": 4, "resources": {"cpu": 0.01}, **more}
    job_id: str = client.start({"name": name, "components": {"worker": worker}}).id
    wait_until(lambda: running(client, name) == ["worker.0", "worker.1"], SECONDS)
    return job_id


def running(client: Client, name: str) -> list[str]:
    return [task.task for task in client.tasks(name) if task.state == "RUNNING"]


def done(client: Client, operation: OperationView) -> str:
    ended = client.wait_for_operation(operation.job_id, operation.id, SECONDS)
    return ended.outcome.value if ended.outcome else ""


def test_a_job_grows_and_shrinks_while_its_processes_run_on(client: Client) -> None:
    start(client, "grow")
    pids = {task.task: task.pid for task in client.tasks("grow")}
    assert done(client, client.scale("grow", "worker", 4, reason="two more machines")) == "DONE"
    assert running(client, "grow") == [f"worker.{index}" for index in range(4)]
    assert done(client, client.scale("grow", "worker", remove=["worker.1"])) == "DONE"
    assert done(client, client.scale("grow", "worker", delta=-1)) == "DONE"
    assert running(client, "grow") == ["worker.0", "worker.2"]
    kept = {task.task: task.pid for task in client.tasks("grow")}
    assert kept["worker.0"] == pids["worker.0"]
    shown = [(each.from_size, each.to_size, each.author) for each in client.operations("grow")]
    assert shown == [(2, 4, client.status().user), (4, 3, client.status().user), (3, 2, client.status().user)]
    client.stop("grow")
    assert client.wait("grow", SECONDS).state == "STOPPED"


def test_requests_that_cannot_be_are_refused_and_change_nothing(client: Client) -> None:
    start(client, "bad")
    for arguments, error, text in (
        ({"size": 9}, InputError, "must be at most `max`, which is 4; got 9"),
        ({"size": -1}, InputError, "must be at least 1, got -1"),
        ({"remove": ["worker.0", "worker.1"]}, InputError, "must be at least 1, got 0"),
        ({"remove": ["worker.7"]}, NotFoundError, "no task worker.7"),
        ({"remove": ["x"]}, InputError, "write COMPONENT.INDEX"),
        ({}, InputError, "give a size"),
    ):
        with pytest.raises(error, match=text):
            client.scale("bad", "worker", **arguments)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match="no component nobody; it has worker"):
        client.scale("bad", "nobody", 3)
    with pytest.raises(ConflictError, match="not SUSPENDED"):
        client.resume("bad")
    with pytest.raises(NotFoundError, match="no operation nothing"):
        client.cancel_operation("bad", "nothing")
    assert client.operations("bad") == []
    client.stop("bad")
    client.wait("bad", SECONDS)
    with pytest.raises(ConflictError, match="already STOPPED"):
        client.scale("bad", "worker", 3)


def test_a_program_that_the_shell_lacks_is_named_by_the_plan_as_by_the_start(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchrun").write_text("#!/bin/sh\n")
    (tmp_path / "torchrun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    worker = {"framework": "torchrun", "resources": {"cpu": 0.01}}
    there, lacks = (
        {"name": "programs", "components": {"worker": {**worker, "framework": framework, "command": command}}}
        for framework, command in (("torchrun", "torchrun train.py"), ("openmpi", "mpirun ./solve"))
    )
    assert client.plan(there).components["worker"].nodes[0].count == 1
    for ask in (client.plan, client.start):
        with pytest.raises(ManifestError, match="mpirun is not installed"):
            ask(lacks)
    assert "programs" not in {job.name for job in client.jobs(all=True)}


def test_a_suspended_job_has_no_processes_and_runs_again_when_it_is_resumed(client: Client) -> None:
    start(client, "pause")
    assert done(client, client.suspend("pause")) == "DONE"
    view = client.job("pause")
    assert (view.state, running(client, "pause")) == ("SUSPENDED", [])
    assert done(client, client.resume("pause")) == "DONE"
    wait_until(lambda: running(client, "pause") == ["worker.0", "worker.1"], SECONDS)
    assert done(client, client.restart("pause")) == "DONE"
    wait_until(lambda: [task.attempt for task in client.tasks("pause")] == [3, 3], SECONDS)
    client.stop("pause")
    client.wait("pause", SECONDS)


class Kill(NamedTuple):
    """A daemon is killed while ``file`` is in ``state``. ``then`` lets the operation go on."""

    file: Callable[[Client], OperationView]
    state: str
    outcome: str
    then: str = "release"
    left: Sequence[str] = ("worker.0", "worker.1")
    """The tasks that run afterwards."""
    more: Mapping[str, object] = {}
    """Of the component."""


THREE = ("worker.0", "worker.1", "worker.2")
KILLS = {
    "a scale-out that waits": Kill(lambda c: waiting(c), "WAITING", "DONE", left=THREE),
    "a scale-out without resources": Kill(lambda c: c.scale("kill", "worker", 3), "RESERVING", "DONE", "seat", THREE),
    "a scale-out that gets none": Kill(
        lambda c: c.scale("kill", "worker", 3, deadline=8), "RESERVING", "TIMED_OUT", ""
    ),
    "a scale-out that is not ready": Kill(lambda c: c.scale("kill", "worker", 3), "STARTING", "DONE", "ready", THREE),
    "a scale-out that fails": Kill(lambda c: c.scale("kill", "worker", 3), "STARTING", "ROLLED_BACK", "fail"),
    "a scale-out that never is": Kill(
        lambda c: c.scale("kill", "worker", 3, deadline=8), "STARTING", "TIMED_OUT", "release"
    ),
    "a scale-in that drains": Kill(
        lambda c: c.scale("kill", "worker", 1, deadline=8), "DRAINING", "DONE", left=THREE[:1]
    ),
    "a scale-in": Kill(lambda c: c.scale("kill", "worker", 1), "STOPPING", "DONE", left=THREE[:1]),
    "a suspension that drains": Kill(lambda c: c.suspend("kill", deadline=8), "DRAINING", "DONE", left=()),
    "a suspension": Kill(lambda c: c.suspend("kill"), "STOPPING", "DONE", left=()),
    "a restart that drains": Kill(lambda c: c.restart("kill", deadline=8), "DRAINING", "DONE"),
    "a restart": Kill(lambda c: c.restart("kill"), "STOPPING", "DONE"),
    "a replacement that drains": Kill(
        lambda c: c.replace("kill", "worker.1", deadline=8), "DRAINING", "TIMED_OUT", more={"framework": "torch"}
    ),
    "a replacement": Kill(lambda c: c.replace("kill", "worker.1"), "STOPPING", "DONE"),
    "a drain": Kill(lambda c: drained(c), "STARTING", "DONE", "uncordon"),
    "a requeue": Kill(lambda c: requeued(c), "STOPPING", "DONE", "uncordon", more={"min": 2, "restart": "on-failure"}),
}
DAEMONS = ("master-agent", "node-agent", "node-api-server", "shepherd", "master-api-server", "redis")
EVERY_RUN = {("a scale-out that fails", "master-agent"), ("a scale-in that drains", "shepherd")}


def waiting(client: Client) -> OperationView:
    """File a scale-out behind a replacement."""
    client.scale("kill", "worker", 1)
    return client.scale("kill", "worker", 3)


def drained(client: Client) -> OperationView:
    """Drain the only node. Return the operation that records it."""
    client.drain("local", deadline=0)
    return filed(client, "drain")


def requeued(client: Client) -> OperationView:
    """Kill a task that finds no node again. Return the operation that queues the whole job, 30 s later."""
    client.cordon("local")
    os.kill(client.tasks("kill")[1].pid, signal.SIGKILL)
    return filed(client, "requeue")


def filed(client: Client, kind: str) -> OperationView:
    wait_until(lambda: kind in [each.kind for each in client.operations("kill")], 60, kind)
    return next(each for each in client.operations("kill") if each.kind == kind)


@pytest.fixture
def only_this_job(client: Client, cluster: LocalCluster) -> Iterator[None]:
    """Stop whatever a test leaves, so that the next one has the names and the seats."""
    yield
    client.uncordon("local")
    cluster.stop_jobs()


PROGRAM = """
import time
import grass
for step in range(100_000):
    time.sleep(0.2)
    grass.report(step=step, loss=1 / (step + 1))
"""


@pytest.mark.nightly  # test_autoscaler.py does the same over a store in memory
@pytest.mark.timeout(150)
@pytest.mark.usefixtures("only_this_job")
def test_a_job_grows_on_idle_machines_and_gives_them_back(
    client: Client, cluster: LocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    cores = client.node("local").resources.cpu / 1000
    worker = {"command": [sys.executable, str(tmp_path / "train.py")], "min": 1, "max": 2}
    scaled = {"resources": {"cpu": 0.45 * cores}, "autoscale": {"cooldown": "4s"}}
    client.start({"name": "grows", "components": {"worker": {**worker, **scaled}}})
    wait_until(lambda: running(client, "grows") == ["worker.0"], SECONDS)
    pid = client.tasks("grows")[0].pid
    assert "so no gain is measured" in client.autoscale("grows").components[0].facts[0]
    os.kill(cluster.pid("monitor") or 0, signal.SIGKILL)
    wait_until(lambda: running(client, "grows") == ["worker.0", "worker.1"], 60)
    os.kill(cluster.pid("monitor") or 0, signal.SIGKILL)
    urgent = {"main": {"command": "sleep 1000", "resources": {"cpu": 0.5 * cores}}}
    client.start({"name": "urgent", "priority": 5, "components": urgent})
    wait_until(lambda: running(client, "urgent") == ["main.0"], SECONDS)
    assert [task.pid for task in client.tasks("grows") if task.state == "RUNNING"] == [pid]
    filed = [(each.from_size, each.to_size, each.author, each.outcome) for each in client.operations("grows")]
    assert filed == [(1, 2, "grass", "DONE"), (2, 1, "grass", "DONE")]
    [shown] = client.autoscale("grows").components
    assert (shown.size, shown.to_size, shown.enabled) == (1, 1, True)


@pytest.mark.usefixtures("only_this_job")
@pytest.mark.parametrize(
    ("kill", "daemon"),
    [
        pytest.param(
            kill,
            daemon,
            id=f"{name}, {daemon}",
            marks=[] if (name, daemon) in EVERY_RUN else [pytest.mark.nightly, pytest.mark.timeout(150)],
        )
        for name, kill in KILLS.items()
        for daemon in DAEMONS
    ],
)
def test_an_operation_ends_and_tasks_go_on_when_a_daemon_is_killed_in_its_midst(
    client: Client, cluster: LocalCluster, tmp_path: Path, kill: Kill, daemon: str
) -> None:
    """Each task adds to a file of its name all the time, and ends only once ``release`` exists."""
    if kill.state == "RESERVING":
        client.start({"name": "seat", "components": {"t": {"command": "exec sleep 1000", "resources": {"seats": 1}}}})
    here = f'"{tmp_path}/$GRASS_COMPONENT.$GRASS_INDEX"'
    until = f"until [ -e {tmp_path}/release ]; do sleep 0.05; printf . >> {here}; done"
    fails = (
        f"until [ $GRASS_INDEX -lt 2 -o -e {tmp_path}/ready ]; do [ ! -e {tmp_path}/fail ] || exit 1; sleep 0.05; done"
    )
    command = f"trap '{until}; exit' TERM; {fails}; while :; do sleep 0.05; printf . >> {here}; done"
    ready = {"command": f"[ $GRASS_INDEX -lt 2 ] || [ -e {tmp_path}/ready ]"}
    if kill.state == "WAITING" or kill.then == "seat":
        (tmp_path / "ready").touch()
    part = {"command": command, "ready": ready, "resources": {"cpu": 0.01, "seats": 1}, "grace": "60s"}
    client.start({"name": "kill", "components": {"worker": {**part, "replicas": 2, "min": 1, "max": 3, **kill.more}}})
    wait_until(lambda: running(client, "kill") == ["worker.0", "worker.1"], SECONDS)
    wait_until(lambda: all((tmp_path / task).exists() for task in THREE[:2]), what="the tasks' files")
    before = {task.task: (task.pid, task.attempt) for task in client.tasks("kill")}
    operation = kill.file(client)
    wait_until(lambda: state(client, operation) == kill.state, SECONDS, kill.state)
    pid = daemon_pid(cluster, daemon)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    written = (tmp_path / "worker.0").stat().st_size
    wait_until(lambda: (tmp_path / "worker.0").stat().st_size > written + 3, what="worker.0 goes on")
    wait_until(lambda: daemon_pid(cluster, daemon) not in (None, pid), SECONDS, f"the next {daemon}")
    if kill.then == "seat":
        stop(client, "seat")
    elif kill.then == "uncordon":
        client.uncordon("local")
        (tmp_path / "release").touch()
    elif kill.then:
        (tmp_path / kill.then).touch()
    assert done(client, operation) == kill.outcome, client.operations("kill")
    wait_until(lambda: running(client, "kill") == [*kill.left], SECONDS, f"{kill.left}")
    if operation.kind == "scale":
        after = {task.task: (task.pid, task.attempt) for task in client.tasks("kill")}
        assert after["worker.0"] == before["worker.0"]


def daemon_pid(cluster: LocalCluster, daemon: str) -> int | None:
    """Return the pid of a daemon. The parent of the tasks is below the process that supervisord knows."""
    return processes.shepherd_pid(cluster.config) if daemon == "shepherd" else cluster.pid(daemon)


def stop(client: Client, job: str) -> None:
    with suppress(ConflictError):  # it has ended
        client.stop(job, grace=0.0)
    client.wait(job, SECONDS)


def state(client: Client, operation: OperationView) -> str:
    return next(each.state for each in client.operations("kill") if each.id == operation.id)


PEERS = """
import grass, os, socket, time
own = socket.create_server(("", int(os.environ["GRASS_PORT_WEB"])))
found = grass.peers("w", name="web", count=3, timeout=20)
assert own.getsockname()[1] == found[int(os.environ["GRASS_INDEX"])].port, found
for peer in found:
    while socket.socket().connect_ex((peer.host, peer.port)):  # it does not listen yet
        time.sleep(0.02)
print(*[peer.task for peer in found], grass.peers("w", name="other"))
del os.environ["GRASS_ADDRESSES"]
try:
    grass.peers()
except RuntimeError as error:
    print(error)
for _ in found:  # the address of a task that has ended is gone
    own.accept()
"""


def test_the_tasks_of_a_job_find_each_other_by_the_peers_of_grass(client: Client) -> None:
    part = {"command": [sys.executable, "-c", PEERS], "replicas": 3, "ports": ["web"], "resources": {"cpu": 0.01}}
    job_id = client.start({"name": "find", "components": {"w": part}}).id
    assert client.wait(job_id, SECONDS).state == "SUCCEEDED", list(client.logs(job_id))
    said = {task: [line.text for line in client.logs(job_id) if line.task == task] for task in ("w.0", "w.2")}
    for lines in said.values():
        assert lines[0].strip() == "find.w.0 find.w.1 find.w.2 []"
        assert "works only inside a task" in lines[1]


def test_members_read_a_new_membership_from_their_file_while_they_run(client: Client) -> None:
    counts = 'grep -o "\\"task\\"" "$GRASS_MEMBERSHIP" | wc -l'
    command = f'echo here; until [ "$({counts})" = 3 ]; do sleep 0.05; done; echo saw three'
    start(client, "see", command=command, max=3, framework="none")
    assert done(client, client.scale("see", "worker", 3)) == "DONE"
    assert client.wait("see", SECONDS).state == "SUCCEEDED"
    said = [line.task for line in client.logs("see") if line.text.strip() == "saw three"]
    assert sorted(said) == ["worker.0", "worker.1", "worker.2"]
