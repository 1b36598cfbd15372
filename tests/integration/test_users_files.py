"""Files of users by their own keys, through a real sshd, a real rsync and a real redis: what each role reaches."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from grass.api.keyring import Role
from grass.api.user_files import UserRecord, accept_files_keys
from grass.config import RedisConfig, Secrets
from grass.errors import ConflictError, GrassError, InputError, NotAllowedError, UnreachableError
from grass.files import landlock, rsync, transfers
from grass.files import share as share_operations
from grass.files.access import SshShare
from grass.files.key import FILES_KEY, accepted, check_files_key, files_key, marker
from grass.files.operations import (
    AddImage,
    DigestFiles,
    ImageEntry,
    ListFiles,
    ReadFile,
    RemoveFiles,
    RemoveImage,
    TypeOf,
)
from grass.files.path_check import not_theirs
from grass.files.pulled import Pulled
from grass.files.pushes import pushed_at
from grass.model.job import Component, Job
from grass.model.lifecycle import JobState
from grass.model.reasons import Reason, ReasonCode
from grass.provision.files_command import permitted
from grass.store.job_index import moved
from grass.store.keys import Keys
from grass.wire.codec import encode
from grass.wire.job_record import first_record
from tests.support.files_server import FilesServer, files_server
from tests.support.needs import require
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

OWNERS = {"ann-1-0000aaaa": "ann", "bob-1-0000bbbb": "bob"}


@pytest.fixture(scope="module")
def server(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilesServer]:
    require(landlock.version() > 0, "Landlock", "Linux 5.13")
    keys, store = Keys(redis_server.prefix), redis_server.backend()
    reason = Reason(ReasonCode.SUBMITTED, "")
    for number, (job_id, user) in enumerate(OWNERS.items()):
        job = Job(job_id, {"w": Component("w", "true")}, ("w",))
        record = first_record(job, job_id=job_id, user=user, now=float(number), warnings=(), reason=reason)
        store.apply([("HSET", keys.jobs, job_id, encode(record))])
        store.apply(moved(keys, user, record.submitted, job_id, None, record.state))
    where = RedisConfig(socket=str(redis_server.socket))
    with files_server(tmp_path_factory.mktemp("users"), "test", where, Secrets(redis_server.passwords, "")) as made:
        for user in ("ann", "bob"):
            made.user(user)
        made.user("vera", Role.VIEWER)
        yield made
    for number, (job_id, user) in enumerate(OWNERS.items()):
        store.apply([("HDEL", keys.jobs, job_id), *moved(keys, user, float(number), job_id, JobState.QUEUED, None)])
    store.close()


@pytest.fixture(autouse=True)
def share(server: FilesServer) -> Path:
    share = server.share
    subprocess.run(["find", str(share), "-mindepth", "1", "-delete"], check=True)
    for job_id in OWNERS:
        (share / "jobs" / job_id).mkdir(parents=True)
        (share / "jobs" / job_id / "out").write_text(job_id)
    for folder in ("mnist", "data/bob", "data/shared", "data/shared/bob", "logs/x"):
        (share / folder).mkdir(parents=True)
        (share / folder / "file").write_text(folder)
    return share


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "set" / "deep").mkdir(parents=True)
    (tmp_path / "set" / "deep" / "file").write_text("content")
    return tmp_path / "set"


def raw(there: SshShare, *words: str) -> subprocess.CompletedProcess[str]:
    """Call rsync as whoever has the key may. ``words`` may begin with ``::``, for the server."""
    where = there.rsync_path("data", "").partition("::")[0]
    named = [f"{where}{word}" if word.startswith("::") else word for word in words]
    return subprocess.run(["rsync", *there.rsync_options(), *named], capture_output=True, text=True, check=False)


def test_a_user_pushes_pulls_lists_and_removes_in_own_and_shared_folders(
    server: FilesServer, share: Path, data: Path, tmp_path: Path
) -> None:
    ann = server.access("ann")
    transfers.push(ann, data, "data/shared/ann/set", print)
    transfers.push(ann, data, "data/ann/set", print)
    assert (share / "data" / "shared" / "ann" / "set" / "deep" / "file").exists()
    transfers.pull(server.access("bob"), "data/shared/ann/set", tmp_path / "bobs", print, Pulled(tmp_path / "pulled"))
    assert (tmp_path / "bobs" / "deep" / "file").read_text() == "content"
    ann.ask(RemoveFiles("data/shared/ann/set", recursive=True))
    assert not (share / "data" / "shared" / "ann" / "set").exists()
    transfers.pull(ann, "data/ann/set", tmp_path / "got", print, Pulled(tmp_path / "pulled"))
    assert (tmp_path / "got" / "deep" / "file").read_text() == "content"
    assert [entry.name for entry in ann.ask(ListFiles("data/ann/set/deep"))] == ["file"]
    with ann.read("data/ann/set/deep/file") as content:
        assert b"".join(content.pieces) == b"content"
    ann.ask(RemoveFiles("data/ann/set", recursive=True))
    assert not (share / "data" / "ann" / "set").exists()
    for folder in ("ann", "shared/ann"):
        assert (
            share / "data" / folder
        ).stat().st_mode & 0o7777 == 0o2775  # tasks under other accounts write there, too


def test_everybody_reads_the_folder_of_all_and_only_administrators_change_it(
    server: FilesServer, share: Path, data: Path, tmp_path: Path
) -> None:
    ann, of_all = server.access("ann"), share / "data" / "shared"
    transfers.push(server.access("root"), data, "data/shared/set", print)
    assert {entry.name for entry in ann.ask(ListFiles("data/shared"))} == {"ann", "bob", "file", "set"}
    for source in ("file", "bob/file", "set/deep/file"):
        with ann.read(f"data/shared/{source}") as content:
            assert b"".join(content.pieces) == (of_all / source).read_bytes()
        transfers.pull(
            ann, f"data/shared/{source}", tmp_path / source.replace("/", "-"), print, Pulled(tmp_path / "pulled")
        )
    transfers.pull(ann, "data/shared", tmp_path / "all", print, Pulled(tmp_path / "pulled"))
    assert (tmp_path / "all" / "bob" / "file").read_text() == "data/shared/bob"
    said = "user ann changes files in data/ann/, data/shared/ann/ and the jobs/ folders of their own jobs only"
    for path in ("data/shared", "data/shared/file", "data/shared/bob", "data/shared/new", "data/shared/annex/x"):
        with pytest.raises(NotAllowedError, match=f"^{path}: {said}"):
            ann.ask(RemoveFiles(path, recursive=True))
        with pytest.raises(NotAllowedError, match=f"^push of {data}: {path}: {said}"):
            transfers.push(ann, data, path, print)
    server.access("root").ask(RemoveFiles("data/shared/set", recursive=True))
    assert {path.name for path in of_all.iterdir()} == {"ann", "bob", "file"}


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return names, modes, hard links, times and content of all files in a folder."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        content = path.read_text() if path.is_file() else ""
        found[str(path)] = (oct(status.st_mode), path.is_file() and status.st_nlink, status.st_mtime, content)
    return found


def test_a_key_of_a_user_changes_nothing_that_another_user_shares(
    server: FilesServer, share: Path, data: Path, tmp_path: Path
) -> None:
    """By what rsync offers to whoever has the key, past the client's own checks."""
    ann, of_bob = server.access("ann"), share / "data" / "shared" / "bob"
    ann.ask(ListFiles("data/shared/ann"))
    mine, forged = share / "data" / "shared" / "ann", data / "file"
    (mine / "link").symlink_to("../bob")
    forged.write_text("forged")
    (tmp_path / "empty").mkdir()
    alike = tmp_path / "src" / "link" / "file"  # the server has only its mode to change
    alike.parent.mkdir(parents=True)
    shutil.copy2(of_bob / "file", alike)
    before = state(of_bob)
    for words in (
        ("-r", f"{data}/", "::data/./data/shared/bob/"),
        ("-r", "--inplace", f"{data}/", "::data/./data/shared/ann/link/"),
        ("-r", "--keep-dirlinks", f"{data}/", "::data/./data/shared/ann/link/"),
        ("-r", "--delete", f"{tmp_path}/empty/", "::data/./data/shared/"),
        ("-r", "--delete", f"{tmp_path}/empty/", "::data/./data/shared/ann/link/"),
        ("-r", "--remove-source-files", "::data/./data/shared/bob/", str(tmp_path / "taken")),
        ("-p", "--chmod=F600", str(forged), "::data/./data/shared/bob/file"),
        ("-r", "--link-dest=/data/shared/bob", f"{tmp_path / 'taken'}/", "::data/./data/shared/ann/hard/"),
        ("-rt", "--link-dest=../bob", f"{tmp_path / 'taken'}/", "::data/./data/shared/ann/"),
        ("-r", "--backup", "--backup-dir=/data/shared/bob", f"{data}/", "::data/./data/shared/ann/"),
        ("-r", "--temp-dir=/data/shared/bob", f"{data}/", "::data/./data/shared/ann/"),
        ("-r", "--partial-dir=/data/shared/bob", f"{data}/", "::data/./data/shared/ann/"),
        ("-r", f"{data}/", "::data/./data/shared/ann/", "::data/./data/shared/bob/"),
        ("-R", "--no-implied-dirs", "-tp", "--chmod=F600", f"{tmp_path}/src/./link/file", "::data/./data/shared/ann/"),
    ):
        raw(ann, *words)
        assert state(of_bob) == before, words
    assert (tmp_path / "taken" / "file").read_text() == "data/shared/bob"  # so that this can fail: bob's are read
    assert {path.name for path in mine.parent.iterdir()} == {"ann", "bob", "file"}
    raw(ann, "-r", f"{data}/", "::data/./data/shared/ann/own/")
    assert (mine / "own" / "file").read_text() == "forged"


