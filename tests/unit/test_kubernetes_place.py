"""Where a node has its pods, and by what it knows them as its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grass.errors import InputError
from grass.kubernetes import names
from grass.node_config import KubernetesConfig, NodeConfig, NodeHome
from node.runtime.kubernetes.kind import place_of

SETTINGS = KubernetesConfig("lab", cluster_id="1f")


def config(settings: KubernetesConfig) -> NodeHome:
    node = NodeConfig(name="n1", kubernetes=settings)
    return NodeHome("local", "grass/local", "/nowhere", "/nowhere", node=node)


def test_clusters_of_one_name_in_one_namespace_have_other_pods() -> None:
    one, other = (place_of(config(replace(SETTINGS, cluster_id=each))) for each in ("1f", "2f"))
    assert names.selector(one.cluster, one.node) != names.selector(other.cluster, other.node)
    assert names.pod_name(one.cluster, "j-1/a.0/1") != names.pod_name(other.cluster, "j-1/a.0/1")


def test_settings_without_the_id_of_the_cluster_are_refused() -> None:
    with pytest.raises(InputError, match="node n1: its settings have no cluster_id"):
        place_of(config(replace(SETTINGS, cluster_id="")))
