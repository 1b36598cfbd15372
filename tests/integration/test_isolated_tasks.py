"""A shepherd that isolates users, as root: real accounts, views made by bubblewrap, and what an attacker gets."""

from __future__ import annotations

import os
import pwd
import re
import select
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grass.model.isolation import ContainerRights, ContainerUser, UidRange
from grass.provision.on_premises import node_accounts
from grass.provision.on_premises.steps import Run
from grass.system import clock
from node.agent.folders import Removal
from node.agent.probe import trial_task
from node.runtime import proc
from node.runtime.attempts import Folders
from node.runtime.isolation import privilege, processes
from node.runtime.isolation.accounts import Accounts
from node.runtime.isolation.shared_objects import MARK
from node.runtime.isolation.starters import KEPT
from node.runtime.isolation.visible_files import PROBE_USER, folders_of
from node.runtime.process.beside import OfShepherd
from node.runtime.process.client import ask, ask_account
from node.runtime.process.execution import ProcessExecution
from node.runtime.process.kind import ProcessKind
from node.runtime.protocol import Launch, Observed, Stop
from node.runtime.shepherd_messages import RemoveJobs, RemoveScratch
from node.runtime.spawn import CannotStartError
from tests.support.docker_run import DockerRun
from tests.support.engine import require_engine
from tests.support.needs import require, require_root
from tests.support.processes import alive
from tests.support.shepherd_run import ShepherdRun
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)

UIDS = UidRange(57_990, 57_993)
"""Apart from the default range, and small: the fifth user gets no account, with that of trials."""


@pytest.fixture(scope="module")
def shepherd() -> Iterator[ShepherdRun]:
    require_root()
    require(shutil.which("bwrap") is not None, "bubblewrap")
    try:
        with ShepherdRun(UIDS) as run:
            (run.folder / "secrets.json").write_text("the secret of the node")
            (run.folder / "secrets.json").chmod(0o600)
            run.connect()
            yield run
    finally:
        for entry in pwd.getpwall():
            if UIDS.first <= entry.pw_uid <= UIDS.last:
                subprocess.run(["userdel", entry.pw_name], check=True)


def run(shepherd: ShepherdRun, key: str, script: str, user: str = "ann", **env: str) -> tuple[Observed, list[str]]:
    """Run a script as an attempt; return its end and what it printed."""
    start(shepherd, key, script, user, **env)
    return shepherd.ended(key), shepherd.stdout(key).splitlines()


def start(
    shepherd: ShepherdRun,
    key: str,
    script: str,
    user: str = "ann",
    *,
    read_only: bool = False,
    cpu: int = 0,
    memory: int = 0,
    keep: int = 0,
    **env: str,
) -> None:
    job_id = key.partition("/")[0]
    output = str(shepherd.config.data_dir / "jobs" / job_id)
    command = ["/bin/sh", "-c", f"exec 2>&1; {script}"]
    limits = {"cpu": cpu, "memory": memory, "keep": keep}
    shepherd.launch(key, command, user=user, read_only_data=read_only, **limits, GRASS_OUTPUT=output, **env)
    shepherd.start(key, key)


def test_users_have_accounts_of_their_own_and_no_rights(shepherd: ShepherdRun) -> None:
    script = "id -u; id -Gn; grep -E 'Cap(Prm|Eff)|NoNew' /proc/self/status | tr -d '\\t'; echo $HOME $USER; umask"
    ended, printed = run(shepherd, "who/a.0/1", script)
    assert ended.code == 0
    uid, groups, *status, names, umask = printed
    assert UIDS.first <= int(uid) <= UIDS.last
    assert groups == "nogroup"
    assert status == ["CapPrm:0000000000000000", "CapEff:0000000000000000", "NoNewPrivs:1"]
    assert names == f"{shepherd.path('who/a.0/1', 'scratch')} grass-u{uid}"
    assert umask == "0002"
    assert run(shepherd, "who2/a.0/1", "id -u")[1] == [uid]
    other = run(shepherd, "who3/a.0/1", "id -u", "Mallory.2nd")[1]
    assert other != [uid]
    assert pwd.getpwuid(int(uid)).pw_gecos == "Grass test ann"


def test_a_command_without_a_shell_has_the_variables_of_a_login(shepherd: ShepherdRun) -> None:
    shepherd.launch("login", ["/usr/bin/env"], user="ann")
    shepherd.start("login", "login/a.0/1")
    assert shepherd.ended("login/a.0/1").code == 0
    scratch = shepherd.path("login/a.0/1", "scratch")
    printed = dict(line.split("=", 1) for line in shepherd.stdout("login/a.0/1").splitlines())
    assert printed.items() >= {"HOME": f"{scratch}", "PWD": f"{scratch}", "SHELL": "/bin/sh"}.items()
    assert printed["USER"] == printed["LOGNAME"] != ""


def test_codes_and_signals_are_those_of_the_task(shepherd: ShepherdRun) -> None:
    assert run(shepherd, "ends/a.0/1", "exit 65")[0].code == 65
    assert run(shepherd, "ends/a.1/1", "kill -SEGV $$")[0].signal == signal.SIGSEGV
    shepherd.launch("none", ["no-such-program"], user="ann")
    shepherd.start("none", "ends/a.2/1")
    ended = shepherd.ended("ends/a.2/1")
    assert (ended.code, ended.pid) == (127, None) and ended.reason and "not found in PATH" in ended.reason.message
    shepherd.launch("there", ["/bin/true"], cwd="/no/such/folder", user="ann")
    shepherd.start("there", "ends/a.3/1")
    reason = shepherd.ended("ends/a.3/1").reason
    assert reason is not None and "/no/such/folder" in reason.message
    shepherd.launch("nobody", ["/bin/true"])
    shepherd.start("nobody", "ends/a.4/1")
    reason = shepherd.ended("ends/a.4/1").reason
    assert reason is not None and reason.message == "cannot start: '' cannot have an account on this node"


