"""What `grass status` says of a cluster that does not answer."""

from __future__ import annotations

from pathlib import Path

from grass.model.daemons import DaemonState
from grass.provision.trouble import trouble
from grass.system import disk

HOME = Path("/home/ann/.grass/clusters/lab")


def daemon(name: str, state: str) -> DaemonState:
    return DaemonState(name, None if state == "STOPPED" else 1, state, None)


def said(*daemons: DaemonState, free: int = disk.FULL, tasks: int = 0) -> list[str]:
    return trouble("lab", HOME, daemons, free=free, tasks=tasks)


def test_a_cluster_that_runs_on_a_disk_with_space_is_in_no_trouble() -> None:
    assert said(daemon("supervisord", "RUNNING"), daemon("redis", "RUNNING")) == []


def test_a_stopped_cluster_is_said_to_be_and_how_it_starts_again() -> None:
    [message] = said(daemon("supervisord", "STOPPED"), daemon("redis", "STOPPED"))
    assert message.startswith("cluster lab: stopped; `grass start lab` starts it again")


def test_a_cluster_whose_tasks_run_is_not_called_stopped() -> None:
    [message] = said(daemon("supervisord", "STOPPED"), daemon("redis", "STOPPED"), tasks=3)
    assert "its daemons are stopped, but 3 processes of tasks still run" in message


def test_daemons_without_supervisord_are_partly_running() -> None:
    [message] = said(daemon("supervisord", "STOPPED"), daemon("redis", "ORPHANED"), daemon("collector", "STOPPED"))
    assert message.startswith("cluster lab: partly running: supervisord is not running; redis and 0 processes")
    [message] = said(daemon("supervisord", "ORPHANED"), daemon("redis", "ORPHANED"))
    assert "supervisord does not answer; redis and" in message


def test_a_daemon_that_was_stopped_by_hand_is_named() -> None:
    [message] = said(daemon("supervisord", "RUNNING"), daemon("redis", "RUNNING"), daemon("collector", "STOPPED"))
    assert message.startswith(
        "cluster lab: partly running: collector stopped; `grass start lab` starts what is stopped"
    )


def test_a_full_disk_is_named() -> None:
    [message] = said(daemon("redis", "RUNNING"), free=disk.FULL - 1)
    assert message.startswith(f"the disk of {HOME} is full (16MiB free)")
