"""Logs through the API: once, followed, resumed. The files are written as the collector writes them."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from grass.api.client_views import LogLine
from grass.api.transport import Body, PlainData, StreamCutError, Transport
from grass.errors import InputError, NotAllowedError, NotFoundError
from grass.system.clock import wall
from grass.wire import codec
from grass.wire.codec import encode as pack
from grass.wire.task_record import TaskRecord
from master.api import log_stream
from tests.support.api_world import ApiWorld, api_world
from tests.support.waiting import wait_until

JOB = {"name": "j", "components": {"w": {"command": "true", "replicas": 2}, "v": {"command": "true"}}}


class Logs:
    """The log files of one job. ``print_`` appends a block, as the collector does."""

    def __init__(self, world: ApiWorld, job_id: str) -> None:
        self.world = world
        self.job_id = job_id
        self.sizes: dict[tuple[str, int, str], int] = {}
        self.clock = 0.0

    def print_(self, task: str, text: str, *, attempt: int = 1, stream: str = "stdout") -> None:
        folder = self.world.config.logs_dir / self.job_id
        folder.mkdir(parents=True, exist_ok=True)
        key = (task, attempt, stream)
        self.clock += 1.0
        place = {
            "attempt": attempt,
            "stream": stream,
            "offset": self.sizes.get(key, 0),
            "time": self.clock,
            "text": text,
        }
        self.sizes[key] = self.sizes.get(key, 0) + len(text.encode())
        with (folder / f"{task}.jsonl").open("a") as file:
            file.write(pack(place) + "\n")

    def end_task(self, task: str, *, attempt: int = 1, **more: int) -> None:
        sizes = {stream: self.sizes.get((task, attempt, stream), 0) for stream in ("stdout", "stderr")}
        self.set_task(task, {"state": "SUCCEEDED", "attempt": attempt, "sizes": {**sizes, **more}})

    def set_task(self, task: str, values: dict[str, Any]) -> None:
        record = codec.Form[TaskRecord](TaskRecord).convert(list({**structs.asdict(TaskRecord()), **values}.values()))
        keys = self.world.keys
        self.world.backend.apply([("HSET", keys.tasks(self.job_id), task, pack(record))])


@pytest.fixture
def logs(world: ApiWorld) -> Logs:
    return Logs(world, world.client().start(JOB).id)


def texts(records: Iterable[LogLine]) -> list[str]:
    return [record.text for record in records]


def follow(world: ApiWorld, pool: ThreadPoolExecutor, **query: Any) -> tuple[list[str], Any]:
    """A list that grows as lines come, and the future that ends with the stream."""
    seen: list[str] = []

    def read() -> None:
        for record in world.client().logs("j", follow=True, **query):
            seen.append(record.text)

    return seen, pool.submit(read)


def test_every_line_comes_with_task_attempt_stream_and_time(world: ApiWorld, logs: Logs) -> None:
    logs.print_("w.0", "one\ntwo\n")
    logs.print_("v.0", "no newline", stream="stderr", attempt=2)
    assert list(world.client().logs("j")) == [
        LogLine("w.0", 1, "stdout", 1.0, "one", True, 0),
        LogLine("w.0", 1, "stdout", 1.0, "two", True, 0),
        LogLine("v.0", 2, "stderr", 2.0, "no newline", False, 0),
    ]


def test_a_job_that_printed_nothing_has_no_lines(world: ApiWorld, logs: Logs) -> None:
    assert texts(world.client().logs("j")) == []


def test_lines_are_chosen_by_component_task_time_pattern_and_tail(world: ApiWorld, logs: Logs) -> None:
    for number in range(3):
        logs.print_("w.0", f"a{number}\n")
        logs.print_("w.1", f"b{number}\n")
        logs.print_("v.0", f"c{number}\n")
    client = world.client()
    assert texts(client.logs("j", "w")) == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert texts(client.logs("j", "w", 1)) == texts(client.logs("j", "w.1")) == ["b0", "b1", "b2"]
    assert texts(client.logs("j", since=7.0)) == ["a2", "b2", "c2"]
    assert texts(client.logs("j", grep="[ac]2")) == ["a2", "c2"]
    assert texts(client.logs("j", tail=2)) == ["b2", "c2"]
    assert texts(client.logs("j", tail=2, grep="a")) == ["a1", "a2"]


def test_bytes_that_are_not_utf8_survive(world: ApiWorld, logs: Logs) -> None:
    folder = world.config.logs_dir / logs.job_id
    folder.mkdir(parents=True)
    block = '{"attempt":1,"stream":"stdout","offset":0,"time":1.0,"base64":"/w8K"}\n'
    (folder / "w.0.jsonl").write_text(block)
    [text] = texts(world.client().logs("j"))
    assert text.encode("utf-8", "surrogateescape") == b"\xff\x0f"


def test_each_line_keeps_its_characters_in_replies_and_in_streams(world: ApiWorld, logs: Logs) -> None:
    """A piece with bytes that are not UTF-8 is encoded otherwise than one without."""
    lines = ["é\u2028…\U0001f600"]
    logs.print_("w.0", lines[0] + "\n")
    assert texts(world.client().logs("j")) == texts(world.client().logs("j", tail=1)) == lines
    lines.append("é\udcff\u2028")
    coded = base64.b64encode((lines[1] + "\n").encode("utf-8", "surrogateescape")).decode()
    with (world.config.logs_dir / logs.job_id / "w.0.jsonl").open("a") as file:
        file.write(f'{{"attempt":1,"stream":"stdout","offset":99,"time":2.0,"base64":"{coded}"}}\n')
    assert texts(world.client().logs("j")) == texts(world.client().logs("j", tail=2)) == lines


def test_a_line_of_ten_megabytes_survives(world: ApiWorld, logs: Logs) -> None:
    for _ in range(160):
        logs.print_("w.0", "x" * 65536)
    logs.print_("w.0", "\nafter\n")
    *pieces, after = world.client().logs("j")
    assert "".join(texts(pieces)) == "x" * 160 * 65536 and after.text == "after"
    assert max(len(text) for text in texts(pieces)) < 2 << 20
    assert [piece.newline for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    matching = list(world.client().logs("j", grep="x"))
    assert texts(matching) == texts(pieces) and all(line.newline for line in matching)


def test_a_client_goes_on_inside_a_long_line(world: ApiWorld, logs: Logs) -> None:
    for _ in range(40):
        logs.print_("w.0", "x" * 65536)
    cursor = {"w.0": {"1/stdout": 1_500_000}}
    with closing(world.client()._transport.stream("POST", "/v1/jobs/j/logs", {"cursor": cursor})) as pieces:
        told = "".join(line[4] for piece in pieces for line in piece["lines"])
    assert len(told) == 40 * 65536 - 1_500_000


@pytest.mark.parametrize("query", [{"grep": "("}, {"tail": -1}, {"tail": 10**20}, {"component": "w.x"}])
def test_a_senseless_question_is_refused(world: ApiWorld, logs: Logs, query: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        list(world.client().logs("j", **query))


@pytest.mark.parametrize(
    ("part", "message"),
    [("x", "no component x; it has w, v"), ("w.2", r"no task w\.2; the last one is w\.1"), ("v.1", "no task")],
)
@pytest.mark.parametrize("follow", [False, True])
def test_a_part_that_the_job_does_not_have_is_not_found(
    world: ApiWorld, logs: Logs, part: str, message: str, follow: bool
) -> None:
    with pytest.raises(NotFoundError, match=message):
        list(world.client().logs("j", part, follow=follow))


def test_logs_of_others_and_of_nobody_are_not_told(world: ApiWorld, logs: Logs) -> None:
    with pytest.raises(NotAllowedError):
        list(world.client("bob").logs("j"))
    with pytest.raises(NotFoundError):
        list(world.client().logs("k"))


def test_following_ends_when_the_job_has_and_its_log_is_complete(world: ApiWorld, logs: Logs) -> None:
    with ThreadPoolExecutor(1) as pool:
        logs.print_("w.0", "one\n")
        seen, reading = follow(world, pool)
        wait_until(lambda: seen == ["one"])
        logs.print_("w.1", "two\n")
        wait_until(lambda: seen == ["one", "two"])
        logs.end_task("w.0")
        logs.end_task("w.1", stdout=len("two\nlast\nend"))
        world.end_job(logs.job_id)
        logs.print_("w.1", "last\nend")
        reading.result(10)
        assert seen == ["one", "two", "last", "end"]
        assert texts(world.client().logs("j", late=pytest.fail)) == seen


def test_following_does_not_wait_for_ever_for_what_a_lost_node_took_along(tmp_path: Path) -> None:
    with api_world(tmp_path, log_late=0.2) as world:
        logs = Logs(world, world.client().start(JOB).id)
        logs.print_("w.0", "one\n")
        logs.end_task("w.0", stdout=1000)
        world.end_job(logs.job_id)
        told: list[str] = []
        assert texts(world.client().logs("j", follow=True, late=lambda: told.append("late"))) == ["one"]
        assert told == ["late"]


def test_following_a_job_that_ended_long_ago_is_reading_it(world: ApiWorld, logs: Logs) -> None:
    logs.print_("w.0", "one\ntwo\n")
    logs.end_task("w.0")
    world.end_job(logs.job_id)
    assert texts(world.client().logs("j", follow=True)) == ["one", "two"]


def test_the_tail_of_a_job_that_has_just_ended_has_its_very_last_lines(world: ApiWorld, logs: Logs) -> None:
    logs.print_("w.0", "one\n", stream="stderr")
    logs.print_("w.0", "two\n")
    logs.end_task("w.0", stdout=len("two\nlast\n"))
    world.change_job(logs.job_id, "job-succeeded", state="SUCCEEDED", ended=wall(), exit_code=0)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: texts(world.client().logs("j", tail=2)))
        with pytest.raises(futures.TimeoutError):
            reading.result(0.3)
        logs.print_("w.0", "last\n")
        assert reading.result(10) == ["two", "last"]


def test_a_followed_tail_begins_with_the_last_lines(world: ApiWorld, logs: Logs) -> None:
    logs.print_("w.0", "1\n2\n3\n")
    with ThreadPoolExecutor(1) as pool:
        seen, reading = follow(world, pool, tail=2)
        wait_until(lambda: seen == ["2", "3"])
        logs.print_("w.0", "4\n")
        wait_until(lambda: seen == ["2", "3", "4"])
        logs.end_task("w.0")
        world.end_job(logs.job_id)
        reading.result(10)


def test_the_last_words_of_an_attempt_come_when_it_has_ended_and_before_the_next_one(
    world: ApiWorld, logs: Logs
) -> None:
    with ThreadPoolExecutor(1) as pool:
        logs.print_("w.0", "one\ndying", stream="stderr")
        seen, reading = follow(world, pool)
        wait_until(lambda: seen == ["one"])
        logs.end_task("w.0", stderr=len("one\ndying words"))
        logs.print_("w.0", " words", stream="stderr")
        wait_until(lambda: seen == ["one", "dying words"])
        world.stop()
        world.serve()
        logs.print_("w.0", "two\ndying again", attempt=2)
        wait_until(lambda: seen == ["one", "dying words", "two"])
        logs.print_("w.0", "three\n", attempt=3)
        logs.print_("w.0", "four\n", attempt=3)
        wait_until(lambda: len(seen) == 6)
        logs.end_task("w.0", attempt=3)
        world.end_job(logs.job_id)
        reading.result(10)
    assert seen == ["one", "dying words", "two", "dying again", "three", "four"]
    assert texts(world.client().logs("j")) == seen


def test_the_last_words_of_an_attempt_do_not_wait_for_the_first_of_the_next(world: ApiWorld, logs: Logs) -> None:
    logs.print_("w.0", "dying")
    logs.set_task("w.0", {"state": "RUNNING", "attempt": 2})
    with ThreadPoolExecutor(1) as pool:
        seen, reading = follow(world, pool)
        wait_until(lambda: seen == ["dying"])
        logs.end_task("w.0", attempt=2)
        world.end_job(logs.job_id)
        reading.result(10)
    assert seen == ["dying"]


def cut_where(
    before: Callable[[PlainData], bool] = lambda _: False, after: Callable[[PlainData], bool] = lambda _: False
) -> type[Transport]:
    """Return a transport whose streams break off before or after a piece."""

    class CutTransport(Transport):
        def stream(
            self, method: str, target: str, body: Body = None, **options: Any
        ) -> Generator[PlainData, None, None]:
            for piece in super().stream(method, target, body, **options):
                if before(piece):
                    raise StreamCutError("cut")
                yield piece
                if after(piece):
                    raise StreamCutError("cut")

    return CutTransport


def test_last_words_of_a_stream_that_is_cut_after_each_piece_are_neither_lost_nor_repeated(
    world: ApiWorld, logs: Logs
) -> None:
    client = world.client(transport=cut_where(after=lambda piece: bool(piece["lines"])))
    seen: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: seen.extend(texts(client.logs("j", follow=True))))
        expected = []
        for attempt in range(1, 4):
            logs.print_("w.0", f"line {attempt}\nlast {attempt}", attempt=attempt)
            logs.print_("w.1", f"other {attempt}", attempt=attempt)
            expected += [f"line {attempt}", f"last {attempt}", f"other {attempt}"]
        logs.end_task("w.0", attempt=3)
        logs.end_task("w.1", attempt=3)
        world.end_job(logs.job_id)
        reading.result(20)
    assert sorted(seen) == sorted(expected)


def whole(records: Iterable[LogLine]) -> str:
    return "".join(each.text + "\n" * each.newline for each in records)


def _ends(records: Iterable[LogLine], text: str) -> bool:
    return whole(records).endswith(text)


def written_of_a_line(
    world: ApiWorld, logs: Logs, transport: type[Transport] = Transport, **query: Any
) -> list[LogLine]:
    """What a client gets that asks for unfinished lines, and waits for each piece before the task goes on."""
    seen: list[LogLine] = []

    def read() -> None:
        for record in world.client(transport=transport).logs("j", follow=True, unfinished=True, **query):
            seen.append(record)

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        for number, text in enumerate(("\rstep 1", "\rstep 2", "\rstep 3\nloading … ", "done\n", "last words")):
            logs.print_("w.0", text)
            wait_until(partial(_ends, seen, text), what=f"text {number}")
        logs.end_task("w.0")
        world.end_job(logs.job_id)
        reading.result(20)
    return seen


@pytest.mark.parametrize("joined", [False, True])
def test_what_is_written_of_a_line_comes_before_its_end_and_once(world: ApiWorld, logs: Logs, joined: bool) -> None:
    pieces = [(each.text, each.newline) for each in written_of_a_line(world, logs, joined=joined)]
    assert [piece for piece in pieces if piece[0]] == [
        ("\rstep 1", False),
        ("\rstep 2", False),
        ("\rstep 3", True),
        ("loading … ", False),
        ("done", True),
        ("last words", False),
    ]


def test_an_unfinished_line_comes_once_also_over_streams_that_are_cut(world: ApiWorld, logs: Logs) -> None:
    cut = cut_where(after=lambda piece: bool(piece["lines"]))
    assert whole(written_of_a_line(world, logs, cut)) == "\rstep 1\rstep 2\rstep 3\nloading … done\nlast words"


def test_a_pattern_and_a_log_that_is_not_followed_have_whole_lines(world: ApiWorld, logs: Logs) -> None:
    logs.print_("w.0", "half of ")
    with ThreadPoolExecutor(1) as pool:
        seen, reading = follow(world, pool, unfinished=True, grep="half")
        logs.print_("w.0", "a line\n")
        logs.end_task("w.0")
        world.end_job(logs.job_id)
        reading.result(20)
    assert seen == texts(world.client().logs("j", unfinished=True)) == ["half of a line"]


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("recent", [False, True])
def test_a_tail_counts_last_words_where_they_belong(world: ApiWorld, logs: Logs, follow: bool, recent: bool) -> None:
    logs.print_("w.0", "dying 1")
    logs.print_("w.0", "dying 2", attempt=2)
    logs.print_("w.0", "a\nb\nlast", attempt=3)
    logs.end_task("w.0", attempt=3)
    if recent:
        world.change_job(logs.job_id, "job-succeeded", state="SUCCEEDED", ended=wall(), exit_code=0)
    else:
        world.end_job(logs.job_id)
    client = world.client()
    everything = ["dying 1", "dying 2", "a", "b", "last"]
    assert texts(client.logs("j")) == everything
    for count in range(7):
        assert texts(client.logs("j", tail=count, follow=follow)) == everything[max(0, 5 - count) :]


def test_a_followed_tail_of_a_job_that_runs_counts_the_last_words_of_tasks_that_ended(
    world: ApiWorld, logs: Logs
) -> None:
    logs.print_("w.0", "a\nb\ndying")
    logs.end_task("w.0")
    with ThreadPoolExecutor(1) as pool:
        seen, reading = follow(world, pool, tail=2)
        wait_until(lambda: seen == ["b", "dying"])
        logs.print_("w.1", "c\n")
        wait_until(lambda: len(seen) == 3)
        world.end_job(logs.job_id)
        reading.result(10)
    assert seen == ["b", "dying", "c"]


def test_a_tail_whose_stream_is_cut_before_anything_came_is_still_a_tail(world: ApiWorld, logs: Logs) -> None:
    logs.print_("w.0", "1\n2\n3\n")
    logs.end_task("w.0")
    world.change_job(logs.job_id, "job-succeeded", state="SUCCEEDED", ended=wall(), exit_code=0)
    cuts = iter([True])
    client = world.client(transport=cut_where(after=lambda _: next(cuts, False)))
    assert texts(client.logs("j", tail=1, follow=True)) == ["3"]


def test_a_followed_tail_of_a_pattern_counts_what_it_finds(world: ApiWorld, logs: Logs) -> None:
    logs.print_("w.0", "a1\nb1\na2\na3\nb2\n")
    with ThreadPoolExecutor(1) as pool:
        seen, reading = follow(world, pool, tail=2, grep="a")
        wait_until(lambda: seen == ["a2", "a3"])
        logs.print_("w.0", "b3\na4\n")
        wait_until(lambda: seen == ["a2", "a3", "a4"])
        logs.end_task("w.0")
        world.end_job(logs.job_id)
        reading.result(10)


def _holds(seen: list[str], count: int) -> bool:
    return len(seen) >= count


@pytest.mark.parametrize("tail", [None, 1])
def test_restarts_of_the_server_lose_and_repeat_no_line(world: ApiWorld, logs: Logs, tail: int | None) -> None:
    logs.print_("w.0", "0\n", stream="stderr")
    logs.print_("w.0", "0\n")
    expected = ["0", "0"] if tail is None else ["0"]
    with ThreadPoolExecutor(1) as pool:
        seen, reading = follow(world, pool, tail=tail)
        wait_until(lambda: seen == expected)
        for number in range(1, 4):
            world.stop()
            logs.print_("w.0", f"{number}a\n{number}b\nhalf")
            logs.print_("w.1", f"{number}c\n", attempt=number)
            world.serve()
            expected += [f"{number}a" if number == 1 else f"half{number}a", f"{number}b", f"{number}c"]
            wait_until(partial(_holds, seen, len(expected)))
            assert sorted(seen) == sorted(expected)
        logs.end_task("w.0")
        world.end_job(logs.job_id)
        reading.result(10)
    assert seen[-1] == "half"


def test_a_stream_that_is_cut_anywhere_goes_on_where_it_was(tmp_path: Path) -> None:
    with api_world(tmp_path, log_piece=10) as world:
        logs = Logs(world, world.client().start(JOB).id)
        for number in range(200):
            logs.print_("w.0", f"line {number}\n")
            logs.print_("w.1", f"line {number}\n", stream="stderr")
        count = iter(range(10_000))
        client = world.client(transport=cut_where(before=lambda _: next(count) % 7 == 6))
        assert sorted(texts(client.logs("j"))) == sorted(f"line {number}" for number in range(200) for _ in range(2))


def test_an_expensive_pattern_cannot_stop_the_server(world: ApiWorld, logs: Logs) -> None:
    """It runs on the client's side; the server answers others meanwhile."""
    logs.print_("w.0", "a" * 23 + "b\n")
    reading = threading.Thread(target=lambda: texts(world.client().logs("j", grep="(a+)+$")))
    reading.start()
    assert "grep" not in log_stream.LogQuery.__dataclass_fields__
    reading.join()


def test_followers_beyond_the_places_see_every_line_too(tmp_path: Path) -> None:
    with api_world(tmp_path, waiting=1) as world:
        logs = Logs(world, world.client().start(JOB).id)
        logs.print_("w.0", "0\n")
        with ThreadPoolExecutor(3) as pool:
            readers = [follow(world, pool) for _ in range(3)]
            wait_until(lambda: all(seen == ["0"] for seen, _ in readers))
            logs.print_("w.0", "1\n")
            wait_until(lambda: all(seen == ["0", "1"] for seen, _ in readers))
            logs.end_task("w.0")
            world.end_job(logs.job_id)
            for _, reading in readers:
                reading.result(10)
