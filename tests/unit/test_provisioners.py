"""Which provisioner is whose, and what each says of what its kind of cluster cannot do."""

from __future__ import annotations

from pathlib import Path

import pytest

from grass import environment
from grass.errors import ConflictError, InputError
from grass.manifest.join_file import Offer
from grass.manifest.on_premises import HostSettings, Login
from grass.manifest.settings import parse_settings
from grass.mode_file import read_mode, write_mode
from grass.provision import registry
from grass.provision.doctor import doctor
from grass.provision.local import LocalProvisioner
from grass.provision.on_premises.machines import Machines
from grass.provision.on_premises.provisioner import OnPremisesProvisioner
from grass.provision.provisioner import NodeRequest, Session
from tests.support.api_world import ApiWorld, api_world, write_client

LAB = {"mode": "grass/on-premises", "name": "lab", "master": {"address": "m1"}}


def session(home: Path, name: str = "local") -> Session:
    return Session(name, home, lambda _: None)


def cluster_of_hosts(home: Path) -> Session:
    opened = session(home, "lab")
    opened.client_dir.mkdir(parents=True)
    write_mode(opened.folder, "grass/on-premises")
    Machines(HostSettings("10.0.0.1", login=Login())).save(opened.client_dir)
    return opened


def test_every_mode_of_a_settings_file_has_its_provisioner(tmp_path: Path) -> None:
    found = [registry.for_settings(parse_settings(wire), session(tmp_path)) for wire in ({}, {"name": "a"}, LAB)]
    assert [type(each) for each in found] == [LocalProvisioner, LocalProvisioner, OnPremisesProvisioner]


def test_a_cluster_that_exists_is_managed_by_the_provisioner_that_made_it(tmp_path: Path) -> None:
    opened = cluster_of_hosts(tmp_path)
    assert isinstance(registry.for_cluster(opened), OnPremisesProvisioner)
    half = session(tmp_path, "half")
    half.folder.mkdir()
    assert read_mode(half.folder) is None
    assert isinstance(registry.for_cluster(half), LocalProvisioner)
    assert environment.clusters(tmp_path) == ["half", "lab"]


def test_a_mode_that_this_version_does_not_know_is_said_to_be_one(tmp_path: Path) -> None:
    opened = session(tmp_path, "later")
    opened.folder.mkdir(parents=True)
    write_mode(opened.folder, "grass/moon")
    with pytest.raises(InputError, match="cluster later: this version of Grass does not know the mode 'grass/moon'"):
        registry.for_cluster(opened)


def test_the_doctor_tells_a_cluster_of_several_hosts_from_an_interrupted_one(tmp_path: Path) -> None:
    opened = cluster_of_hosts(tmp_path)
    [finding] = [finding for finding in doctor(tmp_path) if "lab" in finding.name]
    assert not finding.ok and finding.message == "cluster lab: creating it was interrupted"
    with pytest.raises(ConflictError, match="repeat `grass create FILE`"):
        registry.for_cluster(opened).status()
    other = write_client(tmp_path, "root", "http://10.0.0.1:1") / "clusters" / "local" / "client"
    (other / "profile.json").rename(opened.client_dir / "profile.json")
    assert [finding for finding in doctor(tmp_path) if "lab" in finding.name] == []


@pytest.fixture
def world(tmp_path: Path):
    with api_world(tmp_path) as world:
        yield world


def test_a_local_cluster_says_why_no_machine_can_join_it(world: ApiWorld, tmp_path: Path) -> None:
    local = registry.for_cluster(session(tmp_path))
    with pytest.raises(
        InputError, match="cluster local is on this machine only; nodes join a cluster of mode grass/on"
    ):
        local.add_nodes(NodeRequest(("n1",), Offer()), world.client("root"))
    with pytest.raises(InputError, match="--plan is for clusters on several hosts"):
        local.plan(parse_settings({}))


def test_a_word_that_is_no_host_is_refused_before_anything_is_asked(world: ApiWorld, tmp_path: Path) -> None:
    lab = registry.for_cluster(cluster_of_hosts(tmp_path))
    for words, told in ((("a b",), "HOST"), (("n1", "N1"), "named twice")):
        with pytest.raises(InputError, match=told):
            lab.add_nodes(NodeRequest(words, Offer()), world.client("root"))
