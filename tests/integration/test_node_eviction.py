"""A machine that the cloud takes back: real node-agent, shepherd and redis; the file that root writes, and a signal."""

from __future__ import annotations

import signal
from pathlib import Path

from grass.model.reasons import ReasonCode
from grass.wire.task_events import Started, Waiting
from node.agent.eviction import FILE
from tests.support.node_run import NodeRun


def announce(run: NodeRun, why: str) -> None:
    path = Path(run.config.runtime_dir) / FILE
    path.write_text(why) if why else path.unlink()
    assert run.agent is not None
    run.agent.send_signal(signal.SIGUSR1)


def test_tasks_are_ended_by_term_and_nothing_starts_until_the_machine_is_gone_or_stays() -> None:
    with NodeRun() as run:
        run.start("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done", "j-1/c.0/1")
        run.event("j-1/c.0/1", Started)
        run.wait(lambda: "up" in run.path("j-1/c.0/1", "stdout").read_text())
        announce(run, "Azure takes this machine back (Spot)")
        ended = run.ended("j-1/c.0/1")
        assert ended.reason is not None and ended.reason.code is ReasonCode.NODE_STOPPED
        assert ended.reason.message == "stopped because Azure takes this machine back (Spot)"
        assert "saved" in run.path("j-1/c.0/1", "stdout").read_text()
        run.wait(lambda: [each.code for each in run.conditions] == [ReasonCode.SHUTDOWN])
        run.start("true", "j-2/c.0/1", launch="j-2/c")
        run.event("j-2/c.0/1", Waiting)
        run.kill_agent()
        run.start_agent()  # systemd starts it again; the file is still there
        run.wait(lambda: len(run.hellos) == 2)
        assert [each.message for each in run.hellos[1].conditions] == ["Azure takes this machine back (Spot)"]
        announce(run, "")
        assert run.ended("j-2/c.0/1").code == 0
        assert run.agent is not None and run.agent.poll() is None
