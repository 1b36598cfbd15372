"""Which attempts a node starts at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import structs

from grass.model.job import Component, Condition, Container
from grass.model.reasons import ReasonCode
from grass.system import clock
from grass.wire.desired import DesiredAttempt
from grass.wire.launch import LaunchTemplate
from node.agent.starts import Starts
from node.membership.service import Service
from node.runtime.protocol import Observed
from node.runtime.timers import Timers
from tests.doubles.simulated_runtime import SimulatedRuntime
from tests.support.shepherd_run import cluster_config
from tests.support.simulated_machine import SimulatedMachine
from tests.support.templates import template


def refused(folder: Path, runtime: str, component: Component) -> str:
    config = cluster_config(folder, folder / "share")
    config = replace(config, node=replace(config.node, runtimes=(runtime,)))
    machine = SimulatedMachine(lambda: None, [])
    service = Service(config, None, lambda *_: None, lambda *_: None)
    starts = Starts(config, SimulatedRuntime(lambda start: (1.0, 0)), machine, service, Timers())
    reasons = starts.start(
        ["j-1/w.0/1"], {"j-1/w.0/1": DesiredAttempt(1)}, {"j-1/w": structs.replace(template(), component=component)}
    )
    assert all(reason.code is ReasonCode.CANNOT_START for reason in reasons.values())
    return "; ".join(map(str, reasons.values()))


def test_a_namespace_starts_nothing_that_pods_cannot_run(tmp_path: Path) -> None:
    plain = Component("w", "true", image="i")
    picky = replace(plain, cwd="sub", container=Container(user="1"))
    assert refused(tmp_path, "kubernetes", plain) == refused(tmp_path, "docker", picky) == ""
    assert refused(tmp_path, "kubernetes", picky) == (
        "cannot start in a Kubernetes namespace: a relative `cwd` is in the share, which pods there do not have, and "
        "the settings of a namespace say which user pods have (`container.user`)"
    )


def test_a_runtime_that_the_node_does_not_offer_starts_nothing(tmp_path: Path) -> None:
    assert "does not offer the runtime process" in refused(tmp_path, "docker", Component("w", "true"))


def begun(folder: Path, launch: LaunchTemplate, later: float = 0.0) -> bool:
    """Return whether a task starts on a node whose share shows what is new after 1 s; also ``later``."""
    config = cluster_config(folder, folder / "share")
    runtime = SimulatedRuntime(lambda start: (60.0, 0))
    machine = SimulatedMachine(lambda: None, [])
    machine.delay = 1.0
    timers = Timers()
    service = Service(config, None, lambda *_: None, lambda *_: None)
    starts = Starts(config, runtime, machine, service, timers)
    assert starts.start(["j-1/w.0/1"], {"j-1/w.0/1": DesiredAttempt(1)}, {"j-1/w": launch}) == {}
    timers.run(clock.steady() + later)
    return any(isinstance(event, Observed) and event.pid is not None for event in runtime.receive())


def test_tasks_that_follow_others_start_once_the_node_sees_what_those_have_written(tmp_path: Path) -> None:
    follows = template(depends_on={"prepare": Condition.SUCCEEDED})
    assert begun(tmp_path, template(depends_on={"server": Condition.READY}))
    assert not begun(tmp_path, follows, 0.9)
    assert begun(tmp_path, follows, 1.1)
    assert not begun(tmp_path, structs.replace(template(), awaited={"first": "first-1"}))