def test_a_link_in_place_of_a_users_shared_folder_opens_nothing(server: FilesServer, share: Path, data: Path) -> None:
    """An earlier version let every user write beside these folders, so a link of then may still be there."""
    (share / "data" / "shared" / "ann").symlink_to("../bob")
    ann = server.access("ann")
    with pytest.raises(GrassError):
        transfers.push(ann, data, "data/shared/ann", print)
    with pytest.raises(GrassError):
        ann.ask(RemoveFiles("data/shared/ann/file", recursive=False))
    with pytest.raises(GrassError), ann.read("data/shared/ann/file"):
        pass
    assert {path.name for path in (share / "data" / "bob").iterdir()} == {"file"}
    assert [entry.name for entry in ann.ask(ListFiles("data/ann"))] == []


def test_a_user_reaches_the_output_of_own_jobs(server: FilesServer, share: Path, tmp_path: Path) -> None:
    ann, (own, other) = server.access("ann"), OWNERS
    transfers.pull(ann, f"jobs/{own}", tmp_path / "out", print, Pulled(tmp_path / "pulled"))
    assert (tmp_path / "out" / "out").read_text() == own
    for path in (f"jobs/{other}", f"jobs/{other}/out", "jobs/nothing", "jobs/../x"):
        with pytest.raises(GrassError, match=r"is not an output of a job of user ann|leaves the share"):
            permitted(server.config, record("ann"), RemoveFiles(path, recursive=True))
    for named in ([], ann.rsync_options(f"jobs/{own}"), ann.rsync_options(f"jobs/{other}")):
        said = raw(ann, *named, "-r", f"::data/./jobs/{other}/", str(tmp_path / "out")).stderr
        assert "did not name this job" in said or "is not an output of a job of user ann" in said
    assert (tmp_path / "out" / "out").read_text() == own
    ann.ask(RemoveFiles(f"jobs/{own}", recursive=True))
    assert sorted(path.name for path in (share / "jobs").iterdir()) == [other]


