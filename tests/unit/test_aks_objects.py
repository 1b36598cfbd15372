"""What Grass makes in a Kubernetes of Azure: every version takes it, and it holds what was asked for."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from grass.provision.aks.objects import Wanted, objects
from tests.support.needs import missing
from tests.unit.test_kubernetes_inside import VERSIONS

LOGIN = '{"auths": {}}'


def made(wanted: Wanted) -> dict[str, Any]:
    return {body["kind"]: body for _, body in objects(wanted)}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_kubernetes_accepts_the_objects(version: str) -> None:
    try:
        import kubernetes_validate
    except ImportError:
        missing("kubernetes-validate", "pip install '.[dev]'")
    for _, body in objects(Wanted("train", 100, LOGIN)):
        kubernetes_validate.validate(body, version, strict=True)


def test_the_claim_is_shared_by_machines_and_has_the_size_of_the_file() -> None:
    claim = made(Wanted("train", 100))["PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"] and claim["spec"]["storageClassName"] == "azurefile-csi"
    assert claim["spec"]["resources"] == {"requests": {"storage": "100Gi"}}


def test_without_a_share_and_a_login_there_is_neither() -> None:
    assert set(made(Wanted("train", 0))) == {"Namespace", "DaemonSet"}


def test_the_login_of_the_registry_is_in_a_secret_of_the_namespace_alone() -> None:
    paths = {body["kind"]: path for path, body in objects(Wanted("train", 1, LOGIN))}
    assert paths["Secret"] == "/api/v1/namespaces/train/secrets"
    data = made(Wanted("train", 1, LOGIN))["Secret"]["data"][".dockerconfigjson"]
    assert base64.b64decode(data).decode() == LOGIN


def test_gpus_are_shown_by_pods_without_rights_on_machines_that_have_some() -> None:
    pod = made(Wanted("train", 0))["DaemonSet"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"kubernetes.azure.com/accelerator": "nvidia"}
    [container] = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "privileged" not in container["securityContext"]
