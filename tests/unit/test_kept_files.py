"""What users keep in the share: measured in a real process, and what comes of a limit that is exceeded."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from grass.api.keyring import Role
from grass.api.user_files import UserRecord
from grass.config import ClusterConfig, MasterConfig
from grass.files.operations import ImageEntry
from grass.files.pushes import note_push
from grass.model.job import Component, Job
from grass.model.lifecycle import JobState
from grass.store.job_index import moved
from grass.store.keys import Keys
from grass.store.records import Records
from grass.store.tickets import Tickets
from grass.wire.codec import indented
from grass.wire.tickets import TICKET, KeptFiles
from master.agent.step import Limits
from master.monitor.kept_files import AGAIN, EVERY, KeptFilesWatch
from tests.doubles.memory_backend import MemoryBackend
from tests.support.waiting import wait_until
from tests.support.world import World

KEYS = Keys("grass:x:")
LIMITS = MasterConfig(quotas={"ann": {"space": 1 << 20, "files": 5}})


class Watched:
    """A share with users ann and bob, and the monitor's part that measures it."""

    def __init__(self, folder: Path, master: MasterConfig) -> None:
        self.config = ClusterConfig("x", "test", str(folder), str(folder), share=str(folder / "share"), master=master)
        self.backend, self.now = MemoryBackend(), 0.0
        self.watch = KeptFilesWatch(
            self.config, Records(self.backend, KEYS), Tickets(self.backend, KEYS), lambda: self.now
        )
        (self.config.master_dir / "users").mkdir(parents=True)
        for name in ("ann", "bob"):
            path = self.config.master_dir / "users" / f"{name}.json"
            path.write_text(indented(UserRecord(name, Role.USER)))

    def write(self, path: str, size: int) -> None:
        target = self.config.data_dir / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"x" * size)

    def told(self) -> list[dict[str, dict[str, int]]]:
        entries = self.backend.stream(KEYS.tickets, "0", 99)
        found = [TICKET.decode(fields["body"]) for _, fields in entries]
        return [each.users for each in found if isinstance(each, KeptFiles)]

    def measured(self, later: float = EVERY) -> dict[str, int]:
        """Return what ann keeps, once the next measurement is over."""
        self.now += later
        wait_until(self._rests, 20, "a measurement")
        return self.told()[-1]["ann"]

    def _rests(self) -> bool:
        self.watch.turn()
        return self.watch._measuring is None


def test_folders_of_users_are_measured_when_something_may_have_changed(tmp_path: Path) -> None:
    made = Watched(tmp_path, LIMITS)
    made.write("data/ann/a", 100_000)
    made.write("data/bob/b", 100_000)
    made.write("jobs/j-1/out", 200_000)
    made.backend.apply(moved(KEYS, "ann", 1.0, "j-1", None, JobState.RUNNING))
    first = made.measured()
    assert 300_000 <= first["space"] < 400_000 and first["files"] == 2
    made.write("jobs/j-1/more", 200_000)
    assert made.measured(100)["space"] >= 500_000  # its job runs
    made.backend.apply(moved(KEYS, "ann", 1.0, "j-1", JobState.RUNNING, JobState.SUCCEEDED))
    made.write("jobs/j-1/last", 4096)
    assert made.measured(100)["files"] == 4
    made.write("data/ann/unseen", 4096)
    assert made.measured(100)["files"] == 4  # nothing says that something changed
    note_push(made.config, "ann")
    assert made.measured(100)["files"] == 5
    made.write("jobs/j-1/unseen", 4096)
    assert made.measured(AGAIN + 100)["files"] == 6
    (made.config.data_dir / "data" / "ann" / "a").unlink()
    assert made.measured(100)["files"] == 5  # who exceeds a limit is looked at
    made.backend.apply(moved(KEYS, "ann", 1.0, "j-1", JobState.SUCCEEDED, None))
    assert made.measured(100)["files"] == 1
    assert len(made.told()) == 7 and all(each.keys() == {"ann"} for each in made.told())
    made.watch.close()


