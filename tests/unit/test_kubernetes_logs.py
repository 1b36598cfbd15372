"""Copies of the logs of pods: what is kept beside them, and how they end when the server does not end them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from grass.kubernetes.api import ApiServer
from grass.kubernetes.credentials import Credential, Credentials
from node.runtime.kubernetes.logs import LOST, UNREAD, Logs, PodLog
from tests.support.waiting import wait_until


def test_a_log_that_is_complete_is_so_for_the_next_agent(tmp_path: Path) -> None:
    file = str(tmp_path / "j" / "c.0.stdout")
    first = PodLog("j/c.0/1", "/log", file)
    first.restore()
    assert not first.complete
    first.end()
    second = PodLog("j/c.0/1", "/log", file)
    second.restore()
    assert second.complete


LINES = [f"2026-11-27T08:00:0{number}.000000001Z line {number}\n".encode() for number in range(4)]


class Server(ThreadingHTTPServer):
    """Answers requests for a log. ``follow`` and ``read`` write a reply: to who follows it, and to who reads it."""

    def __init__(self, follow: Callable[[Handler], None], read: Callable[[Handler], None]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.follow = follow
        self.read = read
        self.over = threading.Event()

    @property
    def api(self) -> ApiServer:
        return ApiServer(Credential(lambda: Credentials(f"http://127.0.0.1:{self.server_port}")))


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        (self.server.follow if "follow=true" in self.path else self.server.read)(self)

    def log_message(self, *_: object) -> None: ...

    def lines(self, lines: list[bytes]) -> None:
        self.send_response(200)
        self.end_headers()
        for each in lines:
            self.wfile.write(each)
        self.wfile.flush()

    def refuse(self) -> None:
        self.send_response(502)
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def copied(
    folder: Path, follow: Callable[[Handler], None], read: Callable[[Handler], None], reachable: bool = True
) -> Iterator[tuple[PodLog, Server, threading.Event]]:
    """Copy a log from such a server. Yields it, and what is set when it is over."""
    with Server(follow, read) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        over = threading.Event()
        each = PodLog("j/c.0/1", "/log", str(folder / "c.0.stdout"))
        logs = Logs(server.api, lambda _: over.set(), lambda: reachable, rest=0.5)
        logs.add(each)
        try:
            yield each, server, over
        finally:
            logs.stop()
            server.over.set()
            server.shutdown()


def text(each: PodLog) -> str:
    return each.file.read_text() if each.file.exists() else ""


def test_a_reply_that_does_not_end_with_its_task_is_given_up_and_the_rest_is_read(tmp_path: Path) -> None:
    def follow(handler: Handler) -> None:
        handler.lines(LINES[:2])
        handler.server.over.wait(30)

    with copied(tmp_path, follow, lambda handler: handler.lines(LINES)) as (each, _, over):
        wait_until(lambda: "line 1" in text(each))
        each.ended.set()
        assert not over.wait(0.5)
        each.follow_no_more()
        assert over.wait(10)
        assert text(each) == "line 0\nline 1\nline 2\nline 3\n"


def test_the_rest_of_a_log_is_given_up_and_said_to_be_missing_when_its_machine_is_gone(tmp_path: Path) -> None:
    with copied(tmp_path, Handler.refuse, Handler.refuse) as (each, _, over):
        each.ended.set()
        assert over.wait(10)
        assert text(each).encode() == UNREAD
        assert each.gaps == 1


def test_what_a_killed_agent_wrote_and_had_not_stored_stays_and_is_not_written_twice(tmp_path: Path) -> None:
    with copied(tmp_path, lambda handler: handler.lines(LINES[:1]), lambda handler: handler.lines(LINES[:1])) as (
        each,
        _,
        over,
    ):
        each.ended.set()
        assert over.wait(10)
    state = each.file.with_suffix(".podlog")
    state.write_text(state.read_text().replace("true", "false"))
    with each.file.open("ab") as file:
        file.write(b"line 1\nline 2\nli")

    sizes = []

    def follow(handler: Handler) -> None:
        sizes.append(each.file.stat().st_size)
        handler.lines(LINES)

    with copied(tmp_path, follow, lambda handler: handler.lines(LINES[2:])) as (again, _, over):  # of the last seconds
        wait_until(lambda: "line 3" in text(again))
        again.ended.set()
        assert over.wait(10)
    assert sizes[0] == len("line 0\nline 1\nline 2\nli")
    assert text(again) == "line 0\nline 1\nline 2\nline 3\n"
    assert again.sizes()["stdout"] == len(text(again))


def test_a_container_is_gone_whose_log_was_followed_and_is_not_there_any_more(tmp_path: Path) -> None:
    replies = itertools.chain([LINES[:2]], itertools.repeat([b"unable to retrieve container logs for docker://1"]))

    def answer(handler: Handler) -> None:
        handler.lines(next(replies))

    with copied(tmp_path, answer, answer) as (each, _, over):
        wait_until(lambda: each.gone)
        assert not over.is_set()
        each.ended.set()
        assert over.wait(10)
        assert text(each) == "line 0\nline 1\n" and each.gaps == 0


def test_what_a_killed_agent_wrote_stays_where_the_log_is_gone(tmp_path: Path) -> None:
    (tmp_path / "c.0.stdout").write_text("line 0\n")
    with copied(tmp_path, Handler.refuse, Handler.refuse) as (each, _, over):
        each.ended.set()
        assert over.wait(10)
        assert text(each) == "line 0\n" + UNREAD.decode()
        assert each.sizes()["stdout"] == len(text(each))


def test_what_kubernetes_has_removed_is_counted_also_by_the_next_agent(tmp_path: Path) -> None:
    with copied(tmp_path, lambda handler: handler.lines(LINES[:1]), lambda handler: handler.lines(LINES[2:])) as (
        each,
        _,
        over,
    ):
        wait_until(lambda: "line 0" in text(each))
        each.ended.set()
        assert over.wait(10)
    assert text(each) == f"line 0\n{LOST.decode()}line 2\nline 3\n"
    again = PodLog(each.key, each.path, str(each.file))
    again.restore()
    assert (each.gaps, again.gaps) == (1, 1)


def test_no_log_is_given_up_while_the_api_server_is_away(tmp_path: Path) -> None:
    with copied(tmp_path, Handler.refuse, Handler.refuse, reachable=False) as (each, server, over):
        each.ended.set()
        assert not over.wait(1.5)
        server.read = lambda handler: handler.lines(LINES)
        assert over.wait(10)
        assert text(each) == "line 0\nline 1\nline 2\nline 3\n"


def test_a_log_that_is_never_quiet_gives_turns_to_the_others(tmp_path: Path) -> None:
    def chatter(handler: Handler) -> None:
        handler.lines(LINES[:1] if "/quiet" in handler.path else [])
        with suppress(BrokenPipeError):
            while not handler.server.over.wait(0.02) and "/quiet" not in handler.path:
                handler.wfile.write(f"2026-11-27T08:00:00.{next(numbers):09}Z again\n".encode())

    numbers = itertools.count(1)
    with followed(tmp_path, chatter, ["/chatty", "/quiet"]) as (_, [chatty, quiet]):
        wait_until(lambda: text(quiet) == "line 0\n")
        size = len(text(chatty))
        wait_until(lambda: len(text(chatty)) > size)


def test_the_log_of_a_pod_that_is_to_be_deleted_is_followed_before_others(tmp_path: Path) -> None:
    def wait(handler: Handler) -> None:
        handler.lines(LINES[:1])
        handler.server.over.wait(20)

    with followed(tmp_path, wait, ["/a", "/b", "/c"], turn=60.0) as (logs, [first, _, last]):
        wait_until(first.open.is_set)
        opened = threading.Event()
        logs.hurry(last, opened.set)
        assert opened.wait(10)
        assert last.open.is_set() and not first.open.is_set()


@contextmanager
def followed(
    folder: Path, follow: Callable[[Handler], None], paths: list[str], turn: float = 0.2
) -> Iterator[tuple[Logs, list[PodLog]]]:
    """Follow several logs with one thread."""
    with Server(follow, lambda handler: handler.lines([])) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        logs = Logs(server.api, lambda _: None, lambda: True, followers=1, turn=turn)
        made = [PodLog(f"j/c{path}/1", path, str(folder / f"{path[1:]}.stdout")) for path in paths]
        for each in made:
            logs.add(each)
        try:
            yield logs, made
        finally:
            logs.stop()
            server.over.set()
            server.shutdown()
