"""What isolated tasks see of a FUSE share before, while and after it is away: real rclone, views and containers."""

from __future__ import annotations

import functools
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grass.model.isolation import UidRange
from tests.support.docker_run import DockerRun
from tests.support.engine import require_engine
from tests.support.fuse_share import FuseShare
from tests.support.needs import require, require_root
from tests.support.shepherd_run import ShepherdRun
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.needs_root, pytest.mark.timeout(120)]

UIDS = UidRange(57_960, 57_962)
OTHER = "Mallory.2nd"
OUTSIDE_OF_TMP = "/srv"
LOOK = """
umask 002; cd /; n=0
until [ -e $HOME/enough ]; do
    n=$((n+1)); echo round $n
    ls -a $GRASS_DATA $GRASS_DATA/data $GRASS_DATA/jobs 2>/dev/null
    cat $GRASS_DATA/data/ann/secret $GRASS_DATA/jobs/victim/secret $GRASS_DATA/logs/secret 2>/dev/null
    cat $GRASS_DATA/sets/one 2>/dev/null
    for each in $GRASS_OUTPUT $GRASS_DATA/data/shared/Mallory.2nd; do touch $each/$n 2>/dev/null || echo lost; done
    sleep 0.05
done
"""
"""Prints all that it finds, and tries to write, in rounds, until it is told to end."""
SET = "a set for all"
SEEN = {"", SET, "lost", ".", "..", "data", "jobs", "sets", "shared", OTHER, "logs", "images"}


@pytest.fixture(scope="module")
def share() -> Iterator[FuseShare]:
    require_root()
    require(all(map(shutil.which, ("rclone", "fusermount3", "bwrap"))), "rclone, fuse3 and bubblewrap")
    require(Path("/dev/fuse").exists(), "/dev/fuse")
    place = Path(tempfile.mkdtemp(prefix="grass-", dir=OUTSIDE_OF_TMP))
    place.chmod(0o755)
    made = FuseShare(place, "nobody")
    for path in ("data/ann/secret", "data/shared/ann/given", "jobs/victim/secret", "logs/secret", "sets/one"):
        (made.server / path).parent.mkdir(parents=True, exist_ok=True)
        (made.server / path).write_text(f"{SET if path == 'sets/one' else 'a secret of ann'}\n")
    try:
        made.mount()
        yield made
    finally:
        made.close()
        shutil.rmtree(place)


@pytest.fixture(scope="module")
def shepherd(share: FuseShare) -> Iterator[ShepherdRun]:
    try:
        with ShepherdRun(UIDS, share.folder) as run:
            run.connect()
            yield run
    finally:
        for entry in pwd.getpwall():
            if UIDS.first <= entry.pw_uid <= UIDS.last:
                subprocess.run(["userdel", entry.pw_name], check=True)


class Task:
    """A task of another user than ann, which looks around in the share and writes there until it is told to end."""

    def __init__(self, run: ShepherdRun | DockerRun, share: FuseShare, job: str) -> None:
        self.run, self.key = run, f"{job}/a.0/1"
        env = {"GRASS_OUTPUT": f"{share.folder}/jobs/{job}", "GRASS_DATA": str(share.folder)}
        if isinstance(run, DockerRun):
            run.start(LOOK, self.key, user=OTHER, env=env)
        else:
            words = [f"{name}={value}" for name, value in env.items()]
            run.launch(self.key, ["env", *words, "/bin/sh", "-c", LOOK], user=OTHER, GRASS_OUTPUT=env["GRASS_OUTPUT"])
            run.start(self.key, self.key)
            run.started(self.key)  # the folders of the node are made by its shepherd, which is not root

    def printed(self) -> list[str]:
        path = (
            self.run.path("stdout", self.key) if isinstance(self.run, DockerRun) else self.run.path(self.key, "stdout")
        )
        return path.read_text().splitlines() if path.exists() else []

    def is_well(self) -> bool:
        """Return whether it read and wrote in its last round."""
        last = self._rounds()[-2:-1]
        return bool(last) and SET in last[0] and "lost" not in last[0]

    def sees_nothing(self) -> bool:
        """Return whether it read nothing in its last round. What it writes may wait in rclone's cache."""
        last = self._rounds()[-2:-1]
        return bool(last) and SET not in last[0]

    def _rounds(self) -> list[str]:
        return "\n".join(self.printed()).split("round")

    def end(self) -> set[str]:
        """Return all that it has ever seen."""
        scratch = self.run.path(*(("scratch", self.key) if isinstance(self.run, DockerRun) else (self.key, "scratch")))
        (scratch / "enough").touch()
        assert self.run.ended(self.key).code == 0
        return {line for line in self.printed() if not line.startswith(("round", "/"))}


def server_away(share: FuseShare, meanwhile: Callable[[], None]) -> None:
    """As while samba or the master restarts, or a cable is pulled."""
    share.take_away()
    try:
        meanwhile()
    finally:
        share.bring_back()


def mount_killed(share: FuseShare, meanwhile: Callable[[], None]) -> None:
    share.kill_mount()
    meanwhile()
    share.mount()


def mount_made_while_the_server_is_away(share: FuseShare, meanwhile: Callable[[], None]) -> None:
    """And what shows it to containers is killed."""
    share.kill_mount()
    share.take_away()
    try:
        meanwhile()
        share.begin_mount()
        share.kill_helper()
    finally:
        share.bring_back()
    wait_until(share.answers, what="an answer of the mount")


Outage = Callable[[FuseShare, Callable[[], None]], None]


@pytest.fixture(scope="module")
def containers(shepherd: ShepherdRun) -> Iterator[DockerRun]:
    """The docker runtime of the same node."""
    require_engine()
    with DockerRun(config=shepherd.config) as run:
        yield run


@pytest.mark.parametrize("outage", [server_away, mount_killed, mount_made_while_the_server_is_away])
def test_no_task_ever_sees_more_than_its_own_and_all_write_again_when_the_share_is_back(
    shepherd: ShepherdRun, containers: DockerRun, share: FuseShare, outage: Outage
) -> None:
    def both(name: str) -> list[Task]:
        kinds: dict[str, ShepherdRun | DockerRun] = {"process": shepherd, "container": containers}
        return [Task(run, share, f"{outage.__name__}-{name}-{kind}") for kind, run in kinds.items()]

    def wait(met: Callable[[Task], bool], tasks: list[Task]) -> None:
        for task in tasks:
            task.run.wait(functools.partial(met, task), 60)

    before = both("before")
    wait(Task.is_well, before)
    outage(share, lambda: wait(Task.sees_nothing, before))
    after = both("after")
    wait(Task.is_well, [*before, *after])
    for task in (*before, *after):
        assert task.end() <= SEEN | {task.key.partition("/")[0]}


def test_what_was_closed_while_the_share_was_away_is_there_when_it_is_back(share: FuseShare) -> None:
    """Whoever closes a file hears nothing of the failure, so it must be repeated."""
    with (share.folder / "sets" / "late").open("w") as file:
        share.take_away()
        file.write("late")
    time.sleep(1)  # long enough for a first try
    share.bring_back()
    wait_until(lambda: (share.server / "sets" / "late").exists(), 20, "the file on the server")
    wait_until(lambda: (share.server / "sets" / "late").read_text() == "late", 20, "what was written into it")
