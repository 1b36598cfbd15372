"""`grass create` and `grass delete` of a cluster on several hosts, over SSH, on real hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.assets import asset
from grass.model.daemons import MASTER_DAEMONS
from grass.provision.on_premises import facts
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster, holds, settings
from tests.support.stolen_node import DONE, SHARE
from tests.support.stolen_node import REFUSED as NOT_DONE
from tests.support.waiting import wait_until

REFUSED, UNREACHABLE = 2, 3


@pytest.fixture(scope="module")
def standing(running_lab: SessionLab, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """A cluster whose master is n3, made from MARO's file, for those who only look at it."""
    running_lab.renew("n3")
    address = running_lab.hosts["n3"].address
    of_maro = {
        "mode": "grass/on-premises",
        "name": "stands",
        "user": {"admin_id": "admin"},
        "master": {
            "username": "root",
            "hostname": "n3",
            "public_ip_address": address,
            "private_ip_address": address,
            "ssh": {"key": str(running_lab.key_file)},
        },
    }
    made = Cluster(running_lab, site, tmp_path_factory.mktemp("standing"), of_maro)
    assert made.created()["url"] == f"http://{address}:51812"
    return made


@pytest.fixture
def cluster(lab: SessionLab, site: Path, tmp_path: Path) -> Cluster:
    """On a master that is as new."""
    lab.renew("master")
    return Cluster(lab, site, tmp_path / "home", settings(lab))


@pytest.fixture(scope="module")
def unchanged(running_lab: SessionLab) -> list[str]:
    """What n2, a master that is as new, holds."""
    running_lab.renew("n2")
    return holds(running_lab, "n2")


@pytest.fixture
def refused(lab: SessionLab, site: Path, tmp_path: Path, unchanged: list[str]) -> Iterator[Cluster]:
    """A cluster that cannot be made on n2: nothing is changed there, neither by `grass` nor by the test."""
    made = Cluster(lab, site, tmp_path / "home", settings(lab))
    made.settings["master"] = {"hostname": "n2", "address": lab.hosts["n2"].address}
    yield made
    assert holds(lab, "n2") == unchanged
    assert not made.client.exists()


def steps(said: str) -> dict[str, str]:
    """Step → how it ended, of what `grass create` reported."""
    return dict(re.findall(r"^\S+: \[\d+/\d+\] (.*): (done|unchanged|as it should be|failed.*)$", said, re.MULTILINE))


def test_a_plan_names_every_step_and_changes_nothing(refused: Cluster) -> None:
    cluster = refused
    cluster.lab.renew("n1")  # other tests leave a node there, which cannot join again
    away, near = {"address": "10.255.255.1", "ssh": {"port": 1}}, {"address": cluster.lab.hosts["n1"].address}
    cluster.settings["nodes"] = [{**near, "name": "first"}, away]
    done = cluster.create("--plan", "-o", "json")
    assert done.returncode == 0, done.stderr
    plan = "\n".join(json.loads(done.stdout)["plan"])
    for words in ("make the user grass", "install Grass in /opt/grass/venv", "start redis, collector, samba"):
        assert words in plan
    for words in ("join the cluster e2e as first", "start shepherd, node-agent, node-api-server", "mount the share"):
        assert "node first: [" in plan and words in plan
    assert "node 10.255.255.1: cannot join: " in plan


def daemons(cluster: Cluster) -> dict[str, tuple[str, int]]:
    """The state and the pid of each."""
    status = json.loads(cluster.grass("status", "-o", "json").stdout)
    return {daemon["name"]: (daemon["state"], daemon["pid"]) for daemon in status["daemons"]}


def test_all_daemons_of_a_new_cluster_run(standing: Cluster) -> None:
    names = ("redis", "task-redis", "samba", *MASTER_DAEMONS)
    assert {name: state for name, (state, _) in daemons(standing).items()} == dict.fromkeys(names, "RUNNING")


def test_an_engine_that_starts_on_demand_is_found_and_not_started(standing: Cluster) -> None:
    host = standing.lab.hosts["n3"]
    assert host.attempt("systemctl", "is-active", "docker.service").stdout == "inactive\n"
    said = host.run("sh", "-s", "stands", text_in=asset("on_premises/facts.sh").read_text()).stdout
    assert host.attempt("systemctl", "is-active", "docker.service").stdout == "inactive\n"
    version = host.run("docker", "version", "--format", "{{.Server.Version}}").stdout.strip()
    assert version and facts.parse(said).docker == version


