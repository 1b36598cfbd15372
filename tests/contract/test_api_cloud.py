"""Who starts and stops nodes of a cluster in a cloud by themselves: one at a time, and why it cannot."""

from __future__ import annotations

import pytest

from grass.errors import NotAllowedError
from grass.wire.cloud import CloudCost, CloudCosts
from tests.support.api_world import ApiWorld

COSTS = CloudCosts(1.0, 2.0, (CloudCost("lab-master", "Standard_B2s", "running", 2.0, 0.05, 0.1, True),), ("list",))


def test_one_has_the_lease_until_it_gives_it_back(world: ApiWorld) -> None:
    client = world.client("root")
    assert client.status().cloud is None
    assert client.tell_cloud("the master", 60.0).holder == "the master"
    assert client.tell_cloud("laptop", 60.0).holder == "the master", "it is taken"
    client.tell_cloud("laptop")  # gives back what it never had
    assert client.tell_cloud("laptop", 60.0).holder == "the master"
    client.tell_cloud("the master")
    assert client.tell_cloud("laptop", 60.0).holder == "laptop"


def test_a_lease_ends_by_itself(world: ApiWorld) -> None:
    client = world.client("root")
    until = client.tell_cloud("laptop", 0.001).until
    assert client.tell_cloud("the master", 60.0).holder == "the master"
    assert until < client.tell_cloud("the master", 60.0).until


def test_who_cannot_act_says_why_and_takes_nothing_from_others(world: ApiWorld) -> None:
    client = world.client("root")
    for _ in range(2):
        client.tell_cloud("the master", problem="has no role")
    told = [event.message for event in client.events() if event.kind == "autoscaler"]
    assert told == ["the master: cannot start or stop nodes: has no role"]
    cloud = client.status().cloud
    assert cloud is not None and (cloud.holder, cloud.problem) == ("the master", "has no role")
    assert client.tell_cloud("laptop", 60.0).holder == "laptop"
    cloud = client.tell_cloud("the master", problem="has no role")
    assert (cloud.holder, cloud.problem) == ("laptop", "")
    client.tell_cloud("laptop")
    cloud = client.tell_cloud("the master", 60.0)
    assert (cloud.holder, cloud.problem) == ("the master", "")


def test_costs_are_kept_and_concern_no_lease(world: ApiWorld) -> None:
    client = world.client("root")
    client.tell_cloud("the master", 60.0)
    client.tell_cloud(costs=COSTS)
    cloud = client.tell_cloud("the master", 60.0)
    assert (cloud.holder, cloud.costs) == ("the master", COSTS)
    with pytest.raises(NotAllowedError):
        world.client("ann").tell_cloud("ann", 60.0)
