"""Data and images to and from the share, by the real rsync: from folder to folder, and through a real sshd."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grass.config import RedisConfig, Secrets
from grass.errors import ConflictError, InputError, NotFoundError, UnreachableError
from grass.files import transfers
from grass.files.access import FilesAccess, LocalShare, ShareAccess, SshShare
from grass.files.operations import FileType, ListFiles, ListImages, RemoveFiles, RemoveImage
from grass.files.pulled import Pulled
from grass.files.rsync import Progress, parse
from tests.support.files_server import FilesServer, files_server
from tests.support.needs import require

Linked = tuple[list[str], Path, Path]
PROGRESS: Callable[[Progress], object] = lambda _: None  # noqa: E731


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilesServer]:
    require(shutil.which("sshd", path="/usr/sbin:/usr/bin") is not None, "sshd", "Debian's openssh-server")
    redis = request.getfixturevalue("redis_server")
    where = RedisConfig(socket=str(redis.socket))
    with files_server(tmp_path_factory.mktemp("sshd"), "test", where, Secrets(redis.passwords, "")) as server:
        yield server


@pytest.fixture(params=["folder", "ssh"])
def reached(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[ShareAccess, Path]:
    require(shutil.which("rsync") is not None, "rsync")
    if request.param == "folder":
        (tmp_path / "share").mkdir()
        return LocalShare(tmp_path / "share"), tmp_path / "share"
    server: FilesServer = request.getfixturevalue("server")
    for entry in server.share.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    return server.access("root"), server.share


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mode & 0o777, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "a name with spaces 'and quotes'").write_bytes(b"x")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o750)
    (folder / "deep" / "er" / "empty").touch()
    (folder / "-rf").write_bytes(os.urandom(3 << 20))
    return folder


def test_a_folder_comes_back_as_it_was_sent(reached: tuple[ShareAccess, Path], data: Path, tmp_path: Path) -> None:
    there, share = reached
    transfers.push(there, data, "sets/one", PROGRESS)
    assert tree(share / "sets" / "one") == tree(data)
    transfers.pull(there, "sets/one", tmp_path / "back", PROGRESS, Pulled(tmp_path / "pulled"))
    assert tree(tmp_path / "back") == tree(data)


def test_a_pull_overwrites_what_an_earlier_one_brought_and_not_what_was_edited_here(
    reached: tuple[ShareAccess, Path], tmp_path: Path
) -> None:
    there, share = reached
    out, back = share / "pulled", tmp_path / "back"
    (out / "deep").mkdir(parents=True)
    files = ("kept", "deep/edited", "line\nbreak", "copied")
    for name in files:
        (out / name).write_text("first")
    pull = functools.partial(transfers.pull, there, on_progress=PROGRESS, pulled=Pulled(tmp_path / "pulled"))
    pull("pulled", back)
    for name in files[:3]:
        (out / name).write_text("second, longer")
    (out / "new").write_text("new")
    (back / "copied").touch()
    pull("pulled", back)
    assert tree(back) == tree(out)

    for name in files:
        (out / name).write_text("third, even longer")
    (back / "deep" / "edited").write_text("mine")
    (back / "mine too").write_text("never pulled")
    (out / "mine too").write_text("of the job")
    with pytest.raises(ConflictError) as refused:
        pull("pulled", back)
    assert f"{back}/deep/edited" in str(refused.value) and f"{back}/mine too" in str(refused.value)
    assert "kept" not in str(refused.value) and (back / "kept").read_text() == "second, longer"
    with pytest.raises(ConflictError, match="deep/edited"):
        pull("pulled/deep", back / "deep")
    with pytest.raises(ConflictError, match="mine too"):
        pull("pulled/mine too", back)
    pull("pulled/kept", back / "kept")
    assert (back / "kept").read_text() == "third, even longer"
    pull("pulled", back, force=True)
    assert tree(back) == tree(out)
    (out / "deep" / "edited").write_text("fourth: it is as the forced pull left it")
    pull("pulled", back)
    assert tree(back) == tree(out)


def test_a_file_is_read_piece_by_piece_and_no_link_is_followed(reached: tuple[ShareAccess, Path]) -> None:
    there, share = reached
    (share / "sets").mkdir()
    (share / "sets" / "large").write_bytes(os.urandom(3 << 20))
    (share / "sets" / "link").symlink_to("/etc/passwd")
    (share / "away").symlink_to("/etc")
    os.mkfifo(share / "pipe")
    with there.read("sets/large") as content:
        assert content.size == 3 << 20
        assert b"".join(content.pieces) == (share / "sets" / "large").read_bytes()
    with there.read("sets/large") as content:
        next(content.pieces)  # a reader may have had enough
    for path in ("sets/link", "away/passwd", "pipe", "sets", "", "../x"):
        with pytest.raises(InputError), there.read(path):
            pass
    with pytest.raises(NotFoundError), there.read("sets/nothing"):
        pass


def test_a_file_becomes_what_it_is_called_there(reached: tuple[ShareAccess, Path], data: Path, tmp_path: Path) -> None:
    there, share = reached
    transfers.push(there, data / "run.sh", "start", PROGRESS)
    transfers.push(there, data / "-rf", "folder/", PROGRESS)
    assert (share / "start").read_text() == "#!/bin/sh\n"
    assert (share / "folder" / "-rf").stat().st_size == 3 << 20
    transfers.push(there, data / "run.sh", "folder/.env", PROGRESS)
    transfers.pull(there, "folder/.env", tmp_path / "hidden", PROGRESS, Pulled(tmp_path / "pulled"))
    assert (tmp_path / "hidden").read_text() == "#!/bin/sh\n"
    with pytest.raises(NotFoundError):
        transfers.pull(there, "folder/.other", tmp_path / "hidden", PROGRESS, Pulled(tmp_path / "pulled"))
    transfers.pull(there, "start", tmp_path / "begin", PROGRESS, Pulled(tmp_path / "pulled"))
    assert (tmp_path / "begin").read_text() == "#!/bin/sh\n"


def test_a_path_that_begins_with_a_dash_is_no_option_of_rsync(
    reached: tuple[ShareAccess, Path], data: Path, tmp_path: Path
) -> None:
    there, share = reached
    transfers.push(there, data / "run.sh", "-n", PROGRESS)
    transfers.push(there, data / "deep", "--delete", PROGRESS)
    assert (share / "-n").is_file() and (share / "--delete" / "er").is_dir()
    transfers.pull(there, "-n", tmp_path / "back", PROGRESS, Pulled(tmp_path / "pulled"))
    assert (tmp_path / "back").is_file()


@pytest.mark.parametrize("name", ["x[1]", "x?", "*", "x\\1"])
def test_a_path_that_rsync_takes_for_a_pattern_harms_nothing_else(
    reached: tuple[ShareAccess, Path], data: Path, tmp_path: Path, name: str
) -> None:
    there, share = reached
    (share / "x1").write_text("mine")
    if isinstance(there, SshShare):
        with pytest.raises(InputError, match="for a pattern"):
            transfers.push(there, data / "run.sh", name, PROGRESS)
    else:
        transfers.push(there, data / "run.sh", name, PROGRESS)
        assert (share / name).is_file()
    assert (share / "x1").read_text() == "mine"


def test_what_is_there_is_not_sent_again(reached: tuple[ShareAccess, Path], data: Path) -> None:
    there, share = reached
    transfers.push(there, data, "set", PROGRESS)
    before = {path: path.stat().st_ino for path in (share / "set").rglob("*") if path.is_file()}
    (data / "run.sh").write_text("#!/bin/sh\nexit 1\n")
    transfers.push(there, data, "set", PROGRESS)
    changed = {path.name for path, inode in before.items() if path.stat().st_ino != inode}
    assert changed == {"run.sh"}


def test_a_half_sent_file_is_not_seen_under_its_name(reached: tuple[ShareAccess, Path], data: Path) -> None:
    """What was cut off lies in rsync's own folder, from which the next push goes on."""
    there, share = reached
    (share / "set" / ".grass-partial").mkdir(parents=True)
    whole = (data / "-rf").read_bytes()
    (share / "set" / ".grass-partial" / "-rf").write_bytes(whole[: 2 << 20])
    transfers.push(there, data, "set", PROGRESS)
    assert (share / "set" / "-rf").read_bytes() == whole
    assert not (share / "set" / ".grass-partial").exists()


