"""What of a tar from a pod is unpacked, and how it comes into the folder of a job."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from grass.errors import InputError
from node.runtime.kubernetes.unpacking import merge, stays, unpack

MOST = 1 << 20


def entry(name: str, kind: bytes = tarfile.REGTYPE, *, to: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode, made.mtime = kind, to, mode, 1_000_000_000
    return made


def packed(*entries: tarfile.TarInfo, content: bytes = b"text") -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for each in entries:
            each.size = len(content) if each.type == tarfile.REGTYPE else 0
            tar.addfile(each, io.BytesIO(content))
    stream.seek(0)
    return stream


def below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "draft"
    made.mkdir()
    return made


def test_files_folders_and_links_arrive_with_their_time_and_whether_they_are_programs(folder: Path) -> None:
    sent = packed(
        entry("./", tarfile.DIRTYPE),
        entry("./latest", tarfile.SYMTYPE, to="runs/1"),
        entry("./runs/1/model.pt"),
        entry("./run.sh", mode=0o755),
        entry("./again", tarfile.LNKTYPE, to="./runs/1/model.pt"),
        entry("./empty", tarfile.DIRTYPE),
    )
    assert unpack(sent, folder, MOST) == 0
    assert below(folder) == {"latest", "runs", "runs/1", "runs/1/model.pt", "run.sh", "again", "empty"}
    assert (folder / "latest/model.pt").read_text() == (folder / "again").read_text() == "text"
    assert (folder / "run.sh").stat().st_mtime == 1_000_000_000 and os.access(folder / "run.sh", os.X_OK)
    assert (folder / "runs/1/model.pt").stat().st_mode & 0o7111 == 0


@pytest.mark.parametrize(
    "bad",
    [
        entry("../outside"),
        entry("a/../../outside"),
        entry("/tmp/outside"),
        entry("pipe", tarfile.FIFOTYPE),
        entry("disk", tarfile.BLKTYPE),
        entry("up", tarfile.SYMTYPE, to=".."),
        entry("up", tarfile.SYMTYPE, to="/etc"),
        entry("hard", tarfile.LNKTYPE, to="../../etc/passwd"),
        entry("hard", tarfile.LNKTYPE, to="missing"),
        entry("/".join("d" * 100)),
    ],
    ids=lambda each: f"{each.name[:12]}-{each.linkname}",
)
def test_what_leads_out_or_is_no_file_is_left_out(folder: Path, bad: tarfile.TarInfo) -> None:
    assert unpack(packed(bad, entry("good")), folder, MOST) == 1
    assert below(folder) == {"good"} and below(folder.parent) == {"draft", "draft/good"}


def test_nothing_is_written_through_a_link_of_the_tar(folder: Path) -> None:
    (folder.parent / "target").mkdir()
    sent = packed(entry("real/a"), entry("real/b/link", tarfile.SYMTYPE, to="../.."), entry("real/b/link/x"))
    assert unpack(sent, folder, MOST) == 1
    assert below(folder) == {"real", "real/a", "real/b", "real/b/link", "real/b/link/x"}
    assert not (folder / "real/b/link").is_symlink()


@pytest.mark.parametrize(
    ("target", "depth", "inside"),
    [
        ("a/b", 0, True),
        ("../a", 1, True),
        ("../../a", 1, False),
        ("a/../../..", 3, False),
        ("a/../b", 3, False),
        ("", 3, False),
        ("/etc", 9, False),
    ],
)
def test_a_link_may_go_up_only_at_first_and_not_too_far(target: str, depth: int, inside: bool) -> None:
    assert stays(target, depth) is inside


def test_what_is_too_large_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="larger than 1 MiB"):
        unpack(packed(entry("large"), content=b"x" * (MOST + 1)), folder, MOST)


def test_a_tar_that_breaks_off_is_no_success(folder: Path) -> None:
    whole = packed(entry("file"), content=b"x" * 5000).getvalue()
    with pytest.raises(tarfile.TarError):
        unpack(io.BytesIO(whole[:3000]), folder, MOST)


def test_a_header_of_a_gigabyte_is_not_read_into_memory(folder: Path) -> None:
    header = entry("long", tarfile.GNUTYPE_LONGNAME)
    header.size = 1 << 30
    with pytest.raises(tarfile.TarError):
        unpack(io.BytesIO(header.tobuf()), folder, 1 << 40)


def test_a_file_of_holes_does_not_fill_the_disk(folder: Path) -> None:
    sent = io.BytesIO()
    with tarfile.open(fileobj=sent, mode="w", format=tarfile.PAX_FORMAT) as tar:
        holes = entry("holes")
        holes.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.map": f"{1 << 50},0", "GNU.sparse.size": f"{1 << 50}"}
        tar.addfile(holes)
    sent.seek(0)
    assert unpack(sent, folder, MOST) == 1 and below(folder) == set()


def test_several_tasks_fill_the_folder_of_their_job_and_the_last_one_wins(folder: Path, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for text, names in (("one", ("shared/a", "shared/b", "mine")), ("two", ("shared/b", "mine/inner"))):
        draft = tmp_path / text
        for name in names:
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            (draft / name).write_text(text)
        merge(draft, jobs, "j-1")
    found = {name: (jobs / "j-1" / name).read_text() for name in ("shared/a", "shared/b", "mine/inner")}
    assert found == {"shared/a": "one", "shared/b": "two", "mine/inner": "two"}


def test_a_link_in_the_folder_of_a_job_is_replaced_and_not_followed(folder: Path, tmp_path: Path) -> None:
    outside, jobs = tmp_path / "outside", tmp_path / "jobs"
    outside.mkdir()
    (outside / "file").write_text("kept")
    (jobs / "j-1").mkdir(parents=True)
    (jobs / "j-1/sub").symlink_to(outside)
    (jobs / "j-1/file").symlink_to(outside / "file")
    (folder / "sub").mkdir()
    (folder / "sub/new").write_text("new")
    (folder / "file").write_text("new")
    merge(folder, jobs, "j-1")
    assert below(outside) == {"file"} and (outside / "file").read_text() == "kept"
    assert (jobs / "j-1/sub/new").read_text() == (jobs / "j-1/file").read_text() == "new"


def test_the_folder_of_a_job_may_not_be_a_link(folder: Path, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "j-1").symlink_to(tmp_path)
    (folder / "file").write_text("new")
    with pytest.raises(OSError):
        merge(folder, jobs, "j-1")
    assert not (tmp_path / "file").exists()