def test_memory_of_an_isolated_task_is_there_for_its_next_attempt_until_it_is_let_go(shepherd: ShepherdRun) -> None:
    def attempt(key: str) -> list[str]:
        shepherd.launch("kept/a", ["/bin/sh", "-c", "cat /dev/shm/x; echo kept > /dev/shm/x"], user="ann", keep=1 << 20)
        shepherd.start("kept/a", key)
        shepherd.ended(key)
        printed = shepherd.stdout(key).splitlines()
        shepherd.runtime.forget([key])
        ask(shepherd.config.socket("shepherd"), RemoveScratch([key]))
        for name in ("stdout", "stderr"):
            shepherd.path(key, name).unlink()
        return printed

    folder = shepherd.path("kept/a.0/1", "stdout").parent
    assert attempt("kept/a.0/1") == []
    assert attempt("kept/a.0/2") == ["kept"]
    wait_until(lambda: [each.name for each in folder.iterdir()] == [MARK], 10, "only the mark to be left of attempts")
    shepherd.runtime.let_go(["kept/a.0"])
    wait_until(lambda: not folder.exists(), 10, "the folder of the job to go")
    assert attempt("kept/a.0/3") == []
    shepherd.runtime.drop(["kept/a"])
    wait_until(lambda: not folder.exists(), 10, "the folder of the job to go")


def test_the_fifth_user_of_four_ids_is_told_so(shepherd: ShepherdRun) -> None:
    for number, user in enumerate(("ann", "Mallory.2nd", "carl", PROBE_USER)):
        run(shepherd, f"full-{number}/a.0/1", "true", user)
    start(shepherd, "full/a.0/1", "true", "dora")
    reason = shepherd.ended("full/a.0/1").reason
    assert reason is not None and f"no user id in {UIDS} is free" in reason.message


def test_tasks_of_a_job_share_their_temporary_files_and_no_other_job_sees_them(shepherd: ShepherdRun) -> None:
    write = "for each in /tmp /dev/shm /var/tmp; do echo mine > $each/x; done; echo done > $GRASS_OUTPUT/o"
    start(shepherd, "tmp1/a.0/1", f"{write}; exec sleep 60")
    wait_until((shepherd.config.data_dir / "jobs" / "tmp1" / "o").exists, 10, "its files")
    assert run(shepherd, "tmp1/a.1/1", "cat /tmp/x /dev/shm/x /var/tmp/x $GRASS_OUTPUT/o")[1] == [*["mine"] * 3, "done"]
    shepherd.runtime.stop([Stop("tmp1/a.0/1", 0.0)])
    shepherd.ended("tmp1/a.0/1")
    assert run(shepherd, "tmp1/a.2/1", "ls /tmp /dev/shm")[1] == ["/dev/shm:", "", "/tmp:", "x"], "memory is freed"
    look = f"ls /tmp /dev/shm /var/tmp; ls {shepherd.config.data_dir}/jobs"
    for user in ("ann", "Mallory.2nd"):
        job = f"tmp2-{user}"
        printed = run(shepherd, f"{job}/a.0/1", look, user)[1]
        assert "x" not in printed and printed[-1] == job
    assert not Path("/dev/shm/x").exists()


def shared_by_ann(share: Path) -> Path:
    """Return a file that ann shares, in a folder, with modes that let everybody change both."""
    file = share / "data" / "shared" / "ann" / "set" / "one"
    file.parent.mkdir(parents=True, exist_ok=True)
    for folder, mode in zip(file.parents, (0o777, 0o777, 0o755), strict=False):
        shutil.chown(folder, "nobody", "nogroup")
        folder.chmod(mode)
    file.write_text("of ann\n")
    file.chmod(0o666)
    for left in (share / "data" / "shared" / "Mallory.2nd").glob("*"):  # by another test, whose files root may own
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    return file


def changes(share: Path, file: Path) -> dict[str, str]:
    """Return ways to change or take away what another user shares. Each succeeds, as a command, if it works."""
    of_all = f"{share}/data/shared"
    of_ann, mine = file.parent.parent, f"{of_all}/Mallory.2nd"
    return {
        "change": f"echo x >> {file} || echo x > {file} || truncate -s 0 {file}",
        "add": f"touch {file}.new || mkdir {of_ann}/new",
        "remove": f"rm -f {file} || rm -rf {of_ann}/set",
        "rename": f"mv {file} {file}.old || mv {of_ann} {of_ann}.old || mv {of_ann}/set {mine}/set",
        "take away": f"mv {file} {mine}/taken",
        "link": f"ln {file} {mine}/hard || cp -l {file} {mine}/hard || ln {mine}/own {of_ann}/hard",
        "attributes": f"chmod 600 {file} || chmod 700 {of_ann} || touch -d 2001-01-01 {file} || chown 0 {file}",
        "change by a link": f"ln -sfn ../ann/set/one {mine}/soft && echo x >> {mine}/soft",
        "folder of another": f"mkdir {of_all}/carl || ln -s ann {of_all}/carl",
        "folder of all": f"touch {of_all}/x || rmdir {mine} || mv {mine} {mine}.old",
        "change the view": f"mount -o remount,rw {of_all} || umount {of_all}",
        "another view": f"unshare -Urm sh -c 'mount -o remount,rw,bind {of_all} || umount {of_all}'",
        "replace": f"mv -T {mine}/own {file} || cp -f {mine}/own {file}",
    }