def test_only_ssh_and_the_api_can_be_reached_from_outside_and_keys_stay_where_they_were_made(standing: Cluster) -> None:
    address = standing.lab.hosts["n3"].address
    listening = standing.lab.ssh("n3", "ss", "-H", "-l", "-t", "-n").stdout
    found = {line.split()[3] for line in listening.splitlines()}
    everywhere = {place for place in found if place.startswith(("0.0.0.0:", "[::]:", "*:"))}
    assert everywhere == {"0.0.0.0:22", "[::]:22", "0.0.0.0:51812"}
    assert {f"{address}:6379", f"{address}:24224", f"{address}:51445"} <= found

    private = (standing.client / "user.pem").read_text().splitlines()[2]
    there = standing.lab.ssh("n3", "grep", "-rlF", "-e", private, "/var/lib/grass", "/etc/grass", "/opt/grass/bundle")
    assert (there.code, there.stdout) == (1, "")
    modes = (
        "stat -c '%a %U %n' /var/lib/grass/clusters/stands/secrets.json /var/lib/grass/clusters/stands/master/key.pem"
    )
    assert [line.split()[:2] for line in standing.lab.ssh("n3", modes).stdout.splitlines()] == [["600", "grass"]] * 2


def test_the_share_is_for_whoever_has_its_password_and_speaks_smb3(standing: Cluster) -> None:
    address = standing.lab.hosts["n3"].address
    read = "import json; print(json.load(open('/var/lib/grass/clusters/stands/secrets.json'))['samba'])"
    password = standing.lab.ssh("n3", "python3", "-", text_in=read).stdout.strip()

    def client(*words: str, secret: str = password) -> tuple[int, str]:
        target = ["smbclient", f"//{address}/grass", "-p", "51445", "-U", f"grass%{secret}", *words]
        done = standing.lab.ssh("n1", *target)
        return done.code, done.stdout + done.stderr

    code, said = client("-c", "'put /etc/hostname data/from-n1; ls data/*'")
    assert code == 0 and "from-n1" in said, said
    owner = standing.lab.ssh("n3", "stat", "-c", "%U", "/srv/grass/stands/data/from-n1").stdout
    assert owner.strip() == "grass"
    assert client("-c", "'mkdir own; rename own data/own'") == (0, "")
    of_ann = "d=/srv/grass/stands/data/ann; mkdir $d; echo secret > $d/file; chown -R grass:grass $d; chmod -R o= $d"
    standing.lab.ssh("n3", "sh", "-s", text_in=of_ann)
    found = {
        "read files of all users": "secret" in client("-c", "'get data/ann/file -'")[1],
        "change files of all users": client("-c", "'put /etc/hostname data/ann/file'")[0] == 0,
    }
    for what, error, *changes in (
        ("change an image", "MEDIA_WRITE_PROTECTED", "put /etc/hostname images/x"),
        ("change logs of jobs", "MEDIA_WRITE_PROTECTED", "mkdir logs/x"),
        (
            "put other folders in place of those of images and logs",
            *("ACCESS_DENIED", "rename images data/images", "rename logs data/logs"),
        ),
    ):
        found[what] = not all(f"NT_STATUS_{error}" in client("-c", f"'{change}'")[1] for change in changes)
    kept = "cd /srv/grass/stands && mv images data/ && mv logs data/"
    refused = standing.lab.ssh("n3", kept.replace(" && mv", "; mv")).stderr
    assert refused.count("Device or resource busy") == 2, refused
    samba = "grass-samba@stands.service"
    away = standing.lab.ssh("n3", f"systemctl stop {samba} && {kept} && systemctl start {samba}")
    assert away.code == 0, away
    for change in ("put /etc/hostname images/x", "put /etc/hostname logs/x"):
        assert "NT_STATUS_MEDIA_WRITE_PROTECTED" in client("-c", f"'{change}'")[1]
    back = "cd /srv/grass/stands && rmdir images && mv data/images . && cp -a data/logs/. logs && rm -r data/logs"
    restored = standing.lab.ssh("n3", f"systemctl stop {samba} && {back} && systemctl start {samba}")
    assert restored.code == 0, restored
    guesses = (client("-c", "ls", secret="wrong"), client("-N", "-c", "ls", secret=""))
    found["use it without its password"] = any(code == 0 for code, _ in guesses)
    found["speak SMB 2, which cannot encrypt"] = client("-m", "SMB2", "-c", "ls")[0] == 0
    of_table = tuple(("share", what, DONE if done else NOT_DONE) for what, done in found.items())
    assert of_table == SHARE and client("-c", "ls")[0] == 0


