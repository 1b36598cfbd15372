"""The fleet of the benches: its nodes become READY, or it says what they are instead."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from grass.config import MasterConfig
from tests.support.waiting import wait_until

pytestmark = pytest.mark.needs_redis


def test_a_fleet_whose_nodes_fall_silent_says_so_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[1] / "bench"), *sys.path])
    from fleet import FleetCluster, NotReadyError

    with FleetCluster(3, 4, 0.0, MasterConfig(check_interval=0.2, silent_after=5.0)) as cluster:
        cluster.fleet.nodes[1].heard = False
        wait_until(lambda: "SILENT" in {record.state.value for record in cluster.api.nodes()}, 20, "silence")
        with pytest.raises(NotReadyError, match=r"not all of 3 nodes are READY after 0\.3 s: .*1 SILENT"):
            cluster.wait_until_ready(0.3)
        cluster.fleet.nodes[1].heard = True
        cluster.wait_until_ready(20)
        cluster.agent.kill()
        cluster.agent.wait()
        cluster.fleet.nodes[1].heard = False
        with pytest.raises(NotReadyError, match="the master-agent ended with -9"):
            cluster.count = 4
            cluster.wait_until_ready(20)