def shared_by_others(share: Path) -> dict[str, tuple[object, ...]]:
    """Return what lies in the folder of all, but for the attacker's own files: modes, owners, links, times, content."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (share / "data" / "shared", *(share / "data" / "shared").rglob("*")):
        if "Mallory.2nd" not in path.parts:
            status = path.lstat()
            links = status.st_nlink if path.is_file() else 0
            content = path.read_text() if path.is_file() else ""
            found[str(path)] = (oct(status.st_mode), status.st_uid, links, path.is_file() and status.st_mtime, content)
    return found


def test_an_attacker_reads_what_another_user_shares_and_changes_nothing_of_it(shepherd: ShepherdRun) -> None:
    share = shepherd.config.data_dir
    file = shared_by_ann(share)
    tries = {"read": f"cat {file}", "own": f"touch {share}/data/shared/Mallory.2nd/own", **changes(share, file)}
    script = "; ".join(f"( {attack} ) >/dev/null 2>&1 && echo '{name}'" for name, attack in tries.items())
    before = shared_by_others(share)
    ended, printed = run(shepherd, "vandal/a.0/1", f"{script}; echo over", "Mallory.2nd")
    assert (printed, ended.code) == (["read", "own", "over"], 0)
    assert shared_by_others(share) == before and before[str(file)][-1] == "of ann\n"
    assert (share / "data" / "shared" / "Mallory.2nd" / "own").exists()
    script = f"cat {file}; echo mine >> {file}; mv {file} {file}.2 && mv {file}.2 {file}; cat {file}"
    assert run(shepherd, "owner/a.0/1", script)[1] == ["of ann", "of ann", "mine"]
    start(shepherd, "reader/a.0/1", f"cat {file} >/dev/null && echo x >> {file} || echo refused", read_only=True)
    shepherd.ended("reader/a.0/1")
    assert shepherd.stdout("reader/a.0/1").splitlines()[-1] == "refused"


def test_a_link_in_place_of_a_users_shared_folder_shows_nothing_of_the_node(shepherd: ShepherdRun) -> None:
    """An earlier version let every user write beside these folders, so a link of then may still be there."""
    share, user = shepherd.config.data_dir, "Mallory.2nd"
    planted = share / "data" / "shared" / user
    run(shepherd, "before/b.0/1", "true", user)
    shutil.rmtree(planted)
    planted.symlink_to(shepherd.folder)
    try:
        script = f"cat {planted}/secrets.json || touch {planted}/x; touch {share}/data/{user}/ok && echo own"
        assert run(shepherd, "linked/a.0/1", f"( {script} ) 2>/dev/null", user)[1] == ["own"]
        assert not (shepherd.folder / "x").exists()
    finally:
        planted.unlink()


def test_tasks_read_what_is_beside_the_folders_of_users_and_write_their_own(shepherd: ShepherdRun) -> None:
    sets = shepherd.config.data_dir / "sets"
    sets.mkdir()
    sets.chmod(0o777)
    (sets / "one").write_text("image\n")

    def written(job: str, *, read_only: bool) -> list[str]:
        of_users = " ".join(f"{sets.parent}/data/{folder}/{job}" for folder in ("ann", "shared/ann", "shared"))
        places = (
            f"for each in {sets}/{job} {of_users} $GRASS_OUTPUT/x $HOME/x /tmp/x; do touch $each && echo $each; done"
        )
        script = f"cat {sets}/one; ( mount -o remount,rw {sets.parent}; {places}; mv {sets} {sets}2 ) 2>/dev/null"
        start(shepherd, f"{job}/a.0/1", script, read_only=read_only)
        shepherd.ended(f"{job}/a.0/1")
        return shepherd.stdout(f"{job}/a.0/1").split()

    assert written("writes", read_only=False)[:2] == ["image", f"{sets.parent}/data/ann/writes"]
    assert written("reads", read_only=True)[1].endswith("/jobs/reads/x")
    assert [shepherd.stdout(f"{job}/a.0/1").count("\n") for job in ("writes", "reads")] == [6, 4]
    assert [path.name for path in sets.iterdir()] == ["one"]


@pytest.mark.parametrize("fault", ["none", "shepherd killed"])
def test_an_attacker_reaches_nothing_of_the_node_and_of_others(
    shepherd: ShepherdRun, service: Path, fault: str
) -> None:
    """Nor if the shepherd, which makes the views, was killed since the victim started."""
    share, home = shepherd.config.data_dir, shepherd.folder
    job, evil = f"victim-{fault[:4]}", f"evil-{fault[:4]}"
    key = f"{job}/a.0/1"
    script = f"echo secret > {share}/data/ann/s; echo secret > $HOME/s; echo secret > /tmp/s; exec sleep 60"
    start(shepherd, key, script, TOKEN="planted")
    victim = shepherd.started(key).pid
    wait_until(lambda: shepherd.path(key, "scratch").joinpath("s").exists(), 10, "the victim's file")
    assert (share / "data" / "ann" / "s").read_text() == "secret\n"
    if fault != "none":
        shepherd.kill_shepherd()
        shepherd.relist()
    files = log, index, beside = planted(share, job)
    of_ann, renamed = f"{share}/data/ann", f"{share}/d && mv {share}/d {share}/data"
    tries = {
        "own data": f"touch {share}/data/Mallory.2nd/mine && touch {share}/data/shared/Mallory.2nd/for-all",
        "data of ann": f"cat {of_ann}/s || ls {of_ann} || touch {of_ann}/x",
        "folders of users": f"touch {share}/data/x || mv {share}/data {renamed}",
        "link": f"ln -s ../ann {share}/data/Mallory.2nd/link && cat {share}/data/Mallory.2nd/link/s",
        "own file": f"touch {home}/node/attempts/{evil}/a.0.1.scratch/s",
        "secrets": f"cat {home}/secrets.json",
        "config": f"cat {home}/cluster.json",
        "socket": f"ls {home}/shepherd.sock",
        "journal": f"cat {home}/node/shepherd.journal",
        "scratch": f"cat {home}/node/attempts/{job}/a.0.1.scratch/s",
        "output": f"cat {home}/node/attempts/{job}/a.0.1.stdout",
        "own output": f"cat {home}/node/attempts/{evil}/a.0.1.stdout",
        "tmp": f"cat {home}/node/views/{job}/tmp/s /proc/{victim}/root/tmp/s",
        "job folder": f"ls {home}/data/jobs/{job}",
        "beside data": f"cat {beside}",
        "change beside data": f"echo x >> {beside} || touch {beside}.x",
        "log": f"cat {log} || echo x >> {log}",
        "images": f"cat {index} || echo x >> {index} || touch {index}.x",
        "engine": f"ls /run/docker.sock || ls /var/run/docker.sock || ls {service}",
        "environment": f"cat /proc/{victim}/environ",
        "command line": f"cat /proc/{victim}/cmdline",
        "files": f"ls /proc/{victim}/fd /proc/{victim}/cwd/",
        "kill": f"kill -9 {victim}",
        "kill the shepherd": f"kill -9 {shepherd.shepherd_pid()}",
        "become root": "su -c id </dev/null || sudo -n id || mount -t tmpfs none /mnt",
        "leave the view": f"nsenter -t {victim} -m ls || nsenter -t 1 -m ls || chroot /proc/1/root ls",
        "uncover": f"umount {home} || umount /run || umount -l /tmp",
    }
    script = "; ".join(f"( {attack} ) >/dev/null 2>&1 && echo '{name}'" for name, attack in tries.items())
    ended, printed = run(shepherd, f"{evil}/a.0/1", f"{script}; echo over", "Mallory.2nd")
    assert printed == ["own data", "own file", "beside data", "over"] and ended.code == 0
    assert all(map(is_untouched, files))
    assert {path.name for path in (share / "data").iterdir()} <= {"Mallory.2nd", PROBE_USER, "ann", "carl", "shared"}
    assert victim is not None and alive(victim)
    shepherd.runtime.stop([Stop(key, 1.0)])
    assert shepherd.ended(key).signal == signal.SIGTERM


def planted(share: Path, job: str) -> tuple[Path, Path, Path]:
    """Return a log of a job, the list of images, and a file beside `data/`. Their modes let everybody change them."""
    files = (share / "logs" / job / "a.0.jsonl", share / "images" / "index.json", share / "beside" / "one")
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.parent.chmod(0o777)
        file.write_text("planted")
        file.chmod(0o666)
    return files


def changing(log: Path, index: Path) -> str:
    """Return a script that tries to change these and says nothing: it may write into what covers them."""
    return f"( echo x >> {index}; touch {index}.x; mkdir {log.parent}; echo x >> {log}; touch {log}.x ) 2>/dev/null"


def is_untouched(file: Path) -> bool:
    return file.read_text() == "planted" and [*file.parent.iterdir()] == [file]


@pytest.fixture
def service() -> Iterator[Path]:
    """A socket of a service of the machine, as that of an engine is, to which everybody may connect."""
    path = Path(f"/run/grass-test-{os.getpid()}.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        try:
            path.chmod(0o666)
            yield path
        finally:
            path.unlink()


@pytest.fixture
def containers(shepherd: ShepherdRun) -> Iterator[DockerRun]:
    """The docker runtime of the same node."""
    require_engine()
    with DockerRun(config=shepherd.config) as run:
        yield run


def for_tasks(folder: Path) -> None:
    """Make a folder of the share as master and node make it, which do not run as root."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.chown(folder, "nobody", "nogroup")
    folder.chmod(0o775)


