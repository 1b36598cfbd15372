"""The registry of a namespace: names of images in it, and the Secret with its login."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from grass.errors import ConflictError, InputError, NotFoundError
from grass.kubernetes import names, registry
from grass.kubernetes.api import ApiServer
from grass.kubernetes.pod_rights import spec_rights
from grass.kubernetes.registry import RegistryLogin, docker_config, host_of, image_in, login_of
from grass.kubernetes.rights import rules
from grass.node_config import KubernetesConfig
from tests.doubles.kubernetes_api import KubernetesApi, kubernetes_api

SETTINGS = KubernetesConfig("lab", registry="r.example.org/team", registry_secret=names.registry_secret("pods"))
LABELS = names.node_labels("c1", "pods")
ANN = RegistryLogin("ann", "pa:ss")


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("trainer:1", "r.example.org/team/trainer:1"),
        ("lab/trainer:1", "r.example.org/team/lab/trainer:1"),
        ("r.example.org/team/trainer:1", "r.example.org/team/trainer:1"),
        ("ghcr.io/lab/trainer:1", "r.example.org/team/lab/trainer:1"),
        ("localhost:5000/trainer:1", "r.example.org/team/trainer:1"),
    ],
)
def test_an_image_has_a_name_in_the_registry(name: str, there: str) -> None:
    assert image_in("r.example.org/team", name) == there


@pytest.mark.parametrize("name", ["", "-x", "Trainer:1", "a b", "trainer@sha256:0", "../x", "sha256:" + "0" * 200])
def test_what_is_no_name_of_an_image_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="is not the name of an image"):
        image_in("r.example.org/team", name)


def test_a_registry_is_a_host_and_perhaps_a_path() -> None:
    for text, host in (("r.example.org/a/b", "r.example.org"), ("localhost:5000", "localhost:5000"), ("r:1/x", "r:1")):
        assert host_of(text) == host
    for wrong in ("", "team", "https://r.example.org", "r.example.org/", "r.example.org/A", "-r.org", "r.org/../x"):
        with pytest.raises(InputError, match="is not HOST"):
            host_of(wrong)


def test_the_login_is_as_docker_and_kubelets_read_it() -> None:
    [(host, login)] = json.loads(docker_config("r.example.org/team", ANN))["auths"].items()
    assert host == "r.example.org" and base64.b64decode(login["auth"]) == b"ann:pa:ss"
    assert list(json.loads(docker_config("docker.io/ann", ANN))["auths"]) == ["https://index.docker.io/v1/"]
    assert "pa:ss" not in repr(ANN)


@pytest.fixture
def server() -> Iterator[KubernetesApi]:
    with kubernetes_api() as made:
        yield made


@pytest.fixture
def api(server: KubernetesApi) -> Iterator[ApiServer]:
    with closing(server.api()) as made:
        yield made


def test_the_secret_is_made_changed_read_and_removed(server: KubernetesApi, api: ApiServer) -> None:
    registry.provide(api, SETTINGS, LABELS, ANN)
    registry.provide(api, SETTINGS, LABELS, replace(ANN, password="new"))
    [secret] = server.objects.values()
    assert secret["type"] == "kubernetes.io/dockerconfigjson" and secret["metadata"]["name"] == SETTINGS.registry_secret
    assert login_of(api, SETTINGS) == docker_config("r.example.org/team", replace(ANN, password="new"))
    registry.remove(api, SETTINGS, LABELS)
    registry.remove(api, SETTINGS, LABELS)
    assert not server.objects
    with pytest.raises(NotFoundError, match="add it again"):
        login_of(api, SETTINGS)


def test_the_secret_of_another_cluster_is_neither_changed_nor_removed(server: KubernetesApi, api: ApiServer) -> None:
    registry.provide(api, SETTINGS, names.node_labels("c2", "pods"), ANN)
    before = dict(server.objects)
    with pytest.raises(ConflictError, match="of another cluster of Grass; choose another name for the node"):
        registry.provide(api, SETTINGS, LABELS, ANN)
    registry.remove(api, SETTINGS, LABELS)
    assert server.objects == before


def test_pods_pull_with_it_and_its_rights_are_asked_for_only_where_it_is_used() -> None:
    both = replace(SETTINGS, pull_secrets=("team",))
    assert spec_rights(both)["imagePullSecrets"] == [{"name": "team"}, {"name": SETTINGS.registry_secret}]
    create, own = rules(SETTINGS)[-2:]
    assert (create.verbs, create.name) == (("create",), "")
    assert (own.verbs, own.name) == (("get", "update", "delete"), SETTINGS.registry_secret)
    assert rules(replace(SETTINGS, registry_secret=None)) == rules(KubernetesConfig("lab"))
