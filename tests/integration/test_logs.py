"""Logs from a task's file to the reader, through the real shipper and the real collector in its own process."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgpack
import pytest

from grass.node_config import NodeConfig, NodeHome
from master.api.logs import Follower, LogLine
from node.agent.log_source import TRUNCATED
from node.agent.shipper import Shipper

JOB = "digits-0123abcd"
DEADLINE = 30.0


def until(condition: Callable[[], object], what: str, seconds: float = DEADLINE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.005)


class Cluster:
    """A folder, a collector that can be killed, a shipper that can be replaced."""

    def __init__(self, home: Path) -> None:
        self.config = NodeHome("test", "local", str(home), str(home), node=NodeConfig())
        self.config.save()
        self.completed: set[str] = set()
        self.changed = threading.Condition()
        self.collector: subprocess.Popen[bytes] | None = None
        self.shipper: Shipper | None = None

    def start_collector(self) -> None:
        command = [sys.executable, "-m", "master.collector", str(self.config.path)]
        with (self.config.path.parent / "collector.log").open("ab") as log:
            self.collector = subprocess.Popen(command, stderr=log)
        until(self.listening, "collector listens")

    def listening(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.config.socket("collector"))) == 0

    def kill_collector(self, number: int = signal.SIGKILL) -> None:
        assert self.collector is not None
        self.collector.send_signal(number)
        self.collector.wait(DEADLINE)

    def start_shipper(self) -> Shipper:
        self.shipper = Shipper(self.config, on_complete=self._complete)
        self.shipper.start()
        return self.shipper

    def _complete(self, key: str) -> None:
        with self.changed:
            self.completed.add(key)
            self.changed.notify_all()

    def wait_complete(self, *keys: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.completed.issuperset(keys), DEADLINE), "log is not complete"

    def folder(self, key: str) -> Path:
        folder = self.config.node_dir / "attempts" / key
        folder.mkdir(parents=True)
        return folder

    def ship(self, key: str, stdout: bytes, stderr: bytes = b"") -> None:
        """All of a task's life at once."""
        assert self.shipper is not None
        folder = self.folder(key)
        (folder / "stdout").write_bytes(stdout)
        (folder / "stderr").write_bytes(stderr)
        self.shipper.follow(key, folder)
        self.shipper.ship_to_end(key, {"stdout": len(stdout), "stderr": len(stderr)})

    def lines(self, **choice: object) -> list[LogLine]:
        return list(Follower(self.config.logs_dir, JOB, **choice).drain())  # type: ignore[arg-type]

    def printed(self, stream: str = "stdout", **choice: object) -> bytes:
        return b"".join(
            line.text.encode("utf-8", "surrogateescape") + (b"\n" if line.newline else b"")
            for line in self.lines(**choice)
            if line.stream == stream
        )

    def peak(self) -> int:
        """Peak resident MiB of the collector."""
        assert self.collector is not None
        status = Path(f"/proc/{self.collector.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) // 1024

    def close(self) -> None:
        if self.shipper is not None:
            self.shipper.stop()
        if self.collector is not None and self.collector.poll() is None:
            self.kill_collector(signal.SIGTERM)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    cluster.start_collector()
    cluster.start_shipper()
    yield cluster
    cluster.close()


def attempt(index: int = 0, number: int = 1) -> str:
    return f"{JOB}/worker.{index}/{number}"


@pytest.mark.alone
def test_a_line_appears_within_a_second_even_after_a_long_silence_before_it(cluster: Cluster):
    folder = cluster.folder(attempt())
    cluster.shipper.follow(attempt(), folder)
    follower = Follower(cluster.config.logs_dir, JOB)
    waits = []
    with (folder / "stdout").open("ab", buffering=0) as file:
        for text in (b"one\n", b"two\n", b"no newline yet"):
            start = time.monotonic()
            file.write(text)
            lines: list[LogLine] = []
            if text.endswith(b"\n"):
                until(lambda lines=lines: lines.extend(follower.poll()) or lines, "line appears", 1.0)
            else:
                until(lambda: cluster.lines()[-1].text == "no newline yet", "half a line appears", 1.2)
            waits.append(time.monotonic() - start)
    print(f"a line appears after {[f'{wait * 1000:.0f} ms' for wait in waits]}")


def test_what_a_task_printed_arrives_byte_by_byte(cluster: Cluster):
    garbage = random.Random(1).randbytes(300_000)
    outputs = {
        0: b"plain\nlines\n",
        1: b"no newline at the end",
        2: garbage,
        3: b"x" * 10_000_000 + b"\nafter a line of 10 MB\n",
        4: "naïve ☃ 😀\r\n".encode() * 30_000,
        5: b"\n\n\x00\x1b[31mred\x1b[0m\n" + bytes(200_000),
        6: "ä".encode() * 100_000 + b"\xc3",
        7: b"",
    }
    for index, output in outputs.items():
        cluster.ship(attempt(index), output, output[::-1])
    cluster.wait_complete(*(attempt(index) for index in outputs))
    for index, output in outputs.items():
        assert cluster.printed(component="worker", index=index) == output
        assert cluster.printed("stderr", component="worker", index=index) == output[::-1]
    assert cluster.lines(component="worker", index=1)[0].newline is False
    follower = Follower(cluster.config.logs_dir, JOB)
    while follower.poll():
        pass
    for index, output in outputs.items():
        assert follower.reached(f"worker.{index}", 1, {"stdout": len(output), "stderr": len(output)})


def test_only_what_lies_within_the_final_sizes_is_shipped(cluster: Cluster):
    folder = cluster.folder(attempt())
    (folder / "stdout").write_bytes(b"mine\nof a process that got away\n")
    cluster.shipper.follow(attempt(), folder)
    cluster.shipper.ship_to_end(attempt(), {"stdout": 5, "stderr": 1000})
    cluster.wait_complete(attempt())
    assert cluster.shipper.complete(attempt())
    cluster.shipper.forget(attempt())
    assert not cluster.shipper.complete(attempt())


LOST = TRUNCATED.decode().rstrip("\n")


def told(cluster: Cluster) -> list[str]:
    return [line.text for line in cluster.lines()]


def test_what_a_task_prints_after_it_truncated_its_output_is_neither_torn_nor_waited_for(cluster: Cluster):
    folder = cluster.folder(attempt())
    cluster.shipper.follow(attempt(), folder)
    (folder / "stdout").write_text("a long line\nanother\n")
    until(lambda: told(cluster) == ["a long line", "another"], "the first lines appear")
    (folder / "stdout").write_text("b\n")
    until(lambda: told(cluster)[2:] == [LOST, "b"], "what came after a truncation appears")
    (folder / "stdout").write_text("c and more\n")
    until(lambda: told(cluster)[4:] == [LOST, "c and more"], "a file that is longer than before is seen to be another")
    (folder / "stdout").write_text("d and less\n")
    until(lambda: told(cluster)[6:] == [LOST, "d and less"], "so is one of the same length")
    (folder / "stdout").write_text("end")
    (folder / "stderr").touch()
    sizes = cluster.shipper.ship_to_end(attempt(), {"stdout": 3, "stderr": 0})
    cluster.wait_complete(attempt())
    assert told(cluster)[8:] == [LOST, "end"]
    follower = Follower(cluster.config.logs_dir, JOB)
    while follower.poll():
        pass
    assert follower.reached("worker.0", 1, sizes)
    assert not follower.reached("worker.0", 1, {**sizes, "stdout": sizes["stdout"] + 1})


def test_a_line_that_was_shipped_half_is_ended_before_what_follows_a_truncation(cluster: Cluster):
    folder = cluster.folder(attempt())
    cluster.shipper.follow(attempt(), folder)
    (folder / "stdout").write_text("50 %")
    until(lambda: told(cluster) == ["50 %"], "half a line appears")
    (folder / "stdout").write_text("")
    cluster.shipper.ship_to_end(attempt(), {"stdout": 0, "stderr": 0})
    cluster.wait_complete(attempt())
    assert told(cluster) == ["50 %", LOST]


@pytest.mark.parametrize("killed", [False, True])
def test_a_shipper_after_one_that_saw_a_truncation_goes_on_in_the_right_place(cluster: Cluster, killed: bool):
    folder = cluster.folder(attempt())
    cluster.shipper.follow(attempt(), folder)
    (folder / "stdout").write_text("one\ntwo\nthree\n")
    until(lambda: len(told(cluster)) == 3, "the first lines appear")
    (folder / "stdout").write_text("four\n")
    until(lambda: told(cluster)[3:] == [LOST, "four"], "what came after a truncation appears")
    stored = (folder / "shipped").read_bytes()
    cluster.shipper.stop()
    if killed:
        (folder / "shipped").write_bytes(stored)
    with (folder / "stdout").open("a") as file:
        file.write("five\n")
    cluster.start_shipper().follow(attempt(), folder)
    until(lambda: told(cluster)[5:] == ["five"], "the next line appears")
    (folder / "stdout").write_text("six and all that\n")
    until(lambda: told(cluster)[6:] == [LOST, "six and all that"], "what came after the next truncation appears")
    cluster.shipper.ship_to_end(attempt(), {"stdout": len("six and all that\n"), "stderr": 0})
    cluster.wait_complete(attempt())
    assert told(cluster) == ["one", "two", "three", LOST, "four", "five", LOST, "six and all that"]


def write_until(stop: threading.Event, folder: Path) -> bytes:
    """Lines, 2 MB a second, in pieces that end anywhere."""
    written, number = bytearray(), itertools.count()
    with (folder / "stdout").open("ab", buffering=0) as file:
        while not stop.wait(0.01):
            piece = b"".join(b"%09d some text\n" % next(number) for _ in range(1_000))
            file.write(piece[:12_345])
            file.write(piece[12_345:])
            written += piece
    return bytes(written)


def test_killing_the_collector_again_and_again_neither_loses_nor_repeats(cluster: Cluster):
    folder = cluster.folder(attempt())
    cluster.shipper.follow(attempt(), folder)
    stop, result = threading.Event(), []
    writer = threading.Thread(target=lambda: result.append(write_until(stop, folder)))
    writer.start()
    log = cluster.config.logs_dir / JOB / "worker.0.jsonl"
    for _ in range(4):
        size = log.stat().st_size if log.exists() else 0
        until(lambda size=size: log.exists() and log.stat().st_size > size, "log grows")
        cluster.kill_collector()
        cluster.start_collector()
    stop.set()
    writer.join()
    cluster.shipper.ship_to_end(attempt(), {"stdout": len(result[0]), "stderr": 0})
    cluster.wait_complete(attempt())
    assert cluster.printed() == result[0]


def test_a_torn_last_line_is_cut_off_and_written_again(cluster: Cluster):
    cluster.ship(attempt(), b"first\n")
    cluster.wait_complete(attempt())
    cluster.kill_collector()
    with (cluster.config.logs_dir / JOB / "worker.0.jsonl").open("ab") as file:
        file.write(b'{"attempt":2,"stream":"stdout","offset":0,"time":1.0,"text":"se')
    cluster.start_collector()
    cluster.ship(attempt(number=2), b"second\n")
    cluster.wait_complete(attempt(number=2))
    assert [(line.attempt, line.text) for line in cluster.lines()] == [(1, "first"), (2, "second")]


def test_another_shipper_goes_on_where_the_first_stopped(cluster: Cluster):
    folder = cluster.folder(attempt())
    stop, result = threading.Event(), []
    writer = threading.Thread(target=lambda: result.append(write_until(stop, folder)))
    cluster.shipper.follow(attempt(), folder)
    writer.start()
    log = cluster.config.logs_dir / JOB / "worker.0.jsonl"
    for _ in range(4):
        size = log.stat().st_size if log.exists() else 0
        until(lambda size=size: log.exists() and log.stat().st_size > size, "log grows")
        cluster.shipper.stop()
        cluster.start_shipper().follow(attempt(), folder)
    stop.set()
    writer.join()
    cluster.shipper.ship_to_end(attempt(), {"stdout": len(result[0]), "stderr": 0})
    cluster.wait_complete(attempt())
    assert cluster.printed() == result[0]


def test_a_shipper_that_remembers_nothing_sends_all_again_and_the_collector_drops_it(cluster: Cluster):
    output = b"once\n" * 100_000
    cluster.ship(attempt(), output, b"warning\n")
    cluster.wait_complete(attempt())
    stored = (cluster.config.logs_dir / JOB / "worker.0.jsonl").stat().st_size
    cluster.shipper.stop()
    folder = cluster.config.node_dir / "attempts" / attempt()
    (folder / "shipped").write_text("not json")
    cluster.kill_collector()
    cluster.start_collector()
    cluster.completed.clear()
    cluster.start_shipper().follow(attempt(), folder)
    cluster.shipper.ship_to_end(attempt(), {"stdout": len(output), "stderr": 8})
    cluster.wait_complete(attempt())
    assert (cluster.config.logs_dir / JOB / "worker.0.jsonl").stat().st_size == stored


def test_a_collector_that_is_away_is_waited_for_without_burning_the_processor(cluster: Cluster):
    cluster.kill_collector()
    cluster.ship(attempt(), b"patience\n")
    used = time.pthread_getcpuclockid(cluster.shipper._thread.ident)
    before = time.clock_gettime(used)
    threading.Event().wait(0.5)  # measured over: what the shipper does while there is nobody to talk to
    assert time.clock_gettime(used) - before < 0.2
    assert not cluster.shipper.complete(attempt())
    cluster.start_collector()
    cluster.wait_complete(attempt())
    assert cluster.printed() == b"patience\n"


def test_a_hundred_megabytes_neither_stall_nor_eat_the_memory(cluster: Cluster):
    chunk = b"".join(b"%019d and some text to make a line\n" % n for n in range(20_000))
    folder = cluster.folder(attempt())
    size = 0
    with (folder / "stdout").open("wb") as file:
        while size < 100_000_000:
            size += file.write(chunk)
    (folder / "stderr").touch()
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    cluster.shipper.follow(attempt(), folder)
    cluster.shipper.ship_to_end(attempt(), {"stdout": size, "stderr": 0})
    cluster.ship(attempt(1), b"a quiet neighbour\n")
    cluster.wait_complete(attempt(1))
    neighbour = time.monotonic() - start
    cluster.wait_complete(attempt())
    shipped = time.monotonic() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - own) // 1024
    start = time.monotonic()
    last = cluster.lines(tail=5, component="worker", index=0)
    tailed = time.monotonic() - start
    start = time.monotonic()
    count = sum(1 for _ in Follower(cluster.config.logs_dir, JOB, component="worker", index=0).drain())
    read = time.monotonic() - start
    print(
        f"100 MB shipped in {shipped:.2f} s (its neighbour after {neighbour:.2f} s), read in {read:.2f} s,"
        f" tail in {tailed * 1000:.0f} ms; peak: collector {cluster.peak()} MiB, shipper +{grown} MiB"
    )
    assert count == size // len(chunk) * 20_000
    assert last[-1].text.encode() + b"\n" == chunk[-len(last[-1].text) - 1 :]
    assert cluster.peak() < 80
    assert grown < 40


