"""The settings of `mode: k8s/aks`: Grass's own form, and MARO's file."""

from __future__ import annotations

from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest.aks import AksSettings, Tier
from grass.manifest.settings import parse_settings
from tests.support.aks_world import settings


def problems_of(**keys: Any) -> list[str]:
    with pytest.raises(ManifestError) as raised:
        parse_settings({"mode": "k8s/aks", "name": "lab", "cloud": {"location": "westeurope"}, **keys})
    return [f"{each.path}: {each.message}" for each in raised.value.problems]


def test_a_name_and_a_region_are_enough() -> None:
    found = settings()
    assert (found.cloud.resource_group, found.system.size, found.system.count) == ("grass-lab", "Standard_D4s_v5", 1)
    assert (found.tier, found.registry, found.share, found.version) == (Tier.FREE, "", 100, None)
    assert (found.node.namespace, found.node.name, found.own_node, found.namespaces) == ("grass", "grass", "", ())


def test_everything_can_be_said() -> None:
    found = settings(
        kubernetes={"version": "1.33", "tier": "standard", "from": ["203.0.113.0/24"]},
        system={"size": "Standard_E4s_v5", "count": 3},
        registry="labimages",
        share="1TiB",
        namespace={"namespace": "train", "image": "python:3.12", "labels": {"pool": "cloud"}, "resources": {"cpu": 8}},
        ports={"api": 5000},
        keep_jobs=10,
    )
    assert (found.version, found.tier, found.sources) == ("1.33", Tier.STANDARD, ("203.0.113.0/24",))
    assert (found.registry, found.share, found.ports.api, found.keep_jobs) == ("labimages", 1024, 5000, 10)
    assert (found.node.name, found.node.image, found.node.cpu) == ("train", "python:3.12", 8000)


def test_registry_and_share_can_be_left_out() -> None:
    found = settings(registry=False, share=False, namespace="train")
    assert (found.registry, found.share, found.node.namespace) == (None, 0, "train")


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"cloud": None}, "cloud: "),
        ({"cloud": {}}, "cloud.location: is missing"),
        ({"system": {"size": "Standard_B4ms"}}, "system.size: Standard_B4ms is of the B-series"),
        ({"system": {"count": 0}}, "system.count: "),
        ({"kubernetes": {"version": 1.33}}, "kubernetes.version: must be a version of Kubernetes in quotes"),
        ({"kubernetes": {"from": ["0.0.0.0/0"]}}, "kubernetes.from[0]: must not be everywhere"),
        ({"registry": "My-Images"}, "registry: must be true, false, or a name"),
        ({"share": "100MB"}, "share: must be false, or whole GiB"),
        ({"namespaces": ["a"]}, "namespaces: there is one, which Grass makes"),
        ({"namespace": {"kubeconfig": "/x"}}, "namespace.kubeconfig: is made by Grass"),
        ({"namespace": {"claim": "mine"}}, "namespace.claim: is made by Grass"),
        ({"namespace": {"registry": "a.example.org"}}, "namespace.registry: is said outside"),
        ({"master": "inside"}, "master: the master is this machine"),
        ({"runtimes": ["docker"]}, "runtimes: is of this machine"),
        ({"isolation": "user"}, "isolation: is for a cluster on several hosts"),
        ({"autoscale": {}}, "autoscale: "),
    ],
)
def test_what_has_no_meaning_is_refused_with_its_path(keys: dict[str, Any], problem: str) -> None:
    found = problems_of(**keys)
    assert found and found[0].startswith(problem), found


def test_the_file_of_maro_is_read() -> None:
    found = parse_settings(
        {
            "mode": "k8s/aks",
            "name": "MyClusterName",
            "cloud": {
                "subscription": "s",
                "resource_group": "g",
                "location": "eastus",
                "default_username": "admin",
                "default_public_key": "ssh-rsa AAAA",
            },
            "master": {"node_size": "Standard_D4s_v3", "redis": {"port": 6379}},
        }
    )
    assert isinstance(found, AksSettings)
    assert (found.cloud.subscription, found.cloud.resource_group, found.cloud.location) == ("s", "g", "eastus")
    assert found.system.size == "Standard_D4s_v3"
    assert [each.partition(":")[0] for each in found.warnings] == [
        "cloud.default_username",
        "cloud.default_public_key",
        "master.redis",
    ]
