"""The lab itself: hosts that behave as machines do. What the other end-to-end tests rely on is proven here.

An ordinary run has what the others would not show by themselves.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from scripts.labkit.command import docker
from scripts.labkit.host import Host
from scripts.labkit.lab import Lab
from tests.support.lab import ROOT, SessionLab
from tests.support.waiting import wait_until

CONNECTS = "import socket, sys; socket.create_connection((sys.argv[1], 22), timeout=2).close()"
NODES = ("n1", "n2", "n3")


@pytest.fixture(scope="module", autouse=True)
def _as_new(running_lab: SessionLab) -> None:
    running_lab.renew("master", *NODES)


def reaches(host: Host, other: str) -> bool:
    return host.attempt("python3", "-c", CONNECTS, other).code == 0


def test_hosts_reach_each_other_by_name_and_by_address(lab: SessionLab) -> None:
    assert list(lab.hosts) == ["master", *NODES]
    for name, host in lab.hosts.items():
        for other, target in lab.hosts.items():
            assert host.sh(f"getent hosts {other}").split()[0] == target.address, (name, other)
        assert reaches(host, "master") and reaches(host, lab.hosts["n1"].address)


def test_every_host_runs_systemd_with_an_identity_of_its_own(lab: SessionLab) -> None:
    hosts = lab.hosts.values()
    assert [host.sh("systemctl is-system-running").strip() for host in hosts] == ["running"] * 4
    assert [host.sh("hostname").strip() for host in hosts] == list(lab.hosts)
    for own in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id", "/etc/ssh/ssh_host_ed25519_key.pub"):
        assert len({host.sh(f"cat {own}") for host in hosts}) == 4, own


@pytest.mark.nightly  # test_create.py and test_join.py log in and use sudo as both users in every run
def test_the_key_opens_root_and_both_users_and_sudo_asks_one_of_them_for_a_password(lab: SessionLab) -> None:
    assert lab.key_file.stat().st_mode & 0o777 == 0o600
    assert lab.ssh("n1", "id", "-un").stdout == "root\n"
    assert lab.ssh("n1", "sudo", "-n", "id", "-un", user="ops").stdout == "root\n"
    assert lab.ssh("n1", "sudo", "-n", "id", "-un", user="grass-admin").code != 0
    given = lab.ssh("n1", "sudo", "-S", "-p", "''", "id", "-un", user="grass-admin", text_in=lab.password + "\n")
    assert given.stdout == "root\n", given
    assert lab.ssh("n1", "sudo", "-S", "id", "-un", user="grass-admin", text_in="wrong\n").code != 0


@pytest.mark.nightly  # test_work.py runs containers in every run
def test_the_engine_inside_a_host_runs_containers_within_limits(lab: SessionLab) -> None:
    lab.load_image("n1", lab.busybox_image_tar)
    limited = ["docker", "run", "--rm", "--network", "host", "--cpus", "0.5", "--memory", "64m"]
    shown = lab.hosts["n1"].run(*limited, "lab-busybox", "cat", *_limit_files()).stdout.split()
    assert shown in (["67108864", "50000"], ["67108864", "50000", "100000"])


def _limit_files() -> tuple[str, str]:
    if Path("/sys/fs/cgroup/memory").is_dir():
        return "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"
    return "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/cpu.max"


@pytest.mark.nightly  # test_work.py runs containers in every run
def test_a_python_program_runs_in_a_container_and_is_killed_beyond_its_memory(lab: SessionLab) -> None:
    lab.load_image("n1", lab.task_image_tar)
    limited = ["docker", "run", "--rm", "--network", "host", "--memory", "64m", "--memory-swap", "64m", "lab-python"]
    n1 = lab.hosts["n1"]
    assert n1.run(*limited, "python", "-c", "import json, ssl, socket; print('ran')").stdout == "ran\n"
    assert n1.attempt(*limited, "python", "-c", "held = bytearray(200 << 20)").code == 137


@pytest.mark.nightly
def test_a_task_image_is_made_with_packages_that_hold_compiled_code(lab: SessionLab) -> None:
    lab.load_image("n1", lab.image_with("lab-numpy", "numpy"))
    program = "import numpy; print(int(numpy.linalg.det(numpy.eye(3)) * 7))"
    assert lab.hosts["n1"].run("docker", "run", "--rm", "lab-numpy", "python", "-c", program).stdout == "7\n"


SHARE = """[global]
server min protocol = SMB3
[grass]
path = /srv/lab-share
valid users = ops
read only = no
"""


@pytest.mark.nightly  # each cluster of test_work.py and test_host_faults.py mounts one in every run
def test_a_samba_share_is_mounted_on_another_host_to_read_and_write(lab: SessionLab) -> None:
    master, node = lab.hosts["master"], lab.hosts["n1"]
    try:
        master.sh("install -d -o ops /srv/lab-share && echo from-master > /srv/lab-share/a")
        master.run("tee", "/etc/samba/smb.conf", text_in=SHARE)
        master.run("smbpasswd", "-s", "-a", "ops", text_in="secret\nsecret\n")
        master.sh("systemctl start smbd")
        node.sh(
            "mkdir -p /mnt/share && rclone mount :smb:grass /mnt/share --daemon --vfs-cache-mode writes"
            f" --vfs-write-back 0s --smb-host {master.address} --smb-user ops --smb-pass $(rclone obscure secret)"
        )
        assert node.sh("cat /mnt/share/a") == "from-master\n"
        node.sh("echo from-node > /mnt/share/b")
        wait_until(lambda: master.attempt("cat", "/srv/lab-share/b").stdout == "from-node\n", what="the node's file")
    finally:
        node.attempt("umount", "-l", "/mnt/share")
        lab.reset("master")


def test_a_host_that_is_cut_off_runs_on_alone_and_comes_back_with_its_address(lab: SessionLab) -> None:
    n1, n2 = lab.hosts["n1"], lab.hosts["n2"]
    started = n2.sh("stat -c %Y /proc/1")
    n2.cut()
    n2.cut()  # twice is once
    assert not reaches(n1, "n2") and not reaches(n2, n1.address)
    with pytest.raises(OSError):  # nor does this machine
        socket.create_connection((n2.address, 22), timeout=1)
    assert n2.sh("systemctl is-system-running").strip() == "running"
    n2.heal()
    n2.heal()
    wait_until(lambda: reaches(n1, "n2") and reaches(n2, "n1"), what="the network of n2")
    assert n2.address in n2.sh("ip -4 -brief address")
    assert n2.sh("stat -c %Y /proc/1") == started


@pytest.mark.nightly  # all machines of test_host_faults.py lose power in every run
def test_a_kill_takes_processes_and_containers_and_leaves_the_disks(lab: SessionLab) -> None:
    n3 = lab.hosts["n3"]
    lab.load_image("n3", lab.busybox_image_tar)
    n3.sh("echo kept > /root/kept; docker run --detach --name sleeper --network host lab-busybox sleep 1000")
    n3.kill()
    assert n3.state() == "exited"
    assert not reaches(lab.hosts["n1"], n3.address)
    n3.start()
    assert n3.sh("cat /root/kept") == "kept\n"
    assert n3.sh("docker inspect --format '{{.State.Running}}' sleeper").strip() == "false"
    assert reaches(lab.hosts["n1"], n3.address) and n3.address in n3.sh("ip -4 -brief address")


@pytest.mark.nightly  # test_create.py reboots a master in every run
def test_a_reboot_ends_services_in_order_and_changes_the_boot_id_only(lab: SessionLab) -> None:
    n3 = lab.hosts["n3"]
    marker = "systemd-run --unit=marker --property='ExecStop=/bin/sh -c \"echo in-order > /root/stopped\"' sleep 1000"
    n3.sh(marker)
    before = n3.sh("cat /proc/sys/kernel/random/boot_id"), n3.host_key(), n3.sh("cat /etc/machine-id")
    n3.reboot()
    after = n3.sh("cat /proc/sys/kernel/random/boot_id"), n3.host_key(), n3.sh("cat /etc/machine-id")
    assert after[0] != before[0] and after[1:] == before[1:]
    assert n3.sh("cat /root/stopped") == "in-order\n"
    assert n3.address in n3.sh("ip -4 -brief address")
    assert lab.ssh("n3", "hostname").stdout == "n3\n"


def test_a_host_that_hangs_answers_nobody_until_it_goes_on(lab: SessionLab) -> None:
    n2 = lab.hosts["n2"]
    n2.hang()
    greeting = "import socket, sys; s = socket.create_connection((sys.argv[1], 22), timeout=1); s.recv(1)"
    assert lab.hosts["n1"].attempt("python3", "-c", greeting, n2.address).code == 1
    n2.resume()
    assert lab.ssh("n2", "hostname").stdout == "n2\n"


def test_a_reset_host_has_new_disks_and_a_new_key_at_the_old_address(lab: SessionLab) -> None:
    n3 = lab.hosts["n3"]
    key = n3.host_key()
    n3.sh("touch /root/old; touch /var/lib/docker/old")
    lab.reset("n3")
    assert n3.host_key() != key
    assert n3.attempt("ls", "/root/old", "/var/lib/docker/old").stdout == ""
    assert lab.ssh("n3", "hostname").stdout == "n3\n"


def command(name: str, *words: str, home: Path) -> subprocess.CompletedProcess[str]:
    """``scripts/lab --prefix NAME WORDS`` as a person runs it."""
    argv = [str(ROOT / "scripts" / "lab"), "--prefix", name, *words]
    environment = {**os.environ, "GRASS_LAB_HOME": str(home)}
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, env=environment)


@pytest.mark.nightly
def test_a_second_lab_goes_up_beside_the_first_and_leaves_nothing_behind(lab: SessionLab) -> None:
    home = lab.lab.home
    name = f"{lab.name[:20]}-b"
    try:
        first = command(name, "up", "--nodes", "2", "--bare", "n1", "--variant", "n2=minimal", home=home)
        assert first.returncode == 0, first.stderr
        second = Lab(name, home)
        assert first.stdout == second.cluster_file.read_text()
        assert {host.address for host in second.hosts.values()}.isdisjoint(h.address for h in lab.hosts.values())
        there = [second.host(host).attempt("which", "docker", "redis-server").stdout.split() for host in second.hosts]
        assert there == [["/usr/bin/docker", "/usr/bin/redis-server"], ["/usr/bin/redis-server"], []]

        keys = {host.name: host.host_key() for host in second.hosts.values()}
        volumes = docker("inspect", "--format", "{{range .Mounts}}{{.Name}} {{end}}", f"{name}-master").split()
        second.host("n1").kill()  # an `up` that was interrupted, and a host that fell over
        second.host("n2").remove()
        again = command(name, "up", "--nodes", "2", home=home)
        assert again.returncode == 0, again.stderr
        assert {host: second.host(host).host_key() == keys[host] for host in keys} == {
            "master": True,
            "n1": True,
            "n2": False,
        }
        assert command(name, "ssh", "n1", "--", "exit 7", home=home).returncode == 7
        assert command(name, "cut", f"{name}-n1", home=home).returncode == 0
        assert [line.split()[3] for line in command(name, "status", home=home).stdout.splitlines()] == [
            "connected",
            "cut",
            "connected",
        ]
        assert "has no host 'n9'" in command(name, "reboot", "n9", home=home).stderr
    finally:
        ended = command(name, "down", home=home)
    assert ended.returncode == 0, ended.stderr
    assert docker("ps", "--all", "--quiet", "--filter", f"label=grass.lab={name}") == ""
    assert docker("network", "ls", "--quiet", "--filter", f"label=grass.lab={name}") == ""
    assert set(docker("volume", "ls", "--quiet").split()).isdisjoint(volumes)
    assert not (home / "labs" / name).exists()
    assert command(name, "down", home=home).returncode == 0  # twice is once
    assert command(name, "status", home=home).returncode == 1


@pytest.mark.parametrize("words", [["up", "--nodes", "-1"], ["up", "--bare", "n9"], ["up", "--variant", "n1=none"]])
def test_what_cannot_be_is_refused_before_anything_is_made(lab: SessionLab, words: list[str]) -> None:
    refused = command("nothing", *words, home=lab.lab.home)
    assert refused.returncode == 1 and refused.stderr.startswith("error: ")
    assert not (lab.lab.home / "labs" / "nothing").exists()
