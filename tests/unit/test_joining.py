"""Joining, as far as it is decided purely: the file, what speaks against a machine, the share, the units, the steps."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grass import __version__
from grass.api.invitation import Invitation, parse_token
from grass.assets import asset
from grass.cli.offer import OfferOptions, offered
from grass.config import ClusterConfig
from grass.errors import ConflictError, InputError, ManifestError
from grass.manifest.join_file import Offer, parse_join
from grass.manifest.on_premises import HostSettings
from grass.model.daemons import NODE_DAEMONS
from grass.model.runtime import RuntimeName
from grass.provision.on_premises import first_nodes, mount, node_design, node_paths, node_steps, node_units
from grass.provision.on_premises.facts import Facts, Listener, Python
from grass.provision.on_premises.node_upgrade import out_of_reach
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.steps import Put, Run
from grass.provision.provisioner import AddedNode
from grass.wire.join_views import ShareServer
from tests.support import sample_views

FACTS = Facts(
    hostname="box",
    user="root",
    machine="x86_64",
    os_name="Debian 12",
    pythons=(Python((3, 11, 2), "/usr/bin/python3"),),
    systemd=True,
    packagers=("apt-get",),
    programs={"rclone": "/usr/bin/rclone", "fusermount3": "/usr/bin/fusermount3", "docker": "/usr/bin/docker"},
    docker="20.10",
    fuse=True,
    disk_free=10 << 30,
    addresses=(("eth0", "10.0.0.5"),),
)
PATHS = node_paths.of_root("lab", None)
MASTER = ClusterConfig("lab", "grass/on-premises", "/var/lib/grass/clusters/lab", "/run/grass/lab")
NAMES = ("address", "api_port", "cpu", "memory", "gpu", "labels", "topology", "runtime", "mount", "share", "no_install")
MARO = {
    "mode": "grass/on-premises",
    "master": {"private_ip_address": "10.0.0.1", "api_server": {"port": 51812}, "redis": {"port": 6379}},
    "node": {
        "hostname": "worker-1",
        "username": "root",
        "public_ip_address": "20.0.0.5",
        "private_ip_address": "10.0.0.5",
        "resources": {"cpu": "all", "memory": "2048m", "gpu": 0},
        "ssh": {"port": 22},
        "api_server": {"port": 51812},
    },
    "config": {"install_node_runtime": True, "install_node_gpu_support": False},
}


def designed(facts: Facts = FACTS, offer: Offer | None = None, **more: Any) -> node_design.NodeDesign:
    return node_design.design(
        facts, offer or Offer(address="10.0.0.5"), PATHS, **{"served": True, "joined": False, **more}
    )


def test_maros_join_file_is_taken_as_it_is() -> None:
    file = parse_join(MARO)
    assert file.url == "http://10.0.0.1:51812"
    offer = file.offer
    assert (offer.name, offer.address, offer.api_port) == ("worker-1", "10.0.0.5", 51812)
    assert (offer.cpu, offer.memory, offer.gpu) == (None, 2048 << 20, 0)
    assert offer.runtimes == (RuntimeName.PROCESS, RuntimeName.DOCKER)
    assert offer.install


def test_a_join_file_tells_every_fault_at_once() -> None:
    with pytest.raises(ManifestError) as caught:
        parse_join({"mode": "nonsense", "master": {}, "node": {"resources": {"cpu": -1}, "colour": "red"}})
    told = {problem.path for problem in caught.value.problems}
    assert told == {"mode", "master.address", "node.resources.cpu", "node.colour"}


def test_our_join_file_has_labels_topology_mounts_and_a_share() -> None:
    node = {"labels": {"disk": "ssd"}, "topology": "r1/s2", "mounts": ["/data"], "share": {"path": "/mnt/nas"}}
    file = parse_join({"mode": "grass/on-premises", "master": {"address": "10.0.0.1"}, "node": node, "token": "t"})
    offer = file.offer
    assert (offer.labels, offer.topology, offer.mounts) == ({"disk": "ssd"}, ("r1", "s2"), ("/data",))
    assert (offer.share, file.token) == ("/mnt/nas", "t")


def test_a_token_comes_back_as_it_was_made_and_hides_its_secret() -> None:
    made = Invitation(("http://10.0.0.1:51812",), "thumb", "secret", "d" * 64, "lab")
    assert parse_token(made.token()) == made
    assert "secret" not in repr(replace(made, secret="hidden-word")) and "hidden-word" not in repr(made)


@pytest.mark.parametrize("text", ["", "grass1.", "grass1.e30", "nonsense", "grass1.%%%", "grass2.e30", "x" * 5000])
def test_what_is_no_token_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_token(text)
    assert len(text) < 10 or text not in str(caught.value)


def test_the_command_line_goes_before_the_file() -> None:
    given = OfferOptions(labels=("a=1,b=2",), cpu=2000, runtime=("process",))
    offer = offered(Offer(labels={"a": "0", "c": "3"}, cpu=1000), given)
    assert offer.labels == {"a": "1", "b": "2", "c": "3"}
    assert (offer.cpu, offer.runtimes) == (2000, (RuntimeName.PROCESS,))
    with pytest.raises(InputError, match="NAME=VALUE"):
        offered(Offer(), OfferOptions(labels=("nonsense",)))


def test_a_machine_offers_containers_where_an_engine_answers() -> None:
    assert designed().runtimes == (RuntimeName.PROCESS, RuntimeName.DOCKER)
    assert designed(replace(FACTS, docker="")).runtimes == (RuntimeName.PROCESS,)


def test_docker_is_installed_only_where_it_is_wanted_missing_and_allowed() -> None:
    bare = replace(FACTS, docker="", programs={"rclone": "r", "fusermount3": "f"})
    both = Offer(address="10.0.0.5", runtimes=(RuntimeName.PROCESS, RuntimeName.DOCKER))
    assert designed(bare, both).packages == ("docker.io",)
    with pytest.raises(InputError, match=r"missing: docker\.io; and installing is forbidden"):
        designed(bare, replace(both, install=False))
    with pytest.raises(InputError, match="no engine answers"):
        designed(replace(FACTS, docker=""), both)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (replace(FACTS, systemd=False), "systemd does not run there"),
        (replace(FACTS, pythons=(Python((3, 9, 1), "p"),)), r"no Python of 3\.10 or newer \(found: 3\.9\.1\)"),
        (replace(FACTS, disk_free=1 << 20), "only 1MiB are free"),
        (replace(FACTS, listeners=(Listener("0.0.0.0", 51813, "nginx"),)), "taken by nginx"),
        (replace(FACTS, addresses=(("eth0", "10.9.9.9"),)), "it has no address"),
        (replace(FACTS, fuse=False, cifs=False), "neither cifs nor FUSE"),
        (replace(FACTS, programs={}, packagers=()), "missing: rclone, fuse3; its package manager is unknown"),
    ],
)
def test_what_speaks_against_a_machine_is_said_before_anything_is_changed(facts: Facts, said: str) -> None:
    with pytest.raises(InputError, match=said):
        designed(facts)


def test_its_own_port_does_not_speak_against_a_node_that_is_joined_already() -> None:
    assert designed(replace(FACTS, listeners=(Listener("10.0.0.5", 51813, "gunicorn"),)), joined=True)


def test_kernel_cifs_is_preferred_and_fuse_is_the_other_way() -> None:
    assert mount.choose(FACTS).kind == mount.FUSE
    assert mount.choose(replace(FACTS, cifs=True)) == mount.ShareMount(mount.CIFS, ("cifs-utils",))


def test_there_is_nothing_to_mount_where_the_share_is_mounted_already_or_the_machine_is_the_master() -> None:
    assert designed(offer=Offer(address="10.0.0.5", share="/mnt/nas")).mount is None
    assert designed(served=False).mount is None
    master = node_paths.of_root("lab", MASTER)
    assert master.home == "/var/lib/grass/nodes/lab"
    assert node_design.design(FACTS, Offer(address="10.0.0.5"), master, served=True, joined=False).mount is None
    moved = replace(FACTS, paths=FACTS.paths | {"/var/lib/grass/clusters/lab/replaced-by"})
    assert node_design.design(moved, Offer(address="10.0.0.5"), master, served=True, joined=True).mount is not None


def test_no_password_is_part_of_a_command_line() -> None:
    share = ShareServer("10.0.0.1", 51445, password="hidden-word")
    for kind in (mount.FUSE, mount.CIFS):
        for step in mount.share_steps(PATHS, mount.ShareMount(kind), share):
            assert "hidden-word" not in "".join([step.name, *step.lines(), repr(step)])
            for action in step.actions:
                assert not isinstance(action, Run) or all("hidden-word" not in word for word in action.argv)
                if isinstance(action, Put) and b"hidden-word" in action.content:  # type: ignore[operator]
                    assert action.mode == 0o600


@pytest.mark.parametrize(("ahead", "said"), [(7200.0, r"2\.0 h ahead of"), (-4000.0, r"1\.1 h behind")])
def test_a_clock_that_is_hours_off_is_refused(ahead: float, said: str) -> None:
    with pytest.raises(ConflictError, match=said):
        node_design.clock_warning("box", ahead)


def test_a_clock_that_is_minutes_off_is_warned_of() -> None:
    assert "2.0 min behind" in (node_design.clock_warning("box", -120.0) or "")
    assert node_design.clock_warning("box", 3.0) is None


def test_the_record_names_only_what_was_not_there_before() -> None:
    design = replace(designed(), runtimes=(RuntimeName.DOCKER,))
    made = node_steps.made(replace(FACTS, grass_user=True, groups=("grass", "docker")), design, PATHS)
    assert (made.users, made.groups) == ((), ())
    assert node_steps.made(FACTS, design, PATHS).groups == ("docker",)
    assert "/var/lib/grass/clusters/lab" in made.folders
    assert Made.parse(made.text()).files == made.files


def test_what_the_join_script_brought_goes_with_the_node() -> None:
    facts = replace(FACTS, paths=frozenset({"/opt/grass"}), bundle="d" * 64)
    folders = node_steps.made(facts, designed(), PATHS).folders
    assert "/opt/grass/venv" in folders and "/opt/grass" not in folders


def test_what_a_master_made_there_is_shared_with_its_node() -> None:
    records = {"lab": Made(users=("grass",), folders=("/opt/grass/venv",))}
    facts = replace(FACTS, grass_user=True, paths=frozenset({"/opt/grass"}), records=records)
    made = node_steps.made(facts, designed(), node_paths.of_root("lab", MASTER))
    assert made.users == ("grass",)
    assert "/opt/grass/venv" in made.folders


def test_the_node_agent_may_write_a_share_that_was_mounted_elsewhere_before() -> None:
    design = replace(designed(), share="/mnt/nas/lab")
    conf = "/etc/systemd/system/grass-node-agent@lab.service.d/share.conf"
    written = {
        put.target: put
        for put in node_steps.unit_step(PATHS, isolated=False, share=design.share).actions
        if isinstance(put, Put)
    }
    assert b"ReadWritePaths=/mnt/nas/lab" in written[conf].content
    made = node_steps.made(FACTS, design, PATHS)
    assert conf in made.files and conf.rpartition("/")[0] in made.folders
    assert conf not in node_steps.made(FACTS, designed(), PATHS).files


def test_a_users_units_say_nothing_that_needs_root() -> None:
    for name in NODE_DAEMONS:
        text = node_units.user_unit(asset(f"deploy/systemd/grass-{name}@.service").read_text())
        assert not {"User", "Group", "ProtectSystem"} & {line.partition("=")[0] for line in text.splitlines()}
        assert "WantedBy=default.target" in text
        assert "ExecStart=" in text and "EnvironmentFile=%h/.grass/nodes/%i/env" in text


def test_a_users_manager_waits_for_a_notice_too() -> None:
    path, service = (node_units.user_unit(asset(f"deploy/systemd/{file}").read_text()) for file in node_units.FOLLOW)
    assert "PathExists=%t/grass/%i/heard-notice" in path and "WantedBy=default.target" in path
    assert "EnvironmentFile=%h/.grass/nodes/%i/env" in service and "follow_on_host %i" in service


def test_a_node_that_joined_but_cannot_be_reached_is_not_said_to_have_not_joined() -> None:
    silent = AddedNode("n1", sample_views.node("n1"), "n1 joined, but …", "not-reached", 1)
    error = first_nodes._missing("lab", [silent], 2)
    assert str(error).splitlines()[0] == "cluster lab is ready, but 1 of its 2 nodes cannot be reached by the master"
    assert "tries these again" not in str(error) and error.exit_code == 1
    both = first_nodes._missing("lab", [silent, AddedNode("n2", None, "no SSH", "unreachable", 3)], 2)
    assert str(both).splitlines()[0] == "cluster lab is ready, but 1 of its 2 nodes did not join"
    assert both.exit_code == 3
    late = first_nodes._missing("lab", [AddedNode("n2", None, "no SSH", "unreachable", 3)], 2, "could not be upgraded")
    assert str(late).splitlines()[0] == "cluster lab is ready, but 1 of its 2 nodes could not be upgraded"


def test_daemons_that_another_bundle_started_are_restarted_without_the_shepherd(tmp_path: Path) -> None:
    control = tmp_path / "systemctl"
    control.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\n')
    control.chmod(0o755)
    paths = node_paths.of_user("lab", "me", "us", str(tmp_path), str(tmp_path))
    Path(paths.home).mkdir(parents=True)

    def start(bundle: str) -> str:
        (tmp_path / "said").write_text("")
        step = node_steps.start_step(paths, bundle, again=False, new_node=False)
        assert step.check is not None
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        if subprocess.run(step.check.argv, env=env, check=False).returncode != 0:
            for action in step.actions:
                assert isinstance(action, Run)
                subprocess.run(action.argv, env=env, check=True)
        return (tmp_path / "said").read_text()

    restart = "restart grass-node-agent@lab.service grass-node-api-server@lab.service\n"
    assert restart in start("a" * 64)
    assert "restart" not in start("a" * 64)
    assert restart in start("b" * 64)


def test_nodes_of_another_version_that_this_user_does_not_reach_are_named_with_the_command() -> None:
    versions = {"n1": "0.0.9", "n2": "0.0.9", "n3": __version__, "n4": None}
    views = [sample_views.node(name, version=version) for name, version in versions.items()]
    [line] = out_of_reach({"n1": HostSettings("10.0.0.5")}, views, "http://10.0.0.1:51812")
    assert line.startswith("n2: runs Grass 0.0.9") and "curl -sSf http://10.0.0.1:51812/v1/join.py | sudo" in line
