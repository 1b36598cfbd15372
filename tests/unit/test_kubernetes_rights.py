"""The rights in a namespace: what the plan prints, what an administrator is sent, and what is asked about are one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from grass.errors import InputError
from grass.kubernetes.capacity import Most
from grass.kubernetes.rights import RULES, Missing, objects, optional_objects, rules
from grass.manifest.namespaces import NamespaceSettings
from grass.node_config import KubernetesConfig
from grass.provision.namespaces import NamespaceRequest, check_object_names, plan

EXAMPLE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "role.yaml"
MACHINES = EXAMPLE.with_name("machines.yaml")


def printed(settings: KubernetesConfig) -> list[Any]:
    lines = plan(NamespaceRequest("n1", settings, Most()))
    return list(yaml.safe_load_all("\n".join(lines)))


def test_the_plan_is_yaml_that_can_be_applied_and_equals_the_file_for_administrators() -> None:
    settings = KubernetesConfig("lab")
    assert printed(settings) == list(yaml.safe_load_all(EXAMPLE.read_text())) == objects(settings)


def test_the_right_on_machines_is_apart_and_must_be_taken_out_of_its_comment() -> None:
    lines = plan(NamespaceRequest("n1", KubernetesConfig("lab"), Most()))
    first = lines.index("# {")
    commented = [line.removeprefix("# ") for line in lines[first:] if line.startswith("# ")]
    end = next(number for number, line in enumerate(commented) if line.startswith("then: "))
    machines = list(yaml.safe_load_all(MACHINES.read_text()))
    assert list(yaml.safe_load_all("\n".join(commented[:end]))) == machines == optional_objects()
    assert "ClusterRole" not in str(printed(KubernetesConfig("lab")))


def test_nothing_is_asked_for_that_is_not_used() -> None:
    resources = {rule.resource for rule in rules(KubernetesConfig("lab"))}
    assert resources.isdisjoint({"secrets", "limitranges", "configmaps", "services", "persistentvolumeclaims", "nodes"})
    assert rules(KubernetesConfig("lab")) == RULES


def test_a_claim_is_asked_for_by_its_name_only() -> None:
    [*_, last] = rules(KubernetesConfig("lab", claim="team-data"))
    assert (last.resource, last.verbs, last.name) == ("persistentvolumeclaims", ("get",), "team-data")


@pytest.mark.parametrize("name", ["", "../pods", "a/b", "A", "-a", "a.", "x" * 254, "a?b", "a\n"])
def test_what_is_no_name_of_an_object_never_becomes_a_path(name: str) -> None:
    for wanted in (NamespaceSettings("lab", "n", claim=name), NamespaceSettings("lab", "n", pull_secrets=(name,))):
        with pytest.raises(InputError, match="is not the name of an object"):
            check_object_names(wanted)


def test_a_secret_is_asked_for_by_its_name_only() -> None:
    role, _ = objects(KubernetesConfig("lab", pull_secrets=("team-registry",)))
    assert role["rules"][-1] == {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": ["team-registry"],
        "verbs": ["get"],
    }
    [*_, last] = rules(KubernetesConfig("lab", pull_secrets=("team-registry",)))
    assert str(Missing("get", last)) == "get secrets team-registry (for images of a private registry)"
