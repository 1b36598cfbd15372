"""Clusters of the mode `grass/azure`: machines that Grass makes. Made by ``grass.provision.registry``.

Once the machines exist, everything is as with machines that exist already.
"""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from grass.azure.arm import Send
from grass.azure.autoscale import Kind
from grass.azure.pipeline import managed_identity, open_pipeline
from grass.errors import GrassError, InputError
from grass.manifest.azure import AzureSettings
from grass.manifest.azure_autoscale import Autoscale, Rule
from grass.manifest.on_premises import HostSettings
from grass.model.resources import DEVICE, Resources
from grass.provision.azure import autoscaler, cost, create, delete, node_image, nodes, power
from grass.provision.azure.adopting import adopt
from grass.provision.azure.change import Member
from grass.provision.azure.edges import Edges
from grass.provision.azure.kinds import kinds_of
from grass.provision.azure.lease import Lease
from grass.provision.azure.needs import waiting
from grass.provision.azure.record import Asked, load_record
from grass.provision.azure.setup import Setup
from grass.provision.layout import user_name
from grass.provision.on_premises.machines import open_host
from grass.provision.on_premises.node_add import Adding, prepare_machine
from grass.provision.on_premises.provisioner import HostsProvisioner
from grass.provision.provisioner import (
    AutoscaleRequest,
    CanAutoscale,
    CanBuildImages,
    CanCreate,
    CanPlan,
    CanPowerNodes,
    CanScaleNodes,
    CanTellCosts,
    Created,
    Deleted,
    Finding,
    NodeImage,
    Powered,
    Scaled,
    ScaleRequest,
    Session,
)

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.cloud import CloudCosts
    from grass.wire.node_views import NodeView