def record(user: str, role: Role = Role.USER) -> UserRecord:
    return UserRecord(user, role)


@pytest.mark.parametrize("path", ["data/bob", "data/bob/x", "mnist", "data", "", "logs/x/file", "data/annex", "jobs"])
def test_a_user_reaches_nothing_else(server: FilesServer, path: str) -> None:
    said = "user ann reads data/ann/, data/shared/ and the jobs/ folders of their own jobs only"
    changes = "user ann changes files in data/ann/, data/shared/ann/ and the jobs/ folders of their own jobs only"
    for operation in (ListFiles(path), TypeOf(path), DigestFiles(path), ReadFile(path)):
        with pytest.raises(NotAllowedError, match=said):
            permitted(server.config, record("ann"), operation)
    with pytest.raises(NotAllowedError, match=changes):
        permitted(server.config, record("ann"), RemoveFiles(path, recursive=True))
    assert changes in not_theirs("ann", "", ["--server", "-r", ".", f"./{path}"])
    assert said in not_theirs("ann", "", ["--server", "--sender", ".", "data/ann/x", path])


@pytest.mark.parametrize(
    "words",
    [
        "data . data/ann/",
        "--temp-dir . data/ann/",
        "--partial-dir --sender . data/shared/bob/",
        "--partial-dir",
        "--iconv . data/ann/",
        "--iconv --partial-dir data . data/ann/",
        "-T . data/ann/",
        "-vT . data/ann/",
        "-re . data/ann/",
        "-- . data/ann/",
        "- . data/ann/",
        ".",
        "-r",
        "-r x",
    ],
)
def test_a_client_that_hides_its_path_from_the_check_is_refused(words: str) -> None:
    assert "for administrators" in not_theirs("ann", "", ["--server", "-tpRe.LsfxCIvu", *words.split()])


