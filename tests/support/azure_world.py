"""One cluster on the double of Azure, in this process and on a clock of its own: what is asked, refused, cut or killed.

Used by ``tests/unit/test_azure_*``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from grass.azure.arm import Clock, LinkError, Reply
from grass.errors import GrassError, NotFoundError, WaitTimeoutError
from grass.manifest.azure import AzureSettings
from grass.manifest.document import Document
from grass.manifest.on_premises import HostSettings
from grass.manifest.settings import parse_settings
from grass.model.lifecycle import NodeState
from grass.provision.azure import cost, create, delete, node_image, nodes, power
from grass.provision.azure.change import Member
from grass.provision.azure.edges import Edges
from grass.provision.on_premises.machines import Machines, load_machines
from grass.provision.on_premises.node_add import remember
from grass.provision.provisioner import AddedNode, Created, NodeImage, Powered, Scaled, ScaleRequest, Session
from grass.wire.cloud import CloudCosts
from tests.doubles.azure_arm import TYPES, Azure
from tests.support.needs import require

ID = "0123456789abcdef"
EPOCH = 1.8e9
"""Wall time at which a world begins."""


class KilledError(BaseException):
    """The process ended here."""


class FaultyWorld:
    """What worlds on the double of Azure share. ``fault``: called with the method and the address of each request, and
    how to carry it out."""

    azure: Azure
    now: float
    token: str
    fault: Callable[[str, str, Callable[[], Reply]], Reply]

    @property
    def changes(self) -> list[str]:
        """Requests that change something."""
        return [
            f"{each.method} {each.path.rpartition('/providers/')[2]}"
            for each in self.azure.asked
            if each.method != "GET"
        ]

    def _sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        assert self.now < 100_000, "waits for ever"

    def _send(self, method: str, url: str, body: Document | None) -> Reply:
        def go() -> Reply:
            answer = self.azure.handle(method, url, body, self.token)
            return Reply(answer.status, answer.content, answer.headers)

        return self.fault(method, url, go)


@dataclass
class World(FaultyWorld):
    home: Path
    now: float = 0.0
    said: list[str] = field(default_factory=list)
    reached: list[HostSettings] = field(default_factory=list)
    ready: list[HostSettings] = field(default_factory=list)
    fault: Callable[[str, str, Callable[[], Reply]], Reply] = lambda method, url, go: go()
    token: str = "good"
    autoscaler: str = ""
    """What the autoscaler on the master gets."""
    members: dict[str, Member] = field(default_factory=dict)
    """Nodes that the cluster knows."""
    joined: list[HostSettings] = field(default_factory=list)
    prepared: list[HostSettings] = field(default_factory=list)
    stripped: list[HostSettings] = field(default_factory=list)
    why: dict[str, str] = field(default_factory=dict)
    """Reasons of nodes that are STOPPED."""
    silent: set[str] = field(default_factory=set)
    """Names of machines that never answer SSH."""
    without_driver: set[str] = field(default_factory=set)
    """Names of nodes that see no GPU; others see one."""
    of: World | None = None
    """The world of the user, if this is what the master sees of the same cluster."""
    ids: Iterator[str] = field(default_factory=lambda: iter([ID, "f" * 16, "e" * 16, "d" * 16, "c" * 16]))

    def __post_init__(self) -> None:
        require((TYPES / "validate.py").exists(), "types of Azure", f"they are not in {TYPES}")
        of = self.of or self
        self.azure = of.azure if of is not self else Azure(lambda: self.now)
        self.members = of.members
        clock = Clock(lambda: of.now, of._sleep)
        self.edges = Edges(
            lambda _: self._send, clock, lambda: next(self.ids), self._reach, self._install, lambda: EPOCH + of.now
        )
        self.session = Session("lab", self.home, self.said.append)

    def plan(self, **keys: object) -> list[str]:
        return create.plan(settings(**keys), self.session, self.edges)

    def create(self, **keys: object) -> Created:
        return create.create(settings(**keys), self.session, self.edges)

    def delete(self) -> None:
        delete.delete(self.session, self.edges, force=False, packages=False)

    def scale(self, zone: str | None = None, **wanted: int) -> Scaled:
        return nodes.scale(self.session, self.edges, ScaleRequest(wanted, zone), self._cluster())

    def scale_spot(self, wanted: dict[str, int], price: float | None = None, *, or_regular: bool = False) -> Scaled:
        request = ScaleRequest(wanted, spot=True, max_price=price, or_regular=or_regular)
        return nodes.scale(self.session, self.edges, request, self._cluster())

    def scale_plan(self, *, spot: bool = False, **wanted: int) -> str:
        lines: list[str] = []
        nodes.scale(self.session, self.edges, ScaleRequest(wanted, None, lines.append, spot), self._cluster())
        return "\n".join(lines)

    def stop(self, *names: str) -> dict[str, Powered]:
        return {one.name: one for one in power.stop(self.session, self.edges, names, self._nodes())}

    def start(self, *names: str) -> dict[str, Powered]:
        return {one.name: one for one in power.start(self.session, self.edges, names, self._nodes())}

    def costs(self) -> CloudCosts:
        return cost.costs(self.session, self.edges)

    def build_image(self, size: str | None = None) -> NodeImage:
        return node_image.build(self.session, self.edges, size, self.prepared.append, self.stripped.append)

    def _nodes(self) -> power.Nodes:
        return power.Nodes(lambda: dict(self.members), self._drain, self._stopped, self._back)

    def _drain(self, names: Sequence[str]) -> dict[str, GrassError]:
        busy = {name for name in names if self.members[name].tasks}
        self.members.update({name: Member(NodeState.DRAINED) for name in names if name not in busy})
        return {name: WaitTimeoutError(f"node {name} is still DRAINING") for name in busy}

    def _stopped(self, name: str, why: str) -> None:
        self.members[name], self.why[name] = Member(NodeState.STOPPED), why

    def _back(self, name: str, drained: bool) -> None:
        if name in self.silent:
            raise WaitTimeoutError(f"node {name} is still STOPPED")
        self.members[name] = Member(NodeState.READY)

    def remove(self, name: str) -> None:
        nodes.remove(self.session, self.edges, name, lambda: self._take_out(name))

    def _cluster(self) -> nodes.Cluster:
        return nodes.Cluster(lambda: dict(self.members), self._join, self._take_out)

    def _join(self, hosts: Sequence[HostSettings], gpus: Mapping[str, int]) -> list[AddedNode]:
        """Join machines as far as this machine keeps it. One that sees fewer GPUs than it must is not ready."""
        results = []
        for host in hosts:
            name = str(host.name)
            if name in self.silent:
                results.append(AddedNode(name, None, "no SSH", "unreachable", 3))
                continue
            remember("lab", self.session.client_dir, name, host)
            sees = int(name not in self.without_driver)
            self.joined.append(host)
            if sees < gpus.get(name, 0):
                self.members[name] = Member(NodeState.JOINING, gpus=sees)
                results.append(AddedNode(name, None, f"node {name} is not ready", "not-ready", 2))
                continue
            self.members[name] = Member(NodeState.READY, gpus=sees)
            results.append(AddedNode(name))
        return results

    def _take_out(self, name: str) -> None:
        if name not in self.members:
            raise NotFoundError(f"no node {name}")
        if self.members[name].tasks:
            raise WaitTimeoutError(f"node {name} still has tasks")
        del self.members[name]

    def _reach(self, host: HostSettings, session: Session) -> None:
        self.reached.append(host)

    def _install(self, settings: AzureSettings, session: Session) -> Created:
        self.ready.append(settings.master)
        self.autoscaler = settings.autoscaler
        before = load_machines(session.name, session.home) or Machines(settings.master)
        replace(before, master=settings.master).save(session.client_dir)
        return Created(session.name, settings.mode, str(session.folder), "http://10.60.0.4:51812")


def settings(**keys: object) -> AzureSettings:
    document = {"mode": "grass/azure", "name": "lab", "cloud": {"location": "westeurope"}, **keys}
    found = parse_settings(document)
    assert isinstance(found, AzureSettings)
    return found


def reply(status: int, code: str = "", **headers: str) -> Reply:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return Reply(status, {"error": {"code": code, "message": "said by Azure"}} if code else {}, named)


def cut() -> Reply:
    raise LinkError("the connection was cut")
