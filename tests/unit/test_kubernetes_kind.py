"""Where the pods of a node are, and which are its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grass.errors import InputError
from grass.kubernetes.names import pod_name, selector
from grass.node_config import KubernetesConfig
from node.runtime.kubernetes.kind import place_of
from tests.support.shepherd_run import cluster_config


def test_two_clusters_of_the_same_name_in_one_namespace_touch_no_pods_of_each_other(tmp_path: Path) -> None:
    config = cluster_config(tmp_path, tmp_path)
    one, other = (
        place_of(replace(config, node=replace(config.node, kubernetes=KubernetesConfig("lab", cluster_id=each))))
        for each in ("a", "b")
    )
    assert one.path == other.path
    assert selector(one.cluster, one.node) != selector(other.cluster, other.node)
    assert pod_name(one.cluster, "j-1/c.0/1") != pod_name(other.cluster, "j-1/c.0/1")


def test_a_machine_is_no_namespace(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its settings name no namespace"):
        place_of(cluster_config(tmp_path, tmp_path))