def test_the_options_of_clients_pass_the_check() -> None:
    words = "--server --sender -vlogDtpre.iLsfxCIvu --log-format=%i --partial-dir .grass-partial --mkpath . data/ann/x"
    assert not not_theirs("ann", "", words.split())


def test_a_client_of_ones_own_making_changes_no_modes_of_files_of_others(
    server: FilesServer, share: Path, tmp_path: Path
) -> None:
    """Landlock does not cover chmod. This client says one path to the check of the server, and another one to rsync."""
    ann, theirs = server.access("ann"), share / "data" / "shared" / "bob" / "file"
    alike = tmp_path / "src" / "data" / "shared" / "bob" / "file"
    alike.parent.mkdir(parents=True)
    shutil.copy2(theirs, alike)
    before = theirs.stat()
    shell = ann.rsync_options()[1]
    where = ann.rsync_path("data", "").partition("::")[0]
    for words in ("data\0.", "--temp-dir\0.\0data/./data/ann/"):
        forger = tmp_path / "forger"
        forger.write_text(FORGER.format(python=sys.executable, shell=shlex.split(shell), words=words.encode()))
        forger.chmod(0o755)
        options = ["-e", str(forger), "-tpR", "--no-implied-dirs", "--chmod=F600", "--timeout=5"]
        argv = ["rsync", *options, f"{tmp_path}/src/./data/shared/bob/file", f"{where}::data/./data/ann/"]
        said = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
        assert "is for administrators" in said.stdout + said.stderr
        assert (theirs.stat().st_mode, theirs.stat().st_mtime) == (before.st_mode, before.st_mtime)


FORGER = """#!{python}
import os, subprocess, sys
with subprocess.Popen({shell} + sys.argv[1:], stdin=subprocess.PIPE) as ssh:
    while said := os.read(0, 65536):
        while b"--server" in said and b"data/./data/ann/" not in said:
            said += os.read(0, 65536)
        ssh.stdin.write(said.replace(b".\\0data/./data/ann/", {words}, 1))
        ssh.stdin.flush()
    ssh.stdin.close()
sys.exit(ssh.returncode)
"""
"""A shell for rsync that changes the words that the client sends to the server."""


def test_a_refusal_names_the_folders_that_a_user_reaches(server: FilesServer, data: Path, tmp_path: Path) -> None:
    ann = server.access("ann")
    with pytest.raises(NotAllowedError, match="user ann reads data/ann/, data/shared/ and"):
        transfers.pull(ann, "data/bob", tmp_path / "got", print, Pulled(tmp_path / "pulled"))
    said = "user ann changes files in data/ann/, data/shared/ann/ and"
    with pytest.raises(NotAllowedError, match=f"^push of {data}: data/bob/x: {said}"):
        transfers.push(ann, data, "data/bob/x", print)


def test_the_kernel_keeps_a_transfer_in_the_folders_whatever_links_lie_there(
    server: FilesServer, share: Path, data: Path, tmp_path: Path
) -> None:
    """A task may put a link there at any time: also one that no check has seen."""
    ann = server.access("ann")
    (share / "data" / "ann").mkdir()
    (share / "data" / "ann" / "link").symlink_to("../bob")
    names = tmp_path / "names"
    names.write_text("link/file\n")
    got = tmp_path / "got"
    raw(ann, "-R", f"--files-from={names}", "::data/./data/ann/", str(got))
    raw(ann, "-r", "::data/./data/ann/link/", str(got))
    assert not [path for path in got.rglob("*") if path.is_file() and not path.is_symlink()]
    (data / "file").write_text("forged")
    raw(ann, "-r", "--inplace", f"{data}/", "::data/./data/ann/link/")
    assert {path.name for path in (share / "data" / "bob").iterdir()} == {"file"}
    assert (share / "data" / "bob" / "file").read_text() == "data/bob"
    with pytest.raises(GrassError):
        ann.ask(RemoveFiles("data/ann/link/file", recursive=True))