def in_container(
    run: DockerRun, key: str, script: str, user: str = "ann", **options: Any
) -> tuple[Observed, list[str]]:
    """Run a script as an attempt in a container; return its end and what it printed."""
    job_id = key.partition("/")[0]
    output = run.config.data_dir / "jobs" / job_id
    for folder in (output, *map(Path, folders_of(str(run.config.data_dir), user))):
        for_tasks(folder)
    env = {"GRASS_OUTPUT": str(output), "GRASS_DATA": str(run.config.data_dir)}
    ended = run.run(f"exec 2>&1; {script}", key, user=user, env=env, **options)
    return ended, run.stdout(key).splitlines()


def test_the_trial_container_of_a_node_writes_to_the_share_and_leaves_nothing_there(containers: DockerRun) -> None:
    for_tasks(containers.config.data_dir / "data" / PROBE_USER)
    found = trial_task("docker", containers.config, (), 30)
    assert found.ok, found.message
    assert not [*(containers.config.data_dir / "data").glob("*/.probe*")]


def test_an_attacker_in_a_container_reaches_nothing_of_the_node_and_of_others(
    shepherd: ShepherdRun, containers: DockerRun
) -> None:
    share, home = shepherd.config.data_dir, shepherd.folder
    script = f"echo secret > {share}/data/ann/prey; echo secret > $HOME/s; echo secret > $GRASS_OUTPUT/s; exec sleep 60"
    start(shepherd, "prey/a.0/1", script)
    victim = shepherd.started("prey/a.0/1").pid
    wait_until(lambda: (share / "jobs" / "prey" / "s").exists(), 10, "the victim's files")
    files = log, index, beside = planted(share, "prey")
    tries = {
        "own output": "touch $GRASS_OUTPUT/mine",
        "own scratch": "touch $HOME/mine",
        "own data": f"touch {share}/data/Mallory.2nd/boxed && touch {share}/data/shared/Mallory.2nd/boxed",
        "data of ann": f"cat {share}/data/ann/prey || touch {share}/data/ann/x || touch {share}/data/x",
        "job folder": f"ls {share}/jobs/prey || touch {share}/jobs/x",
        "beside data": f"cat {beside}",
        "change beside data": f"echo x >> {beside} || touch {beside}.x",
        "log": f"cat {log}",
        "images": f"cat {index}",
        "scratch": f"ls {home}/node/attempts/prey",
        "secrets": f"cat {home}/secrets.json || ls {home}/shepherd.sock",
        "engine": "ls /run/docker.sock || ls /var/run/docker.sock",
        "processes": f"kill -0 {victim} || ls /proc/{victim}",
        "uncover": f"umount {share}/jobs || umount -l {share}",
        "owner": "chown 0 $HOME/mine || touch /bin/x || cat /proc/1/root/etc/shadow",
    }
    script = "; ".join(f"( {attack} ) >/dev/null 2>&1 && echo '{name}'" for name, attack in tries.items())
    script += f"; {changing(log, index)}"
    facts = "id -u; id -g; grep -E 'CapBnd|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\t'"
    ended, printed = in_container(containers, "evil2/a.0/1", f"{script}; {facts}", "Mallory.2nd")
    uid, group, *status = printed[4:]
    assert printed[:4] == ["own output", "own scratch", "own data", "beside data"] and ended.code == 0
    assert all(map(is_untouched, files))
    assert (share / "data" / "ann" / "prey").read_text() == "secret\n"
    assert pwd.getpwuid(int(uid)).pw_gecos == "Grass test Mallory.2nd"
    assert int(group) == pwd.getpwnam("nobody").pw_gid
    assert status == ["CapBnd:0000000000000000", "NoNewPrivs:1", "Seccomp:2"]
    assert victim is not None and alive(victim)
    ask(shepherd.config.socket("shepherd"), RemoveScratch(["evil2/a.0/1"]))
    wait_until(lambda: not containers.path("scratch", "evil2/a.0/1").exists(), 10, "the removal of the scratch folder")
    shepherd.runtime.stop([Stop("prey/a.0/1", 1.0)])
    shepherd.ended("prey/a.0/1")


