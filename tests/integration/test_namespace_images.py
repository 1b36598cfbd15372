"""`grass image push --node`: to a real registry with a login, from this machine's engine. The namespace is a double."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from grass.errors import GrassError, InputError, NotAllowedError, NotFoundError, UnreachableError
from grass.kubernetes import names
from grass.kubernetes import registry as registries
from grass.kubernetes.credentials import Credentials
from grass.kubernetes.registry import RegistryLogin, login_of
from grass.node_config import KubernetesConfig, NodeConfig, NodeHome
from grass.provision import namespace_images
from grass.wire.codec import encode
from tests.doubles.kubernetes_api import kubernetes_api
from tests.support.engine import IMAGE, require_engine
from tests.support.registry import PASSWORD, USER, registry

pytestmark = pytest.mark.nightly
LABELS = names.node_labels("c1", "pods")
SECRET = names.registry_secret("pods")


@dataclass
class Node:
    config: NodeHome
    host: str
    folder: Path

    @property
    def settings(self) -> KubernetesConfig:
        assert self.config.node.kubernetes is not None
        return self.config.node.kubernetes

    def push(self, name: str, archive: Path | None = None) -> str:
        return namespace_images.push(self.config, name, archive, lambda _: None)

    def pulled(self, image: str) -> bool:
        """Return whether the image can be pulled with what a kubelet reads. The engine forgets it first."""
        with kubernetes(self.settings) as api:
            login = login_of(api, self.settings)
        (self.folder / "config.json").write_text(login or "{}")
        subprocess.run(["docker", "image", "rm", image], capture_output=True, check=False)
        done = subprocess.run(["docker", "--config", str(self.folder), "pull", image], capture_output=True, check=False)
        subprocess.run(["docker", "image", "rm", image], capture_output=True, check=False)
        return done.returncode == 0


@contextmanager
def kubernetes(settings: KubernetesConfig) -> Iterator[registries.ApiServer]:
    with closing(namespace_images.server_of(settings)) as api:
        yield api


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    require_engine()
    with registry(tmp_path) as host, kubernetes_api() as server:
        file = tmp_path / "credentials.json"
        file.write_text(encode(Credentials(server.url, token="t")))
        place = f"{host}/team"
        settings = KubernetesConfig("lab", "c1", credentials=str(file), registry=place, registry_secret=SECRET)
        config = NodeHome("lab", "local", str(tmp_path), str(tmp_path), node=NodeConfig("pods", kubernetes=settings))
        made = Node(config, host, tmp_path)
        give(made, PASSWORD)
        yield made


def give(node: Node, password: str) -> None:
    with kubernetes(node.settings) as api:
        registries.provide(api, node.settings, LABELS, RegistryLogin(USER, password))


def test_an_image_of_the_engine_or_of_a_file_is_pulled_with_the_login_of_the_namespace(node: Node) -> None:
    there = node.push(IMAGE)
    assert there == f"{node.host}/team/{IMAGE}"
    tags = subprocess.run(["docker", "image", "ls", "-q", there], capture_output=True, check=True)
    assert not tags.stdout, "the name in the registry stays in this machine's engine"
    assert node.pulled(there)
    archive = node.folder / "image.tar"
    subprocess.run(["docker", "image", "save", "-o", str(archive), IMAGE], check=True)
    assert node.push("", archive) == there
    assert node.push("renamed:2", archive) == f"{node.host}/team/renamed:2"
    assert node.pulled(f"{node.host}/team/renamed:2")


@pytest.mark.parametrize("case", ["login", "away", "image", "file", "none"])
def test_what_is_wrong_is_told_by_an_exit_code(node: Node, case: str) -> None:
    kinds: dict[str, tuple[type[GrassError], str]] = {
        "login": (NotAllowedError, "unauthorized|no basic auth|denied"),
        "away": (UnreachableError, "127.0.0.1:1/"),
        "image": (NotFoundError, "nothing-here"),
        "file": (InputError, "no such file"),
        "none": (InputError, "add it with --registry"),
    }
    name, archive = IMAGE, None
    if case == "login":
        give(node, "wrong")
    elif case == "image":
        name = "nothing-here:1"
    elif case == "file":
        name, archive = "", node.folder / "none.tar"
    else:
        other = {"away": "127.0.0.1:1/x", "none": None}[case]
        settings = replace(node.settings, registry=other, registry_secret=None)
        node.config = replace(node.config, node=replace(node.config.node, kubernetes=settings))
    kind, said = kinds[case]
    with pytest.raises(kind, match=said):
        node.push(name, archive)