def test_own_folders_stay_when_they_are_removed(server: FilesServer) -> None:
    for folder in ("data/ann", "data/shared/ann"):
        with pytest.raises(InputError, match="this folder stays"):
            permitted(server.config, record("ann"), RemoveFiles(folder, recursive=True))


def test_a_viewer_reads_everything_and_writes_nothing(server: FilesServer, data: Path, tmp_path: Path) -> None:
    vera = server.access("vera")
    transfers.pull(vera, "mnist", tmp_path / "got", print, Pulled(tmp_path / "pulled"))
    assert (tmp_path / "got" / "file").read_text() == "mnist"
    with pytest.raises(NotAllowedError, match=f"^push of {data}: user vera: a viewer changes no files"):
        transfers.push(vera, data, "data/vera", print)
    entry = ImageEntry("x", "0" * 64, (), 1, 1.0)
    for operation in (RemoveFiles("mnist", recursive=True), RemoveImage("x"), AddImage("x", entry)):
        with pytest.raises(NotAllowedError, match="a viewer changes no files"):
            permitted(server.config, record("vera", Role.VIEWER), operation)


def image(folder: Path, content: bytes) -> ImageEntry:
    (folder / "blobs").mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(content).hexdigest()
    (folder / "blobs" / digest).write_bytes(content)
    return ImageEntry("x", digest, (), len(content), 1.0)


def test_a_user_adds_own_images_and_cannot_replace_those_of_others(
    server: FilesServer, share: Path, tmp_path: Path
) -> None:
    ann = server.access("ann")
    first = image(tmp_path / "ann", b"first")
    assert raw(ann, "-r", f"{tmp_path}/ann/blobs", "::images/").returncode == 0
    ann.ask(AddImage("mine:1", structs.replace(first, user="bob")))
    assert share_operations.read_index(share)["mine:1"].user == "ann"  # whatever the client says
    assert (share / "images" / "blobs" / first.config).read_bytes() == b"first"
    (tmp_path / "ann" / "blobs" / first.config).write_bytes(b"other")
    assert raw(ann, "-r", f"{tmp_path}/ann/blobs", "::images/").returncode == 0
    ann.ask(AddImage("mine:2", first))
    assert (share / "images" / "blobs" / first.config).read_bytes() == b"first"
    share_operations.add_image(share, "theirs:1", first)
    for operation in (AddImage("theirs:1", first), RemoveImage("theirs:1")):
        with pytest.raises(NotAllowedError, match="image theirs:1: belongs to an administrator"):
            permitted(server.config, record("ann"), operation)


@pytest.mark.alone
def test_a_disabled_or_removed_user_is_cut_off_within_a_second_even_during_a_transfer(
    server: FilesServer, share: Path, data: Path
) -> None:
    server.user("cid")
    cid, user_file = server.access("cid"), server.config.master_dir / "users" / "cid.json"
    key = files_key(server.folder / "client-cid")
    (data / "large").write_bytes(os.urandom(4 << 20))
    options = [*cid.rsync_options(), "--bwlimit=100"]
    argv = rsync.command("rsync", options, [f"{data}/"], cid.rsync_path("data", "data/cid/"))
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        wait_until(lambda: bool(list((share / "data").glob("cid/.large*"))), what="the transfer")
        disabled = time.monotonic()
        server.write(UserRecord("cid", Role.USER, disabled=True, files_key=key))
        said = running.communicate(timeout=10)[1]  # the whole transfer would take 40 s
        assert time.monotonic() - disabled < 1
    assert running.returncode != 0
    assert "the administrator changed what this user may do" in said
    with pytest.raises(UnreachableError, match="Permission denied"):  # sshd no longer knows the key
        cid.ask(ListFiles("data/cid"))
    # a line that was left behind opens nothing
    lines = Path(server.config.files.authorized_keys) if server.config.files else Path()
    server.write(UserRecord("cid", Role.USER, files_key=key))
    with_cid = lines.read_text()
    for change in (UserRecord("cid", Role.USER, disabled=True, files_key=key), None):
        if change is None:
            user_file.unlink()
        else:
            server.write(change)
        lines.write_text(with_cid)
        with pytest.raises(UnreachableError, match=r"disabled by an administrator|no longer reaches the files"):
            cid.ask(ListFiles("data/cid"))
    accept_files_keys(server.config)


