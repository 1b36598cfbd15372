"""Each kind of object that Grass sends to an API server, against the schemas of old and new versions.

Objects of a master inside are in ``test_kubernetes_inside``, exported ones in ``test_export_manifests``. There are no
schemas of 1.20: a real server takes the same objects in ``tests/integration/test_kubernetes_client``. PodGroups and
statuses of custom resources are no kinds of Kubernetes; they are tested on a real server, too.
"""

from __future__ import annotations

import pytest

from tests.support.kubernetes_bodies import all_bodies
from tests.support.needs import missing


@pytest.mark.parametrize("version", ["1.25", "1.29", "1.37"])
def test_every_version_of_kubernetes_accepts_what_grass_sends(version: str) -> None:
    try:
        import kubernetes_validate
    except ImportError:
        missing("kubernetes-validate", "pip install '.[dev]'")
    bodies = all_bodies()
    for each in bodies:
        kubernetes_validate.validate(each, version, strict=True)
    kinds = "ClusterRole ClusterRoleBinding CustomResourceDefinition Event Ingress Lease Pod Role RoleBinding Secret"
    assert {each["kind"] for each in bodies} == {*kinds.split(), "SelfSubjectAccessReview", "Service"}