@pytest.mark.nightly
def test_a_create_that_was_killed_is_finished_by_the_next_left_alone_by_a_third_and_removed_whole(
    cluster: Cluster,
) -> None:
    before = holds(cluster.lab)
    process = cluster.start("create", str(cluster.file()))
    assert process.stderr is not None
    for line in process.stderr:
        if "install Grass" in line:
            break
    process.kill()
    process.communicate()
    done = cluster.create()
    assert done.returncode == 0, done.stderr
    assert steps(done.stderr)["make the user grass"] == "unchanged"

    made = daemons(cluster)
    again = cluster.create()
    assert again.returncode == 0, again.stderr
    assert set(steps(again.stderr).values()) == {"unchanged", "as it should be"}, again.stderr
    assert daemons(cluster) == made

    gone = cluster.grass("delete", "e2e")
    assert gone.returncode == 0, gone.stderr
    assert holds(cluster.lab) == before
    assert not cluster.client.parent.exists()


@pytest.mark.nightly  # the test before goes on after such a create, and deletes it whole
def test_what_an_interrupted_create_left_can_be_deleted(cluster: Cluster) -> None:
    before = holds(cluster.lab)
    process = cluster.start("create", str(cluster.file()))
    assert process.stderr is not None
    for line in process.stderr:
        if "bring the bundle" in line:
            break
    process.kill()
    process.communicate()
    gone = cluster.grass("delete", "e2e")
    assert gone.returncode == 0, gone.stderr
    assert holds(cluster.lab) == before


@pytest.mark.nightly  # test_ssh_host.py refuses other host keys in every run; unit tests read `api`
def test_a_way_to_the_api_and_a_host_key_that_fail_are_named_and_the_next_create_goes_on(cluster: Cluster) -> None:
    an_api_that_a_firewall_hides_is_said_to_be_that_and_is_reached_through_ssh(cluster)
    another_host_key_is_refused_with_what_to_check(cluster)


@pytest.mark.nightly  # test_on_premises_steps.py has steps that fail; the test before goes on after such a create
def test_a_step_that_fails_and_a_daemon_that_does_not_start_are_named(cluster: Cluster) -> None:
    broken = "/etc/systemd/system/grass-samba@.service.d"
    cluster.lab.ssh("master", "mkdir -p /etc/systemd/system/grass@.target")  # where a file has to go
    done = cluster.create()
    assert done.returncode == 1
    for words in ("master: [", "write units and configuration: failed", "grass@.target", "continues here"):
        assert words in done.stderr + done.stdout
    cluster.lab.ssh("master", f"rmdir /etc/systemd/system/grass@.target; mkdir -p {broken}")
    cluster.lab.ssh("master", "sh", "-s", text_in=(
        "printf '[Service]\\nExecStart=\\nExecStart=/bin/sh -c \"echo no share today; exit 9\"\\n'"
        f" > {broken}/broken.conf"
    ))  # fmt: skip
    done = cluster.create()
    assert done.returncode == 1
    assert "grass-samba@e2e.service does not run" in done.stderr
    assert "no share today" in done.stderr
    cluster.lab.ssh("master", f"rm -r {broken}; systemctl daemon-reload; systemctl reset-failed")


