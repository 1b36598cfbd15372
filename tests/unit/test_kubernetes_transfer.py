"""What goes to and from the share of a namespace: the tar, the commands that a pod runs, and what is replaced here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from grass.errors import ConflictError, InputError
from node.runtime.kubernetes import carrier
from node.runtime.kubernetes.local_files import SizedTar, move
from node.runtime.kubernetes.unpacking import unpack


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with what is hard to put into a tar."""
    folder = tmp_path / "tree"
    deep = folder / "sub" / ("long" * 40) / ("name" * 30)
    deep.mkdir(parents=True)
    (deep / "a").write_text("deep")
    (folder / "ünïcode").write_bytes(b"x" * 1000)
    (folder / "empty").touch()
    (folder / "program").write_text("#!/bin/sh\n")
    (folder / "program").chmod(0o755)
    (folder / "latest").symlink_to("sub")
    os.link(folder / "program", folder / "twin")
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {
        str(each.relative_to(folder)): f"-> {each.readlink()}" if each.is_symlink() else each.read_text()
        for each in folder.rglob("*")
        if each.is_symlink() or each.is_file()
    }


@pytest.mark.parametrize("shell", [["/bin/sh"], ["busybox", "sh"]])
def test_a_pod_receives_a_tar_whose_end_nobody_can_tell_it(shell: list[str], tree: Path, tmp_path: Path) -> None:
    tar, target = SizedTar(tree, "", copy_links=False), tmp_path / "claim" / "new"
    argv = [*shell, *carrier.receive(str(target), tar.size)[1:]]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as receiving:
        assert receiving.stdin is not None
        tar.write(receiving.stdin)  # type: ignore[arg-type]
        receiving.stdin.flush()
        assert receiving.wait(10) == 0  # its input is open
    assert contents(target) == contents(tree) and os.access(target / "program", os.X_OK)
    assert tar.content == sum(len(text.encode()) for text in contents(tree).values() if not text.startswith("->"))


def test_what_a_pod_sends_arrives(tree: Path, tmp_path: Path) -> None:
    arrived = tmp_path / "arrived"
    arrived.mkdir()
    with subprocess.Popen(carrier.send(str(tree), "."), stdout=subprocess.PIPE) as sending:
        assert sending.stdout is not None
        assert unpack(sending.stdout, arrived, 1 << 20) == 0
    assert contents(arrived) == contents(tree)


def test_a_file_has_the_name_that_it_is_given(tree: Path, tmp_path: Path) -> None:
    tar = SizedTar(tree / "program", "other", copy_links=False)
    with (tmp_path / "x.tar").open("wb") as file:
        tar.write(file)
    assert (tmp_path / "x.tar").stat().st_size == tar.size
    subprocess.run(["tar", "-xf", "x.tar"], cwd=tmp_path, check=True)
    assert (tmp_path / "other").read_text() == "#!/bin/sh\n"


def test_a_link_out_of_the_folder_is_refused_or_its_content_is_sent(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("out")
    (tree / "out").symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="point outside of it: out -> "):
        SizedTar(tree, "", copy_links=False)
    assert SizedTar(tree, "", copy_links=True).content > 1000


def test_what_is_no_file_is_refused(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    with pytest.raises(InputError, match="pipe: is neither a file nor a folder"):
        SizedTar(tree, "", copy_links=False)


@pytest.mark.parametrize(
    ("path", "said", "why"),
    [
        ("", "folder", ""),
        ("sub", "folder", ""),
        ("program", "file", ""),
        ("nothing", "", "not found"),
        ("latest", "", "a part of this path is a link, which is not followed"),
        ("latest/x", "", "a part of this path is a link, which is not followed"),
    ],
)
def test_a_path_of_the_claim_is_looked_at_before(path: str, said: str, why: str, tree: Path) -> None:
    argv = [str(tree) if each == "/grass/share" else each for each in carrier.look(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
    assert (done.stdout.strip(), carrier.trouble(done.returncode)) == (said, why)


def test_files_that_were_changed_here_are_not_overwritten(tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "here"
    target.mkdir()
    (target / "empty").write_text("mine")
    (target / "own").write_text("own")
    with pytest.raises(ConflictError, match=r"here/empty; nothing was changed; --force"):
        move(tree, target, "pull of x", force=False)
    assert contents(target) == {"empty": "mine", "own": "own"}
    expected = contents(tree)
    move(tree, target, "pull of x", force=True)
    assert contents(target) == {**expected, "own": "own"}


def test_a_repeated_pull_replaces_what_is_the_same(tree: Path, tmp_path: Path) -> None:
    copy, single = tmp_path / "copy", tmp_path / "single"
    subprocess.run(["cp", "-a", str(tree), str(copy)], check=True)
    move(copy, tree, "pull of x", force=False)
    single.write_text("")
    move(single, tree / "empty", "pull of empty", force=False)
    assert not single.exists()
