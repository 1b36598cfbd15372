"""Which provisioner is whose, and what each says of what its kind of cluster cannot do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grass.errors import ConflictError, InputError, UnreachableError
from grass.manifest.join_file import Offer
from grass.manifest.on_premises import HostSettings, Login
from grass.manifest.settings import parse_settings
from grass.mode_file import read_mode, write_mode
from grass.model.mode import SIGNED_IN
from grass.provision import registry
from grass.provision.azure.provisioner import AzureProvisioner
from grass.provision.doctor import doctor
from grass.provision.inside import InsideProvisioner
from grass.provision.local import LocalProvisioner
from grass.provision.on_premises.machines import Machines
from grass.provision.on_premises.provisioner import OnPremisesProvisioner
from grass.provision.provisioner import (
    CanAddNamespaces,
    CanAddNodes,
    CanBackUp,
    CanCreate,
    CanLogIn,
    CanPlan,
    CanRemoveNodes,
    CanRepair,
    CanStart,
    CanStartAtBoot,
    CanStop,
    NodeRequest,
    Session,
    need,
)
from grass.system import environment
from tests.support.api_world import ApiWorld, api_world, write_client

INSIDE = {"mode": "k8s", "name": "k", "master": "inside", "inside": {"image": "grass:1"}, "namespaces": ["lab"]}
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
    azure = {"mode": "grass/azure", "name": "a", "cloud": {"location": "westeurope"}}
    files = ({}, {"name": "a"}, LAB, {"mode": "k8s", "name": "k", "namespaces": ["lab"]}, azure, INSIDE)
    found = [registry.for_settings(parse_settings(wire), session(tmp_path)) for wire in files]
    assert [type(each) for each in found] == [LocalProvisioner] * 2 + [
        OnPremisesProvisioner,
        LocalProvisioner,
        AzureProvisioner,
        InsideProvisioner,
    ]


def test_a_cluster_on_azure_imports_packages_of_azure_only_to_call_it() -> None:
    program = "import sys, grass.provision.azure.provisioner, grass.manifest.settings; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and not set(done.stdout.split()) & {"azure", "azure.core", "azure.identity", "requests"}


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


def test_a_local_cluster_says_what_to_do_instead_of_what_it_cannot(tmp_path: Path) -> None:
    local = registry.for_cluster(session(tmp_path))
    with pytest.raises(
        InputError, match="cluster local is on this machine only; nodes join a cluster of mode grass/on"
    ):
        need(local, CanAddNodes)
    with pytest.raises(InputError, match="cluster local is on this machine only; open a shell here instead"):
        need(local, CanLogIn)
    assert need(local, CanCreate) is need(local, CanRepair) is need(local, CanRemoveNodes) is local
    assert need(local, CanPlan) is local


def test_a_cluster_keeps_its_mode(tmp_path: Path) -> None:
    opened = cluster_of_hosts(tmp_path)
    with pytest.raises(ConflictError, match="cluster lab: exists with the mode grass/on-premises, not local; choose"):
        registry.for_settings(parse_settings({"name": "lab"}), opened)


def test_a_cluster_of_hosts_says_where_its_log_is_repaired(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--repair is for a cluster on this machine; for a host see docs/guide"):
        need(registry.for_cluster(cluster_of_hosts(tmp_path)), CanRepair)


def test_a_cluster_of_hosts_says_how_its_services_are_stopped(tmp_path: Path) -> None:
    lab = registry.for_cluster(cluster_of_hosts(tmp_path))
    for capability in (CanStop, CanStartAtBoot):
        with pytest.raises(InputError, match=r"services start at boot; .* `systemctl stop 'grass-\*@lab\.service'`"):
            need(lab, capability)


def test_a_backup_of_hosts_that_do_not_answer_leaves_no_file(tmp_path: Path) -> None:
    provisioner = need(registry.for_cluster(cluster_of_hosts(tmp_path)), CanBackUp)
    with pytest.raises(UnreachableError, match="no SSH at"):
        provisioner.back_up(tmp_path / "b.grass-backup", "secret", ())
    assert not list(tmp_path.glob("*.grass-backup*"))


def test_a_cluster_of_hosts_knows_which_of_its_nodes_are_namespaces_also_when_it_is_created_again(
    tmp_path: Path,
) -> None:
    opened = cluster_of_hosts(tmp_path)
    Machines(HostSettings("10.0.0.1", login=Login()), namespaces=("pods",)).save(opened.client_dir)
    lab = need(registry.for_cluster(opened), CanRemoveNodes)
    assert need(lab, CanAddNamespaces) is lab  # type: ignore[arg-type, comparison-overlap]
    assert (lab.keeps("pods"), lab.keeps("n1")) == (True, False)


def test_a_cluster_that_is_elsewhere_is_changed_where_it_was_created(tmp_path: Path) -> None:
    opened = session(tmp_path, "far")
    opened.folder.mkdir(parents=True)
    write_mode(opened.folder, SIGNED_IN)
    far = registry.for_cluster(opened)
    for capability in (CanCreate, CanPlan, CanStart, CanRepair, CanAddNodes, CanRemoveNodes, CanLogIn):
        with pytest.raises(
            InputError, match="cluster far: this machine only has your key of it; do this where"
        ) as told:
            need(far, capability)
        assert ("grass logout" in str(told.value)) is (capability is CanCreate)


def test_a_word_that_is_no_host_is_refused_before_anything_is_asked(world: ApiWorld, tmp_path: Path) -> None:
    lab = need(registry.for_cluster(cluster_of_hosts(tmp_path)), CanAddNodes)
    for words, told in ((("a b",), "HOST"), (("n1", "N1"), "named twice")):
        with pytest.raises(InputError, match=told):
            lab.add_nodes(NodeRequest(words, Offer()), world.client("root"))