def test_listing_and_removing(reached: tuple[ShareAccess, Path], data: Path) -> None:
    there, share = reached
    transfers.push(there, data, "set", PROGRESS)
    names = [(entry.name, entry.type) for entry in there.ask(ListFiles("set"))]
    assert ("deep", FileType.FOLDER) in names and ("run.sh", FileType.FILE) in names
    with pytest.raises(ConflictError, match="--recursive"):
        there.ask(RemoveFiles("set", recursive=False))
    there.ask(RemoveFiles("set", recursive=True))
    assert not (share / "set").exists()
    with pytest.raises(NotFoundError):
        there.ask(ListFiles("set"))


def test_a_damaged_list_of_images_is_said_to_be_that(reached: tuple[ShareAccess, Path]) -> None:
    there, share = reached
    (share / "images").mkdir()
    (share / "images" / "index.json").write_text('{"half')
    with pytest.raises(ConflictError, match=r"is damaged .* remove that file there and push the images again"):
        there.ask(ListImages())


@pytest.mark.parametrize("path", ["../outside", "logs/x", "a/../../b", ""])
def test_nothing_is_removed_outside_the_share(reached: tuple[ShareAccess, Path], path: str) -> None:
    with pytest.raises(InputError):
        reached[0].ask(RemoveFiles(path, recursive=True))


