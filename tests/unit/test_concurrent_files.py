"""Files that one command or daemon changes or removes while another uses them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from grass.api.sealing import Session
from grass.api.session_file import save_session
from grass.cli.cluster import deselect_cluster, select_cluster
from grass.files.access import FILES_ACCESS, PROFILE, FilesAccess
from grass.files.operations import ListFiles, RemoveFiles
from grass.files.share import carry_out
from grass.provision import layout, local
from grass.system import clock
from grass.system.tree_removal import remove_tree
from grass.tls_files import node_identity
from grass.wire.codec import encode
from node.membership import revoked_nodes
from node.runtime import task_commands
from tests.support.shepherd_run import cluster_config


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """Call ``work`` again and again in a thread, at least once before the block."""
    begun, over = threading.Event(), threading.Event()

    def repeat() -> None:
        while not over.is_set():
            work()
            begun.set()

    with ThreadPoolExecutor() as threads:
        other = threads.submit(repeat)
        begun.wait()
        try:
            yield
        finally:
            over.set()
        other.result()


def test_a_cluster_is_deleted_while_a_command_saves_its_session(tmp_path: Path) -> None:
    for number in range(50):
        folder = tmp_path / str(number)
        client = folder / "client"
        client.mkdir(parents=True)
        for name in "abcdefghij":
            (client / name).touch()
        with meanwhile(lambda client=client: save_session(client, "key", Session("s" * 32, bytes(32)))):
            local._remove_tree(folder)
        assert not folder.exists()


def test_a_cluster_that_is_deleted_at_this_moment_does_not_exist(tmp_path: Path) -> None:
    config = cluster_config(tmp_path)
    config = replace(config, master=replace(config.master, own_node=config.node.name))

    def delete_and_create() -> None:
        config.path.unlink()
        config.save()

    with meanwhile(delete_and_create):
        assert all(layout.existing(tmp_path) in (None, config) for _ in range(2000))


def test_a_folder_of_the_share_is_listed_and_removed_while_tasks_use_it(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "set"
    folder.mkdir(parents=True)
    (folder / "stays").touch()

    def make_and_remove() -> None:
        for name in ("x", "y", "z"):
            try:
                (folder / name).touch()
                (folder / name).unlink()
            except FileNotFoundError:
                return

    with meanwhile(make_and_remove):
        for _ in range(500):
            names = [entry.name for entry in carry_out(tmp_path, ListFiles("data/set"))]  # type: ignore[attr-defined]
            assert "stays" in names
        for _ in range(100):
            (folder / "deep").mkdir(parents=True, exist_ok=True)
            carry_out(tmp_path, RemoveFiles("data/set", recursive=True))
            assert not folder.exists()


def test_how_the_files_of_a_cluster_are_reached_can_be_read_while_it_changes(tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    for_both = FilesAccess("host", 22, "grass", "key", "known_hosts")
    for_both.save(tmp_path / "client")
    with meanwhile(lambda: for_both.save(tmp_path / "client")):
        for _ in range(1000):
            assert FILES_ACCESS.decode((tmp_path / "client" / PROFILE).read_bytes()) == for_both


def test_two_commands_deselect_a_cluster_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRASS_HOME", str(tmp_path))
    with meanwhile(lambda: deselect_cluster("mine")):
        for _ in range(200):
            select_cluster("mine")
            deselect_cluster("mine")
    assert not list(tmp_path.iterdir())


def test_a_node_that_is_removed_within_a_tick_of_the_clock_after_another_is_refused(tmp_path: Path) -> None:
    config = cluster_config(tmp_path)
    path, seen = config.node_dir / "revoked.json", revoked_nodes.Revoked(config)
    assert not seen.refuses(node_identity(config.name, "n1"), 50.0)
    for node in ("n1", "n2"):
        revoked_nodes.add(config, {node: clock.wall()})
        os.utime(path, (1e9, 1e9))
        assert seen.refuses(node_identity(config.name, node), 50.0)


def test_a_command_of_a_killed_server_is_ended_also_when_another_process_has_the_servers_pid(tmp_path: Path) -> None:
    config = cluster_config(tmp_path)
    sleeps = subprocess.Popen(["sleep", "60"], start_new_session=True)
    task_commands.note(config, "one", "j-1/c.0/1", sleeps.pid)
    [command] = task_commands.running(config)
    assert (command.server, command.pid) == (os.getpid(), sleeps.pid)
    task_commands.end_abandoned(config)
    assert sleeps.poll() is None and task_commands.running(config)
    earlier = msgspec.structs.replace(command, served_since=command.served_since - 1)
    (tmp_path / "commands" / "one").write_text(encode(earlier))
    assert not task_commands.running(config)
    task_commands.end_abandoned(config)
    assert sleeps.wait(10) == -signal.SIGKILL and not list((tmp_path / "commands").iterdir())


def test_a_folder_that_cannot_be_removed_is_an_error(tmp_path: Path) -> None:
    remove_tree(tmp_path / "none")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    (tmp_path / "there").mkdir()
    with pytest.raises(OSError, match="symbolic link"):
        remove_tree(tmp_path / "link")
    assert os.listdir(tmp_path / "there") == [] and (tmp_path / "link").is_symlink()
