"""Which files the commands of a job name, and their digests."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from grass.files import digests as files
from grass.files.digests import digests
from grass.manifest.code_files import local_names, shared_names
from grass.model.job import Component, Job
from master.api.named_files import with_named_files


def job(command: str | tuple[str, ...], cwd: str | None = None) -> Job:
    return Job("j", {"w": Component("w", command, cwd=cwd)}, ("w",))


@pytest.mark.parametrize(
    ("command", "local", "shared"),
    [
        (("python", "train.py", "--lr", "0.1"), ("python", "train.py", "0.1"), ()),
        ("sh 'run me.sh' && ./go", ("sh", "run", "me.sh", "./go"), ()),
        ("python $GRASS_DATA/code/train.py ${GRASS_DATA}/set/", ("python",), ("code/train.py", "set")),
        ("cat ../secret /etc/passwd ~/key $GRASS_DATA/../up", ("cat",), ()),
        (("cp", "$GRASS_DATA/a*", "x=y"), ("cp", "x", "y"), ("a",)),
    ],
)
def test_the_names_in_commands(command: str | tuple[str, ...], local: tuple[str, ...], shared: tuple[str, ...]) -> None:
    found = local_names(job(command))
    assert set(local) <= set(found) and not any(each.startswith(("/", "..", "~")) for each in found)
    assert shared_names(job(command)) == shared


def test_names_are_below_the_folder_of_their_component() -> None:
    assert local_names(job(("python", "a.py"), cwd="sub")) == ("sub/python", "sub/a.py")
    assert local_names(job(("python", "a.py"), cwd="../up")) == ()


def test_a_folder_of_the_share_is_where_words_are_looked_up_on_other_machines_and_in_containers() -> None:
    away = job("python train.py $GRASS_DATA/set /etc/x ../up", cwd="code")
    assert shared_names(away) == ("set", "code/python", "code/train.py")
    assert shared_names(job(("python", "a.py"), cwd="/srv/code")) == ()
    assert shared_names(job(("python", "a.py"), cwd="../up")) == ()
    part = Component("w", ("python", "a.py"), cwd="code", base="/home/ann")
    assert shared_names(Job("j", {"w": part}, ("w",))) == ()
    assert "code/a.py" in shared_names(Job("j", {"w": replace(part, image="python:3.12")}, ("w",)))


def test_a_detour_does_not_hide_whose_folder_a_name_is_in() -> None:
    assert shared_names(job("cat $GRASS_DATA/./jobs/x $GRASS_DATA//./a/ $GRASS_DATA/.")) == ("jobs/x", "a")
    assert shared_names(job("cat jobs/x .", cwd=".")) == ("cat", "jobs/x")


def test_digests_are_of_files_below_the_folder_only(tmp_path: Path) -> None:
    share, outside = tmp_path / "share", tmp_path / "outside"
    (share / "code" / ".git").mkdir(parents=True)
    (share / "code" / "a.py").write_text("a")
    (share / "code" / ".git" / "config").write_text("hidden")
    outside.write_text("secret")
    (share / "link").symlink_to(outside)
    os.mkfifo(share / "code" / "pipe")
    found = digests(share, ["code", "link", "absent", "bad\0name"])
    assert found == {"code/a.py": f"sha256:{hashlib.sha256(b'a').hexdigest()}"}
    assert digests(share, ["code"], folders=False) == {}


def test_links_of_the_share_do_not_lead_into_the_folders_of_other_jobs(tmp_path: Path) -> None:
    (tmp_path / "jobs" / "other-1").mkdir(parents=True)
    (tmp_path / "jobs" / "other-1" / "secret").write_text("s")
    (tmp_path / "code" / "3").mkdir(parents=True)
    (tmp_path / "code" / "3" / "own.py").write_text("a")
    (tmp_path / "code" / "stolen").symlink_to(tmp_path / "jobs" / "other-1" / "secret")
    (tmp_path / "code" / "latest").symlink_to("3/own.py")
    (tmp_path / "all").symlink_to("jobs/other-1")
    named = job("cat $GRASS_DATA/code $GRASS_DATA/code/stolen $GRASS_DATA/all $GRASS_DATA/all/secret $GRASS_DATA/jobs")
    found = with_named_files(named, tmp_path).files
    assert found.keys() == {"$GRASS_DATA/code/3/own.py", "$GRASS_DATA/code/latest"}


def test_files_of_the_folder_and_of_the_share_are_told_apart(tmp_path: Path) -> None:
    share, folder = tmp_path / "share", tmp_path / "folder"
    for each in (share, folder):
        each.mkdir()
        (each / "a.py").write_text(each.name)
    part = Component("w", "python a.py $GRASS_DATA/a.py", base=str(folder))
    found = with_named_files(Job("j", {"w": part}, ("w",)), share).files
    assert found == {
        name: f"sha256:{hashlib.sha256(text).hexdigest()}"
        for name, text in (("a.py", b"folder"), ("$GRASS_DATA/a.py", b"share"))
    }
    assert with_named_files(Job("j", {"w": replace(part, base=None)}, ("w",)), share).files.keys() == {
        "$GRASS_DATA/a.py"
    }


def test_a_user_learns_no_digest_of_files_of_another_user(tmp_path: Path) -> None:
    for user in ("ann", "bob", "shared/bob"):
        (tmp_path / "data" / user).mkdir(parents=True)
        (tmp_path / "data" / user / "x").write_text(user)
    (tmp_path / "data" / "ann" / "link").symlink_to("../bob/x")
    named = job("cat $GRASS_DATA/data $GRASS_DATA/data/bob/x $GRASS_DATA/data/ann $GRASS_DATA/data/shared/bob/x")
    own = {"$GRASS_DATA/data/ann/x", "$GRASS_DATA/data/shared/bob/x"}
    assert with_named_files(named, tmp_path, "ann").files.keys() == own
    assert with_named_files(named, tmp_path).files.keys() > {*own, "$GRASS_DATA/data/bob/x"}


def test_the_work_for_one_job_is_bounded(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(files.MOST_BYTES + 1)
    (tmp_path / "many").mkdir()
    for number in range(files.MOST_FILES + 10):
        (tmp_path / "many" / f"{number:04}").touch()
    found = digests(tmp_path, ["large", "many"])
    assert found["large"].startswith(f"{files.MOST_BYTES + 1} bytes, modified ")
    assert len(found) == files.MOST_FILES