def test_a_link_does_not_lead_out_of_the_share(reached: tuple[ShareAccess, Path], tmp_path: Path) -> None:
    there, share = reached
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").touch()
    (share / "door").symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="symbolic link"):
        there.ask(RemoveFiles("door/precious", recursive=True))
    with pytest.raises(InputError, match="symbolic link"):
        there.ask(ListFiles("door"))
    assert [entry.type for entry in there.ask(ListFiles(""))] == [FileType.LINK]
    there.ask(RemoveFiles("door", recursive=True))
    assert (tmp_path / "outside" / "precious").exists()


@pytest.fixture
def linked(server: FilesServer, tmp_path: Path) -> Iterator[Linked]:
    """rsync as whoever has the key may call it, the share, and a folder outside to which a link in the share leads.

    The last word of the first is the module; paths are to be appended to it.
    """
    share = server.share
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (share / "folder").mkdir(exist_ok=True)
    (share / "folder" / "file").write_text("file")
    for name, target in (("out", str(outside)), ("in", "folder")):
        (share / name).unlink(missing_ok=True)
        (share / name).symlink_to(target)
    there = server.access("root")
    yield ["rsync", "-r", *there.rsync_options(), there.rsync_path("data", "")], share, outside
    for name in ("out", "in"):
        (share / name).unlink()


@pytest.mark.parametrize("path", ["out/", "out/secret", "o*/", "folder/../out/", "/out/secret"])
@pytest.mark.parametrize("options", [[], ["-s"]], ids=["plain", "protected"])
def test_who_has_the_key_reads_nothing_through_a_link_that_leaves_the_share(
    linked: Linked, tmp_path: Path, path: str, options: list[str]
) -> None:
    (*rsync, there), _, _ = linked
    done = subprocess.run([*rsync, *options, f"{there}{path}", f"{tmp_path}/got/"], capture_output=True, text=True)
    assert done.returncode != 0 and "leaves the share" in done.stdout + done.stderr
    assert not list((tmp_path / "got").rglob("secret"))