def test_two_thousand_tasks_with_a_line_each(cluster: Cluster):
    keys = [attempt(index) for index in range(2000)]
    for key in keys:
        folder = cluster.folder(key)
        (folder / "stdout").write_bytes(key.encode() + b"\n")
        cluster.shipper.follow(key, folder)
    start, cpu = time.monotonic(), time.process_time()
    for key in keys:
        cluster.shipper.ship_to_end(key, {"stdout": len(key) + 1, "stderr": 0})
    cluster.wait_complete(*keys)
    print(
        f"2,000 tasks shipped {time.monotonic() - start:.2f} s after their end, cpu {time.process_time() - cpu:.2f} s"
    )
    assert sorted(line.text for line in cluster.lines()) == sorted(keys)
    assert len(cluster.lines(tail=10)) == 10


def test_a_job_folder_that_is_deleted_while_the_job_runs_is_made_again(cluster: Cluster):
    cluster.ship(attempt(), b"before\n")
    cluster.wait_complete(attempt())
    for path in (cluster.config.logs_dir / JOB).iterdir():
        path.unlink()
    (cluster.config.logs_dir / JOB).rmdir()
    cluster.ship(attempt(number=2), b"after\n")
    cluster.wait_complete(attempt(number=2))
    assert cluster.printed() == b"after\n"


