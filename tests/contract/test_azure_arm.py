"""The double of Azure over TLS: with the real pipeline of Grass, and with the typed clients of Microsoft."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grass.azure.aks import Pool, group, kubernetes, pool, registry, right_to_pull, terms_of
from grass.azure.arm import Arm, Clock, LinkError
from grass.azure.faults import AzureLoginError
from grass.azure.pipeline import open_pipeline
from grass.azure.resources import CONTAINERS, REGISTRIES, Kind, wanted
from grass.errors import GrassError, InputError, UnreachableError
from grass.manifest.azure import AzureSettings
from grass.manifest.on_premises import HostSettings
from grass.model.lifecycle import NodeState
from grass.provision.aks import create as aks_create
from grass.provision.aks import delete as aks_delete
from grass.provision.aks import power as aks_power
from grass.provision.aks import scale as aks_scale
from grass.provision.azure import cost, create, delete, nodes, power
from grass.provision.azure.change import Member
from grass.provision.azure.edges import Edges
from grass.provision.azure.look import subscription_of
from grass.provision.on_premises.machines import Machines
from grass.provision.provisioner import AddedNode, Created, ScaleRequest, Session
from tests.doubles.azure_aks import CLUSTER, REGISTRY, Aks
from tests.doubles.azure_arm import NIC, SUBSCRIPTION, TOKEN, VM
from tests.support.aks_world import SKUS
from tests.support.aks_world import World as AksWorld
from tests.support.aks_world import settings as aks_settings
from tests.support.azure_server import FASTER, Credential, Served, serve
from tests.support.azure_world import settings

CLOCK = Clock(lambda: time.monotonic() * FASTER, lambda seconds: time.sleep(seconds / FASTER))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("azure")) as served:
        yield served


@pytest.fixture
def trusted(served: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(served.authority))
    return served


def arm(served: Served, token: str = TOKEN) -> Arm:
    endpoint = served.azure.endpoint
    return Arm(open_pipeline(endpoint, Credential(token)), endpoint, CLOCK, lambda _: None)


def install(settings: AzureSettings, session: Session) -> Created:
    Machines(settings.master).save(session.client_dir)
    return Created(session.name, settings.mode, "", settings.master.address)


def test_a_cluster_is_made_and_removed_over_the_real_pipeline(trusted: Served, tmp_path: Path) -> None:
    azure, credential = trusted.azure, Credential(TOKEN)
    edges = Edges(
        lambda endpoint: open_pipeline(endpoint, credential),
        CLOCK,
        reach=lambda host, session: None,
        install=install,
    )
    wished = settings(cloud={"location": "westeurope", "endpoint": azure.endpoint}, ssh={"from": ["203.0.113.0/24"]})
    session = Session("lab", tmp_path, lambda _: None)
    assert create.create(wished, session, edges).url == "20.0.0.9"
    assert [len(azure.of(type)) for type in (VM, NIC)] == [1, 1] and credential.asked == 1
    azure.limits |= {"cores": 20, "standardBSFamily": 10}
    there: dict[str, Member] = {}

    def join(hosts: Sequence[HostSettings], gpus: Mapping[str, int]) -> list[AddedNode]:
        there.update({str(host.name): Member(NodeState.READY) for host in hosts})
        return []

    def drain(names: Sequence[str]) -> dict[str, GrassError]:
        return {}

    nodes.scale(session, edges, ScaleRequest({"Standard_B2s": 1}), nodes.Cluster(lambda: there, join, there.pop))
    noted: list[str] = []
    asked = power.Nodes(lambda: there, drain, lambda name, why: noted.append(why), lambda name, drained: None)
    assert [one.error for one in power.stop(session, edges, ["lab-b2s-1"], asked)] == [None]
    assert "deallocated" in noted[0] and [one.state for one in cost.costs(session, edges).machines] == [
        "deallocated",
        "running",
    ]
    assert [one.error for one in power.start(session, edges, ["lab-b2s-1"], asked)] == [None]
    delete.delete(session, edges, force=False, packages=False)
    assert azure.empty()


def test_a_refused_token_is_a_login_that_has_ended(trusted: Served) -> None:
    with pytest.raises(AzureLoginError, match=r"InvalidAuthenticationToken.*`az login`"):
        subscription_of(arm(trusted, "old"), None)


def test_a_server_with_a_certificate_of_another_authority_gets_no_token(served: Served) -> None:
    before = len(served.azure.asked)
    with pytest.raises(UnreachableError, match="the certificate of localhost is not trusted"):
        open_pipeline(served.azure.endpoint, Credential(TOKEN))("GET", f"{served.azure.endpoint}/subscriptions", None)
    assert len(served.azure.asked) == before


def test_the_token_goes_to_no_other_host(trusted: Served) -> None:
    other = trusted.azure.endpoint.replace("https://localhost", "https://127.0.0.1")
    credential = Credential(TOKEN)
    send = open_pipeline("https://management.azure.com", credential)
    with pytest.raises(UnreachableError):
        send("GET", f"{other}/subscriptions", None)
    reply = send("GET", f"{trusted.azure.endpoint}/subscriptions?api-version=2022-12-01", None)
    assert (reply.status, credential.asked) == (401, 0)


def test_a_server_that_is_away_may_be_asked_again(trusted: Served) -> None:
    with pytest.raises(LinkError, match="no answer from localhost"):
        open_pipeline("https://localhost:1", Credential(TOKEN))("GET", "https://localhost:1/subscriptions", None)


def test_without_the_extra_the_command_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "azure.core.pipeline", None)
    with pytest.raises(InputError, match=r"pip install 'grass-cluster\[azure\]'"):
        open_pipeline("https://management.azure.com")


@pytest.mark.nightly  # test_a_cluster_is_made_and_removed_over_the_real_pipeline; importing the clients takes seconds
def test_microsofts_typed_clients_make_the_same_and_find_it(trusted: Served) -> None:
    from azure.mgmt.compute import ComputeManagementClient
    from azure.mgmt.network import NetworkManagementClient

    azure = trusted.azure
    common: dict[str, Any] = {"base_url": azure.endpoint, "credential_scopes": ["x/.default"], "polling_interval": 0}
    compute = ComputeManagementClient(Credential(TOKEN), SUBSCRIPTION, api_version=Kind.MACHINE.version, **common)
    network = NetworkManagementClient(Credential(TOKEN), SUBSCRIPTION, **common)
    pinned = {"api_version": Kind.NETWORK.version}  # this client takes no version for all of its requests
    own = arm(trusted)
    site = create.Record(SUBSCRIPTION, "typed", "westeurope", "0" * 16, azure.endpoint).site
    group, rules, routes, net, machine = wanted(
        settings(cloud={"location": "westeurope", "resource_group": "typed"}),
        site,
        ("203.0.113.0/24",),
        "ssh-ed25519 AAAA",
    )
    own.put(group.kind, group.path, group.body, "group")
    network.network_security_groups.begin_create_or_update("typed", rules.name, rules.body, **pinned).result()
    network.route_tables.begin_create_or_update("typed", routes.name, routes.body, **pinned).result()
    made = network.virtual_networks.begin_create_or_update("typed", net.name, net.body, **pinned).result()
    assert made.subnets[0].address_prefix == "10.60.0.0/23"
    vm = compute.virtual_machines.begin_create_or_update("typed", machine.name, machine.body).result()
    assert (vm.provisioning_state, vm.hardware_profile.vm_size) == ("Succeeded", "Standard_B2s")
    [card] = vm.network_profile.network_interfaces
    assert network.network_interfaces.get("typed", card.id.rpartition("/")[2], **pinned).ip_configurations
    assert {usage.name.value: usage.limit for usage in compute.usage.list("westeurope")}["cores"] == azure.limits[
        "cores"
    ]
    assert len([sku for sku in compute.resource_skus.list(filter="location eq 'westeurope'")]) == len(azure.skus)
    compute.virtual_machines.begin_deallocate("typed", machine.name).result()
    [seen] = [each for each in compute.virtual_machines.list_all(status_only="true") if each.name == machine.name]
    assert [each.code for each in seen.instance_view.statuses][1:] == ["PowerState/deallocated"]
    compute.virtual_machines.begin_start("typed", machine.name).result()
    compute.virtual_machines.begin_delete("typed", machine.name, force_deletion=True).result()
    network.virtual_networks.begin_delete("typed", net.name, **pinned).result()
    network.route_tables.begin_delete("typed", routes.name, **pinned).result()
    network.network_security_groups.begin_delete("typed", rules.name, **pinned).result()
    assert [thing for thing in azure.things.values() if thing.group == "typed"] == []
    azure.groups.clear()


@pytest.mark.nightly  # as the test before it
def test_microsofts_typed_clients_make_the_same_kubernetes_and_find_it(trusted: Served) -> None:
    from azure.mgmt.authorization import AuthorizationManagementClient
    from azure.mgmt.containerregistry import ContainerRegistryManagementClient
    from azure.mgmt.containerservice import ContainerServiceClient

    azure = trusted.azure
    aks = Aks(azure, known_after=0.0)
    azure.skus += SKUS
    azure.limits |= {"cores": 20, "standardDSv5Family": 20, "standardBSFamily": 10}
    azure.registered |= {"Microsoft.ContainerService", "Microsoft.ContainerRegistry"}
    common: dict[str, Any] = {"base_url": azure.endpoint, "credential_scopes": ["x/.default"], "polling_interval": 0}
    service = ContainerServiceClient(Credential(TOKEN), SUBSCRIPTION, api_version=CONTAINERS, **common)
    registries = ContainerRegistryManagementClient(Credential(TOKEN), SUBSCRIPTION, api_version=REGISTRIES, **common)
    rights = AuthorizationManagementClient(Credential(TOKEN), SUBSCRIPTION, **common)
    site = create.Record(SUBSCRIPTION, "typed", "westeurope", "0" * 16, azure.endpoint).site
    terms = terms_of(aks_settings(), ("203.0.113.0/24",), SUBSCRIPTION)
    first, images, cluster = group(terms, site), registry(terms, site, password=True), kubernetes(terms, site)
    arm(trusted).put(first.kind, first.path, first.body, "group")
    assert registries.registries.check_name_availability({"name": images.name, "type": images.kind.type}).name_available
    made = registries.registries.begin_create("typed", images.name, images.body).result()
    assert made.login_server == f"{images.name}.azurecr.io"
    assert registries.registries.list_credentials("typed", images.name).passwords[0].value == "secret-1"
    assert "1.33" in [
        each.version for each in service.managed_clusters.list_kubernetes_versions("westeurope").values_property
    ]
    found = service.managed_clusters.begin_create_or_update("typed", cluster.name, cluster.body).result()
    assert (found.provisioning_state, found.power_state.code) == ("Succeeded", "Running")
    principal = found.identity_profile["kubeletidentity"].object_id
    right = right_to_pull(terms, site, principal)
    scope = right.path.partition("/providers/Microsoft.Authorization/")[0]
    rights.role_assignments.create(scope, right.name, right.body)
    assert rights.role_assignments.get(scope, right.name).principal_id == principal
    [login] = service.managed_clusters.list_cluster_admin_credentials("typed", cluster.name).kubeconfigs
    assert bytes(login.value).decode() == aks.kubeconfig
    one = pool(terms, site, "d8sv5", Pool("Standard_D8s_v5", 1))
    assert service.agent_pools.begin_create_or_update("typed", cluster.name, one.name, one.body).result().count == 1
    listed = {each.name: each.mode for each in service.agent_pools.list("typed", cluster.name)}
    assert listed == {"system": "System", "d8sv5": "User"}
    machines = {"machineNames": ["aks-d8sv5-1234-vmss000000"]}
    service.agent_pools.begin_delete_machines("typed", cluster.name, one.name, machines).result()
    assert service.agent_pools.get("typed", cluster.name, one.name).count == 0
    service.managed_clusters.begin_stop("typed", cluster.name).result()
    assert service.managed_clusters.get("typed", cluster.name).power_state.code == "Stopped"
    service.managed_clusters.begin_start("typed", cluster.name).result()
    service.managed_clusters.begin_delete("typed", cluster.name).result()
    registries.registries.begin_delete("typed", images.name).result()
    assert azure.of(CLUSTER) == azure.of(REGISTRY) == [] and aks.roles == {}
    azure.groups.clear()
    azure.things.clear()


def test_a_kubernetes_is_made_scaled_stopped_and_removed_over_the_real_pipeline(
    trusted: Served, tmp_path: Path
) -> None:
    azure, credential = trusted.azure, Credential(TOKEN)
    aks = Aks(azure)
    azure.skus += SKUS
    azure.limits |= {"cores": 20, "standardDSv5Family": 20}
    world = AksWorld(tmp_path)
    edges = replace(world.edges, send=lambda endpoint: open_pipeline(endpoint, credential), clock=CLOCK)
    cloud = {"location": "westeurope", "endpoint": azure.endpoint}
    aks_create.create(aks_settings(cloud=cloud, kubernetes={"from": ["203.0.113.0/24"]}), world.session, edges)
    assert [each.name for each in azure.of(CLUSTER)] == ["lab-aks"] and len(aks.roles) == 1 and len(world.joined) == 1
    assert aks_scale.scale(world.session, edges, ScaleRequest({"Standard_D8s_v5": 1})).lines
    assert aks_power.stop(world.session, edges)
    aks_power.start(world.session, edges)
    aks_delete.delete(world.session, edges)
    assert azure.empty() and aks.pools == {}