@pytest.mark.parametrize("option", ["-L", "--copy-unsafe-links", "-k", "--link-dest=/out", "--compare-dest=out"])
def test_options_that_follow_links_out_of_the_share_are_refused(linked: Linked, tmp_path: Path, option: str) -> None:
    rsync, share, outside = linked
    (tmp_path / "mine").mkdir()
    os.link(
        outside / "secret", tmp_path / "mine" / "secret"
    )  # the same time and size, so that it could be linked there
    pulled = subprocess.run([*rsync, option, "grass::data/", f"{tmp_path}/got/"], capture_output=True, text=True)
    pushed = subprocess.run([*rsync, "-t", option, f"{tmp_path}/mine/", "grass::data/mine/"], capture_output=True)
    assert not (tmp_path / "got" / "out" / "secret").exists(), pulled
    stolen = share / "mine" / "secret"
    assert not stolen.exists() or stolen.stat().st_ino != (outside / "secret").stat().st_ino, pushed


def test_nothing_is_written_through_a_link_that_leaves_the_share(linked: Linked, data: Path) -> None:
    (*rsync, there), _, outside = linked
    for more in ([], ["-K"]):
        done = subprocess.run([*rsync, *more, f"{data}/", f"{there}out/"], capture_output=True, text=True)
        assert done.returncode != 0 and re.search("leaves the share|refuse", done.stderr), done
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_a_link_within_the_share_is_followed_and_one_in_a_folder_is_copied_as_a_link(
    linked: Linked, tmp_path: Path
) -> None:
    (*rsync, there), _, _ = linked
    subprocess.run([*rsync, f"{there}in/", f"{tmp_path}/followed/"], check=True)
    assert (tmp_path / "followed" / "file").read_text() == "file"
    subprocess.run([*rsync, "--links", there, f"{tmp_path}/whole/"], check=True)
    assert (tmp_path / "whole" / "out").is_symlink()


