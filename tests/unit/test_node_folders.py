"""Files of a job on a node that its tasks look into."""

from __future__ import annotations

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from node.agent.environment import addresses_path
from node.agent.folders import Removal, attempts_on_disk, job_ids, make_addresses, write_addresses
from node.runtime.attempts import Folders
from tests.support.shepherd_run import cluster_config


def test_a_containers_user_can_read_the_addresses_whatever_the_umask_of_the_agent(tmp_path: Path) -> None:
    config = cluster_config(tmp_path)
    umask = os.umask(0o077)
    try:
        write_addresses(config, "told", "SERVER=n1:80\n")
        make_addresses(config, "none")
    finally:
        os.umask(umask)
    for job_id in ("told", "none"):
        path = Path(addresses_path(config, job_id))
        assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o644, 0o755)


def test_the_first_attempt_of_a_job_gets_the_folders_that_were_made_ahead(tmp_path: Path) -> None:
    folders = Folders(str(tmp_path / "attempts"))
    folders.make_ahead()
    made = (tmp_path / "attempts" / ".next").stat().st_ino
    scratch = Path(folders.make("j-1/w.0/1"))
    assert scratch == tmp_path / "attempts/j-1/w.0.1.scratch" and scratch.stat().st_mode & 0o777 == 0o700
    assert scratch.parent.stat().st_ino == made and [each.name for each in scratch.parent.iterdir()] == [scratch.name]
    folders.make_ahead()
    second = Path(folders.make("j-1/w.1/1"))
    assert second.parent == scratch.parent and (tmp_path / "attempts/.next").exists(), "that is for a new job"


def test_shepherd_and_node_agent_make_the_folder_of_one_job_at_the_same_time(tmp_path: Path) -> None:
    both, jobs = threading.Barrier(2), [f"j-{number}" for number in range(200)]
    shepherd, agent = Folders(str(tmp_path)), Folders(str(tmp_path))

    def make(folders: Folders, task: str, job: str) -> Path:
        both.wait()
        return Path(folders.make(f"{job}/{task}/1"))

    with ThreadPoolExecutor() as threads:
        for job in jobs:
            shepherd.make_ahead()
            made = [threads.submit(make, shepherd, "p.0", job), threads.submit(make, agent, "c.0", job)]
            assert all(each.result().is_dir() for each in made)


def test_what_a_killed_process_made_ahead_is_removed_or_left_alone(tmp_path: Path) -> None:
    left = tmp_path / "attempts" / ".next" / "w.0.1.scratch"
    left.mkdir(parents=True)
    after = Folders(str(tmp_path / "attempts"))
    after.make_ahead()
    assert [each.name for each in left.parent.iterdir()] == ["scratch"]
    (left.parent / "scratch" / "file").touch()
    again = Folders(str(tmp_path / "attempts"))
    again.make_ahead()
    assert list(Path(again.make("j-2/w.0/1")).iterdir()) == []


def test_a_job_that_is_back_keeps_its_files_while_those_of_before_are_removed(tmp_path: Path) -> None:
    config = cluster_config(tmp_path)
    removal = Removal(config)
    removal.start()
    for job_id in (f"j-{number}" for number in range(100)):
        write_addresses(config, job_id, "before")
        (Path(addresses_path(config, job_id)).parent / "components" / "w").mkdir(parents=True)
        removal.jobs([job_id])
        write_addresses(config, job_id, "now")
        make_addresses(config, job_id)
    removal.stop()
    folders = list((config.node_dir / "jobs").iterdir())
    assert {path.name for path in folders} == set(job_ids(config)) and len(folders) == 100
    assert {tuple(each.name for each in folder.iterdir()) for folder in folders} == {("addresses",)}
    assert all((folder / "addresses").read_text() == "now" for folder in folders)


def test_what_a_killed_agent_did_not_remove_of_jobs_is_removed_by_the_next(tmp_path: Path) -> None:
    config = cluster_config(tmp_path)
    write_addresses(config, "stays", "")
    write_addresses(config, ".removed-1", "")
    assert job_ids(config) == ["stays"]
    removal = Removal(config)
    removal.start()
    removal.stop()
    assert [path.name for path in (config.node_dir / "jobs").iterdir()] == ["stays"]


def test_attempts_on_disk_are_found_while_folders_of_jobs_go(tmp_path: Path) -> None:
    config = cluster_config(tmp_path)
    attempts, begun, done = config.node_dir / "attempts", threading.Event(), threading.Event()
    Folders(str(attempts)).make("stays/w.0/1")
    (attempts / "file").touch()

    def make_and_remove() -> None:
        while not done.is_set():
            for number in range(5):
                (attempts / f"goes-{number}").mkdir()
                (attempts / f"goes-{number}").rmdir()
            begun.set()

    with ThreadPoolExecutor() as threads:
        other = threads.submit(make_and_remove)
        begun.wait()
        try:
            assert all(attempts_on_disk(config) == {"stays/w.0/1"} for _ in range(3000))
        finally:
            done.set()
        other.result()