def test_the_users_own_folder_in_that_of_all_counts_and_nothing_else_there(tmp_path: Path) -> None:
    made = Watched(tmp_path, LIMITS)
    made.write("data/shared/ann/a", 100_000)
    for path in ("data/shared/of-all", "data/shared/bob/b", "data/shared/annex/x"):
        made.write(path, 100_000)
    first = made.measured()
    assert 100_000 <= first["space"] < 150_000 and first["files"] == 1
    made.write("data/shared/ann/deep/b", 100_000)
    note_push(made.config, "ann")
    assert made.measured(100)["files"] == 3
    (tmp_path / "share" / "data" / "ann").symlink_to("shared/bob")
    note_push(made.config, "ann")
    assert made.measured(100)["files"] == 3  # a link in place of a folder is not followed
    made.watch.close()


def test_images_count_for_who_pushed_them_and_so_do_parts_that_wait(tmp_path: Path) -> None:
    made = Watched(tmp_path, LIMITS)
    made.write("images/incoming/ann/blobs/part", 100_000)
    assert made.measured()["files"] == 2  # and the folder
    digests = {user: hashlib.sha256(user.encode()).hexdigest() for user in ("ann", "bob", "")}
    index = {}
    for user, digest in digests.items():
        made.write(f"images/blobs/{digest}", 200_000)
        index[f"of-{user}"] = ImageEntry(digest, digest, (), 1, 1.0, user)
    (made.config.data_dir / "images" / "index.json").write_text(indented(index))
    found = made.measured(100)  # the list of images has changed
    assert 300_000 <= found["space"] < 400_000 and found["files"] == 3
    (made.config.data_dir / "images" / "index.json").unlink()  # an administrator removed them
    assert made.measured(100)["files"] == 2
    made.watch.close()


def test_without_a_limit_nothing_is_measured(tmp_path: Path) -> None:
    made = Watched(tmp_path, replace(LIMITS, quotas={"ann": {"cpu": 1000}}))
    made.watch.turn()
    assert made.watch._measuring is None and made.told() == []


def test_a_job_waits_while_its_user_keeps_too_much_also_after_a_restart_of_the_master_agent() -> None:
    world = World(Limits(quotas={"ann": {"space": 1000}}))
    world.add_node("n1")
    world.ticket("kept-files", users={"ann": {"space": 1001, "files": 1}})
    job_id = world.submit(Job("j", {"t": Component("t", "x")}, ("t",)))
    assert world.running() == [] and "may keep 1000B in the share" in world.job("j")["reason"]["message"]
    world.takeover()
    assert world.running() == []
    world.ticket("kept-files", users={"ann": {"space": 1000, "files": 1}})
    assert world.running() == [f"{job_id}/t.0/1"]
    world.ticket("kept-files", users={"ann": {"space": 1001, "files": 1}})
    assert world.running() == [f"{job_id}/t.0/1"]  # what runs goes on


def test_a_change_is_measured_again_after_a_measurement_that_failed(tmp_path: Path) -> None:
    made = Watched(tmp_path, LIMITS)
    made.write("data/ann/a", 4096)
    assert made.measured()["files"] == 1
    made.write("data/ann/b", 4096)
    note_push(made.config, "ann")
    made.now += 100
    made.watch.turn()
    measuring = made.watch._measuring
    assert measuring is not None
    measuring.process.kill()
    measuring.process.wait()
    measuring.answer.truncate(0)  # it may have ended before it was killed
    assert made.measured(100)["files"] == 1  # this one failed
    assert made.measured(100)["files"] == 2
    made.watch.close()


def test_who_asks_gets_figures_of_this_moment(tmp_path: Path) -> None:
    made = Watched(tmp_path, LIMITS)
    made.write("data/ann/a", 4096)
    assert made.measured()["files"] == 1
    made.now += 1.0
    made.write("data/ann/unseen", 4096)
    asked = made.now
    assert made.watch.ask().users["ann"]["files"] == 1, "it does not wait"
    wait_until(lambda: (made.watch.ask().age or 0.0) <= made.now - asked, 20, "a measurement")
    assert made.watch.ask().users["ann"]["files"] == 2
    assert made.told()[-1]["ann"]["files"] == 2, "the master-agent learns it, too"
