"""`grass create` and `grass delete` of a master on Azure: what is asked for, what goes on after failures."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from grass.azure.faults import AzureCapacityError, AzureError, AzureForbiddenError, AzureLoginError, AzureSlowError
from grass.azure.resources import Kind, Site, wanted
from grass.errors import ConflictError, GrassError, InputError, UnreachableError
from grass.manifest.on_premises import HostSettings
from grass.mode_file import read_mode
from grass.provision import registry
from grass.provision.azure.delete import LeftOnAzureError
from grass.provision.azure.provisioner import AzureProvisioner
from grass.provision.azure.record import load_record
from grass.provision.provisioner import Session
from tests.doubles.azure_arm import DISK, IP, NIC, NSG, VM, RefusalError, faults_of
from tests.support.azure_world import ID, KilledError, World, reply, settings

SITE = Site("s", "grass-lab", ID)
FROM = {"from": ["203.0.113.0/24"]}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def told(world: World) -> str:
    return "\n".join(world.said)


def body_of(kind: Kind, **keys: Any) -> dict[str, Any]:
    things = wanted(settings(**keys), SITE, ("203.0.113.7/32",), "ssh-ed25519 AAAA")
    return next(each.body for each in things if each.kind is kind)


# ---------------------------------------------------------------------- what is asked for


@pytest.mark.parametrize("kind", [Kind.GROUP, Kind.RULES, Kind.ROUTES, Kind.NETWORK, Kind.MACHINE])
@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"master": {"zone": 2, "disk": "64GiB"}, "api": "direct"},
        {"master": {"size": "Standard_NC4as_T4_v3"}},
    ],
)
def test_every_body_is_one_of_azures_types(world: World, kind: Kind, keys: dict[str, Any]) -> None:
    assert faults_of(kind.type, body_of(kind, **keys)) == []


def test_a_wrong_body_is_found_by_the_types(world: World) -> None:
    assert faults_of(VM, {"location": "x", "properties": {"hardware": {}}}) == [
        "virtualMachines.properties.hardware: unknown or read-only"
    ]


def test_only_ssh_is_let_in_and_never_from_everywhere() -> None:
    rule, nodes = body_of(Kind.RULES)["properties"]["securityRules"]
    assert nodes["properties"]["sourceAddressPrefix"] == "10.60.2.0/23", "nodes alone leave through the master"
    assert rule["properties"]["destinationPortRanges"] == ["22"]
    assert rule["properties"]["sourceAddressPrefixes"] == ["203.0.113.7/32"]
    open_api, _ = body_of(Kind.RULES, api="direct")["properties"]["securityRules"]
    assert open_api["properties"]["destinationPortRanges"] == ["22", "51812"]


def test_the_machine_has_no_identity_no_password_and_no_secret() -> None:
    body = body_of(Kind.MACHINE)
    os = body["properties"]["osProfile"]
    assert "identity" not in body and os["linuxConfiguration"]["disablePasswordAuthentication"] is True
    first_boot = base64.b64decode(os["customData"]).decode()
    assert first_boot.startswith("#cloud-config\n") and "PRIVATE" not in first_boot


def test_the_metadata_service_is_closed_to_all_but_root(tmp_path: Path) -> None:
    text = base64.b64decode(body_of(Kind.MACHINE)["properties"]["osProfile"]["customData"]).decode()
    rules = json.loads(text.partition("\n")[2])["write_files"][0]
    assert rules["path"] == "/etc/grass-metadata.nft" and "169.254.169.254 meta skuid != 0" in rules["content"]
    if nft := shutil.which("nft"):
        (tmp_path / "rules").write_text(rules["content"])
        checked = subprocess.run([nft, "-c", "-f", tmp_path / "rules"], capture_output=True, text=True)
        assert checked.returncode == 0 or "not permitted" in checked.stderr, checked.stderr


def test_everything_carries_the_clusters_mark_and_the_tags_of_the_file() -> None:
    tags = {"cost-center": "4711"}
    for each in wanted(settings(cloud={"location": "westeurope", "tags": tags}), SITE, ("203.0.113.7/32",), "k"):
        assert each.body["tags"]["grass-id"] == ID and each.body["tags"]["cost-center"] == "4711"


# ---------------------------------------------------------------------- create


def test_create_makes_a_machine_and_hands_it_over_as_a_host(world: World) -> None:
    made = world.create()
    assert (made.mode, read_mode(world.session.folder)) == ("grass/azure", "grass/azure")
    [host] = world.ready
    assert (host.address, host.login.username, host.login.port) == ("20.0.0.9", "azureuser", 22)
    assert host.login.key == str(world.session.client_dir / "azure_key") and Path(host.login.key).exists()
    assert "machine lab-master: waiting for Azure (usually about 3m)" in world.said


def test_create_repeated_changes_nothing(world: World) -> None:
    world.create()
    before = world.changes
    world.create()
    assert world.changes == before and len(world.ready) == 2


def test_another_address_of_the_caller_changes_the_rules_alone(world: World) -> None:
    world.create()
    before = len(world.changes)
    world.create(ssh=FROM)
    assert world.changes[before:] == [f"PUT {NSG}/lab-rules"]
    assert "network security group lab-rules: SSH is let in from other addresses than before" in world.said


def test_another_size_of_a_machine_that_exists_is_refused(world: World) -> None:
    world.create()
    with pytest.raises(GrassError, match=r"machine lab-master: exists with other settings") as refused:
        world.create(master={"size": "Standard_B2ms"})
    assert refused.value.exit_code == 1 and "`grass delete lab` removes it" in str(refused.value)


def test_providers_are_registered_first(world: World) -> None:
    world.azure.registered = set()
    world.create()
    assert sum("/register" in change for change in world.changes) == 2 and world.azure.registered


def test_a_refusal_before_anything_exists_is_bad_input_and_leaves_nothing(world: World) -> None:
    world.azure.secretly_allowed = ["northeurope"]
    with pytest.raises(InputError, match=r"grass-lab: RequestDisallowedByAzure") as refused:
        world.create()
    assert refused.value.exit_code == 2 and not world.session.folder.exists() and world.azure.empty()


def test_a_refused_machine_leaves_the_network_named_priced_and_removable(world: World) -> None:
    def refuse(asked: Any) -> None:
        if asked.method == "PUT" and VM in asked.path:
            raise RefusalError(409, "SkuNotAvailable")

    world.azure.refuse = refuse
    with pytest.raises(AzureError) as refused:
        world.create()
    text = str(refused.value)
    assert refused.value.exit_code == 1 and "network lab-net ($" not in text and "$0.0563/hour" in text
    assert "grass-lab, network security group lab-rules, route table lab-routes, network lab-net" in text
    assert world.azure.of(VM) == [] == world.azure.of(NIC)
    world.azure.refuse = lambda asked: None
    world.delete()
    assert world.azure.empty() and not world.session.folder.exists()


def test_without_capacity_the_failed_machine_goes_and_one_other_zone_is_tried(world: World) -> None:
    world.azure.without_capacity = {("Standard_B2s", None)}
    world.create()
    [machine], [_], [_], [_] = (world.azure.of(kind) for kind in (VM, NIC, IP, DISK))
    assert machine.body["zones"] == ["1"] and "trying zone 1" in told(world)
    world.create()
    assert len(world.azure.of(VM)) == 1
    world.delete()
    assert world.azure.empty()


def test_without_capacity_anywhere_nothing_of_the_machine_stays(world: World) -> None:
    world.azure.without_capacity = {("Standard_B2s", zone) for zone in (None, "1", "2", "3")}
    with pytest.raises(AzureCapacityError, match=r"ZonalAllocationFailed.*try another size, zone or region"):
        world.create()
    assert [world.azure.of(kind) for kind in (VM, NIC, IP, DISK)] == [[], [], [], []]


def test_a_card_that_is_reserved_is_waited_for(world: World) -> None:
    world.azure.without_capacity = {("Standard_B2s", zone) for zone in (None, "1", "2", "3")}
    with pytest.raises(AzureCapacityError):
        world.create()
    assert world.now > 180 and "Azure keeps a card for its machine for 180 s" in told(world)


def test_a_machine_that_never_comes_to_an_end_is_looked_at_by_the_next_command(world: World) -> None:
    world.azure.endless = True
    with pytest.raises(AzureSlowError, match="Azure has not finished after 20m") as slow:
        world.create()
    assert slow.value.exit_code == 124 and "Azure is still working, after 1m" in told(world)
    record = load_record(world.session.folder)
    assert record is not None and "/operations/" in record.machines["lab-master"].operation
    before = len(world.changes)
    with pytest.raises(AzureSlowError):
        world.create()
    assert world.changes[before:] == []
    world.delete()
    assert world.azure.empty()


def test_a_process_that_ended_while_the_machine_was_made_is_continued(world: World) -> None:
    def kill(method: str, url: str, go: Any) -> Any:
        done = go()
        if "/operations/" in url and world.azure.of(VM):
            raise KilledError
        return done

    world.fault = kill
    with pytest.raises(KilledError):
        world.create()
    world.fault = lambda method, url, go: go()
    world.create()
    assert len(world.azure.of(VM)) == 1 and sum(f"PUT {VM}" in change for change in world.changes) == 1


def test_a_machine_that_did_not_report_in_time_is_tried_by_ssh(world: World) -> None:
    def timed_out(method: str, url: str, go: Any) -> Any:
        done = go()
        first = "trying SSH" not in told(world)
        if first and "/operations/" in url and world.azure.of(VM) and done.content.get("status") == "Succeeded":
            return type(done)(200, {"status": "Failed", "error": {"code": "OSProvisioningTimedOut", "message": "late"}})
        return done

    world.fault = timed_out
    world.create()
    assert "trying SSH" in told(world) and len(world.ready) == 1


def test_a_machine_without_ssh_is_kept_and_says_how_to_look_at_it(world: World) -> None:
    def silent(host: HostSettings, session: Session) -> None:
        raise UnreachableError(f"master: no SSH at {host.address}:22")

    object.__setattr__(world.edges, "reach", silent)
    with pytest.raises(UnreachableError) as refused:
        world.create()
    text = str(refused.value)
    assert "is 203.0.113.7/32 still the address of this machine?" in text and "get-boot-log -g grass-lab" in text
    assert "machine lab-master (list price" in text and len(world.azure.of(VM)) == 1


def test_a_host_that_cannot_become_a_master_is_named_with_what_it_costs(world: World) -> None:
    def fail(settings: Any, session: Session) -> Any:
        raise UnreachableError("the API does not answer")

    object.__setattr__(world.edges, "install", fail)
    with pytest.raises(UnreachableError, match=r"(?s)the API does not answer.*machine lab-master.*continues"):
        world.create()


def test_a_group_that_is_being_deleted_is_waited_for(world: World) -> None:
    world.create()
    path = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/grass-lab?api-version=2025-04-01"
    world.azure.handle("DELETE", f"https://management.azure.com{path}", None)
    world.create()
    assert len(world.azure.of(VM)) == 1 and world.now > 40


def test_a_group_of_an_earlier_cluster_that_is_being_deleted_is_waited_for(world: World) -> None:
    world.create()
    path = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/grass-lab?api-version=2025-04-01"
    world.azure.handle("DELETE", f"https://management.azure.com{path}", None)
    shutil.rmtree(world.session.folder)
    world.create()
    assert [thing.body["tags"]["grass-id"] for thing in world.azure.of(VM)] == ["f" * 16]


def test_a_login_that_ends_midway_says_what_exists(world: World) -> None:
    def ended(method: str, url: str, go: Any) -> Any:
        return reply(401, "ExpiredAuthenticationToken") if method == "PUT" and "virtualNetworks" in url else go()

    world.fault = ended
    with pytest.raises(
        AzureLoginError, match=r"(?s)`az login`.*exists on Azure: resource group grass-lab, network sec"
    ):
        world.create()


@pytest.mark.parametrize("code", ["ExpiredAuthenticationToken", "InternalFailure"])
def test_what_azure_accepted_is_never_forgotten_even_if_its_end_is_not_seen(world: World, code: str) -> None:
    world.azure.add("group", "", "shared", {"location": "westeurope"})
    world.fault = lambda method, url, go: reply(400, code) if "/operations/" in url else go()
    with pytest.raises(GrassError, match=r"exists on Azure: network security group lab-rules \("):
        world.create(cloud={"location": "westeurope", "resource_group": "shared", "use_existing_group": True})
    world.fault = lambda method, url, go: go()
    world.delete()
    assert world.azure.of(NSG) == []


def test_a_thing_that_is_made_again_whenever_it_is_removed_does_not_keep_delete_for_ever(world: World) -> None:
    world.create()
    rules = world.azure.of(NSG)[0]

    def again(method: str, url: str, go: Any) -> Any:
        done = go()
        if method == "GET" and url.partition("?")[0].endswith("/resources"):
            world.azure.add(NSG, "grass-lab", rules.name, rules.body)
        return done

    world.fault = again
    with pytest.raises(LeftOnAzureError, match="lab-rules: something makes it again"):
        world.delete()


def test_who_interrupts_it_is_told_what_exists(world: World) -> None:
    def interrupt(method: str, url: str, go: Any) -> Any:
        if method == "PUT" and VM in url:
            raise KeyboardInterrupt
        return go()

    world.fault = interrupt
    with pytest.raises(KeyboardInterrupt):
        world.create()
    assert "grass-lab, network security group lab-rules, route table lab-routes, network lab-net" in told(world)


def test_a_provider_that_the_login_may_not_register_names_the_command(world: World) -> None:
    world.azure.registered = {"Microsoft.Compute"}
    world.fault = lambda method, url, go: reply(403, "AuthorizationFailed") if method == "POST" else go()
    with pytest.raises(AzureForbiddenError, match=r"`az provider register -n Microsoft\.Network` once") as refused:
        world.create()
    assert refused.value.exit_code == 4


def test_a_group_of_another_cluster_is_refused(world: World) -> None:
    world.create()
    shutil.rmtree(world.session.folder)
    with pytest.raises(InputError, match="grass-lab exists, and not for this cluster"):
        world.create()


def test_another_region_or_group_in_the_file_is_refused_once_the_cluster_exists(world: World) -> None:
    world.create()
    with pytest.raises(ConflictError, match="exists in the group grass-lab in westeurope"):
        world.create(cloud={"location": "northeurope"})


def test_somebody_elses_network_of_the_same_name_is_not_taken(world: World) -> None:
    world.azure.add("group", "", "shared", {"location": "westeurope"})
    world.azure.add("Microsoft.Network/virtualNetworks", "shared", "lab-net", {"location": "westeurope"})
    cloud = {"location": "westeurope", "resource_group": "shared", "use_existing_group": True}
    with pytest.raises(InputError, match="network lab-net exists in shared, and Grass did not make it"):
        world.create(cloud=cloud)
    assert world.changes == []


def test_the_public_key_beside_a_private_one_is_used(world: World, tmp_path: Path) -> None:
    (tmp_path / "k.pub").write_text("ssh-ed25519 AAAA ann@home\n")
    world.create(ssh={"key": str(tmp_path / "k")})
    [machine] = world.azure.of(VM)
    keys = machine.body["properties"]["osProfile"]["linuxConfiguration"]["ssh"]["publicKeys"]
    assert keys[0]["keyData"] == "ssh-ed25519 AAAA" and world.ready[0].login.key == str(tmp_path / "k")
    with pytest.raises(InputError, match=r"ssh\.key: the public key .*none\.pub cannot be read"):
        World(tmp_path / "other").create(ssh={"key": str(tmp_path / "none")})


# ---------------------------------------------------------------------- delete


def test_delete_leaves_a_group_that_is_not_grasss(world: World) -> None:
    world.azure.add("group", "", "shared", {"location": "westeurope"})
    world.azure.add(IP, "shared", "theirs", {"location": "westeurope"})
    world.create(cloud={"location": "westeurope", "resource_group": "shared", "use_existing_group": True})
    world.delete()
    assert [thing.name for thing in world.azure.things.values()] == ["theirs"] and list(world.azure.groups) == [
        "shared"
    ]
    assert "resource group shared: stays, because Grass did not make it" in world.said


def test_delete_leaves_a_group_of_grass_in_which_somebody_has_put_something(world: World) -> None:
    world.create()
    world.azure.add(DISK, "grass-lab", "precious", {"location": "westeurope"})
    world.delete()
    assert [thing.name for thing in world.azure.things.values()] == ["precious"]
    assert "stays, because of precious (Microsoft.Compute/disks), which Grass did not make" in told(world)


def test_delete_names_a_lock_and_leaves_it(world: World) -> None:
    world.create()
    group = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/grass-lab"
    world.azure.locks = {group: "keep-this"}
    with pytest.raises(
        LeftOnAzureError, match=r"(?s)ScopeLocked.*\(locks: keep-this\).*repeat `grass delete lab`"
    ) as left:
        world.delete()
    assert left.value.exit_code == 1 and world.session.folder.exists() and len(world.azure.of(VM)) == 1
    assert world.azure.locks == {group: "keep-this"}
    world.azure.locks = {}
    world.delete()
    assert world.azure.empty()


def test_a_thing_that_cannot_be_removed_does_not_keep_the_others(world: World) -> None:
    world.create()

    def refuse(asked: Any) -> None:
        if asked.method == "DELETE" and VM in asked.path:
            raise RefusalError(403, "AuthorizationFailed")

    world.azure.add(DISK, "grass-lab", f"old-{ID}", {"location": "westeurope"})
    world.azure.refuse = refuse
    begin = world.now
    with pytest.raises(LeftOnAzureError, match=r"machine lab-master: AuthorizationFailed"):
        world.delete()
    assert world.now - begin < 60, "what the machine uses is not waited for"
    assert f"old-{ID}" not in [thing.name for thing in world.azure.of(DISK)] and world.session.folder.exists()


def test_delete_finds_what_the_lists_do_not_show_yet(world: World) -> None:
    def kill(method: str, url: str, go: Any) -> Any:
        done = go()
        if method == "PUT" and VM in url:
            raise KilledError
        return done

    world.fault = kill
    with pytest.raises(KilledError):
        world.create()
    world.fault = lambda method, url, go: go()
    world.delete()
    assert world.azure.empty() and not world.session.folder.exists()


def test_delete_of_a_group_that_is_gone_already_removes_the_folder(world: World) -> None:
    world.create()
    world.azure.groups.clear()
    world.azure.things.clear()
    world.delete()
    assert not world.session.folder.exists()


def test_delete_without_a_right_to_look_keeps_the_folder(world: World) -> None:
    world.create()
    world.fault = lambda method, url, go: reply(403, "AuthorizationFailed")
    with pytest.raises(AzureForbiddenError, match="ask an owner"):
        world.delete()
    assert world.session.folder.exists()


def test_an_interrupted_cluster_is_managed_by_its_own_provisioner(world: World) -> None:
    world.azure.endless = True
    with pytest.raises(AzureSlowError):
        world.create()
    found = registry.for_cluster(world.session)
    assert isinstance(found, AzureProvisioner)
    with pytest.raises(ConflictError, match="creating it was interrupted; repeat `grass create FILE`"):
        found.status()
