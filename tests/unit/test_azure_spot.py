"""Spot nodes on Azure: what is asked for, priced and counted, what stands in, and what is left when one goes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from grass.azure.resources import Site, machine, terms_of
from grass.errors import InputError
from grass.model.lifecycle import NodeState
from grass.provision.azure.change import Member
from grass.provision.azure.record import Asked
from tests.doubles.azure_arm import DISK, NIC, VM, Thing, faults_of
from tests.support.azure_world import ID, World, settings

B2S = "Standard_B2s"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create()
    return world


def body(**how: Any) -> dict[str, Any]:
    like = Asked(B2S, **how).like(settings().machine)
    return machine(terms_of(settings(), "ssh-ed25519 AAAA"), Site("s", "grass-lab", ID), "n", like, public=False).body


def machines(world: World) -> dict[str, str]:
    return {thing.name: thing.body["properties"].get("priority", "Regular") for thing in world.azure.of(VM)}


def thing(world: World, name: str) -> Thing:
    return next(each for each in world.azure.of(VM) if each.name == name)


def errors(found: Any) -> dict[str, str]:
    return {one.label: one.error for one in found.nodes if one.error is not None}


def test_a_spot_machine_goes_whole_when_it_is_taken_back_and_watches_for_it_as_root() -> None:
    spot = body(spot=True, max_price=0.02)
    assert faults_of(VM, spot) == []
    said = spot["properties"]
    assert (said["priority"], said["evictionPolicy"], said["billingProfile"]) == ("Spot", "Delete", {"maxPrice": 0.02})
    assert body(spot=True)["properties"]["billingProfile"] == {"maxPrice": -1}, "the regular price"
    first_boot = json.loads(base64.b64decode(said["osProfile"]["customData"]).decode().partition("\n")[2])
    files = {each["path"]: each["content"] for each in first_boot["write_files"]}
    assert "169.254.169.254/metadata/scheduledevents" in files["/usr/local/sbin/grass-machine-events"]
    unit = files["/etc/systemd/system/grass-machine-events.service"]
    assert "python3 -I /usr/local/sbin/grass-machine-events" in unit and "User=" not in unit
    assert "169.254.169.254 meta skuid != 0" in files["/etc/grass-metadata.nft"], "closed to tasks"
    assert "grass-machine-events" not in base64.b64decode(body()["properties"]["osProfile"]["customData"]).decode()


def test_spot_nodes_have_a_quota_a_price_and_a_number_of_their_own(world: World) -> None:
    world.scale(**{B2S: 1})
    text = world.scale_plan(spot=True, **{B2S: 2})
    assert "machine lab-b2s-spot-2: is made: Standard_B2s Spot (2 cores, 4 GiB)" in text
    assert "quota Quota lowPriorityCores: 6 of 6 cores are left; 2 after it" in text
    assert "each Standard_B2s: $0.0096/hour" in text and "their price exceeds the regular price" in text
    assert errors(world.scale_spot({B2S: 2})) == {}
    assert machines(world) == {
        "lab-master": "Regular",
        "lab-b2s-1": "Regular",
        "lab-b2s-spot-1": "Spot",
        "lab-b2s-spot-2": "Spot",
    }
    costs = {each.name: each.hourly for each in world.costs().machines}
    assert costs["lab-b2s-spot-1"] == pytest.approx(0.0096 + 2.4 / 730)
    assert costs["lab-b2s-1"] == pytest.approx(0.048 + 2.4 / 730)
    world.scale_spot({B2S: 1})
    world.scale(**{B2S: 0})
    assert sorted(machines(world)) == ["lab-b2s-spot-1", "lab-master"]
    with pytest.raises(InputError, match=r"(?s)3 more Standard_B2s need 6 cores, but 4 of 6 .*Standard_B2s 3 --spot"):
        world.scale_spot({B2S: 4})


@pytest.mark.parametrize("why", ["subscription", "price"])
def test_a_subscription_without_spot_or_a_low_limit_says_what_helps(world: World, why: str) -> None:
    world.azure.spot = why == "price"
    [text] = errors(world.scale_spot({B2S: 1}, 0.001)).values()
    said = {"subscription": "no Spot, as those of students and trials", "price": "raise --max-price, or leave it out"}
    assert said[why] in text and "`grass node scale Standard_B2s 1 --spot --max-price 0.001` goes on" in text
    assert sorted(machines(world)) == ["lab-master"]


@pytest.mark.parametrize("why", ["subscription", "quota"])
def test_a_regular_machine_stands_in_if_asked_and_counts_as_the_spot_one(world: World, why: str) -> None:
    world.azure.spot = why != "subscription"
    world.azure.limits["lowPriorityCores"] = 0 if why == "quota" else 6

    assert errors(world.scale_spot({B2S: 1}, or_regular=True)) == {}
    assert machines(world) == {"lab-master": "Regular", "lab-b2s-spot-1": "Regular"}
    before = world.changes
    assert errors(world.scale_spot({B2S: 1}, or_regular=True)) == {} and world.changes == before
    world.scale_spot({B2S: 0})
    assert machines(world) == {"lab-master": "Regular"}


def test_a_machine_that_is_taken_back_is_made_again_and_nothing_of_the_first_is_left(world: World) -> None:
    world.scale_spot({B2S: 1})
    path = f"/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/grass-lab/providers/{VM}/lab-b2s-spot-1"
    world.azure.handle("POST", f"{world.azure.endpoint}{path}/simulateEviction?api-version=2026-04-01", None)
    card = next(each for each in world.azure.of(NIC) if "spot" in each.name)
    world.now += 60
    world.azure._advance()
    assert sorted(machines(world)) == ["lab-master"]
    # what an eviction may leave
    world.azure.things[card.group.lower(), NIC.lower(), card.name.lower()] = card
    card.until = None
    world.members["lab-b2s-spot-1"] = Member(NodeState.LOST)
    assert errors(world.scale_spot({B2S: 1})) == {} and len(world.joined) == 2
    assert [len(world.azure.of(kind)) for kind in (VM, NIC, DISK)] == [2, 2, 2] and card not in world.azure.of(NIC)
    world.delete()
    assert world.azure.empty()
