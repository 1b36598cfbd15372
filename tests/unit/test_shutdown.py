"""The way of a node-agent out of a machine that shuts down."""

from __future__ import annotations

from grass.model.reasons import ReasonCode
from node.agent.shutdown import EVICTION_GRACE, LONGEST, LONGEST_GRACE, STOPPED, TELL, Shutdown
from node.runtime.protocol import Stop

GRACES = {"a": 3.0, "b": 600.0}
STOPS = [Stop("a", 3.0, STOPPED), Stop("b", LONGEST_GRACE, STOPPED)]


def test_nothing_is_stopped_before_the_machine_shuts_down() -> None:
    idle = Shutdown()
    assert (idle.begun, idle.due(), idle.over(0.0, [])) == (False, None, False)
    assert idle.stops(0.0, GRACES, told=True, grace=GRACES.__getitem__) == []


def test_tasks_are_stopped_once_and_only_when_the_master_was_told() -> None:
    shutdown = Shutdown()
    shutdown.begin(10.0)
    assert shutdown.stops(10.5, GRACES, told=False, grace=GRACES.__getitem__) == []
    assert not shutdown.over(10.5, []), "its tasks were not stopped yet"
    assert shutdown.stops(10.6, GRACES, told=True, grace=GRACES.__getitem__) == STOPS
    assert shutdown.stops(10.7, GRACES, told=True, grace=GRACES.__getitem__) == []
    assert not shutdown.over(11.0, ["b"])
    assert shutdown.over(12.0, ["c"]), "what was asked for since then does not start any more"


def test_a_master_that_is_away_is_not_waited_for() -> None:
    shutdown = Shutdown()
    shutdown.begin(10.0)
    assert shutdown.due() == 10.0 + TELL
    assert shutdown.stops(10.0 + TELL, GRACES, told=False, grace=GRACES.__getitem__) == STOPS


def test_a_task_that_does_not_end_keeps_the_machine_no_longer_than_systemd_allows() -> None:
    shutdown = Shutdown()
    shutdown.begin(10.0)
    shutdown.stops(10.0, GRACES, told=True, grace=GRACES.__getitem__)
    assert shutdown.due() == 10.0 + LONGEST
    assert not shutdown.over(9.9 + LONGEST, ["a"])
    assert shutdown.over(10.0 + LONGEST, ["a"])


def test_before_an_eviction_tasks_have_longer_and_the_agent_stays() -> None:
    shutdown = Shutdown()
    shutdown.begin(10.0, "Azure takes this machine back")
    [short, long] = shutdown.stops(10.1, GRACES, told=True, grace=GRACES.__getitem__)
    assert (short.grace, long.grace) == (3.0, EVICTION_GRACE)
    assert long.reason is not None and long.reason.code is ReasonCode.NODE_STOPPED, "no restart is counted"
    assert long.reason.message == "stopped because Azure takes this machine back"
    assert shutdown.reason is not None and shutdown.reason.message == "Azure takes this machine back"
    assert shutdown.due() is None and not shutdown.over(10.0 + 10 * LONGEST, [])
