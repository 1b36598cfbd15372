"""Which server is chosen, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from grass.store import embedded


def fake_server(folder: Path, name: str, said: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{said}'\n")
    path.chmod(0o755)
    return path


def test_a_valkey_on_the_path_is_preferred_to_a_redis(tmp_path: Path) -> None:
    fake_server(tmp_path, "redis-server", "Redis server v=7.2.1 sha=0")
    valkey = fake_server(tmp_path, "valkey-server", "Valkey server v=8.0.1 sha=0")
    assert embedded.find_server(str(tmp_path)) == embedded.Server(valkey, (8, 0, 1), "PATH")


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    fake_server(tmp_path, "valkey-server", "Redis server v=5.0.14 sha=0")
    redis = fake_server(tmp_path, "redis-server", "Redis server v=6.2.0 sha=0")
    assert embedded.find_server(str(tmp_path)).path == redis


def test_a_link_keeps_its_name_because_the_program_looks_at_it(tmp_path: Path) -> None:
    real = fake_server(tmp_path, "redis-check-rdb", "Redis server v=7.0.15 sha=0")
    (tmp_path / "redis-server").symlink_to(real)
    assert embedded.find_server(str(tmp_path)).path.name == "redis-server"


def test_without_any_the_error_says_what_was_found_and_what_to_install(tmp_path: Path) -> None:
    fake_server(tmp_path, "redis-server", "Redis server v=5.0.14 sha=0")
    fake_server(tmp_path, "valkey-server", "nonsense")
    with pytest.raises(embedded.NoRedisError) as raised:
        embedded.find_server(str(tmp_path), wheels=())
    for part in ("redis-server is 5.0.14", "valkey-server is not runnable", "apt-get install redis-server"):
        assert part in str(raised.value)


def test_a_name_that_would_widen_a_key_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match="key pattern"):
        embedded.acl_text(prefix="grass:*:", node="local", passwords={}, version=(7, 0))


def conf_text(folder: Path, version: tuple[int, ...] = (7, 0), memory: int = 8 << 30) -> str:
    files = {"folder": folder, "socket": folder / "s", "acl_file": folder / "users.acl"}
    return embedded.conf_text(**files, version=version, memory=memory)


@pytest.mark.parametrize(
    ("version", "gibibytes", "clients"), [((7, 0), 8, "1073741824"), ((8, 1), 2, "536870912"), ((6, 2), 8, None)]
)
def test_the_memory_of_the_server_and_of_its_clients_is_bounded(
    tmp_path: Path, version: tuple[int, ...], gibibytes: int, clients: str | None
) -> None:
    found = dict(line.split(" ", 1) for line in conf_text(tmp_path, version, gibibytes << 30).splitlines() if line)
    assert int(found["maxmemory"]) == gibibytes * 3 << 28
    assert found.get("maxmemory-clients") == clients


def test_a_folder_with_spaces_and_quotes_is_quoted(tmp_path: Path) -> None:
    folder = tmp_path / 'a "b" c'
    text = conf_text(folder)
    assert f'dir "{tmp_path}/a \\"b\\" c"' in text.splitlines()
    assert not [line for line in text.splitlines() if line.startswith("#") or "{" in line]
