"""`grass node add --kubernetes` and `node remove`, interrupted at each step in a local cluster: the same command
goes on, and nothing is left behind. The API server is a double."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from grass.api.client import Client
from grass.config import Secrets
from grass.errors import ConflictError, NotFoundError
from grass.kubernetes.capacity import Most
from grass.kubernetes.credentials import Credentials
from grass.model.lifecycle import NodeState
from grass.node_config import KubernetesConfig, NodeHome
from grass.provision import local, local_namespaces
from grass.provision.local import LocalProvisioner
from grass.provision.namespaces import NamespaceRequest
from grass.provision.provisioner import Session
from grass.supervision.supervisor import Supervisor
from grass.wire.codec import encode
from tests.doubles.kubernetes_api import KubernetesApi, kubernetes_api
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until


class Lab:
    """A local cluster beside a namespace. ``add`` and ``remove`` are what the commands call."""

    def __init__(self, cluster: LocalCluster, server: KubernetesApi) -> None:
        self.cluster, self.server = cluster, server
        self.provisioner = LocalProvisioner(Session("local", cluster.home, lambda _: None))
        file = cluster.home / "credentials.json"
        file.write_text(encode(Credentials(server.url, token="t")))
        settings = KubernetesConfig("lab", credentials=str(file), image="i")
        self.request = NamespaceRequest("pods", settings, Most(cpu=4000, memory=8 << 30))

    @property
    def folder(self) -> Path:
        return Path(self.cluster.config.home) / "nodes" / "pods"

    def add(self) -> None:
        with self.cluster.client() as client:
            made = self.provisioner.add_namespace(self.request, client)
        assert made is not None and made.state is NodeState.READY and made.resources.cpu == 4000

    def remove(self) -> None:
        with self.cluster.client() as client:

            def take_out() -> None:
                client.remove_node("pods", force=True)
                wait_until(lambda: "pods" not in names(client), 20, "a node that is gone")

            self.provisioner.remove_node("pods", take_out, force=False, packages=False)

    def nothing_is_left(self) -> None:
        with self.cluster.client() as client:
            assert names(client) == ["local"]
        assert not self.folder.exists()
        assert not [each.name for each in Supervisor(self.cluster.config).daemons() if "@pods" in each.name]
        assert not list(Path(self.cluster.config.runtime_dir).glob("n[0-9]*"))
        assert not self.server.objects


def names(client: Client) -> list[str]:
    return sorted(each.name for each in client.nodes() if each.state is not NodeState.LEFT)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with kubernetes_api() as server, LocalCluster().running() as cluster:
        yield Lab(cluster, server)


class Interruption:
    """Interrupts a call: before it does something, or after. ``met``: whether it was made."""

    def __init__(self, call: Callable[..., Any], *, after: bool) -> None:
        self._call, self._after, self.met = call, after, False

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        self.met = True
        if self._after:
            self._call(*arguments, **more)
        raise KeyboardInterrupt


ADDING = [
    (local_namespaces, "look", True),
    (local_namespaces, "_password", True),
    (local_namespaces, "_join", True),
    (NodeHome, "save", False),
    (NodeHome, "save", True),
    (local_namespaces, "make_runtime_folder", True),
    (local, "_write_supervision", True),
    (Supervisor, "reload", False),
]
REMOVING = [
    (local_namespaces, "check_reachable", True),
    (local_namespaces, "end_daemons", False),
    (local_namespaces, "end_daemons", True),
    (local.stopping, "end_containers", True),
    (local, "_remove_files", True),
    (local, "_write_supervision", True),
    (Supervisor, "reload", False),
]


def interrupted(do: Callable[[], None], where: Any, name: str, *, after: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        interruption = Interruption(getattr(where, name), after=after)
        patch.setattr(where, name, lambda *arguments, **more: interruption(*arguments, **more))
        with pytest.raises(KeyboardInterrupt):
            do()
        assert interruption.met


def ids(points: list[tuple[Any, str, bool]]) -> list[str]:
    return [f"{'after' if after else 'before'} {name}" for _, name, after in points]


@pytest.mark.nightly
@pytest.mark.parametrize(("where", "name", "after"), ADDING, ids=ids(ADDING))
def test_an_interrupted_add_goes_on_with_the_same_command(lab: Lab, where: Any, name: str, after: bool) -> None:
    interrupted(lab.add, where, name, after=after)
    lab.add()
    assert Secrets.load(lab.folder).node_token
    lab.remove()
    lab.nothing_is_left()


@pytest.mark.nightly
def test_a_node_whose_add_was_interrupted_while_it_waited_becomes_ready_by_itself(lab: Lab) -> None:
    interrupted(lab.add, local, "wait_ready", after=False)
    with lab.cluster.client() as client:
        wait_until(lambda: client.node("pods").state is NodeState.READY, 30, "a node that is ready")
    with pytest.raises(ConflictError, match="exists already"):
        lab.add()
    lab.remove()
    lab.nothing_is_left()


@pytest.mark.nightly
@pytest.mark.parametrize(("where", "name", "after"), ADDING, ids=ids(ADDING))
def test_what_an_interrupted_add_made_can_be_removed(lab: Lab, where: Any, name: str, after: bool) -> None:
    interrupted(lab.add, where, name, after=after)
    with suppress(NotFoundError):  # there was no node yet
        lab.remove()
    lab.nothing_is_left()


@pytest.mark.nightly
@pytest.mark.parametrize(("where", "name", "after"), REMOVING, ids=ids(REMOVING))
def test_an_interrupted_removal_goes_on_with_the_same_command(lab: Lab, where: Any, name: str, after: bool) -> None:
    lab.add()
    interrupted(lab.remove, where, name, after=after)
    with suppress(NotFoundError):  # nothing of it is left
        lab.remove()
    lab.nothing_is_left()


def test_a_node_of_a_namespace_comes_and_goes_without_a_trace(lab: Lab) -> None:
    lab.add()
    assert [each for each in lab.server.objects if "/leases/" in each]
    lab.remove()
    lab.nothing_is_left()
