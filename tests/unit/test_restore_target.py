"""What a restore finds where the cluster of a backup shall be: refused before the passphrase is needed, or filled."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from grass.config import ClusterConfig
from grass.errors import ConflictError, GrassError, InputError, NewerVersionError
from grass.manifest.local_settings import LocalSettings, RedisSettings
from grass.mode_file import write_mode
from grass.model.mode import ON_PREMISES, SIGNED_IN
from grass.provision import local
from grass.provision.backup import restoring
from grass.provision.backup.sealed_file import Writer
from grass.wire.backup import BackupHeader
from grass.wire.version import REVISION
from tests.support.rsa_keys import write_key

HEADER = BackupHeader(
    cluster="lab", mode="local", master="key", made=1.0, grass="1", parts=("state",), salt="00" * 16, cost=2
)


def backup(home: Path, header: BackupHeader = HEADER) -> Path:
    """Return a backup without content: nothing of it is used in these tests."""
    path = home / "b.grass-backup"
    with path.open("wb") as file:
        Writer(file, header, "secret").finish()
    return path


def refusal(home: Path, *, replaced: bool = False) -> GrassError:
    with pytest.raises(GrassError) as refused:
        local.restore(backup(home), "secret", home=home, replaced=replaced, progress=lambda _: None)
    return refused.value


def test_a_backup_of_several_hosts_or_with_a_name_that_is_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="grass restore FILE --on HOST"):
        restoring.of_this_machine(backup(tmp_path, structs.replace(HEADER, mode=ON_PREMISES)))
    with pytest.raises(InputError, match="is no name of a cluster"):
        restoring.header_of(backup(tmp_path, structs.replace(HEADER, cluster="../lab")))


def test_a_cluster_of_another_kind_or_with_another_key_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "clusters" / "lab"
    folder.mkdir(parents=True)
    write_mode(folder, SIGNED_IN)
    assert "exists here with the mode signed-in" in str(refusal(tmp_path, replaced=True))
    write_mode(folder, "local")
    write_key(folder / "master" / "key.pem", "cluster-0")
    assert "is another one than that of the backup" in str(refusal(tmp_path, replaced=True))


def test_state_is_replaced_only_if_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "clusters/lab/redis/appendonlydir").mkdir(parents=True)
    refused = refusal(tmp_path)
    assert isinstance(refused, ConflictError) and "--replace" in str(refused)
    assert "its content cannot be read" in str(refusal(tmp_path, replaced=True))  # it got that far


@pytest.mark.parametrize("name", ["cluster.json", "nodes/k/cluster.json"])
def test_a_backup_whose_configuration_a_newer_grass_wrote_is_not_written_anew_by_this_one(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "nodes" / "k").mkdir(parents=True)
    config = ClusterConfig("lab", "local", str(tmp_path), "/run/lab")
    for each in ("cluster.json", "nodes/k/cluster.json"):
        config.save(tmp_path / each)
    assert restoring.configuration(tmp_path, "lab") == config
    text = (tmp_path / name).read_text().replace(f'"revision": {REVISION}', f'"revision": {REVISION + 1}')
    (tmp_path / name).write_text(text)
    with pytest.raises(NewerVersionError, match="cluster lab: written by a newer Grass"):
        restoring.configuration(tmp_path, "lab")


def tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def staged(tmp_path: Path) -> Path:
    return write(tmp_path / "staged", "new", "cluster.json", "redis/x", "data/logs/a", "data/b", "nodes/k/secrets.json")


def write(folder: Path, text: str, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_what_a_restore_replaces_is_put_aside_and_newer_data_stays(tmp_path: Path) -> None:
    folder = write(tmp_path / "lab", "old", "cluster.json", "redis/y", "data/b", "nodes/k/secrets.json", "node/journal")
    restoring.place(staged(tmp_path), folder)
    found = tree(folder)
    aside = {name.partition("/")[2] for name in found if name.startswith("replaced-")}
    assert aside == {"cluster.json", "redis/y", "nodes/k/secrets.json"}
    assert {name: text for name, text in found.items() if not name.startswith("replaced-")} == {
        **dict.fromkeys(("cluster.json", "redis/x", "data/logs/a", "nodes/k/secrets.json"), "new"),
        **dict.fromkeys(("data/b", "node/journal"), "old"),
    }


def test_a_restore_that_was_killed_while_it_moved_files_is_finished_by_the_next_and_by_nothing_else(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "clusters/lab", "new", "redis/x", "restoring")  # cluster.json has left, and not come
    settings = LocalSettings(
        name="lab", redis=RedisSettings(embedded=False, host="127.0.0.1", port=1)
    )  # starts nothing
    with pytest.raises(ConflictError, match="`grass restore` was interrupted; run it again"):
        local.create(settings, home=tmp_path, progress=lambda _: None)
    restoring.place(staged(tmp_path), folder)
    found = tree(folder)
    assert "restoring" not in found and found["cluster.json"] == found["redis/x"] == "new"