@pytest.mark.parametrize("user", list(ContainerUser))
def test_a_container_reads_what_another_user_shares_and_changes_nothing_of_it(
    shepherd: ShepherdRun, user: ContainerUser
) -> None:
    require_engine()
    share = shepherd.config.data_dir
    file = shared_by_ann(share)
    tries = {"read": f"cat {file}", "own": f"touch {share}/data/shared/Mallory.2nd/own", **changes(share, file)}
    script = "; ".join(f"( {attack} ) >/dev/null 2>&1 && echo '{name}'" for name, attack in tries.items())
    rights = ContainerRights(user, ("CHOWN", "DAC_OVERRIDE", "FOWNER") if user is ContainerUser.IMAGE else ())
    config = replace(shepherd.config, node=replace(shepherd.config.node, containers=rights))
    run(shepherd, f"before-{user.value}/a.0/1", "true", "Mallory.2nd")
    before = shared_by_others(share)
    with DockerRun(config=config) as boxed:
        ended, printed = in_container(boxed, f"vandal-{user.value}/a.0/1", f"{script}; echo over", "Mallory.2nd")
    assert (printed, ended.code) == (["read", "own", "over"], 0)
    assert shared_by_others(share) == before and before[str(file)][-1] == "of ann\n"


def test_root_in_a_container_whose_image_may_choose_its_user_reaches_nothing_of_others(shepherd: ShepherdRun) -> None:
    require_engine()
    share, home = shepherd.config.data_dir, shepherd.folder
    script = f"echo secret > {share}/data/ann/of-ann; echo secret > $GRASS_OUTPUT/s; exec sleep 60"
    start(shepherd, "quarry/a.0/1", script)
    victim = shepherd.started("quarry/a.0/1").pid
    wait_until(lambda: (share / "jobs" / "quarry" / "s").exists(), 10, "the victim's files")
    files = log, index, beside = planted(share, "quarry")
    tries = {
        "own output": "touch $GRASS_OUTPUT/mine",
        "own data": f"touch {share}/data/Mallory.2nd/by-root",
        "data of ann": f"cat {share}/data/ann/of-ann || touch {share}/data/ann/x",
        "job folder": f"ls {share}/jobs/quarry",
        "beside data": f"cat {beside}",
        "change beside data": f"echo x >> {beside} || touch {beside}.x",
        "log": f"cat {log}",
        "images": f"cat {index}",
        "secrets": f"cat {home}/secrets.json || ls {home}/shepherd.sock || ls /run/docker.sock",
        "processes": f"kill -0 {victim} || ls /proc/{victim}",
        "uncover": f"umount {share}/data || umount -l {share} || mount -t tmpfs none /mnt",
        "devices": "mknod /tmp/d b 8 0 || cat /proc/kcore || echo 1 > /proc/sys/kernel/panic",
    }
    attack = "; ".join(f"( {each} ) >/dev/null 2>&1 && echo '{name}'" for name, each in tries.items())
    attack += f"; {changing(log, index)}"
    rights = ContainerRights(ContainerUser.IMAGE, ("CHOWN", "SETUID"))
    config = replace(shepherd.config, node=replace(shepherd.config.node, containers=rights))
    with DockerRun(config=config) as root:
        facts = "id -u; grep -E 'CapBnd|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\t'"
        ended, printed = in_container(root, "evil3/a.0/1", f"{attack}; {facts}", "Mallory.2nd")
    chown_and_setuid = f"CapBnd:{1 << 0 | 1 << 7:016x}"
    assert all(map(is_untouched, files))
    assert printed == ["own output", "own data", "beside data", "0", chown_and_setuid, "NoNewPrivs:1", "Seccomp:2"]
    assert ended.code == 0 and victim is not None and alive(victim)
    shepherd.runtime.stop([Stop("quarry/a.0/1", 1.0)])
    shepherd.ended("quarry/a.0/1")


def test_an_account_is_given_to_no_attempt_of_a_process_and_to_no_other_path(shepherd: ShepherdRun) -> None:
    path = shepherd.config.socket("shepherd")
    run(shepherd, "given/a.0/1", "true")
    for key in ("given/a.0/1", "../../x", "../x.0/1", "given/a.0/1/..", "given/a.0/0", "given/_a.0/1"):
        with pytest.raises(CannotStartError, match=f"^{re.escape(repr(key))} is not an attempt of a container$"):
            ask_account(path, key, "ann")
    with pytest.raises(CannotStartError, match=r"^'not a name' cannot have an account on this node$"):
        ask_account(path, "given/a.1/1", "not a name")


def test_a_stopped_task_ends_by_its_own_word_with_all_it_started(shepherd: ShepherdRun) -> None:
    start(shepherd, "stop/a.0/1", 'trap "echo bye; exit 3" TERM; sleep 77.5 & echo up; wait')
    shepherd.started("stop/a.0/1")
    wait_until(lambda: shepherd.stdout("stop/a.0/1") == "up\n", 10, "its first line")
    shepherd.runtime.stop([Stop("stop/a.0/1", 5.0)])
    ended = shepherd.ended("stop/a.0/1")
    assert ended.code == 3 and shepherd.stdout("stop/a.0/1") == "up\nbye\n"
    assert not [pid for pid in proc.processes() if b"77.5" in proc.read(f"/proc/{pid}/cmdline")]


