"""What must survive: each daemon is killed in the middle of many running tasks, and the machine's clock jumps."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grass.api.client import Client
from grass.model.daemons import DAEMONS, REDIS
from grass.provision import local
from tests.support.examples import chosen
from tests.support.local_cluster import daemon_states
from tests.support.needs import require

TASKS = chosen(200)
NAMES = [REDIS, *(daemon.name for daemon in DAEMONS)]
KILLED = [*NAMES, pytest.param("supervisord", marks=pytest.mark.alone)]
"""The daemons look for supervisord: beside other tests, they may have no time to start it within ``BACK_WITHIN``."""
BACK_WITHIN = 5.0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("faults")
    local.create(None, home=home, progress=lambda _: None)
    yield home
    local.delete("local", home=home, progress=lambda _: None)


def pid_of(home: Path, daemon: str) -> int | None:
    [entry] = [entry for entry in daemon_states("local", home) if entry.name == daemon]
    return entry.pid if entry.state == "RUNNING" else None


def until(true: Any, seconds: float, what: str) -> float:
    """Wait for a condition; returns how long it took, fails with ``what`` after ``seconds``."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, f"after {seconds} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - began


def marking(folder: Path, name: str, seconds: str) -> dict[str, Any]:
    """Tasks that each leave one line in a file of their own, and end with a code of their own."""
    command = (
        f'echo "$GRASS_ATTEMPT" >> {folder}/$GRASS_INDEX; echo "task $GRASS_INDEX"; sleep {seconds}; '
        "exit $((GRASS_INDEX % 3))"
    )
    work = {"command": command, "replicas": TASKS, "resources": {"cpu": 0.001}}
    return {"name": name, "components": {"t": work}}


PATIENCE = 30.0
"""Seconds for the answer of an API that starts again while many tasks run. How soon it is back is tested by itself."""


@pytest.mark.parametrize("daemon", KILLED)
def test_killing_a_daemon_loses_no_task_and_runs_none_twice(daemon: str, home: Path, tmp_path: Path) -> None:
    name = f"kill-{daemon}"
    with Client("local", home=home, timeout=PATIENCE) as client:
        client.start(marking(tmp_path, name, "$((GRASS_INDEX % 4))"))
        until(lambda: len(list(tmp_path.iterdir())) >= TASKS // 2, 30, "half of the tasks never started")
        before = pid_of(home, daemon)
        assert before is not None
        os.kill(before, signal.SIGKILL)
        client.start({"name": f"after-{daemon}", "components": {"t": {"command": "true"}}})
        took = until(lambda: pid_of(home, daemon) not in (None, before), BACK_WITHIN, f"{daemon} is not back")
        view = client.wait(name, timeout=60)
        assert client.wait(f"after-{daemon}", timeout=30).state == "SUCCEEDED"
        tasks = client.tasks(name)
        if daemon != "supervisord":  # which notes the ends of the others
            told = f"{daemon}: ended by signal SIGKILL (pid {before}); it is started again"
            until(lambda: [each.message for each in client.events(kind="daemon-ended")].count(told) == 1, 10, told)
        lines = sorted(line.text for line in client.logs(name))
    print(f"{daemon} back after {took:.2f} s")
    assert view.state == "FAILED"
    assert [(task.index, task.exit_code, task.attempt) for task in tasks] == [
        (index, index % 3, 1) for index in range(TASKS)
    ]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {str(index): "1\n" for index in range(TASKS)}
    assert lines == sorted(f"task {index}" for index in range(TASKS))


def test_the_log_is_whole_as_soon_as_the_job_has_ended(home: Path) -> None:
    with Client("local", home=home, timeout=PATIENCE) as client:
        for number in range(20):
            client.start({"name": f"told-{number}", "components": {"t": {"command": f"echo {number}; echo end >&2"}}})
            client.wait(f"told-{number}", timeout=20)
            assert sorted(line.text for line in client.logs(f"told-{number}")) == sorted([str(number), "end"])


def test_every_daemon_at_once_may_die(home: Path, tmp_path: Path) -> None:
    with Client("local", home=home, timeout=PATIENCE) as client:
        client.start(marking(tmp_path, "all", "2"))
        until(lambda: len(list(tmp_path.iterdir())) == TASKS, 30, "the tasks never started")
        for daemon in NAMES:
            pid = pid_of(home, daemon)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
        client.wait("all", timeout=60)
        tasks = client.tasks("all")
    assert [(task.exit_code, task.attempt) for task in tasks] == [(index % 3, 1) for index in range(TASKS)]
    assert all(path.read_text() == "1\n" for path in tmp_path.iterdir())


FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
FAKED = ["collector", "shepherd", "master-agent", "node-agent"]
"""Not redis, which does not start under libfaketime, nor the API servers, where Python's own sleep fails under it."""


def with_a_clock_of_their_own(home: Path, offset: Path) -> None:
    """Start the daemons again under libfaketime, which reads what to add to the clock from ``offset`` each time."""
    settings = (
        f'LD_PRELOAD="{FAKETIME}",FAKETIME_TIMESTAMP_FILE="{offset}",FAKETIME_NO_CACHE="1",'
        'FAKETIME_DONT_FAKE_MONOTONIC="1",NO_FAKE_STAT="1"'
    )
    conf = home / "clusters" / "local" / "supervisord.conf"
    text = conf.read_text()
    for daemon in FAKED:
        text = text.replace(f"[program:{daemon}]\n", f"[program:{daemon}]\nenvironment={settings}\n")
    socket = home / "clusters" / "local" / "run" / "supervisor.sock"
    conf.write_text(f"{text}\n[supervisorctl]\nserverurl=unix://{socket}\n")
    control = Path(sys.executable).with_name("supervisorctl")
    subprocess.run([control, "-c", conf, "update"], check=True, capture_output=True)


def test_a_clock_that_jumps_an_hour_changes_nothing(tmp_path: Path) -> None:
    require(FAKETIME.exists(), "libfaketime", "apt-get install faketime")
    offset = tmp_path / "offset"
    offset.write_text("+0\n")
    home = Path(tempfile.mkdtemp(prefix="grass-clock-", dir="/tmp"))  # short: sockets are in it
    local.create(None, home=home, progress=lambda _: None)
    try:
        with_a_clock_of_their_own(home, offset)
        until(lambda: all(pid_of(home, daemon) for daemon in FAKED), 10, "the daemons are not back")
        with Client("local", home=home) as client:
            client.start({"name": "first", "components": {"t": {"command": "true"}}})
            assert client.wait("first", timeout=20).state == "SUCCEEDED"
            client.start({"name": "jump", "timeout": "10m", "components": {"t": {"command": "sleep 5"}}})
            pids = {daemon: pid_of(home, daemon) for daemon in FAKED}
            for jump in (3600, -3600, 0):
                offset.write_text(f"{jump:+d}\n")
                done = client.start({"name": "small", "components": {"t": {"command": "true"}}})
                view = client.wait(done.id, timeout=10)
                assert view.state == "SUCCEEDED"
                assert abs(view.ended - time.time() - jump) < 30, "the daemons' clock does not jump"
            assert client.wait("jump", timeout=20).state == "SUCCEEDED"
            assert [node.state for node in client.nodes()] == ["READY"]
        assert {daemon: pid_of(home, daemon) for daemon in FAKED} == pids
    finally:
        local.delete("local", home=home, progress=lambda _: None)
        shutil.rmtree(home)