def an_api_that_a_firewall_hides_is_said_to_be_that_and_is_reached_through_ssh(cluster: Cluster) -> None:
    assert cluster.lab.ssh("master", "iptables -A INPUT -p tcp --dport 51812 -i eth0 -j REJECT").code == 0
    done = cluster.create()
    assert done.returncode == UNREACHABLE
    assert "every daemon on master runs" in done.stderr and "api: tunnel" in done.stderr
    cluster.settings["api"] = "tunnel"
    block = "iptables -A INPUT -p tcp -m multiport ! --dports 22 -i eth0 -m conntrack --ctstate NEW -j REJECT"
    assert cluster.lab.ssh("master", block).code == 0
    assert cluster.created()["steps"]["unchanged"] > 3
    listed = cluster.grass("job", "list", "-o", "json")
    assert (listed.returncode, json.loads(listed.stdout)) == (0, []), listed.stderr
    followed = cluster.grass("events", "-o", "json")
    assert followed.returncode == 0, followed.stderr


def another_host_key_is_refused_with_what_to_check(cluster: Cluster) -> None:
    cluster.lab.reset("master")
    done = cluster.create()
    assert done.returncode == REFUSED
    for words in ("host key", "SHA256:", "known_hosts", "reinstalled"):
        assert words in done.stderr
    kept = cluster.grass("delete", "e2e")
    assert kept.returncode == UNREACHABLE and "the host key" in kept.stderr and cluster.client.exists()
    forced = cluster.grass("delete", "e2e", "--force")
    assert forced.returncode == 0 and "not cleaned: " in forced.stderr
    assert not cluster.client.exists()


def test_a_wrong_sudo_password_is_refused_before_anything_is_changed(refused: Cluster) -> None:
    refused.settings["ssh"]["user"] = "grass-admin"
    wrong = refused.create(GRASS_BECOME_PASSWORD="not-this")
    assert wrong.returncode == REFUSED
    assert "become root on n2: sudo refuses the password of grass-admin" in wrong.stderr
    none = refused.create()
    assert none.returncode == REFUSED and "--ask-become-pass" in none.stderr