def test_a_killed_shepherd_loses_no_exit_code_and_the_next_one_works_on(shepherd: ShepherdRun) -> None:
    start(shepherd, "kill/a.0/1", "until [ -e $HOME/go ]; do sleep 0.05; done; exit 9")
    start(shepherd, "kill/a.1/1", "echo kept > /dev/shm/x; echo written; exec sleep 60")
    for index in (0, 1):
        shepherd.started(f"kill/a.{index}/1")
    wait_until(lambda: shepherd.stdout("kill/a.1/1") == "written\n", 10, "its temporary file")
    shepherd.kill_shepherd()
    shepherd.relist()
    (shepherd.path("kill/a.0/1", "scratch") / "go").touch()
    assert shepherd.ended("kill/a.0/1").code == 9
    same = run(shepherd, "kill/a.2/1", "id -un; cat $HOME/../a.0.1.scratch/go /dev/shm/x")
    assert same[0].code == 0 and same[1][1:] == ["kept"]
    shepherd.runtime.stop([Stop("kill/a.1/1", 1.0)])
    assert shepherd.ended("kill/a.1/1").signal == signal.SIGTERM


def test_namespaces_that_a_task_of_an_earlier_version_could_make_or_share_are_told_apart() -> None:
    """Such a task could make a user namespace, and shared objects in memory with the whole machine."""
    require_root()
    with subprocess.Popen(["unshare", "-Urmi", "sh", "-c", "echo; exec cat"], stdin=-1, stdout=-1) as made:
        assert made.stdout and made.stdout.readline() and made.stdin
        theirs, own = processes.namespaces_of(f"/proc/{made.pid}"), processes.namespaces_of("/proc/self")
        assert [processes.is_of_this_system(each.mounts) for each in (theirs, own)] == [False, True]
        assert [processes.shares_objects(each) for each in (theirs, own)] == [False, True]
        theirs.close()
        own.close()
        made.stdin.close()


def test_a_task_of_a_job_joins_no_view_of_an_earlier_version_that_covers_parts_of_the_share(
    shepherd: ShepherdRun,
) -> None:
    share = shepherd.config.data_dir
    start(shepherd, "older/a.0/1", "exec sleep 60")
    older = shepherd.started("older/a.0/1").pid
    subprocess.run(["nsenter", f"--mount=/proc/{older}/ns/mnt", "mount", "--bind", "/srv", str(share)], check=True)
    shepherd.kill_shepherd()
    shepherd.relist()
    ended, printed = run(shepherd, "older/a.1/1", f"readlink /proc/self/ns/mnt; touch {share}/x || echo refused")
    assert printed[0] != os.readlink(f"/proc/{older}/ns/mnt") and printed[-1] == "refused" and ended.code == 0
    shepherd.runtime.stop([Stop("older/a.0/1", 1.0)])
    shepherd.ended("older/a.0/1")


def test_a_view_that_was_changed_is_mended_before_the_next_start_and_for_tasks_that_run(shepherd: ShepherdRun) -> None:
    of_all = shepherd.config.data_dir / "data" / "shared"
    look = f"while sleep 0.05; do touch {of_all}/x 2>/dev/null && echo opened; test -e $HOME/go && exit; done"
    start(shepherd, "torn/a.0/1", look)
    pid = shepherd.started("torn/a.0/1").pid
    change = ["nsenter", f"--mount=/proc/{pid}/ns/mnt", "sh", "-c"]
    shown = f"{of_all} {shepherd.config.data_dir}/jobs/torn"
    # a start and the look at all views may mend at the same time, and show a folder twice
    lost = f"for each in {shown}; do while umount -l $each 2>/dev/null; do :; done; done"
    subprocess.run([*change, lost], check=True)
    again = f"test -d {of_all}/ann && touch $GRASS_OUTPUT/x {of_all}/ann/torn && echo written"
    assert run(shepherd, "torn/a.1/1", again)[1] == ["written"]
    subprocess.run([*change, lost], check=True)
    inside = Path(f"/proc/{pid}/root{shepherd.config.data_dir}/jobs/torn/x")
    assert not inside.exists()
    wait_until(inside.exists, 10, "the folder of the job, for the task that runs")
    (shepherd.path("torn/a.0/1", "scratch") / "go").touch()
    shepherd.ended("torn/a.0/1")
    assert shepherd.stdout("torn/a.0/1") == ""


def test_a_command_beside_a_task_is_in_its_view_with_its_rights(shepherd: ShepherdRun) -> None:
    start(shepherd, "exec/a.0/1", "cd /tmp; echo here > note; exec sleep 60", WORD="w")
    pid = shepherd.started("exec/a.0/1").pid
    wait_until(lambda: beside(shepherd, ["cat", "/tmp/note"])[1] == "here\n", 10, "the note")
    assert pid is not None
    code, said = beside(shepherd, ["/bin/sh", "-c", "id -u; pwd; echo $WORD; exit 4"])
    assert (code, said) == (4, f"{os.stat(shepherd.path('exec/a.0/1', 'scratch')).st_uid}\n/tmp\nw\n")
    code, said = beside(shepherd, ["/bin/sh", "-c", f"cat {shepherd.folder}/secrets.json; kill -TERM $$"])
    assert (code, said) == (143, "")
    code, said = beside(shepherd, ["/bin/sh", "-c", "tty >/dev/null && stty size; echo $TERM"], (30, 100))
    assert (code, said.split()) == (0, ["30", "100", "xterm-256color"])
    launch = Launch([], {}, None, 0.0)
    for check, failure in ((["test", "-e", "/tmp/note"], ""), (["false"], "its check ended with exit code 1")):
        inside = ProcessKind().inside(shepherd.config, "exec/a.0/1", check, launch)
        assert inside is not None and inside.failure(5.0, lambda: False) == failure
    shepherd.runtime.stop([Stop("exec/a.0/1", 1.0)])
    shepherd.ended("exec/a.0/1")


