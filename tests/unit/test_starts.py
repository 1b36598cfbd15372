"""Which attempts a node starts at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import structs

from grass.model.job import Component, Container
from grass.model.reasons import ReasonCode
from grass.wire.desired import DesiredAttempt
from node.agent.starts import Starts
from node.membership.service import Service
from tests.doubles.simulated_runtime import SimulatedRuntime
from tests.support.shepherd_run import cluster_config
from tests.support.simulated_machine import SimulatedMachine
from tests.support.templates import template


def refused(folder: Path, runtime: str, component: Component) -> str:
    config = cluster_config(folder, folder / "share")
    config = replace(config, node=replace(config.node, runtimes=(runtime,)))
    machine = SimulatedMachine(lambda: None, [])
    service = Service(config, None, lambda *_: None, lambda *_: None)
    starts = Starts(config, SimulatedRuntime(lambda start: (1.0, 0)), machine, service)
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
