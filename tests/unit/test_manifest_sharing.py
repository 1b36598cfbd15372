"""What a settings file says about sharing: quotas, what is kept back, labels, topology, resources of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from grass.errors import InputError, ManifestError
from grass.manifest import read_document
from grass.manifest.local_settings import LocalSettings, OfferedResources
from grass.manifest.settings import parse_settings
from grass.node_config import NodeHome
from grass.provision import layout


def settings_of(text: str) -> LocalSettings:
    return parse_settings(read_document(text))


def test_quotas_are_by_user_and_by_resource() -> None:
    settings = settings_of(
        "quotas: {alice: {gpu: 1.5, cpu: 8, memory: 4GiB, licences: 0}, bob: {space: 2GiB, files: 9}, "
        "default: {gpu: 0, custom: {seats: 2}}}"
    )
    assert settings.quotas == {
        "alice": {"cpu": 8000, "memory": 4 << 30, "gpu": 1500, "licences": 0},
        "bob": {"space": 2 << 30, "files": 9},
    }
    assert settings.default_quota == {"gpu": 0, "seats": 2}


def test_a_node_has_labels_a_place_a_reserve_and_things_of_its_own() -> None:
    settings = settings_of(
        """
reserve: {cpu: 0.5, memory: 1GiB}
labels: {zone: cellar, generation: 3}
topology: rack1/switch3
resources: {gpu: 0, disk: 10GiB, custom: {licences: 4}, seats: 2}
"""
    )
    assert settings.reserve == {"cpu": 500, "memory": 1 << 30}
    assert settings.labels == {"zone": "cellar", "generation": "3"}
    assert settings.topology == ("rack1", "switch3")
    assert settings.resources == OfferedResources(None, None, 0, 10 << 30, {"licences": 4, "seats": 2})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("quotas: {ann: {gpuz: 1}}", "quotas.ann.gpuz: unknown key; did you mean `gpu`?"),
        ("quotas: {ann: {cpu: -1}}", "quotas.ann.cpu: must not be negative, got -1"),
        ("quotas: {ann: {gpu: -1}}", "quotas.ann.gpu: must be between 0 and 10000 devices, got -1"),
        ("quotas: {ann: 3}", "quotas.ann: must be a mapping (KEY: VALUE lines), got 3"),
        ("quotas: {'a b': {}}", 'quotas."a b": must be a user name, got "a b"'),
        ("reserve: {gpu: 1}", "reserve.gpu: unknown key"),
        ("labels: {zone: []}", "labels.zone: must be text or a number, got a list"),
        ("topology: rack1//x", 'topology: must be names separated by /, such as rack1/switch3; got "rack1//x"'),
        ("topology: a/b/c/d/e/f/g/h/i", "topology: must have at most 8 parts, got 9"),
        ("resources: {gpu: 0.5}", "resources.gpu: must be a whole number of devices, at most 10000; got 0.5"),
    ],
)
def test_a_mistake_is_named_with_its_path(text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        settings_of(text)
    (found,) = caught.value.problems
    assert str(found).startswith(problem)


def test_the_configuration_carries_them_to_the_daemons(tmp_path: Path) -> None:
    settings = settings_of(
        "{quotas: {ann: {cpu: 1}, default: {cpu: 2}}, reserve: {cpu: 0.1}, labels: {zone: a}, topology: r1/s1, "
        "resources: {gpu: 0, disk: 1GiB, custom: {licences: 4}}}"
    )
    config = layout.design(settings, tmp_path, None)
    assert (config.master.quotas, config.master.default_quota) == ({"ann": {"cpu": 1000}}, {"cpu": 2000})
    assert isinstance(config, NodeHome) and config.master.node_policy.reserve == {"cpu": 100}
    node = config.node
    assert (node.gpu, node.disk, node.custom, node.reserve) == (0, 1 << 30, {"licences": 4}, {"cpu": 100})
    assert (node.labels, node.path) == ({"zone": "a"}, ("r1", "s1"))
    config.save()
    assert NodeHome.load(config.path) == config


def test_a_reserve_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"reserve\.memory: 2GiB of 1GiB kept back for the system leaves nothing"):
        layout.design(settings_of("{resources: {memory: 1GiB}, reserve: {memory: 2GiB}}"), tmp_path, None)