@pytest.mark.nightly  # test_join.py has the password of sudo in every run, test_on_premises_master.py the mount
def test_sudo_with_a_password_works_and_a_mount_that_is_there_takes_the_place_of_the_share_and_stays(
    cluster: Cluster,
) -> None:
    """The password is written nowhere, and is not told to another host."""
    before = holds(cluster.lab)
    cluster.settings["ssh"]["user"] = "grass-admin"
    cluster.settings["share"] = {"path": "/mnt/nas"}
    secret = cluster.lab.password
    absent = cluster.create(GRASS_BECOME_PASSWORD=secret)
    assert absent.returncode == 1 and "/mnt/nas is not there; mount it on every machine first" in absent.stderr
    cluster.lab.ssh("master", "mkdir", "/mnt/nas")
    done = cluster.create(GRASS_BECOME_PASSWORD=secret)
    assert done.returncode == 0, done.stderr
    assert secret not in done.stdout + done.stderr
    assert not [path for path in cluster.home.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    units = cluster.lab.ssh("master", "systemctl", "list-units", "--no-legend", "grass-*").stdout
    assert "grass-collector@e2e.service" in units and "samba" not in units
    gone = cluster.grass("delete", "e2e", GRASS_BECOME_PASSWORD=secret)
    assert gone.returncode == 0, gone.stderr
    assert set(cluster.lab.ssh("master", "ls", "/mnt/nas/e2e").stdout.split()) == {"data", "logs", "images", "jobs"}
    assert [line for line in holds(cluster.lab) if not line.startswith("/mnt/nas")] == before


def test_a_closed_port_and_an_unknown_host_are_unreachable(refused: Cluster) -> None:
    refused.settings["ssh"]["port"] = 23
    closed = refused.create()
    assert closed.returncode == UNREACHABLE and ":23" in closed.stderr
    refused.settings["ssh"]["port"] = 22
    refused.settings["master"]["address"] = "no-such-host.invalid"
    unknown = refused.create()
    assert unknown.returncode == UNREACHABLE and "no-such-host.invalid" in unknown.stderr


def test_a_port_that_another_program_has_is_named_before_anything_is_changed(refused: Cluster) -> None:
    host = refused.lab.hosts["n2"]
    host.run("systemd-run", "--unit=holder", "python3", "-B", "-m", "http.server", "51812")
    try:
        wait_until(lambda: host.attempt("sh", "-c", "ss -H -l -t -n | grep -q :51812").code == 0, 20)
        done = refused.create()
        assert done.returncode == REFUSED
        assert "master.api.port: 51812 is taken there by python3" in done.stderr
    finally:
        host.run("systemctl", "stop", "holder")


def test_a_master_that_is_rebooted_comes_back_with_all_of_its_daemons(standing: Cluster) -> None:
    host = standing.lab.hosts["n3"]
    host.reboot()
    host.wait_booted()
    wait_until(lambda: standing.grass("status").returncode == 0, 60)
    wait_until(lambda: {state for state, _ in daemons(standing).values()} == {"RUNNING"}, 30, "all daemons")


def test_the_user_of_maros_file_owns_the_cluster(standing: Cluster) -> None:
    assert json.loads((standing.client / "profile.json").read_text())["user"] == "admin"


def test_nodes_of_the_file_join_and_one_that_does_not_answer_keeps_the_cluster_until_force(cluster: Cluster) -> None:
    """That nodes leave with the cluster: ``test_interrupted``."""
    cluster.lab.renew("n1")
    before = holds(cluster.lab)
    cluster.settings["nodes"] = [
        {"address": cluster.lab.hosts["n1"].address, "name": "first", "labels": {"disk": "nvme"}}
    ]
    cluster.created()
    [node] = json.loads(cluster.grass("node", "list", "-o", "json").stdout)
    assert (node["name"], node["state"], node["labels"]["disk"]) == ("first", "READY", "nvme")
    done = cluster.grass("run", "--", "hostname")
    assert (done.returncode, done.stdout.strip()) == (0, "n1"), done.stderr
    cluster.lab.hosts["n1"].cut()
    stayed = cluster.grass("delete", "e2e")
    assert stayed.returncode == UNREACHABLE and "first: " in stayed.stderr and cluster.client.exists()
    forced = cluster.grass("delete", "e2e", "--force")
    assert forced.returncode == 0 and "first: not cleaned: " in forced.stderr, forced.stderr
    assert holds(cluster.lab) == before


@pytest.mark.nightly  # test_on_premises_master.py refuses such a master, and sets up one without the whole folder
def test_a_master_without_the_key_of_its_authority_is_left_alone_until_it_is_back_or_there_is_to_be_a_new_one(
    cluster: Cluster,
) -> None:
    cluster.lab.renew("n1")
    node, host, tls = cluster.lab.hosts["n1"], cluster.lab.hosts["master"], "/var/lib/grass/clusters/e2e/tls"
    folders = f"{tls} /var/lib/grass/installed /etc/grass /etc/systemd/system"
    written = f"find {folders} -type f -exec sha256sum {{}} + | sort; ls -l /opt/grass"

    def joins_and_works() -> None:
        added = cluster.grass("node", "add", f"ops@{node.address}")
        assert added.returncode == 0, added.stderr
        works()

    def works() -> None:
        done = cluster.grass("run", "--", "hostname")
        assert (done.returncode, done.stdout.strip()) == (0, "n1"), done.stderr

    cluster.created()
    joins_and_works()
    host.sh(f"mv {tls}/ca.key /root/kept")
    before = daemons(cluster), host.sh(written)
    done = cluster.create()
    assert done.returncode == REFUSED
    assert "master cannot become the master; nothing was changed" in done.stderr
    assert f"{tls}/ca.key is missing; restore it from a backup, or remove {tls} to make a new authority" in done.stderr
    assert (daemons(cluster), host.sh(written)) == before
    works()

    host.sh(f"mv /root/kept {tls}/ca.key")
    cluster.created()
    works()

    host.sh(f"rm -r {tls}")
    cluster.created()
    left = cluster.lab.ssh("n1", "grass", "leave", seconds=120)
    assert left.code == 0, left
    joins_and_works()


def test_a_master_that_lacks_what_may_not_be_installed_is_told_so(refused: Cluster) -> None:
    host = refused.lab.hosts["n2"]
    host.run("mv", "/usr/sbin/smbd", "/usr/sbin/smbd.away")
    try:
        refused.settings["install_node_runtime"] = False
        done = refused.create()
        assert done.returncode == REFUSED
        assert "smbd is missing (package samba), and may not be installed" in done.stderr
    finally:
        host.run("mv", "/usr/sbin/smbd.away", "/usr/sbin/smbd")
