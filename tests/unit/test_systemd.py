"""What a daemon says to systemd, and what a master's machine says about its daemons."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.hosts import LocalHost
from grass.model.daemons import DaemonState
from grass.provision.on_premises.log_damage import log_damage, may_be_damaged
from grass.provision.on_premises.status import parse
from grass.system.systemd import Notifier
from tests.support.needs import require_root


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """In the place of systemd."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listener


def heard(listener: socket.socket) -> list[bytes]:
    found = []
    while True:
        try:
            found.append(listener.recv(100))
        except BlockingIOError:
            return found


def test_a_daemon_says_that_it_is_ready(manager: socket.socket) -> None:
    notifier = Notifier()
    notifier.ready()
    notifier.beat()  # no watchdog was asked for
    assert (heard(manager), notifier.pause) == ([b"READY=1"], None)


def test_signs_of_life_are_sent_seldom_however_often_the_loop_turns(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    notifier = Notifier()
    for _ in range(100):
        notifier.beat()
    assert (heard(manager), notifier.pause) == ([b"WATCHDOG=1"], 20.0)


def test_supervisord_is_told_which_daemon_speaks(manager: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPERVISOR_PROCESS_NAME", "collector")
    Notifier().ready()
    assert heard(manager) == [b"READY=1\nX_GRASS_DAEMON=collector"]


def test_a_manager_that_reads_nothing_makes_no_daemon_wait(manager: socket.socket) -> None:
    notifier = Notifier()
    for _ in range(1000):  # far more than a datagram socket keeps
        notifier.ready()
    assert 0 < len(heard(manager)) < 1000


def test_without_systemd_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    notifier = Notifier()
    notifier.ready()
    notifier.beat()
    assert notifier.pause is None


def test_a_manager_that_is_gone_harms_no_daemon(manager: socket.socket, tmp_path: Path) -> None:
    notifier = Notifier()
    manager.close()
    (tmp_path / "notify").unlink()
    notifier.ready()


def test_the_daemons_of_a_master_are_read_from_what_systemctl_shows() -> None:
    text = """1000
400.50
Id=grass-redis@lab.service
LoadState=loaded
ActiveState=active
MainPID=7
ActiveEnterTimestampMonotonic=300500000

Id=grass-master-agent@lab.service
LoadState=loaded
ActiveState=failed
MainPID=0
ActiveEnterTimestampMonotonic=1
"""
    assert list(parse(text)) == [
        DaemonState("redis", 7, "RUNNING", 900.0),
        DaemonState("master-agent", None, "STOPPED", None),
    ]
    assert list(parse("1000\n1.0\n")) == []


@pytest.mark.parametrize(
    ("state", "start", "asked"),
    [("RUNNING", 100.0, False), ("RUNNING", 995.0, True), ("STARTING", None, True), ("STOPPED", None, True)],
)
def test_the_log_of_a_redis_that_does_not_run_or_has_just_started_is_checked(
    state: str, start: float | None, asked: bool
) -> None:
    daemons = [DaemonState("monitor", None, "STOPPED", None), DaemonState("redis", 7, state, start)]
    assert may_be_damaged(daemons, 1000.0) is asked
    assert not may_be_damaged(daemons[:1], 1000.0)


def test_what_a_master_says_about_a_damaged_log_is_passed_on_and_nothing_else() -> None:
    require_root()
    here = LocalHost("here")
    assert log_damage(here, "PATH", ["sh", "-c", "echo damaged: $0; exit 3"]) == "damaged: PATH"
    assert log_damage(here, "PATH", ["sh", "-c", "exit 0"]) == ""
    assert log_damage(here, "PATH", ["sh", "-c", "echo no such program; exit 127"]) == ""
