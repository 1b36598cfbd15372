"""Files of users, administration of hosts, and containers without isolation: as closed after faults as before them.

Two users, ann and bob, on a cluster with ``isolation: none``. ann attacks with her key for files, and with a
container. The attacks that may succeed show that the others could.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from grass.api.client import Client
from grass.errors import GrassError, UnreachableError
from grass.files.access import SshShare, access_in
from grass.files.operations import AddImage, ImageEntry, ListFiles, RemoveFiles, RemoveImage
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster, settings
from tests.support.three_nodes import BUSYBOX
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly  # the same without hosts: integration/test_users_files.py, test_docker_runtime.py
NAME = "rows"
SHARE = f"/srv/grass/{NAME}"
HOSTS = ("master", "n1")
BOBS = (f"{SHARE}/data/bob", f"{SHARE}/data/shared/bob", f"{SHARE}/images", f"{SHARE}/logs")


@dataclass(frozen=True)
class World:
    cluster: Cluster
    ann: Cluster
    bob: Cluster
    cid: Cluster
    """A user who was disabled."""
    job: str
    """Id of a job of bob's with output."""

    @property
    def lab(self) -> SessionLab:
        return self.cluster.lab

    def master(self, script: str) -> str:
        return self.lab.hosts["master"].sh(script)

    def answers(self) -> bool:
        try:
            with Client(NAME, home=self.cluster.home) as client:
                return all(node.state == "READY" for node in client.nodes())
        except GrassError:
            return False


def user(cluster: Cluster, folder: Path, name: str) -> Cluster:
    invitation = json.loads(cluster.good("user", "add", name, "-o", "json"))["invitation"]
    theirs = Cluster(cluster.lab, cluster.site, folder / name, cluster.settings)
    theirs.good("login", invitation)
    return theirs


