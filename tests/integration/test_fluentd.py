"""A real fluentd in the collector's place, with Grass's configuration, between the real shipper and the real reader."""

from __future__ import annotations

import json
import random
import shutil
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest

from grass import tls
from grass.node_config import NodeConfig, NodeHome
from grass.tls_files import MASTER, identity
from master.api.logs import Follower
from node.agent.shipper import Shipper
from tests.support.certificates import answer, client_of, cluster_files
from tests.support.fluentd import Fluentd, unpacked
from tests.support.waiting import wait_until

JOB = "digits-0123abcd"
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("fluentd"))


class Run:
    """fluentd, and one node's shipper of what tasks print."""

    def __init__(self, release: Path, home: Path) -> None:
        (home / "fluentd").mkdir()
        config = NodeHome("test", "local", str(home), str(home), node=NodeConfig())
        self.files = cluster_files(home / "certificates", "test", "n1")
        self.fluentd = Fluentd(release, home / "fluentd", config.logs_dir, self.files.master)
        shutil.copytree(self.files.nodes["n1"].folder, home / "tls")
        self.config = replace(config, collector=self.fluentd.address, collector_asks=False, tls=True)
        self.fluentd.start()
        self._completed: set[str] = set()
        self._changed = threading.Condition()
        self.shipper = Shipper(self.config, on_complete=self._complete)
        self.shipper.start()

    def _complete(self, key: str) -> None:
        with self._changed:
            self._completed.add(key)
            self._changed.notify_all()

    def task(self, index: int) -> Path:
        """The folder of what it prints, which is shipped from now on."""
        folder = self.config.node_dir / "attempts" / self.key(index)
        folder.mkdir(parents=True)
        for stream in ("stdout", "stderr"):
            (folder / stream).touch()
        self.shipper.follow(self.key(index), folder)
        return folder

    def key(self, index: int) -> str:
        return f"{JOB}/worker.{index}/1"

    def ended(self, index: int, folder: Path) -> None:
        """All of it has been acknowledged when this returns."""
        sizes = {stream: (folder / stream).stat().st_size for stream in ("stdout", "stderr")}
        self.shipper.ship_to_end(self.key(index), sizes)
        with self._changed:
            assert self._changed.wait_for(lambda: self.key(index) in self._completed, 60), self.fluentd.log.read_text()

    def printed(self, index: int, stream: str = "stdout") -> bytes:
        """As a user reads it."""
        lines = Follower(self.config.logs_dir, JOB, component="worker", index=index).drain()
        return b"".join(
            line.text.encode("utf-8", "surrogateescape") + b"\n" * line.newline
            for line in lines
            if line.stream == stream
        )

    def end(self) -> None:
        self.shipper.stop()
        self.fluentd.end()


@pytest.fixture
def run(release: Path, tmp_path: Path) -> Iterator[Run]:
    run = Run(release, tmp_path)
    try:
        yield run
    finally:
        run.end()


def test_what_tasks_print_is_in_the_files_that_the_reader_knows_byte_by_byte(run: Run) -> None:
    outputs = {
        0: b"plain\nlines\n",
        1: b"no newline at the end",
        2: random.Random(1).randbytes(300_000),
        3: "naïve ☃ 😀\r\n".encode() * 3_000,
        4: b"",
    }
    for index, output in outputs.items():
        folder = run.task(index)
        (folder / "stdout").write_bytes(output)
        (folder / "stderr").write_bytes(output[::-1])
        run.ended(index, folder)
    for index, output in outputs.items():
        wait_until(lambda: run.printed(index) == output, 10, f"the output of {index}")  # noqa: B023
        wait_until(lambda: run.printed(index, "stderr") == output[::-1], 10, f"the errors of {index}")  # noqa: B023
    files = sorted(path.relative_to(run.config.logs_dir) for path in run.config.logs_dir.rglob("*") if path.is_file())
    assert files == [Path(JOB, f"worker.{index}.jsonl") for index in (0, 1, 2, 3)]