def test_a_push_ends_at_the_quota_and_names_the_amounts_while_pulls_go_on(
    server: FilesServer, share: Path, data: Path, tmp_path: Path, redis_server: RedisServer
) -> None:
    ann, store, kept = server.access("ann"), redis_server.backend(), Keys(redis_server.prefix).kept_files
    limits = replace(server.config.master, quotas={"ann": {"space": 8 << 20}})
    with (data / "large").open("wb") as file:
        file.truncate(1 << 30)
    try:
        replace(server.config, master=limits).save()
        store.apply([("HSET", kept, "ann", encode({"space": 6 << 20, "files": 1}))])
        with pytest.raises(ConflictError, match=r"ann: may keep 8MiB in the share, keeps 6MiB, and this transfer has"):
            transfers.push(ann, data, "data/ann/set", print)
        assert pushed_at(server.config, "ann") > 0
        assert not list((share / "data" / "ann" / "set").glob("*large*"))  # nor a part of it under another name
        with pytest.raises(ConflictError, match=r"ann: may keep 8MiB in the share, keeps 6MiB, and this transfer has"):
            transfers.push(ann, data, "data/shared/ann/set", print)
        assert not list((share / "data" / "shared" / "ann" / "set").glob("*large*"))
        done = raw(ann, f"{data}/large", "::images/")  # a part of an image
        assert done.returncode != 0 and "ann: may keep 8MiB in the share, keeps 6MiB, and this transfer" in done.stderr
        store.apply([("HSET", kept, "ann", encode({"space": 9 << 20, "files": 1}))])
        (share / "data" / "ann" / "set").mkdir(exist_ok=True)
        (share / "data" / "ann" / "set" / "kept").write_bytes(os.urandom(4 << 20))
        transfers.pull(ann, "data/ann/set/kept", tmp_path / "kept", print, Pulled(tmp_path / "pulled"))
        ann.ask(RemoveFiles("data/ann/set", recursive=True))
        transfers.push(server.access("bob"), data / "deep", "data/bob/set", print)
    finally:
        server.config.save()
        store.apply([("DEL", kept)])
        store.close()


def test_a_replaced_key_is_refused_and_lines_of_others_stay(server: FilesServer) -> None:
    assert server.config.files is not None
    lines = Path(server.config.files.authorized_keys)
    other = "ssh-ed25519 AAAA admin@elsewhere"
    lines.write_text(f"{other}\n{lines.read_text()}")
    server.user("dan")
    dan = server.access("dan")
    assert dan.ask(ListFiles("data/dan")) == []
    (server.folder / "client-dan" / FILES_KEY).rename(server.folder / "old")
    server.user("dan")
    assert server.access("dan").ask(ListFiles("data/dan")) == []
    (server.folder / "old").replace(server.folder / "client-dan" / FILES_KEY)
    with pytest.raises(UnreachableError, match="Permission denied"):
        dan.ask(ListFiles("data/dan"))
    assert lines.read_text().splitlines()[0] == other


def test_only_lines_of_this_cluster_are_replaced() -> None:
    before = f"# mine\na {marker('lab')}\nb {marker('lab-2')}\nc {marker('my-lab')}\n"
    assert accepted(before, "lab", ["x", "y"]) == (
        f"# mine\nb {marker('lab-2')}\nc {marker('my-lab')}\nx {marker('lab')}\ny {marker('lab')}\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "",
        "ssh-ed25519",
        "ssh-ed25519 AAAA",
        "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ==",
        'command="id" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA',
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\nssh-rsa AAAA",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA comment",
    ],
)
def test_only_the_public_half_of_an_ed25519_key_becomes_a_line(line: str) -> None:
    with pytest.raises(InputError, match="files_key"):
        check_files_key(line)


def test_a_files_key_is_a_private_file_and_is_made_once(tmp_path: Path) -> None:
    line = files_key(tmp_path / "client")
    assert files_key(tmp_path / "client") == line == check_files_key(line)
    assert (tmp_path / "client" / FILES_KEY).stat().st_mode & 0o777 == 0o600
