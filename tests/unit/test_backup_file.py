"""The sealed file of a backup: what was written comes back, and nothing else does; and the folder of backups."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec import structs

from grass.errors import ConflictError, GrassError, InputError
from grass.provision.backup import archive, catalogue, making, unpacking
from grass.provision.backup.archive import MANIFEST, Packing, drafted, members, state_files
from grass.provision.backup.sealed_file import (
    AlteredError,
    NotABackupError,
    PassphraseError,
    Reader,
    Writer,
    opened,
)
from grass.wire.backup import BackupHeader
from grass.wire.codec import encode
from tests.support.shepherd_run import cluster_config

CHUNK = (1 << 16) + 16
SECRET = "geheim"


def header(cluster: str = "lab", made: float = 100.0, salt: str = "00" * 16) -> BackupHeader:
    return BackupHeader(
        cluster=cluster, mode="local", master="key", made=made, grass="1", parts=("state",), salt=salt, cost=2
    )


def write(path: Path, data: bytes, of: BackupHeader | None = None) -> bytes:
    with path.open("wb") as file:
        writer = Writer(file, of or header(), SECRET)
        for at in range(0, len(data), 40_000):
            writer.write(data[at : at + 40_000])
        writer.finish()
    return path.read_bytes()


def read(path: Path, passphrase: str = SECRET) -> bytes:
    with opened(path) as (found, file):
        reader = Reader(path, file, found, passphrase)
        data = b""
        while piece := reader.read(10_240):
            data += piece
        reader.finish()
        return data


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_what_was_sealed_comes_back(tmp_path: Path, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    sealed = write(tmp_path / "b", data[:size])
    assert read(tmp_path / "b") == data[:size]
    assert size < 256 or data[:256] not in sealed


def test_another_passphrase_is_refused_with_the_exit_code_of_a_missing_right(tmp_path: Path) -> None:
    write(tmp_path / "b", b"x")
    with pytest.raises(PassphraseError, match="passphrase is wrong") as refused:
        read(tmp_path / "b", "other")
    assert refused.value.exit_code == 4


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    sealed = write(tmp_path / "b", b"x" * 200_000)
    begin = len(sealed) % CHUNK  # of the chunks, as far as this tells: some of the ends are between two chunks
    ends = [0, 5, 20, 200, len(sealed) - 1, len(sealed) - 16, *range(begin, len(sealed), CHUNK // 4)]
    first = sealed.index(b"\n", 20) + 1 + 32
    for end in [*ends, first, first + CHUNK, first + 2 * CHUNK, first + 3 * CHUNK]:
        (tmp_path / "b").write_bytes(sealed[:end])
        with pytest.raises(GrassError) as refused:
            read(tmp_path / "b")
        assert refused.value.exit_code in (2, 4), end


def test_a_changed_byte_is_found_wherever_it_is(tmp_path: Path) -> None:
    sealed = bytearray(write(tmp_path / "b", b"x" * 70_000))
    for at in [*range(0, 300, 7), 70_000, len(sealed) - 1]:
        sealed[at] ^= 1
        (tmp_path / "b").write_bytes(sealed)
        with pytest.raises(GrassError) as refused:
            read(tmp_path / "b")
        assert refused.value.exit_code in (2, 4), at
        sealed[at] ^= 1


def parts(sealed: bytes) -> tuple[bytes, list[bytes]]:
    first = sealed.index(b"\n", 20) + 1 + 32
    return sealed[:first], [sealed[at : at + CHUNK] for at in range(first, len(sealed), CHUNK)]


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 2, 3), (0, 1, 1, 2, 3), (0, 1, 3), (0, 1, 2, 3, 3)])
def test_chunks_in_another_order_are_refused(tmp_path: Path, order: Sequence[int]) -> None:
    begin, chunks = parts(write(tmp_path / "b", b"x" * 200_000))
    (tmp_path / "b").write_bytes(begin + b"".join(chunks[each] for each in order))
    with pytest.raises(AlteredError, match="altered or cut off"):
        read(tmp_path / "b")


def test_a_chunk_of_another_backup_with_the_same_passphrase_is_refused(tmp_path: Path) -> None:
    begin, chunks = parts(write(tmp_path / "b", b"x" * 200_000))
    for other in (header(salt="11" * 16), header(made=200.0)):
        _, others = parts(write(tmp_path / "c", b"x" * 200_000, other))
        (tmp_path / "b").write_bytes(begin + chunks[0] + others[1] + b"".join(chunks[2:]))
        with pytest.raises(AlteredError):
            read(tmp_path / "b")


def test_a_file_of_something_else_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"\x1f\x8b whatever")
    with pytest.raises(NotABackupError, match="no backup"):
        read(tmp_path / "b")
    expensive = encode(header()).replace('"cost":2', '"cost":40')
    (tmp_path / "b").write_bytes(b"grass-backup 1\n" + expensive.encode() + b"\n" + bytes(64))
    with pytest.raises(NotABackupError, match="header is damaged"):  # not: 8 TiB of memory are asked for
        read(tmp_path / "b")


def test_an_interrupted_backup_leaves_no_file_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    with suppress(KeyboardInterrupt), drafted(tmp_path / "b.grass-backup") as file:
        Packing(file, header(), SECRET).add(MANIFEST, tmp_path / "data")
        assert not (tmp_path / "b.grass-backup").exists()
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_a_killed_backup_left_is_removed_by_the_next_and_what_another_writes_is_not(tmp_path: Path) -> None:
    left = tmp_path / "a.grass-backup.partial"
    left.touch()
    with drafted(tmp_path / "b.grass-backup"), drafted(tmp_path / "c.grass-backup"):
        assert not left.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.grass-backup", "c.grass-backup"]


def test_a_backup_never_replaces_or_cuts_one_that_another_cluster_writes_under_the_same_name(tmp_path: Path) -> None:
    target, data = tmp_path / "b.grass-backup", tmp_path / "data"
    data.write_bytes(b"x" * 100_000)
    with drafted(target) as file:
        first = Packing(file, header(), SECRET)
        first.add(MANIFEST, data)
        with pytest.raises(ConflictError, match="another backup is being written there"), drafted(target):
            pass
        first.finish()
    with pytest.raises(ConflictError, match="exists already"), drafted(target):
        pass
    with members(target, SECRET) as (_, found):
        assert [len(content.read()) for _, content in found] == [100_000]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.grass-backup", "data"]


def test_a_backup_into_the_folder_of_its_cluster_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "lab"
    home.mkdir()
    config = cluster_config(home)
    (tmp_path / "link").symlink_to(home)
    for folder in (home / "backup", tmp_path / "link" / "data"):
        with pytest.raises(InputError, match="is in the folder of the cluster"):
            making.make(config, folder / "b.grass-backup", SECRET, ())


def test_a_full_disk_is_said_before_the_cluster_has_to_feel_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grass.system.disk.free", lambda _: 1 << 20)
    with pytest.raises(archive.NoSpaceError, match="nothing was changed") as full, drafted(tmp_path / "b"):
        pass
    assert full.value.exit_code == 74


def packed(path: Path, *infos: tarfile.TarInfo) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w:gz") as tar:
        for info in infos:
            tar.addfile(info, io.BytesIO(b"x" * info.size))
    write(path, plain.getvalue())


def info(name: str, size: int = 1, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size = 0 if link else size
    made.type, made.linkname = (tarfile.SYMTYPE, link) if link else (tarfile.REGTYPE, "")
    return made


@pytest.mark.parametrize(
    "infos",
    [
        [info("home/../../out")],
        [info("/tmp/out")],
        [info("other/out")],
        [info("home/data/x", link=".."), info("home/data/x/out")],
    ],
)
def test_a_member_outside_of_the_folder_is_refused(tmp_path: Path, infos: list[tarfile.TarInfo]) -> None:
    packed(tmp_path / "b", *infos)
    with pytest.raises(AlteredError, match="outside of its folder"):
        unpacking.unpack(tmp_path / "b", SECRET, tmp_path / "to")
    assert not list(tmp_path.rglob("out"))


def test_a_backup_without_its_parts_is_refused(tmp_path: Path) -> None:
    packed(tmp_path / "b", info("home/secrets.json"))
    with pytest.raises(AlteredError, match="parts of a backup are missing"):
        unpacking.unpack(tmp_path / "b", SECRET, tmp_path / "to")


def test_a_file_that_grows_or_vanishes_while_it_is_packed_does_no_harm(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"a" * 10)
    with drafted(tmp_path / "b") as file:
        packing = Packing(file, header(), SECRET)
        packing.add("home/gone", tmp_path / "gone")
        packing.add("home/log", log)
        log.write_bytes(b"a" * 20)
        packing.finish()
    with members(tmp_path / "b", SECRET) as (_, found):
        assert [(each.name, data.read()) for each, data in found] == [("home/log", b"a" * 10)]


def test_the_state_of_a_master_is_its_files_without_those_of_this_machine(tmp_path: Path) -> None:
    kept = ("cluster.json", "secrets.json", "master/key.pem", "master/users/a.json", "client/user.pem")
    kept += ("redis/users.acl", "nodes/lab/cluster.json")
    others = ("redis/appendonlydir/x", "log/a", "data/logs/x", "node/journal", "run/x", "nodes/lab/node/journal")
    others += ("nodes/lab/log/x", "replaced-1/master/key.pem", "supervisord.conf", "backup.lock", "mode", "restoring")
    others += ("at-boot",)  # a restored cluster is not started by another machine
    for name in (*kept, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert {str(path.relative_to(tmp_path)) for path in state_files(tmp_path)} == set(kept)


@dataclass(frozen=True)
class Folder:
    path: Path

    def add(self, made: float, cluster: str = "lab", master: str = "key") -> Path:
        path = catalogue.target(self.path, cluster, made)
        write(path, b"x", structs.replace(header(cluster, made), master=master))
        return path


def test_only_the_newest_backups_of_this_cluster_are_kept(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    own = [folder.add(float(made)) for made in (1, 2, 3)]
    other = folder.add(4.0, master="of another cluster with this name")
    assert catalogue.prune(tmp_path, "key", 2) == [own[0]]
    assert {each.path for each in catalogue.found(tmp_path)} == {own[1], own[2], other}


def test_a_list_shows_the_newest_first_and_says_what_it_cannot_read(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    first, second = folder.add(1.0), folder.add(2.0)
    (tmp_path / "broken.grass-backup").write_text("x")
    found = catalogue.found(tmp_path)
    assert [each.path for each in found] == [second, first, tmp_path / "broken.grass-backup"]
    assert found[2].header is None and "no backup" in found[2].problem


@pytest.mark.parametrize("to", ["ssh://host/backups", "host:/backups"])
def test_a_target_on_another_machine_is_refused_and_not_made_here(tmp_path: Path, to: str) -> None:
    with pytest.raises(InputError, match="paths of this machine"):
        catalogue.target(Path(to), "lab", 1.0)