@pytest.fixture(scope="module")
def world(running_lab: SessionLab, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    lab, folder = running_lab, tmp_path_factory.mktemp("rows")
    for host in HOSTS:
        lab.reset(host)
    nodes = [{"address": lab.hosts["n1"].address, "name": "n1"}]
    cluster = Cluster(lab, site, folder / "home", settings(lab, name=NAME, nodes=nodes))
    try:
        cluster.created()
        cluster.good("image", "push", "--file", str(lab.busybox_image_tar))
        ann, bob, cid = (user(cluster, folder, name) for name in ("ann", "bob", "cid"))
        (folder / "prey").write_text("secret of bob\n")
        for place in ("data/bob/prey", "data/shared/bob/prey"):
            bob.good("data", "push", str(folder / "prey"), place)
        cid.good("data", "list", "data/cid")
        cluster.good("user", "disable", "cid")
        with Client(NAME, home=bob.home) as client:
            component = {"command": "echo secret of bob > $GRASS_OUTPUT/prey; echo secret of bob", "cwd": "/"}
            client.start({"name": "prey", "components": {"t": component}})
            assert client.wait("prey", timeout=60).state == "SUCCEEDED"
            job = client.job("prey").id
        yield World(cluster, ann, bob, cid, job)
    finally:
        lab.make_whole()
        for host in HOSTS:
            lab.reset(host)


# the key for files


def share_of(cluster: Cluster) -> SshShare:
    found = access_in(cluster.home / "clusters" / NAME)
    assert isinstance(found, SshShare)
    return found


def by_ssh(there: SshShare, *options: str, command: str = "", text: str = "") -> str:
    access = there.access
    words = ["ssh", "-F", "none", "-i", access.key, "-p", str(access.port), "-o", "BatchMode=yes"]
    words += ["-o", f"UserKnownHostsFile={access.known_hosts}", "-o", "IdentitiesOnly=yes", *options]
    words += [f"{access.user}@{access.host}", *([command] if command else [])]
    try:
        done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired as late:
        return str(late.stdout)
    return done.stdout


def by_rsync(there: SshShare, *words: str) -> bool:
    where = there.rsync_path("data", "").partition("::")[0]
    named = [f"{where}{word}" if word.startswith("::") else word for word in words]
    command = ["rsync", *there.rsync_options(), "--timeout=15", *named]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def reached(there: SshShare, job: str, folder: Path) -> list[str]:
    """Return what ann's key opened. ``folder``: new and empty."""
    (folder / "evil").mkdir(parents=True)
    (folder / "evil" / "prey").write_text("forged")
    (folder / "empty").mkdir()
    got, evil, empty = str(folder / "got"), f"{folder}/evil/", f"{folder}/empty/"
    entry = ImageEntry("x", "0" * 64, (), 1, 1.0)

    def asked(*operations: ListFiles | RemoveFiles | AddImage | RemoveImage) -> bool:
        for operation in operations:
            try:
                there.ask(operation)
            except GrassError:
                continue
            return True
        return False

    tries: dict[str, Callable[[], bool]] = {
        "a command": lambda: "uid=" in by_ssh(there, command="id"),
        "a terminal": lambda: "uid=" in by_ssh(there, "-tt", text="id\nexit\n"),
        "another program": lambda: "uid=" in by_ssh(there, command="rsync --server . ; id"),
        "sftp": lambda: "sftp-server" in by_ssh(there, "-s", command="sftp", text="x") or by_sftp(there),
        "a forward": lambda: "PONG" in by_ssh(there, "-W", "127.0.0.1:6379", text="PING\r\n"),
        "files of bob": lambda: by_rsync(there, "-r", "::data/./data/bob/", got),
        "output of bob": lambda: by_rsync(there, "-r", f"::data/./jobs/{job}/", got),
        "output of bob, named": lambda: asked(ListFiles(f"jobs/{job}")),
        "logs": lambda: by_rsync(there, "-r", "::data/./logs/", got) or asked(ListFiles("logs")),
        "the share": lambda: by_rsync(there, "-r", "::data/./", got) or asked(ListFiles("")),
        "write as bob": lambda: by_rsync(there, "-r", evil, "::data/./data/bob/"),
        "write what bob shares": lambda: by_rsync(there, "-r", evil, "::data/./data/shared/bob/"),
        "remove what bob shares": lambda: by_rsync(there, "-r", "--delete", empty, "::data/./data/shared/bob/"),
        "remove files": lambda: asked(
            *(RemoveFiles(path, recursive=True) for path in ("data/bob", "data/shared/bob", f"jobs/{job}", "logs", ""))
        ),
        "replace an image": lambda: asked(AddImage("lab-busybox:latest", entry), RemoveImage("lab-busybox:latest")),
        "own files": lambda: by_rsync(there, "-r", evil, "::data/./data/ann/"),
        "shared files": lambda: by_rsync(there, "-r", "::data/./data/shared/bob/", got),
    }
    with ThreadPoolExecutor(6) as pool:  # sshd drops connections when 10 have not logged in yet
        done = pool.map(lambda attempt: attempt(), tries.values())
        return [what for what, opened in zip(tries, done, strict=True) if opened]


def by_sftp(there: SshShare) -> bool:
    access = there.access
    words = ["sftp", "-F", "none", "-i", access.key, "-P", str(access.port), "-o", "BatchMode=yes", "-b", "-"]
    words += ["-o", f"UserKnownHostsFile={access.known_hosts}", f"{access.user}@{access.host}"]
    return (
        subprocess.run(words, input="ls /\n", capture_output=True, text=True, timeout=30, check=False).returncode == 0
    )


MAY = ["own files", "shared files"]


def test_a_key_for_files_opens_no_more_after_each_service_behind_it_was_killed(world: World, tmp_path: Path) -> None:
    kept = f"find {' '.join(BOBS)} -type f | sort | xargs -d '\\n' sha256sum"
    before, unit = world.master(kept), f"grass-{{}}@{NAME}".format
    faults = {
        "nothing": ("true", "true"),
        "sshd was killed": ("systemctl kill --kill-whom=all -s KILL ssh; systemctl restart ssh", "true"),
        "redis is away": (f"systemctl stop {unit('redis')}", f"systemctl start {unit('redis')}"),
        "redis was killed": (f"systemctl kill -s KILL {unit('redis')}", "true"),
        "the API was killed": (f"systemctl kill --kill-whom=all -s KILL {unit('master-api-server')}", "true"),
        "the share's server is away": (f"systemctl stop {unit('samba')}", f"systemctl start {unit('samba')}"),
    }
    ann, cid = share_of(world.ann), share_of(world.cid)

    def looks(what: str) -> None:
        found = reached(ann, world.job, tmp_path / what.replace(" ", "-"))
        assert found == MAY, f"{what}: {found}"
        with pytest.raises(UnreachableError, match="Permission denied"):
            cid.ask(ListFiles("data/cid"))

    for what, (fault, end) in faults.items():
        world.master(fault)
        try:
            looks(what)
        finally:
            world.master(end)
        wait_until(world.answers, 90, f"the master after: {what}", 0.2)
    world.lab.hosts["master"].reboot()
    looks("the master starts")
    wait_until(world.answers, 90, "the master after its reboot", 0.2)
    assert world.master(kept) == before


# administration of hosts

IMPOSTOR = """
set -e
mkdir -p /root/true; cp -a /etc/ssh/ssh_host_* /root/true/; rm /etc/ssh/ssh_host_*
ssh-keygen -q -t {kind} -N '' -f /etc/ssh/ssh_host_{kind}_key
systemctl kill --kill-whom=all -s KILL ssh; systemctl reset-failed ssh || true; systemctl restart ssh
"""
RESTORED = "rm /etc/ssh/ssh_host_*; cp -a /root/true/* /etc/ssh/; systemctl restart ssh"


def test_who_answers_in_the_place_of_a_host_whose_sshd_ended_is_told_nothing(world: World, tmp_path: Path) -> None:
    """The impostor lets everybody in whom the host would let in, and has a key of the same kind, or of another one."""
    known = world.cluster.client / "known_hosts"
    pins = known.read_text()
    (tmp_path / "file").write_text("of ann")
    for name, kind in (("master", "rsa"), ("n1", "ed25519")):
        host = world.lab.hosts[name]
        host.sh(IMPOSTOR.format(kind=kind))
        since = host.sh("date +%s").strip()
        try:
            refused = world.cluster.create()
            assert refused.returncode != 0, refused.stdout
            assert "another machine answers instead; nothing was sent to it" in refused.stderr, refused.stderr
            if name == "master":
                assert world.ann.grass("data", "push", str(tmp_path / "file"), "data/ann/file").returncode != 0
                backup = ("backup", "--to", str(tmp_path / "backup"))
                assert world.cluster.grass(*backup, GRASS_BACKUP_PASSPHRASE="x" * 20).returncode != 0
                known.write_text(cut := pins[: pins.index(" ") + 30])  # the administrator's machine lost its power
                refused = world.cluster.create()
                assert refused.returncode != 0 and "is damaged" in refused.stderr, refused.stderr
                assert known.read_text() == cut
        finally:
            known.write_text(pins)
            said = host.sh(f"journalctl -u ssh --since @{since} -o cat")
            host.sh(RESTORED)
        assert "Accepted" not in said, said
    again = world.cluster.create()
    assert again.returncode == 0, again.stderr
    assert known.read_text() == pins


# containers with `isolation: none`

ATTACK = """
n=0
until [ -e $GRASS_SCRATCH/enough ]; do
  for each in images/index.json images/evil logs/evil logs/PREY/evil; do echo evil 2>/dev/null >$GRASS_DATA/$each; done
  rm -rf $GRASS_DATA/images/* $GRASS_DATA/logs/* 2>/dev/null; mv $GRASS_DATA/images $GRASS_DATA/taken 2>/dev/null
  mount -o remount,rw $GRASS_DATA/images 2>/dev/null && echo REMOUNTED
  mknod /tmp/kmem c 1 2 2>/dev/null && echo MADE-A-DEVICE
  grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\t' | tr '\\n' ' '; echo
  echo alive 2>/dev/null >$GRASS_DATA/data/round; n=$((n+1)); sleep 0.3
done
echo rounds $n
"""
NET_RAW, SYS_ADMIN, MKNOD = 13, 21, 27


def test_a_container_without_isolation_changes_no_image_and_no_log_after_each_fault(world: World) -> None:
    """What it does on a node whose mount comes back may be in the cache there; the server of the share refuses it."""
    host, name = world.lab.hosts["n1"], "boxed"
    kept = f"cd {SHARE}; find images logs/{world.job} -type f | sort | xargs -d '\\n' sha256sum; ls"
    before = world.master(kept)
    part = {"command": ATTACK.replace("PREY", world.job), "image": BUSYBOX, "runtime": "docker"}
    faults = {
        "nothing": "true",
        "the share's mount was killed": f"systemctl kill --kill-whom=all -s KILL grass-share-fuse@{NAME}",
        "the engine was killed": "systemctl kill -s KILL docker",
        "the engine was restarted": "systemctl restart docker",
        "the node-agent was killed": f"systemctl kill -s KILL grass-node-agent@{NAME}",
    }
    with Client(NAME, home=world.ann.home) as client:

        def container() -> str:
            return host.sh("docker ps -q --filter label=grass.task=t.0").strip()

        def attacks() -> bool:
            world.master(f"rm -f {SHARE}/data/round")
            try:
                wait_until(lambda: bool(world.master(f"ls {SHARE}/data | grep -x round || true").strip()), 60, "x", 0.2)
            except AssertionError:
                return False
            return True

        client.start({"name": name, "components": {"t": part}})
        for what, fault in faults.items():
            host.sh(fault)
            wait_until(lambda: bool(container()), 90, f"the container after: {what}", 0.2)
            assert attacks(), f"{what}: the attacker did not go on"
            assert world.master(kept) == before, what
        world.master(f"systemctl kill --kill-whom=all -s KILL grass-samba@{NAME}")
        wait_until(world.answers, 90, "the node", 0.2)
        assert attacks() and world.master(kept) == before, "the share's server was killed"
        limits = host.sh(
            "docker inspect -f '{{.HostConfig.PidsLimit}} {{.HostConfig.Privileged}} {{.HostConfig.SecurityOpt}}' "
            f"{container()}"
        )
        assert limits.split() == ["16384", "false", "[no-new-privileges]"], limits
        host.sh(f"docker exec {container()} sh -c 'touch $GRASS_SCRATCH/enough'")
        assert client.wait(name, timeout=60).state == "SUCCEEDED"
        printed = {each.text for each in client.logs(name) if not each.text.startswith("rounds")}
    assert len(printed) == 1, printed
    capabilities, *rest = printed.pop().split()
    mask = int(capabilities.removeprefix("CapEff:"), 16)
    assert not any(mask >> number & 1 for number in (NET_RAW, SYS_ADMIN, MKNOD))
    assert rest == ["NoNewPrivs:1", "Seccomp:2"]