def beside(shepherd: ShepherdRun, argv: list[str], size: tuple[int, int] | None = None) -> tuple[int, str]:
    execution = ProcessKind().execute(shepherd.config, "exec/a.0/1", argv, size)
    assert isinstance(execution, ProcessExecution)
    said = b""
    try:
        while True:
            for descriptor in select.select(execution.descriptors(), [], [], 5.0)[0]:
                output = execution.read(descriptor)
                if output is None:
                    return execution.code(), said.decode()
                said += b"".join(data for stream, data in output if stream == "stdout")
    finally:
        execution.end()


def test_a_command_whose_client_is_gone_is_killed_with_its_children(shepherd: ShepherdRun) -> None:
    start(shepherd, "gone/a.0/1", "exec sleep 60")
    shepherd.started("gone/a.0/1")
    null = os.open(os.devnull, os.O_RDWR)
    script = ["/bin/sh", "-c", "sleep 66.5 & sleep 66.5"]
    command = OfShepherd(shepherd.config.socket("shepherd"), "gone/a.0/1", script, {}, [null] * 3, False)
    os.close(null)

    def running() -> int:
        return sum(proc.read(f"/proc/{pid}/cmdline") == b"sleep\x0066.5\0" for pid in proc.processes())

    wait_until(lambda: running() == 2, 10, "the command")
    command.close()
    wait_until(lambda: running() == 0, 10, "its end")
    shepherd.runtime.stop([Stop("gone/a.0/1", 1.0)])
    shepherd.ended("gone/a.0/1")


def test_files_of_users_are_removed_by_the_shepherd_only_when_their_attempt_has_ended(shepherd: ShepherdRun) -> None:
    start(shepherd, "rest/a.0/1", "mkdir -p $HOME/d/e; chmod 0 $HOME/d; touch /tmp/left; exec sleep 60")
    shepherd.started("rest/a.0/1")
    scratch, views = shepherd.path("rest/a.0/1", "scratch"), shepherd.config.node_dir / "views" / "rest"
    wait_until(lambda: (views / "tmp" / "left").exists(), 10, "its files")
    path = shepherd.config.socket("shepherd")
    for key in ("rest/a.0/1", "../../x", "rest/a.0/1/../..", "rest/../1"):
        ask(path, RemoveScratch([key]))
    assert scratch.exists()
    shepherd.runtime.stop([Stop("rest/a.0/1", 1.0)])
    shepherd.ended("rest/a.0/1")
    ask(path, RemoveScratch(["rest/a.0/1"]))
    ask(path, RemoveJobs(["rest", "..", "../node"]))
    wait_until(lambda: not scratch.exists() and not views.exists(), 10, "the removal")
    assert Path(Folders(str(shepherd.config.node_dir / "attempts")).root).exists()


def test_a_job_that_is_back_keeps_its_temporary_files_and_has_none_from_before(shepherd: ShepherdRun) -> None:
    path = shepherd.config.socket("shepherd")
    start(shepherd, "back/a.0/1", "touch /tmp/kept; exec sleep 60")
    shepherd.started("back/a.0/1")
    wait_until((shepherd.config.node_dir / "views" / "back" / "tmp" / "kept").exists, 10, "its file")
    ask(path, RemoveJobs(["back"]))
    assert run(shepherd, "back/a.1/1", "ls /tmp")[1] == ["kept"], "it came late: the job is back"
    shepherd.runtime.stop([Stop("back/a.0/1", 1.0)])
    shepherd.ended("back/a.0/1")
    for number in range(10):
        ask(path, RemoveJobs(["back"]))
        ended, printed = run(shepherd, f"back/b.{number}/1", "ls -A /tmp; cd /tmp && seq 3000 | xargs touch")
        assert (ended.code, ended.reason, printed) == (0, None, [])
    ask(path, RemoveJobs(["back"]))
    wait_until(lambda: not list((shepherd.config.node_dir / "views").glob("*back*")), 10, "the removal")


def test_the_folder_of_a_job_goes_with_the_files_of_its_last_attempt(shepherd: ShepherdRun) -> None:
    run(shepherd, "last/a.0/1", "cd $HOME && seq 1000 | xargs touch")
    shepherd.runtime.forget(["last/a.0/1"])
    removal = Removal(shepherd.config)
    removal.start()
    removal.attempts(["last/a.0/1"])
    removal.stop()
    wait_until(lambda: not (shepherd.config.node_dir / "attempts" / "last").exists(), 10, "the removal")


def test_the_shepherd_writes_its_files_as_the_user_of_the_daemons(shepherd: ShepherdRun) -> None:
    run(shepherd, "own/a.0/1", "echo x")
    files = [shepherd.config.node_dir / "shepherd.journal", shepherd.path("own/a.0/1", "stdout")]
    assert {path.owner() for path in files} == {"nobody"}
    status, nobody = Path(f"/proc/{shepherd.shepherd_pid()}/status"), pwd.getpwnam("nobody").pw_uid
    lowered = f"Uid:\t{nobody}\t{nobody}\t0\t{nobody}"
    wait_until(lambda: lowered in status.read_text(), 10, "the user")  # it is root for a moment, now and then


def prepared(parent: int) -> list[int]:
    """Pids of the source of starters, and of the starters that wait."""
    return [pid for pid in proc.children(parent) if b"isolation.starter" in proc.read(f"/proc/{pid}/cmdline")]