class AzureProvisioner(
    HostsProvisioner,
    CanCreate[AzureSettings],
    CanPlan[AzureSettings],
    CanScaleNodes,
    CanPowerNodes,
    CanTellCosts,
    CanAutoscale[AzureSettings],
    CanBuildImages,
):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._edges = Edges()

    def plan(self, settings: AzureSettings) -> list[str]:
        return create.plan(settings, self._session, self._edges)

    def create(self, settings: AzureSettings) -> Created:
        return create.create(settings, self._session, self._edges)

    def delete(self, *, force: bool, packages: bool) -> Deleted:
        return delete.delete(self._session, self._edges, force=force, packages=packages)

    def scale_nodes(self, request: ScaleRequest, client: Client, take_out: Callable[[str], None]) -> Scaled:
        self._machines()  # an interrupted cluster has none
        cluster = nodes.Cluster(
            members=lambda: _members(client),
            join=lambda hosts, gpus: nodes.join(self._edges, Adding(self._session, client), hosts, gpus),
            take_out=take_out,
        )
        return nodes.scale(self._session, self._edges, request, cluster)

    def stop_nodes(
        self, names: Sequence[str], client: Client, drain: Callable[[Sequence[str]], Mapping[str, GrassError]]
    ) -> list[Powered]:
        return power.stop(self._session, self._edges, names, _asked(client, drain=drain))

    def start_nodes(self, names: Sequence[str], client: Client, back: Callable[[str, bool], None]) -> list[Powered]:
        return power.start(self._session, self._edges, names, _asked(client, back=back))

    def findings(self) -> list[Finding]:
        found = super().findings()
        return found or list(self._findings_of_autoscaler())

    def _findings_of_autoscaler(self) -> Iterator[Finding]:
        from grass.api.client import Client

        record = load_record(self._session.folder)
        if record is None or record.terms is None or not record.terms.identity:
            return
        with suppress(GrassError), Client(self._session.name, home=self._session.home) as client:
            cloud = client.status().cloud
            if cloud is not None and cloud.problem:
                what = f"{cloud.holder}: {cloud.problem}"
                cure = "it tries again each minute, and begins by itself; `grass autoscale FILE` does it meanwhile"
                yield Finding(f"autoscaler of {self._session.name}", False, what, cure)

    def autoscale(self, settings: AzureSettings, request: AutoscaleRequest, client: Client) -> None:
        policy = settings.autoscale
        if policy is None:
            raise InputError("autoscale: is missing in the file; it says for each size at least the most nodes of it")
        self._autoscale(
            policy, kinds_of(self._session, self._edges, policy), request, client, Lease(_holder(), client.tell_cloud)
        )

    def autoscale_here(self, setup: Setup, request: AutoscaleRequest, client: Client, lease: Lease) -> None:
        """Do so on the master, with the identity of its machine."""
        self._edges = replace(self._edges, send=self._send_here, region=lambda _, __: setup.region)
        self._autoscale(setup.policy, setup.kind_of, request, client, lease)

    def _send_here(self, endpoint: str) -> Send:
        return open_pipeline(endpoint, managed_identity())

    def _autoscale(
        self, policy: Autoscale, kinds: Mapping[Rule, Kind], request: AutoscaleRequest, client: Client, lease: Lease
    ) -> None:
        session, edges = self._session, self._edges
        specification = functools.cache(lambda job: client.job(job).specification or None)

        def machines() -> Mapping[str, Asked]:
            record = nodes.record_of(session)
            return adopt(session, edges.arm(record.endpoint, session), record).nodes(session.name)

        world = autoscaler.World(
            machines=machines,
            nodes=lambda: {view.name: _now(view) for view in client.nodes()},
            needs=lambda: waiting(client.jobs(), specification),
            costs=self.costs,
            start=lambda names: self.start_nodes(names, client, request.back),
            stop=lambda names: self.stop_nodes(names, client, request.drain),
            scale=lambda rule, total: self.scale_nodes(
                ScaleRequest({rule.size: total}, spot=rule.spot), client, request.take_out
            ),
            say=session.progress,
            steady=edges.clock.steady,
            wall=edges.wall,
            tell=lambda costs: _tell(client, costs),
        )
        scaler = autoscaler.Autoscaler(policy, kinds, world, session.folder)
        machines()  # without a right, nothing is begun
        lease.problem = ""
        try:
            autoscaler.run(scaler, edges.clock.sleep, lease, once=request.once)
        finally:
            lease.give_back()

    def build_image(self, size: str | None, client: Client) -> NodeImage:
        adding = Adding(self._session, client)

        def strip(settings: HostSettings) -> None:
            with open_host(settings, self._session.client_dir, self._session.ask) as host:
                host.connect()
                node_image.strip_host(host)

        return node_image.build(self._session, self._edges, size, lambda host: prepare_machine(adding, host), strip)

    def node_images(self) -> list[NodeImage]:
        return node_image.images(self._session, self._edges)

    def remove_image(self, name: str) -> None:
        node_image.remove(self._session, self._edges, name)

    def costs(self) -> CloudCosts:
        return cost.costs(self._session, self._edges)

    def keeps(self, name: str) -> bool:
        return nodes.is_node(self._session, name) or super().keeps(name)

    def remove_node(self, name: str, take_out: Callable[[], None], *, force: bool, packages: bool) -> None:
        if nodes.is_node(self._session, name) or self._adopted(name):
            nodes.remove(self._session, self._edges, name, take_out)
        else:
            super().remove_node(name, take_out, force=force, packages=packages)

    def _adopted(self, name: str) -> bool:
        """Return whether the autoscaler on the master made this node."""
        record = load_record(self._session.folder)
        if record is None or record.terms is None or not record.terms.identity:
            return False
        arm = self._edges.arm(record.endpoint, self._session)
        return name in adopt(self._session, arm, record).nodes(self._session.name)


def _holder() -> str:
    """Return a name of this process."""
    return f"`grass autoscale` of {user_name()} on {socket.gethostname()}, process {os.getpid()}"


def _tell(client: Client, costs: CloudCosts) -> None:
    with suppress(GrassError):
        client.tell_cloud(costs=costs)


def _members(client: Client) -> dict[str, Member]:
    return {node.name: Member(node.state, node.tasks, _gpus(node)) for node in client.nodes()}


def _gpus(view: NodeView) -> int | None:
    return None if view.resources is None else view.resources.gpu // DEVICE


def _now(view: NodeView) -> autoscaler.NodeNow:
    has = view.resources
    capacity = Resources(has.cpu, has.memory, has.gpu) if has is not None else None
    return autoscaler.NodeNow(view.state, view.tasks, not view.cordoned, capacity)


def _asked(
    client: Client,
    drain: Callable[[Sequence[str]], Mapping[str, GrassError]] = lambda names: {},
    back: Callable[[str, bool], None] = lambda name, open_again: None,
) -> power.Nodes:
    def stopped(name: str, why: str) -> None:
        client.stop_node(name, why[:1000])

    return power.Nodes(lambda: _members(client), drain, stopped, back)
