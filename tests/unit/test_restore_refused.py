"""`grass restore FILE --on HOST` with a bad file: refused with its exit code before any machine is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from grass.api import keyring
from grass.cli.main import execute
from grass.mode_file import write_mode
from grass.model.mode import LOCAL, ON_PREMISES
from grass.provision.backup.sealed_file import Writer
from grass.wire.backup import BackupHeader
from tests.support.rsa_keys import public_jwk, write_key
from tests.unit.test_restore_target import HEADER

OF_HOSTS = structs.replace(HEADER, mode=ON_PREMISES)
SECRET = "geheim"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRASS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GRASS_BACKUP_PASSPHRASE", SECRET)
    return tmp_path / "home"


def backup(home: Path, header: BackupHeader = OF_HOSTS) -> Path:
    path = home.parent / "b.grass-backup"
    with path.open("wb") as file:
        writer = Writer(file, header, SECRET)
        writer.write(b"no stream of files" * 10_000)
        writer.finish()
    return path


def refused(file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = execute(["restore", str(file), "--on", "192.0.2.1"])
    return code, capsys.readouterr().err


def test_a_wrong_passphrase_ends_with_4(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRASS_BACKUP_PASSPHRASE", "falsch")
    code, said = refused(backup(home), capsys)
    assert code == 4 and "the passphrase is wrong" in said
    assert not list((home / "clusters").glob("*"))


@pytest.mark.parametrize("how", ["truncated", "altered", "no files"])
def test_a_file_that_is_not_whole_ends_with_2(how: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = backup(home)
    content = bytearray(file.read_bytes())
    if how == "truncated":
        del content[-1000:]
    elif how == "altered":
        content[-1000] ^= 1
    file.write_bytes(content)
    code, said = refused(file, capsys)
    assert code == 2 and "take another" in said, said
    assert not list((home / "clusters").glob("*"))


def test_a_backup_of_another_kind_or_of_another_cluster_of_this_name_ends_with_2(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = refused(backup(home, HEADER), capsys)
    assert code == 2 and f"is of a cluster of mode {LOCAL}; --on is for clusters on several hosts" in said
    client = home / "clusters" / "lab" / "client"
    keyring.save_profile(client, keyring.Profile("lab", "http://192.0.2.2:1", "ann", "k"), public_jwk("cluster-0"))
    write_key(client / "user.pem", "cluster-1")
    write_mode(client.parent, ON_PREMISES)
    code, said = refused(backup(home), capsys)
    assert code == 2 and "the one that this machine knows is another one than that of the backup" in said
    write_mode(client.parent, LOCAL)
    code, said = refused(backup(home), capsys)
    assert code == 2 and "exists here with the mode" in said
