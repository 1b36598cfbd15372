"""`grass create` of `mode: k8s/aks` on the double of Azure: what is made, found, refused and removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from grass.azure.faults import AzureForbiddenError, AzureLoginError, AzureSlowError
from grass.errors import ConflictError, GrassError, InputError, NotAllowedError
from grass.mode_file import keeps_files_here, read_mode
from grass.provision.aks.record import KUBECONFIG, Pull, load_record
from grass.provision.azure.delete import LeftOnAzureError
from grass.provision.registry import _PROVISIONERS
from tests.doubles.azure_aks import BALANCER, CLUSTER, REGISTRY
from tests.doubles.azure_arm import DISK, SUBSCRIPTION, VM, Asked, RefusalError
from tests.support.aks_world import World

REGISTRY_NAME = "labgrass84ea1154"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def made(world: World) -> World:
    world.create()
    return world


def test_a_cluster_is_made_and_its_namespace_becomes_a_node(made: World) -> None:
    assert [thing.name for thing in made.azure.of(CLUSTER)] == ["lab-aks"] and made.aks.counts() == {"system": 1}
    assert [thing.name for thing in made.azure.of(REGISTRY)] == [REGISTRY_NAME] and len(made.aks.roles) == 1
    folder = made.session.folder
    assert read_mode(folder) in _PROVISIONERS and keeps_files_here(folder)
    assert (folder / KUBECONFIG).read_text() == "a kubeconfig" and (folder / KUBECONFIG).stat().st_mode & 0o777 == 0o600
    [(kubeconfig, wanted)], [joined] = made.provided, made.joined
    assert (kubeconfig, wanted.namespace, wanted.share, wanted.login) == ("a kubeconfig", "grass", 100, "")
    [node] = joined.namespaces
    assert (node.kubeconfig, node.claim, node.pull_secrets) == (str(folder / KUBECONFIG), "grass-share", ())


def test_the_api_server_is_open_to_the_callers_address_alone(made: World) -> None:
    properties = made.aks.cluster().body["properties"]
    assert properties["apiServerAccessProfile"]["authorizedIPRanges"] == ["203.0.113.7/32"]


def test_the_same_command_again_asks_for_nothing_new(made: World) -> None:
    before = made.changes
    made.create()
    assert all("roleAssignments" in each or "listCluster" in each for each in made.changes[len(before) :])
    assert len(made.joined) == 2


def test_another_address_changes_the_cluster_and_keeps_its_pools(made: World) -> None:
    made.scale(D8s_v5=1)
    made.create(kubernetes={"from": ["198.51.100.0/24"], "tier": "standard"})
    body = made.aks.cluster().body
    assert body["properties"]["apiServerAccessProfile"]["authorizedIPRanges"] == ["198.51.100.0/24"]
    assert body["sku"]["tier"] == "Standard" and made.aks.counts() == {"system": 1, "d8sv5": 1}


def test_what_a_cluster_keeps_cannot_be_changed_in_the_file(made: World) -> None:
    with pytest.raises(GrassError, match=r"system and kubernetes.version: are kept.*\n.*`grass delete lab` removes it"):
        made.create(system={"size": "Standard_E4s_v5"})


def test_a_plan_makes_nothing_and_says_what_stops_with_stop(world: World) -> None:
    text = "\n".join(world.plan(kubernetes={"tier": "standard"}, system={"count": 2}))
    assert not world.session.folder.exists() and world.azure.empty()
    assert "pool system: 2 × Standard_D4s_v5 (4 cores, 16 GiB)" in text
    assert "quota Quota standardDSv5Family: 20 of 20 cores are left; 12 after it" in text
    assert "machines of the pool system: $0.4600/hour, $335.80/month; not paid while the cluster is stopped" in text
    assert "Azure's part (tier standard): $0.1000/hour" in text
    assert "balancer and its address: $0.0300/hour, $21.90/month; paid until `grass delete`" in text
    assert "registry: $0.0069/hour" in text and f"registry {REGISTRY_NAME}.azurecr.io: is made" in text
    assert text.count("is registered for the subscription first") == 3


def test_without_a_registry_and_a_share_none_is_made(world: World) -> None:
    assert "registry" not in "\n".join(world.plan(registry=False, share=False))
    world.create(registry=False, share=False)
    assert world.azure.of(REGISTRY) == [] and world.aks.roles == {} and world.provided[0][1].share == 0
    assert world.joined[0].namespaces[0].claim is None


# what is refused before anything is made


def refused(world: World, match: str, **keys: object) -> None:
    with pytest.raises(InputError, match=match):
        world.create(**keys)
    assert not world.session.folder.exists() and not world.runs
    assert [each for each in world.changes if "checkName" not in each] == []


def test_the_quota_of_a_family_is_said_with_the_figure_and_what_fits(world: World) -> None:
    world.azure.limits["standardDSv5Family"] = 3
    refused(world, r"system.size: Standard_D4s_v5 needs 4 cores, but 3 of 3 are left of Quota standardDSv5Family\n"
            r"these fit, the cheapest first:\n  Standard_E4s_v5 in westeurope: 4 cores")  # fmt: skip


def test_a_version_that_is_not_offered_names_those_that_are(world: World) -> None:
    refused(
        world,
        r"kubernetes.version: Azure does not offer 1.29 in westeurope, but 1.32, 1.33",
        kubernetes={"version": "1.29"},
    )


def test_a_size_too_small_for_azures_own_pods_is_refused(world: World) -> None:
    refused(
        world,
        "system.size: Standard_D2s_v5 has 2 cores, and Azure wants 4",
        system={"size": "Standard_D2s_v5"},
    )


def test_a_registry_of_somebody_else_is_said_before_anything_is_made(world: World) -> None:
    world.aks.taken = {"images"}
    refused(world, "registry: the name images is taken by somebody on Azure", registry="images")


def test_a_region_that_a_policy_forbids_is_refused(world: World) -> None:
    world.azure.allowed = ["northeurope"]
    refused(world, "cloud.location: a policy of the subscription allows the regions northeurope, not westeurope")


def test_a_region_that_is_forbidden_without_a_word_leaves_nothing(world: World) -> None:
    world.azure.secretly_allowed = ["northeurope"]
    with pytest.raises(InputError, match="RequestDisallowedByAzure"):
        world.create()
    assert not world.session.folder.exists() and not world.runs and world.azure.empty()


def test_no_public_address_left_is_said(world: World) -> None:
    world.azure.limits["PublicIPAddresses"] = 0
    refused(world, "no public address is left of 0 in westeurope")


def test_a_group_of_somebody_else_is_not_taken_over(world: World) -> None:
    world.azure.add("group", "", "grass-lab", {"location": "westeurope"})
    refused(world, "cloud.resource_group: grass-lab exists, and not for this cluster")


def test_a_cluster_of_somebody_else_with_the_name_is_left_alone(world: World) -> None:
    world.azure.add("group", "", "theirs", {"location": "westeurope"})
    world.azure.add(CLUSTER, "theirs", "lab-aks", {"location": "westeurope", "properties": {"dnsPrefix": "x"}})
    cloud = {"location": "westeurope", "resource_group": "theirs", "use_existing_group": True}
    refused(world, "name: lab-aks exists in theirs, and Grass did not make it", cloud=cloud)


def test_a_master_that_cannot_be_started_here_costs_nothing(world: World) -> None:
    world.broken = ConflictError("port 5000 is taken")
    with pytest.raises(ConflictError, match="port 5000"):
        world.create()
    assert world.azure.empty()


def test_nobody_is_signed_in(world: World) -> None:
    world.token = "old"
    with pytest.raises(AzureLoginError, match="`az login`"):
        world.create()
    assert not world.session.folder.exists()


# rights to pull


def test_who_may_give_no_rights_gets_a_secret_and_hears_of_it(world: World) -> None:
    world.aks.may_assign = False
    world.create()
    said = "\n".join(world.said)
    assert "AuthorizationFailed" in said and "so images are pulled with a Secret" in said
    assert "User Access Administrator" in said and "secret-1" not in said
    [(_, wanted)], [joined] = world.provided, world.joined
    assert "secret-1" in wanted.login and f"{REGISTRY_NAME}.azurecr.io" in wanted.login
    assert "secret-1" not in repr(wanted) and joined.namespaces[0].pull_secrets == ("grass-registry",)
    record = load_record(world.session.folder)
    assert record is not None and record.pull is Pull.LOGIN
    assert all("secret" not in path.read_text() for path in world.session.folder.glob("*.json"))
    world.create()
    assert world.azure.of(REGISTRY)[0].body["properties"]["adminUserEnabled"] is True


def test_a_new_identity_is_waited_for(world: World) -> None:
    world.aks.known_after = 200.0
    world.create()
    assert len(world.aks.roles) == 1 and "the new identity is not known everywhere yet" in "\n".join(world.said)


def test_an_identity_that_stays_unknown_for_five_minutes_ends_with_a_secret(world: World) -> None:
    world.aks.known_after = 3000.0
    world.create()
    assert world.aks.roles == {} and world.joined[0].namespaces[0].pull_secrets == ("grass-registry",)
    assert world.now < 1100


def test_a_right_that_is_there_under_another_name_is_enough(world: World) -> None:
    def refuse(asked: Asked) -> None:
        if "roleAssignments" in asked.path:
            raise RefusalError(409, "RoleAssignmentExists")

    world.azure.refuse = refuse
    world.create()
    assert world.joined[0].namespaces[0].pull_secrets == ()


# failures


def test_a_cluster_that_azure_failed_to_make_is_asked_for_once_more(world: World) -> None:
    world.aks.fail = ["", "InternalOperationError"]  # the registry is well
    world.create()
    assert world.changes.count("PUT Microsoft.ContainerService/managedClusters/lab-aks") == 2
    assert len(world.joined) == 1


def test_a_cluster_that_fails_twice_is_named_with_its_price_and_removed_by_delete(world: World) -> None:
    world.aks.fail = ["", "InternalOperationError", "InternalOperationError"]
    with pytest.raises(GrassError, match=r"InternalOperationError.*\nexists on Azure: .*lab-aks \(in all \$"):
        world.create()
    world.delete()
    assert world.azure.empty() and not world.session.folder.exists()


def test_a_cluster_that_never_ends_exits_with_124_and_goes_on(world: World) -> None:
    def endless(asked: Asked) -> None:
        if asked.method == "GET" and "/operations/" in asked.path and world.azure.of(CLUSTER):
            raise RefusalError(409, "AnotherOperationInProgress")

    world.azure.refuse = endless
    with pytest.raises(AzureSlowError, match="lab-aks"):
        world.create()
    world.azure.refuse = lambda asked: None
    world.create()
    assert len(world.joined) == 1


def test_where_local_accounts_are_off_the_line_for_kubelogin_is_named(world: World) -> None:
    world.aks.local_accounts = False
    with pytest.raises(NotAllowedError, match=r"`kubelogin convert-kubeconfig -l azurecli`.*`mode: k8s`") as raised:
        world.create()
    assert raised.value.exit_code == 4 and "exists on Azure" in str(raised.value)


def test_a_stopped_cluster_is_started_by_create(made: World) -> None:
    made.stop()
    made.create()
    assert made.aks.cluster().power == "Running"


# delete


def test_delete_leaves_nothing_with_the_group_of_the_machines(made: World) -> None:
    made.scale(D8s_v5=1)
    assert len(made.azure.groups) == 2 and len(made.azure.of(BALANCER)) == 1
    made.delete()
    assert made.azure.empty() and made.aks.pools == {} and made.aks.roles == {} and not made.session.folder.exists()
    assert "cluster lab: has cost about $" in "\n".join(made.said)


def test_what_somebody_put_beside_the_machines_is_never_removed(made: World) -> None:
    [group] = [each.name for each in made.azure.groups.values() if "nodes" in each.name]
    made.azure.add(VM, group, "theirs", {"properties": {"hardwareProfile": {"vmSize": "Standard_D2s_v3"}}})
    with pytest.raises(LeftOnAzureError, match=rf"would also remove theirs \({VM}\) in {group}.*`az aks delete"):
        made.delete()
    assert made.runs and made.azure.of(CLUSTER) and not made.aks.cluster().going
    del made.azure.things[group.lower(), VM.lower(), "theirs"]
    made.delete()
    assert made.azure.empty()


def test_volumes_that_kubernetes_made_beside_the_machines_are_the_clusters(made: World) -> None:
    [group] = [each.name for each in made.azure.groups.values() if "nodes" in each.name]
    made.azure.add(DISK, group, "pvc-1", {"tags": {"k8s-azure-created-by": "kubernetes-azure-dd"}})
    made.delete()
    assert made.azure.empty()


def test_something_else_in_the_group_keeps_the_group(made: World) -> None:
    made.azure.add(DISK, "grass-lab", "theirs", {"location": "westeurope"})
    made.delete()
    assert list(made.azure.groups) == ["grass-lab"] and [each.name for each in made.azure.of(DISK)] == ["theirs"]
    assert not made.session.folder.exists()


def test_a_lock_is_named_and_left(made: World) -> None:
    path = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/grass-lab"
    made.azure.locks = {path: "keep"}
    with pytest.raises(LeftOnAzureError, match=r"ScopeLocked.*\(locks: keep\)"):
        made.delete()
    assert made.azure.of(CLUSTER) and made.session.folder.exists()
    made.azure.locks = {}
    made.delete()
    assert made.azure.empty()


def test_a_right_that_is_missing_is_a_refusal(world: World) -> None:
    def refuse(asked: Asked) -> None:
        if asked.method == "PUT" and CLUSTER in asked.path:
            raise RefusalError(403, "AuthorizationFailed")

    world.azure.refuse = refuse
    with pytest.raises(AzureForbiddenError, match="role Contributor") as raised:
        world.create()
    assert raised.value.exit_code == 4 and "`grass delete lab` removes it" in str(raised.value)
    world.delete()
    assert world.azure.empty()


def test_a_cluster_elsewhere_is_not_mixed_up(made: World) -> None:
    with pytest.raises(ConflictError, match="exists in the group grass-lab in westeurope"):
        made.create(cloud={"location": "northeurope"})