def test_killing_fluentd_again_and_again_neither_loses_nor_repeats_a_line(run: Run) -> None:
    folder = run.task(0)
    wanted = b""
    with (folder / "stdout").open("ab", buffering=0) as file:
        for kill in range(3):
            for number in range(2_000):
                wanted += b"line %d of %d\n" % (number, kill)
            file.write(wanted[file.tell() :])
            wait_until(lambda: run.printed(0), 20, "a first line")
            run.fluentd.end(signal.SIGKILL)
            run.fluentd.start()
    run.ended(0, folder)
    wait_until(lambda: len(run.printed(0)) >= len(wanted), 20, "the last line")
    assert run.printed(0) == wanted


def test_who_has_no_certificate_of_the_cluster_sends_nothing_also_after_fluentd_was_killed(
    run: Run, tmp_path: Path
) -> None:
    """It is killed while it takes a record, and starts with a renewed certificate."""
    foreign = cluster_files(tmp_path / "foreign", "test", "n1").nodes["n1"]
    expired = run.files.add(tmp_path / "expired", "n1", days=40)
    host, _, port = run.fluentd.address.rpartition(":")
    where, record = (host, int(port)), {"attempt": 1, "stream": "stdout", "offset": 0, "time": 1.0, "data": "eA=="}
    forged = msgpack.packb([f"grass.{JOB}.x.0", [[1, record]], {"chunk": "c1"}])
    known = Path(run.config.logs_dir, JOB, "x.0.jsonl")

    def attack() -> None:
        old = client_of(run.config.tls_files, ssl.TLSVersion.TLSv1_2)
        for client in (None, old, client_of(None), client_of(foreign), client_of(expired)):
            assert "c1" not in answer(where, client, forged)
        with pytest.raises(OSError, match="certificate verify failed"):
            tls.wrap(socket.create_connection(where, 10), foreign, identity("test", MASTER))
        assert not known.exists()

    attack()
    with tls.wrap(socket.create_connection(where, 10), run.config.tls_files, identity("test", MASTER)) as peer:
        peer.sendall(forged[:-8])
        run.fluentd.end(signal.SIGKILL)
    run.files.renew_master(days=0)
    run.fluentd.start()
    attack()
    own = tls.wrap(socket.create_connection(where, 10), run.config.tls_files, identity("test", MASTER))
    with own as peer:  # so that the attacks could succeed
        peer.sendall(forged)
        assert msgpack.unpackb(peer.recv(1000)) == {"ack": "c1"}


@pytest.mark.parametrize(
    "tag",
    ["grass...x.0", "grass.a-0123abcd.../../x.0", "grass.a-0123abcd./tmp/x.0", "grass.a-0123abcd.x.-1", "other.a"],
)
def test_a_name_that_leads_out_of_the_log_folder_is_written_nowhere(run: Run, tag: str) -> None:
    host, _, port = run.fluentd.address.rpartition(":")
    record = {"attempt": 1, "stream": "stdout", "offset": 0, "time": 1.0, "data": "eA=="}
    plain = socket.create_connection((host, int(port)), 10)
    with tls.wrap(plain, run.config.tls_files, identity("test", MASTER)) as peer:
        peer.sendall(msgpack.packb([tag, [[1, record]], {"chunk": "c1"}]))
        assert msgpack.unpackb(peer.recv(1000)) == {"ack": "c1"}
    folder = run.task(0)
    (folder / "stdout").write_bytes(b"after it\n")
    run.ended(0, folder)
    wait_until(lambda: run.printed(0) == b"after it\n", 10, "what was sent after it")
    known = Path(run.config.logs_dir, JOB, "worker.0.jsonl")
    assert [path for path in run.config.logs_dir.rglob("*") if path.is_file()] == [known]
    assert all(json.loads(line)["job_id"] == JOB for line in known.read_text().splitlines())
