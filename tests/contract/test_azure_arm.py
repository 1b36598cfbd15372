"""The double of Azure over TLS: with the real pipeline of Grass, and with the typed clients of Microsoft."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from grass.azure.arm import Arm, Clock, LinkError
from grass.azure.faults import AzureLoginError
from grass.azure.pipeline import open_pipeline
from grass.azure.resources import Kind, wanted
from grass.errors import GrassError, InputError, UnreachableError
from grass.manifest.azure import AzureSettings
from grass.manifest.on_premises import HostSettings
from grass.model.lifecycle import NodeState
from grass.provision.azure import cost, create, delete, nodes, power
from grass.provision.azure.change import Member
from grass.provision.azure.edges import Edges
from grass.provision.azure.look import subscription_of
from grass.provision.on_premises.machines import Machines
from grass.provision.provisioner import AddedNode, Created, ScaleRequest, Session
from tests.doubles.azure_arm import NIC, SUBSCRIPTION, TOKEN, VM
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

    def join(hosts: Sequence[HostSettings]) -> list[AddedNode]:
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
    assert {usage.name.value: usage.limit for usage in compute.usage.list("westeurope")}["cores"] == 4
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
