"""The folders of jobs in the share: made in advance under names that nobody foresees; those with files are kept."""

from __future__ import annotations

from pathlib import Path

from master.agent.output_folders import OutputFolders


def test_a_job_gets_the_folder_that_was_made_in_advance_or_a_new_one(tmp_path: Path) -> None:
    folders = OutputFolders(tmp_path / "jobs", 0o777)
    folders.make("first")
    folders.make_next()
    folders.make_next()
    [ahead] = (tmp_path / "jobs").glob(".*")
    made = ahead.stat().st_ino
    folders.make("second")
    assert (tmp_path / "jobs" / "second").stat().st_ino == made
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "jobs").iterdir()} == {
        "first": 0o777,
        "second": 0o777,
    }


def test_a_folder_that_a_task_removed_or_replaced_in_advance_changes_nothing_else(tmp_path: Path) -> None:
    folders, private = OutputFolders(tmp_path, 0o777), tmp_path / "private"
    private.mkdir(mode=0o700)
    (tmp_path / ".next").symlink_to(private)
    folders.make_next()
    [ahead] = tmp_path.glob(".next-*")
    ahead.rmdir()
    folders.make("job")
    assert (tmp_path / "job").is_dir() and private.stat().st_mode & 0o777 == 0o700


def test_files_of_a_job_stay_and_what_an_earlier_agent_left_is_removed(tmp_path: Path) -> None:
    folders = OutputFolders(tmp_path, None)
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "result").touch()
    folders.make_next()
    folders.make("job")
    folders.remove("job")
    assert (tmp_path / "job" / "result").exists()
    OutputFolders(tmp_path, None).remove_left()
    assert [path.name for path in tmp_path.iterdir()] == ["job"]