def test_tasks_start_when_all_that_was_prepared_for_them_was_killed(shepherd: ShepherdRun) -> None:
    mine = shepherd.shepherd_pid()
    for what, first, last in (("all", 0, None), ("starters", 1, None), ("source", 0, 1)):
        wait_until(lambda: len(prepared(mine)) > KEPT, 10, "starters")
        for pid in prepared(mine)[first:last]:
            proc.kill(pid)
        for index in range(KEPT + 2):
            assert run(shepherd, f"{what}/a.{index}/1", "echo up")[1] == ["up"]
    assert shepherd.shepherd_pid() == mine
    shepherd.launch("burst", ["/bin/true"], user="ann")
    keys = [f"burst/a.{index}/1" for index in range(20)]
    shepherd.start("burst", *keys)
    assert {shepherd.ended(key).code for key in keys} == {0}
    old = prepared(mine)
    shepherd.kill_shepherd()
    shepherd.relist()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in old), 10, "the end of what was prepared")
    assert run(shepherd, "after/a.0/1", "echo up")[1] == ["up"]


def test_what_was_ordered_when_the_shepherd_was_killed_has_run_or_not_and_its_end_is_true(
    shepherd: ShepherdRun,
) -> None:
    """An ended source of starters is no ended task."""
    run(shepherd, "before/a.0/1", "true")
    mine = shepherd.shepherd_pid()
    wait_until(lambda: len(prepared(mine)) > KEPT, 10, "starters")
    for pid in (stopped := prepared(mine)):
        os.kill(pid, signal.SIGSTOP)
    start(shepherd, "ordered/a.0/1", "echo run; exit 9")
    journal = shepherd.config.node_dir / "shepherd.journal"
    shepherd.wait(lambda: journal.read_bytes().endswith(b'["i","ordered/a.0/1"]\n'))
    shepherd.kill_shepherd()
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    shepherd.relist()
    assert "ordered/a.0/1" not in shepherd.known
    shepherd.launch("many", ["/bin/sh", "-c", "echo run; exit 9"], user="ann")
    keys = ["ordered/a.0/1", *(f"many/a.{index}/1" for index in range(60))]
    shepherd.start("many", *keys)
    for pause in (0.05, 0.1):
        until = clock.steady() + pause
        shepherd.wait(lambda until=until: clock.steady() > until)
        shepherd.kill_shepherd()
        shepherd.relist()
        shepherd.start("many", *(key for key in keys if key not in shepherd.known))
    for key in keys:
        ended = shepherd.ended(key)
        assert (ended.code, ended.signal, ended.reason) == (9, None, None), key
        assert shepherd.stdout(key) == "run\n"


def test_a_task_that_stops_whatever_its_account_starts_holds_up_nobody_else(shepherd: ShepherdRun) -> None:
    start(shepherd, "stops/a.0/1", "sleep 0.3; echo up; while :; do kill -STOP -1; done", "Mallory.2nd")
    shepherd.started("stops/a.0/1")
    wait_until(lambda: shepherd.stdout("stops/a.0/1") == "up\n", 10, "its beginning")
    shepherd.launch("held", ["/bin/true"], user="Mallory.2nd")
    keys = [f"held/a.{index}/1" for index in range(16)]
    shepherd.start("held", *keys)
    assert run(shepherd, "goes-on/a.0/1", "echo up")[1] == ["up"]
    shepherd.runtime.stop([Stop(key, 0.0) for key in ("stops/a.0/1", *keys)])
    for key in ("stops/a.0/1", *keys):
        shepherd.ended(key)
    uid = shepherd.path("stops/a.0/1", "scratch").stat().st_uid
    # They would hold the shepherd's lock. A process ends a moment after it was killed.
    wait_until(lambda: not [pid for pid in proc.processes() if proc.owner(pid) == uid], 10, "the end of all processes")
    shepherd.kill_shepherd()
    shepherd.relist()
    assert run(shepherd, "goes-on/a.1/1", "echo up")[1] == ["up"]


def test_an_account_that_somebody_removed_is_given_to_no_other_user() -> None:
    require_root()
    uids = UidRange(57_985, 57_986)
    accounts = Accounts("removed", uids, 65_534)
    try:
        first = accounts.account_of("ann")
        subprocess.run(["userdel", first.name], check=True)
        assert accounts.account_of("carl").uid != first.uid == accounts.account_of("ann").uid
    finally:
        for entry in pwd.getpwall():
            if uids.first <= entry.pw_uid <= uids.last:
                subprocess.run(["userdel", entry.pw_name], check=True)


def test_a_node_whose_folder_belongs_to_root_isolates_nobody() -> None:
    require_root()
    with pytest.raises(ValueError, match="belongs to root"):
        privilege.lower(0, 65534)
    with pytest.raises(ValueError, match="belongs to root"):
        privilege.lower(65534, 0)


def test_a_task_with_a_user_namespace_of_its_own_uncovers_nothing(shepherd: ShepherdRun) -> None:
    script = (
        f"unshare -Urm sh -c 'umount {shepherd.folder}; umount /run; umount /tmp; cat {shepherd.folder}/secrets.json'"
    )
    ended, printed = run(shepherd, "userns/a.0/1", f"{script}; echo code $?")
    assert ended.code == 0 and "the secret of the node" not in printed and printed[-1] != "code 0"


def test_leaving_removes_the_accounts_of_this_cluster_and_ends_their_processes() -> None:
    require_root()
    uids = UidRange(57_980, 57_981)
    left, stays = (Accounts(cluster, uids, 65_534).account_of("ann") for cluster in ("left", "stays"))
    try:
        with subprocess.Popen(["sleep", "60"], user=left.uid) as process:
            threading.Thread(target=process.wait).start()  # reaps it, as init would
            [step] = node_accounts.remove_step("left").actions
            assert isinstance(step, Run)
            done = subprocess.run(list(step.argv), capture_output=True, text=True, timeout=30)
            assert done.returncode == 0, done.stderr
            assert process.wait(5) == -signal.SIGKILL
        assert [entry.pw_name for entry in pwd.getpwall() if uids.first <= entry.pw_uid <= uids.last] == [stays.name]
    finally:
        for entry in pwd.getpwall():
            if uids.first <= entry.pw_uid <= uids.last:
                subprocess.run(["userdel", entry.pw_name], check=True)
