"""`grass create FILE --plan` of a cluster on Azure: what is made, left and paid, and what fits if that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grass.azure.catalogue import disk_tier, read_prices, read_sizes
from grass.azure.faults import AzureLoginError
from grass.errors import InputError
from tests.doubles.azure_arm import sku
from tests.support.azure_world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def refusal(world: World, **keys: Any) -> str:
    with pytest.raises(InputError) as refused:
        world.plan(**keys)
    assert world.changes == [] and not world.session.folder.exists()
    return str(refused.value)


def test_a_plan_says_what_is_made_what_is_left_and_what_is_paid(world: World) -> None:
    text = "\n".join(world.plan())
    for part in (
        "subscription Lab (11111111-2222-3333-4444-555555555555), region westeurope",
        "resource group grass-lab: is made, in westeurope",
        "SSH is let in from 203.0.113.7/32 alone",
        "machine lab-master: is made: Standard_B2s (2 cores, 4 GiB)",
        "quota Quota standardBSFamily: 4 of 4 cores are left; 2 after it",
        "quota Quota PublicIPAddresses: 3 of 3 are left; 2 after it",
        "$0.0563/hour, $41.09/month",
        "machine Standard_B2s: $0.0480/hour, $35.04/month; not paid while it is deallocated",
        "disk: $0.0033/hour, $2.40/month; paid until `grass delete`",
        "a plan promises no machine",
    ):
        assert part in text


def test_a_plan_says_the_image_and_the_disk_of_a_master_with_gpus(world: World) -> None:
    text = "\n".join(world.plan(master={"size": "Standard_NC4as_T4_v3"}))
    assert "(4 cores, 28 GiB, 1 GPU), microsoft-dsvm:ubuntu-hpc:2404:latest, disk of 128 GiB" in text


def test_a_plan_makes_nothing(world: World) -> None:
    world.plan()
    assert world.changes == [] and world.azure.empty() and not (world.home / "clusters").exists()


def test_a_size_that_is_not_offered_brings_what_fits_the_cheapest_first(world: World) -> None:
    text = refusal(world, master={"size": "Standard_D4s_v3"})
    assert (
        "master.size: Standard_D4s_v3 is not offered to this subscription there (NotAvailableForSubscription)" in text
    )
    fits = text.partition("the cheapest first:\n")[2]
    assert fits.index("Standard_B2s in westeurope: 2 cores, 4 GiB, $0.0480/hour") < fits.index("Standard_B2ms in")
    assert "D2s_v3" not in fits and "B2pls_v2" not in fits, "no quota, and another processor"


def test_an_exceeded_quota_is_said_with_its_family_and_figures(world: World) -> None:
    text = refusal(world, master={"size": "Standard_D8s_v3"})
    assert "Standard_D8s_v3 needs 8 cores, but 4 of 4 are left of Quota cores" in text
    assert "but 0 of 0 are left of Quota standardDSv3Family" in text


def test_a_size_that_azure_does_not_know_brings_what_fits_as_well(world: World) -> None:
    text = refusal(world, master={"size": "Standard_X1"})
    assert "master.size: Azure has no Standard_X1 in westeurope" in text and "Standard_B2s in" in text


def test_a_region_that_does_not_exist_brings_those_that_look_alike(world: World) -> None:
    text = refusal(world, cloud={"location": "westeurop"})
    assert text == "cloud.location: Azure has no region westeurop for you; there are westeurope, northeurope"


def test_a_region_that_a_policy_forbids_brings_sizes_of_those_it_allows(world: World) -> None:
    world.azure.allowed = ["northeurope"]
    text = refusal(world)
    assert "cloud.location: a policy of the subscription allows the regions northeurope, not westeurope" in text
    assert "Standard_B2s in northeurope" in text and "in eastus" not in text and "GiB, $" in text


def test_no_public_address_left_is_known_before(world: World) -> None:
    world.azure.limits["PublicIPAddresses"] = 0
    assert "no public address is left of 0 in westeurope" in refusal(world)


def test_a_zone_without_the_size_is_refused_with_those_that_have_it(world: World) -> None:
    world.azure.skus = [sku("Standard_B2s", "standardBSFamily", 2, 4, zones=["1", "3"])]
    assert "not offered in zone 2, only in the zones 1, 3" in refusal(world, master={"zone": 2})


def test_a_group_of_somebody_else_is_not_taken_without_a_word(world: World) -> None:
    world.azure.add("group", "", "grass-lab", {"location": "westeurope"})
    assert "cloud.resource_group: grass-lab exists, and not for this cluster" in refusal(world)
    told = world.plan(cloud={"location": "westeurope", "use_existing_group": True})
    assert "resource group grass-lab: exists, and is used as it is, in westeurope" in told


def test_an_unknown_subscription_is_refused_with_those_that_the_login_sees(world: World) -> None:
    text = refusal(world, cloud={"location": "westeurope", "subscription": "other"})
    assert "this login sees no 'other', but Lab (1111" in text


def test_a_subscription_is_found_by_its_name(world: World) -> None:
    assert world.plan(cloud={"location": "westeurope", "subscription": "lab"})


def test_an_expired_login_names_the_command(world: World) -> None:
    world.token = "old"
    with pytest.raises(AzureLoginError, match=r"InvalidAuthenticationToken.*`az login`") as refused:
        world.plan()
    assert refused.value.exit_code == 4


def test_without_the_price_list_the_price_is_not_known_and_nothing_waits(world: World) -> None:
    from tests.support.azure_world import cut

    world.fault = lambda method, url, go: cut() if "prices.azure.com" in url else go()
    assert "list price in US dollars, without taxes, discounts and traffic: not known" in world.plan()
    assert world.now == 0


def test_spot_and_windows_are_not_taken_for_the_price() -> None:
    common = {"armSkuName": "Standard_B2s", "type": "Consumption", "currencyCode": "USD"}
    items = [
        {**common, "retailPrice": 0.04, "skuName": "B2s", "productName": "Virtual Machines BS Series"},
        {**common, "retailPrice": 0.01, "skuName": "B2s Spot", "productName": "Virtual Machines BS Series"},
        {**common, "retailPrice": 0.02, "skuName": "B2s", "productName": "Virtual Machines BS Series Windows"},
        {**common, "retailPrice": 0.03, "skuName": "B2s", "productName": "x", "type": "Reservation"},
    ]
    assert read_prices(items)["standard_b2s"].hourly == 0.04


def test_restrictions_of_zones_leave_the_others() -> None:
    restricted = [{"type": "Zone", "restrictionInfo": {"zones": ["2"]}, "reasonCode": "NotAvailableForSubscription"}]
    size = read_sizes([sku("Standard_B2s", "f", 2, 4, restrictions=restricted)], "westeurope")["standard_b2s"]
    assert (size.zones, size.refused) == (("1", "3"), "")


def test_a_disk_is_sold_in_the_next_larger_size() -> None:
    assert [disk_tier(gib) for gib in (30, 32, 33, 4095)] == ["E4", "E4", "E6", "E50"]
