"""Hosts of launchers that left the membership: they end once no launcher runs a command in them."""

from __future__ import annotations

import pytest

from grass.model.framework import Framework, FrameworkName
from grass.system import clock
from grass.wire.launch import LaunchTemplate
from node.agent.idle_hosts import LOOK_AGAIN, IdleHosts
from node.runtime.timers import Timers
from tests.support.templates import template

HOST = template(command="sleep infinity", framework=Framework(FrameworkName.HOROVOD))
FREE, USED = "j-1/w.0/1", "j-1/w.1/1"


def test_a_host_that_left_is_idle_once_no_launcher_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr(clock, "steady", lambda: now[0])
    timers, used, idle = Timers(), [USED], list[str]()
    others = {
        "j-1/l.0/1": template(command="horovodrun x", framework=HOST.component.framework),
        "j-1/p.0/1": template(),
    }
    running: dict[str, LaunchTemplate | None] = {FREE: HOST, USED: HOST, "j-1/x.0/1": None, **others}
    looks = 0

    def used_now() -> list[str]:
        nonlocal looks
        looks += 1
        return used

    hosts = IdleHosts(timers, lambda: running, lambda key: key.index < 2, used_now, idle.append)
    hosts.look()
    assert idle == [FREE] and timers.due == 10.0 + LOOK_AGAIN
    hosts.look()
    timers.run(now[0] + LOOK_AGAIN / 2)
    assert idle == [FREE], "each is found once"
    now[0] = 10.0 + LOOK_AGAIN
    timers.run(now[0])
    assert timers.due == now[0] + LOOK_AGAIN and looks == 3, "one look was due, although it had looked twice"
    used.clear()
    timers.run(now[0] + LOOK_AGAIN)
    assert idle == [FREE, USED] and timers.due is None and looks == 4


def test_a_member_is_never_idle() -> None:
    timers, idle = Timers(), list[str]()
    hosts = IdleHosts(timers, lambda: {FREE: HOST}, lambda _: False, lambda: pytest.fail("asked in vain"), idle.append)
    hosts.look()
    assert idle == [] and timers.due is None