def test_a_pull_goes_to_any_path_also_above_the_current_folder(
    reached: tuple[ShareAccess, Path], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, _ = reached
    (tmp_path / "here").mkdir()
    (tmp_path / "shortcut").symlink_to(tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    transfers.push(there, Path("../data"), "set", PROGRESS)
    for local in ("../above", "../shortcut/../beside", "below/deep", "-n"):
        transfers.pull(there, "set", Path(local), PROGRESS, Pulled(tmp_path / "pulled"))
        assert tree(Path(local)) == tree(data), local
    transfers.pull(there, "set/run.sh", Path("../new-file"), PROGRESS, Pulled(tmp_path / "pulled"))
    transfers.pull(there, "set/run.sh", Path(".."), PROGRESS, Pulled(tmp_path / "pulled"))
    assert (tmp_path / "new-file").read_text() == (tmp_path / "run.sh").read_text() == "#!/bin/sh\n"


def test_links_in_a_folder_are_pushed_as_links(reached: tuple[ShareAccess, Path], data: Path, tmp_path: Path) -> None:
    there, share = reached
    (data / "in").symlink_to("deep/er")
    (data / "deep" / "er" / "back").symlink_to("../../run.sh")
    transfers.push(there, data, "set", PROGRESS)
    assert os.readlink(share / "set" / "in") == "deep/er"
    assert os.readlink(share / "set" / "deep" / "er" / "back") == "../../run.sh"
    transfers.pull(there, "set", tmp_path / "back", PROGRESS, Pulled(tmp_path / "pulled"))
    assert os.readlink(tmp_path / "back" / "deep" / "er" / "back") == "../../run.sh"


def test_links_that_lead_out_of_a_folder_are_refused_by_name_and_nothing_is_sent(
    reached: tuple[ShareAccess, Path], data: Path, tmp_path: Path
) -> None:
    there, share = reached
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "file").write_text("content")
    (data / "absolute").symlink_to(tmp_path / "beside" / "file")
    (data / "deep" / "out").symlink_to("../../beside")
    (data / "around").symlink_to("../data/run.sh")
    with pytest.raises(InputError) as refused:
        transfers.push(there, data, "set", PROGRESS)
    for named in (f"absolute -> {tmp_path}/beside/file", "deep/out -> ../../beside", "around -> ../data/run.sh"):
        assert named in str(refused.value)
    assert "--copy-links" in str(refused.value) and not list(share.iterdir())
    transfers.push(there, data, "set", PROGRESS, copy_links=True)
    assert not [path for path in (share / "set").rglob("*") if path.is_symlink()]
    assert (
        (share / "set" / "absolute").read_text() == (share / "set" / "deep" / "out" / "file").read_text() == "content"
    )


def test_a_link_to_a_file_is_pushed_as_that_file(reached: tuple[ShareAccess, Path], data: Path, tmp_path: Path) -> None:
    there, share = reached
    (tmp_path / "latest").symlink_to(data / "run.sh")
    transfers.push(there, tmp_path / "latest", "one", PROGRESS)
    transfers.push(there, tmp_path / "latest", "folder/", PROGRESS)
    for pushed in (share / "one", share / "folder" / "latest"):
        assert not pushed.is_symlink() and pushed.read_text() == "#!/bin/sh\n"


def test_a_push_of_nothing_and_a_pull_of_nothing_say_so(reached: tuple[ShareAccess, Path], tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="on this machine"):
        transfers.push(reached[0], tmp_path / "absent", "x", PROGRESS)
    with pytest.raises(NotFoundError, match="in the share"):
        transfers.pull(reached[0], "absent", tmp_path / "x", PROGRESS, Pulled(tmp_path / "pulled"))


def test_the_key_is_good_for_nothing_else(server: FilesServer) -> None:
    access = server.access("root")
    command = [*access._ssh(), f"{access.access.user}@127.0.0.1"]
    for asked in (["id"], ["rsync", "--server", "-logDtpre.iLsfxC", ".", "/etc"], ["rsync --server --daemon . ; id"]):
        done = subprocess.run([*command, *asked], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 2
        assert "uid=" not in done.stdout


@pytest.mark.parametrize("asked", ["", "{}", '{"operation": "shell", "path": "x"}', '{"operation": "list", "path": 1}'])
def test_a_request_that_the_master_does_not_know_is_refused(server: FilesServer, asked: str) -> None:
    access = server.access("root")
    command = [*access._ssh(), f"{access.access.user}@127.0.0.1", "grass-files"]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["error"]["code"] == InputError.code


def test_another_host_key_is_refused(server: FilesServer, tmp_path: Path, data: Path) -> None:
    access = server.access("root").access
    other = tmp_path / "known"
    other.write_text(
        Path(access.known_hosts).read_text().replace("AAAAC3NzaC1lZDI1NTE5AAAAI", "AAAAC3NzaC1lZDI1NTE5AAAAJ")
    )
    changed = SshShare(FilesAccess(access.host, access.port, access.user, access.key, str(other)))
    with pytest.raises(UnreachableError):
        changed.ask(ListImages())
    with pytest.raises(UnreachableError):
        transfers.push(changed, data, "x", PROGRESS)


def archive(path: Path, layers: list[bytes], name: str) -> None:
    """What an old engine's `docker save` writes."""
    config = json.dumps(
        {"rootfs": {"diff_ids": [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]}}
    ).encode()
    files = {f"{number}/layer.tar": one for number, one in enumerate(layers)}
    manifest = [{"Config": "c.json", "RepoTags": [name], "Layers": list(files)}]
    files |= {"c.json": config, "manifest.json": json.dumps(manifest).encode()}
    with tarfile.open(path, "w") as tar:
        for member, content in files.items():
            info = tarfile.TarInfo(member)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def test_images_share_their_layers(reached: tuple[ShareAccess, Path], tmp_path: Path) -> None:
    there, share = reached
    base, first, second = os.urandom(1000), os.urandom(10 << 20), b"second"
    archive(tmp_path / "a.tar", [base, first], "team/a:1")
    archive(tmp_path / "b.tar", [base, second], "team/b:1")
    said: list[str] = []
    for name in ("a", "b"):
        transfers.push_image(there, "", tmp_path / f"{name}.tar", tmp_path / "cache", said.append, PROGRESS)
    assert said[-2].startswith("sending 2 parts, ") and said[-2].endswith("; 1 part there already")
    assert re.fullmatch(r"sent \d+B in \d+\.\d s \(.*/s\)", said[-1])
    transfers.push_image(there, "", tmp_path / "b.tar", tmp_path / "cache", said.append, PROGRESS)
    assert said[-1] == "nothing to send: 3 parts there already"
    index = there.ask(ListImages())
    assert sorted(index) == ["team/a:1", "team/b:1"]
    for name, layers in (("a", [base, first]), ("b", [base, second])):
        blobs = [(share / "images" / "blobs" / digest).read_bytes() for digest in index[f"team/{name}:1"].layers]
        assert blobs == layers
    there.ask(RemoveImage("team/a:1"))
    left = {path.name for path in (share / "images" / "blobs").iterdir()}
    assert left == {*index["team/b:1"].blobs}


def test_what_a_killed_push_left_goes_with_the_next_and_what_another_holds_stays(
    reached: tuple[ShareAccess, Path], tmp_path: Path
) -> None:
    there, _ = reached
    archive(tmp_path / "a.tar", [b"layer"], "team/a:1")
    cache = tmp_path / "cache"
    for name in ("image-killed", "image-held", "image-new"):
        (cache / name).mkdir(parents=True)
        (cache / name / "blob").write_bytes(b"x")
    for name in ("image-killed", "image-held"):
        os.utime(cache / name, (0, 0))
    with transfers._held(cache / "image-held"):
        transfers.push_image(there, "", tmp_path / "a.tar", cache, print, PROGRESS)
    assert {each.name for each in cache.iterdir()} == {"image-held", "image-new"}


def test_what_is_no_image_is_refused_and_changes_nothing(reached: tuple[ShareAccess, Path], tmp_path: Path) -> None:
    there, _ = reached
    (tmp_path / "text.tar").write_text("no image")
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    for name in ("text.tar", "empty.tar"):
        with pytest.raises(InputError, match=name):
            transfers.push_image(there, "x", tmp_path / name, tmp_path / "cache", print, PROGRESS)
    assert there.ask(ListImages()) == {}


def test_a_damaged_part_is_found_before_the_image_is_known(reached: tuple[ShareAccess, Path], tmp_path: Path) -> None:
    there, share = reached
    archive(tmp_path / "a.tar", [b"layer"], "a")
    digest = hashlib.sha256(b"layer").hexdigest()
    (share / "images" / "blobs").mkdir(parents=True)
    (share / "images" / "blobs" / digest).write_bytes(b"lawyer")
    with pytest.raises(ConflictError, match="damaged"):
        transfers.push_image(there, "", tmp_path / "a.tar", tmp_path / "cache", print, PROGRESS)
    transfers.push_image(there, "", tmp_path / "a.tar", tmp_path / "cache", print, PROGRESS)
    assert sorted(there.ask(ListImages())) == ["a:latest"]


def test_rsyncs_progress_is_understood() -> None:
    line = b"      209,715,200 100%  250.59MB/s    0:00:12 (xfr#1, to-chk=0/2)"
    assert parse(line) == Progress(209_715_200, 100, 250.59e6, "0:00:12")
    assert parse(b"sending incremental file list") is None
