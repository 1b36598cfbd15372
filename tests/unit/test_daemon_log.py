"""The logs of daemons: sending them without ever waiting, and the collector's journal."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grass.api.daemon_log import Shipping
from grass.wire.daemon_line import LONGEST, DaemonLine, tag_of
from master.api.daemon_logs import Wanted, _new, tail
from master.collector.journal import BURST, Journal, OwnLog, Source, segments
from master.collector.server import Connection, Dropped
from master.collector.storage import Storage
from tests.support.collector_run import Connections
from tests.support.waiting import wait_until

ALL = Wanted(None, None, 0.0)
MASTER = Source(None, "master-agent")


@contextmanager
def collector(folder: Path) -> Iterator[None]:
    """Serve the collector's socket, as on the master's machine."""
    loop, storage, journal = asyncio.new_event_loop(), Storage(folder / "logs"), Journal(folder / "daemon-logs")
    connections = Connections(lambda: Connection(storage, Dropped(), journal))
    server = loop.run_until_complete(loop.create_unix_server(connections.make, str(folder / "collector.sock")))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    connections.close()
    server.close()
    (folder / "collector.sock").unlink()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def record(text: str, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("grass.test", level, __file__, 1, text, None, None)


def texts(folder: Path, wanted: Wanted = ALL) -> list[str]:
    return [line.text for line in tail(folder / "daemon-logs", wanted, 1000)[0]]


def entry(text: str, level: str = "INFO", time: float = 1.0) -> dict[str, object]:
    return {"time": time, "level": level, "text": text}


def test_what_a_daemon_logs_arrives_with_its_level_and_traceback(tmp_path: Path) -> None:
    with collector(tmp_path):
        shipping = Shipping(tag_of(None, "master-agent"), str(tmp_path / "collector.sock"))
        shipping.emit(record("it runs"))
        try:
            raise ValueError("bad")
        except ValueError as error:
            failed = record("it failed", logging.ERROR)
            failed.exc_info = (ValueError, error, error.__traceback__)
        shipping.emit(failed)
        shipping.emit(record("x" * (LONGEST + 1)))
        wait_until(lambda: len(texts(tmp_path)) == 3)
        shipping.close()
    first, second, third = tail(tmp_path / "daemon-logs", ALL, 9)[0]
    assert (first.node, first.daemon, first.level, first.text) == (None, "master-agent", "INFO", "it runs")
    assert second.level == "ERROR" and second.text.startswith("it failed\nTraceback") and "bad" in second.text
    assert len(third.text) == LONGEST


def test_a_daemon_does_not_wait_for_a_collector_that_is_away_and_says_what_it_dropped(tmp_path: Path) -> None:
    shipping = Shipping(tag_of(None, "monitor"), str(tmp_path / "collector.sock"), most=10)
    for number in range(100):
        shipping.emit(record(f"entry {number}"))
    assert 88 <= shipping.dropped <= 90  # the thread may have one in its hands
    with collector(tmp_path):
        wait_until(lambda: any("were dropped" in text for text in texts(tmp_path)))
        assert "entry 0" in texts(tmp_path) and "entry 99" not in texts(tmp_path)
        shipping.emit(record("it is back"))
        wait_until(lambda: "it is back" in texts(tmp_path))
        shipping.close()


def test_a_daemon_ends_though_the_collector_never_came(tmp_path: Path) -> None:
    shipping = Shipping(tag_of(None, "monitor"), str(tmp_path / "collector.sock"))
    shipping.emit(record("nobody reads this"))
    shipping.close()
    wait_until(lambda: not any(thread.name == "daemon-log" for thread in threading.enumerate()))


def test_an_argument_that_cannot_be_shown_does_not_reach_the_daemon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Bad:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    shipping = Shipping(tag_of(None, "monitor"), str(tmp_path / "collector.sock"))
    shipping.emit(logging.LogRecord("grass.test", logging.INFO, __file__, 1, "%s", (Bad(),), None))
    shipping.close()
    assert "no text" in capsys.readouterr().err


def test_the_journal_keeps_the_newest_segments(tmp_path: Path) -> None:
    journal = Journal(tmp_path, segment=1000, segments=3)
    for number in range(100):
        assert journal.append(MASTER, [entry(f"{number:0100d}")]) == 0
    assert len(segments(tmp_path)) == 3
    assert sum(path.stat().st_size for path in segments(tmp_path)) < 4000
    kept = [int(line.text) for line in tail(tmp_path, ALL, 1000)[0]]
    assert kept == list(range(kept[0], 100)) and len(kept) > 10


def test_a_reader_continues_behind_what_it_has_across_segments(tmp_path: Path) -> None:
    journal = Journal(tmp_path, segment=300, segments=100)
    journal.append(MASTER, [entry("first")])
    lines, after = tail(tmp_path, ALL, 0)
    assert lines == []
    for number in range(10):
        journal.append(MASTER, [entry(str(number))])
    found: list[DaemonLine] = []
    for lines, end in _new(tmp_path, ALL, after):
        found += lines
        after = end
    assert [line.text for line in found] == [str(number) for number in range(10)]
    assert list(_new(tmp_path, ALL, after)) == []


def test_an_incomplete_line_costs_only_itself(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(MASTER, [entry("before")])
    with segments(tmp_path)[0].open("ab") as file:
        file.write(b'{"time": 1.0, "no')
    journal.append(MASTER, [entry("after")])
    assert [line.text for line in tail(tmp_path, ALL, 9)[0]] == ["before", "after"]


def test_entries_are_selected_by_daemon_node_and_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(MASTER, [entry("m", time=5.0)])
    journal.append(Source("n1", "node-agent"), [entry("old", time=1.0), entry("new", time=9.0)])
    chosen = [("node-agent", None, 0.0), (None, "n1", 2.0), (None, None, 4.0), (None, "n2", 0.0)]
    found = [[line.text for line in tail(tmp_path, Wanted(*each), 9)[0]] for each in chosen]
    assert found == [["old", "new"], ["new"], ["m", "new"], []]


def test_malformed_entries_are_counted_and_not_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    bad = [None, 5, {}, entry("x", level="\x1b[31m"), entry("x", time=float("nan")), {**entry("x"), "text": 5}]
    assert journal.append(MASTER, bad) == len(bad)
    assert segments(tmp_path) == []


def test_a_node_cannot_soon_push_out_what_others_logged(tmp_path: Path) -> None:
    now = 0.0
    journal, node = Journal(tmp_path, now=lambda: now), Source("n1", "node-agent")
    flood = [entry("x" * 9_900)] * 1000
    dropped = journal.append(node, flood)
    assert dropped == 1000 - BURST // 10_000
    assert journal.append(Source("n2", "node-agent"), [entry("of another node")]) == 0
    now = 10.0
    assert journal.append(node, flood) == 1000 - 33  # 10 s of the rate, and what was left


@pytest.mark.parametrize(
    "tag",
    [
        "grass-daemon.n1.bash",
        "grass-daemon..monitor",
        "grass-daemon.../x.monitor",
        "grass-daemon._n1.node-agent",
        "grass-daemon.n1-.node-agent",
        f"grass-daemon.{'n' * 64}.node-agent",
        "grass.a.b.0",
    ],
)
def test_a_tag_that_names_no_daemon_is_none(tag: str) -> None:
    assert Source.of_tag(tag) is None


def test_a_tag_names_node_and_daemon() -> None:
    assert Source.of_tag(tag_of("n1.example", "node-agent")) == Source("n1.example", "node-agent")
    assert Source.of_tag(tag_of(None, "monitor")) == Source(None, "monitor")


def test_the_collector_logs_into_its_own_journal(tmp_path: Path) -> None:
    OwnLog(Journal(tmp_path / "daemon-logs")).emit(record("it listens"))
    assert texts(tmp_path, Wanted("collector", None, 0.0)) == ["it listens"]