def hostile() -> Iterator[bytes]:
    dice = random.Random(7)
    for size in (1, 10, 1000, 100_000):
        yield dice.randbytes(size)
    yield from (
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff" + bytes(1000),
        b"\x91" * 10_000,
        b"\xdc\x20\x00" * 5000,
    )
    record = {"attempt": 1, "stream": "stdout", "offset": 0, "time": 1.0, "text": "pwned\n"}
    for tag in (
        "grass.../../../x-0123abcd.w.0",
        "grass.a-0123abcd./tmp/x.0",
        "grass..-0123abcd.w.0",
        "\x00",
        "",
        "grass",
    ):
        yield msgpack.packb([tag, 1, record, {"chunk": "a"}])
    for change in ({"stream": "../../x"}, {"attempt": "../x"}, {"offset": 2**63}, {"text": 5}, {"time": "x"}):
        yield msgpack.packb([f"grass.{JOB}.worker.9", 1, {**record, **change}])


def test_hostile_bytes_cost_their_sender_the_connection_and_nobody_else_anything(cluster: Cluster, tmp_path: Path):
    path = str(cluster.config.socket("collector"))
    open_ones = []
    for data in itertools.chain(hostile(), hostile()):
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(data)
        open_ones.append(client)
    cluster.ship(attempt(), b"still here\n")
    cluster.wait_complete(attempt())
    for client in open_ones:
        client.close()
    assert cluster.collector.poll() is None
    assert cluster.printed() == b"still here\n"
    assert os.listdir(cluster.config.logs_dir) == [JOB]
    assert os.listdir(cluster.config.logs_dir / JOB) == ["worker.0.jsonl"]
    assert cluster.peak() < 100


def test_a_second_collector_leaves_the_first_its_socket(cluster: Cluster):
    command = [sys.executable, "-m", "master.collector", str(cluster.config.path)]
    second = subprocess.run(command, capture_output=True, timeout=DEADLINE, check=False)
    assert second.returncode == 1
    assert b"runs already" in second.stderr
    cluster.ship(attempt(), b"still here\n")
    cluster.wait_complete(attempt())
