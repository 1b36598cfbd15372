"""What `grass cost`, `grass node stop` and `start` print, and which exit code they end with."""

from __future__ import annotations

from pathlib import Path

import pytest

from grass.cli.cost import _lines
from grass.cli.node import drained
from grass.cli.node_power import _is_empty
from grass.cli.node_scale import _ending
from grass.errors import InputError
from grass.model.lifecycle import NodeState
from grass.provision.on_premises.provisioner import OnPremisesProvisioner
from grass.provision.provisioner import CanPowerNodes, CanTellCosts, Session, need
from grass.wire.cloud import CloudCost, CloudCosts
from tests.support.sample_views import node

MACHINES = (
    CloudCost("lab-b2s-1", "Standard_B2s", "deallocated", 2.0, 0.0033, 0.11, True),
    CloudCost("lab-master", "Standard_B2s", "running", 4.1, 0.0563, 0.23, True),
)


def test_the_table_of_costs_has_a_sum_and_its_limits() -> None:
    lines = list(_lines(CloudCosts(1.0, 1.0, MACHINES, ("list prices",)), 0.0596, None))
    assert lines[0].split() == ["MACHINE", "STATE", "SIZE", "HOURS", "ON", "NOW", "PER", "HOUR", "SPENT"]
    assert lines[1].split() == ["lab-b2s-1", "deallocated", "Standard_B2s", "2.0", "$0.0033", "$0.11"]
    assert lines[3].split() == ["all", "$0.0596", "$0.34"]
    assert lines[4].startswith("now $1.43 a day, $43.51 a month; counted since ") and lines[5] == "list prices"


def test_an_unknown_price_is_said_and_never_taken_for_nothing() -> None:
    unknown = CloudCost("lab-b2s-2", "Standard_B2s", "running", 1.0, None, 0.0, False)
    lines = list(_lines(CloudCosts(1.0, 1.0, (*MACHINES, unknown), ()), None, None))
    assert lines[3].split()[-4:] == ["not", "known", "over", "$0.00"]
    assert lines[4].split() == ["all", "not", "known", "over", "$0.34"] and len(lines) == 5


def test_a_cluster_on_other_machines_says_what_to_do_instead(tmp_path: Path) -> None:
    provisioner = OnPremisesProvisioner(Session("lab", tmp_path, lambda _: None))
    with pytest.raises(InputError, match=r"turns machines on Azure off; `grass node drain` empties"):
        need(provisioner, CanPowerNodes)
    with pytest.raises(InputError, match="cluster lab: is not on Azure, so Grass knows no prices"):
        need(provisioner, CanTellCosts)


def test_a_stopped_node_is_drained_so_that_removing_it_waits_for_nothing() -> None:
    assert drained(node("n1", state=NodeState.STOPPED)) and not drained(node("n1", state=NodeState.SILENT))


@pytest.mark.parametrize("state", [NodeState.DRAINED, NodeState.LOST, NodeState.STOPPED])
def test_a_node_that_is_lost_or_stopped_has_nothing_to_wait_for(state: NodeState) -> None:
    assert _is_empty(node("n1", state=state)) and _is_empty(None)
    assert not _is_empty(node("n1", state=NodeState.DRAINING))


def test_costs_go_on_by_the_hourly_price_while_nobody_looks() -> None:
    later = CloudCosts(1.0, 100.0, MACHINES).until(3700.0)
    for before, after in zip(MACHINES, later.machines, strict=True):
        assert after.spent == pytest.approx(before.spent + (before.hourly or 0.0))
        assert after.hours == pytest.approx(before.hours + (before.state == "running"))
    assert CloudCosts(1.0, 100.0, MACHINES).until(50.0).machines == MACHINES, "clocks may differ"


def test_tasks_on_machines_that_go_may_end_as_long_as_the_options_say() -> None:
    assert _ending(3600.0, None, force=False) == (3600.0, False)
    assert _ending(3600.0, 60.0, force=False) == (60.0, True)
    assert _ending(3600.0, None, force=True) == (0.0, True)
