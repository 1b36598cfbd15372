"""The client against a real server: what programs and the CLI build on."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from grass.api.client import Client
from grass.api.keyring import exchange, load_profile, save_other
from grass.errors import (
    ConflictError,
    GrassError,
    InputError,
    ManifestError,
    NotFoundError,
    StoreFullError,
    UnreachableError,
    WaitTimeoutError,
)
from grass.model.event_kind import EventKind
from grass.model.lifecycle import JobState
from grass.store.backend import Entry
from grass.store.job_index import moved
from grass.system.clock import steady
from grass.wire.codec import builtins
from grass.wire.codec import encode as pack
from grass.wire.job_views import JobView
from grass.wire.operation_record import OperationKind, OperationRecord
from master.api.feed import Feed
from master.api.progress import INTERVAL
from tests.doubles.memory_backend import MemoryBackend
from tests.support.api_world import ApiWorld, api_world
from tests.support.waiting import wait_until

JOB = {"name": "j", "components": {"w": {"command": "true", "replicas": 2}}}
PATIENCE = 4.0
"""Seconds that a client waits for a server that is away: more than a busy machine keeps a thread waiting."""
BATCH = {"name": "s", "jobs": ["a", "b"], "components": {"w": {"command": "true"}}}


def tickets(world: ApiWorld) -> list[str]:
    return [json.loads(fields["body"])["kind"] for _, fields in world.backend.stream(world.keys.tickets, "0", 100)]


def put(world: ApiWorld, hash_key: str, name: str, record: dict[str, Any]) -> None:
    event = ("XADD", world.keys.events, 0, "event", pack({"time": 1.0, "kind": "x", "user": "", "message": "m"}))
    world.backend.apply([("HSET", hash_key, name, pack(record)), event])


def waiting_threads(world: ApiWorld) -> int:
    feed: Feed = world.app.extensions["grass"].feed
    return feed.listening


def test_a_started_job_is_there_by_name_and_id(world: ApiWorld) -> None:
    with world.client() as client:
        started = client.start(JOB)
        assert (started.name, started.warnings) == ("j", ())
        job = client.job("j")
        assert job == client.job(started.id)
        assert client.jobs() == [client.job("j", specification=False)]
        assert [task.task for task in client.tasks("j")] == ["w.0", "w.1"]
        assert [task.task for task in client.tasks("j", first=1)] == ["w.0"]
        assert client.why("j").groups[0].count == 2
        assert tickets(world) == ["start"]


def test_a_file_runs_in_its_own_folder(world: ApiWorld, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "job.yml").write_text("name: f\ncomponents: {w: {command: 'true'}}\n")
    started = world.client().start(folder / "job.yml")
    spec = world.store.spec(started.id)
    assert spec is not None
    assert spec.components["w"].base == str(folder)


def test_a_mapping_runs_in_the_current_folder(world: ApiWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = world.store.spec(world.client().start(JOB).id)
    assert spec is not None
    assert spec.components["w"].base == str(tmp_path)


def test_a_current_folder_that_was_removed_is_an_input_error(
    world: ApiWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    client = world.client()
    with pytest.raises(InputError, match="the current folder was removed"):
        client.start(JOB)
    assert client.start(JOB, cwd=tmp_path).name == "j"


def test_a_bad_file_is_named_with_every_problem_and_nothing_is_sent(world: ApiWorld, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yml"
    bad.write_text("name: j\ncomponents: {w: {comand: x, replicas: 0}}\n")
    with pytest.raises(ManifestError) as caught:
        world.client().start(bad)
    assert caught.value.source == str(bad)
    assert len(caught.value.problems) >= 2
    assert tickets(world) == []


def test_an_error_that_only_the_server_finds_keeps_the_files_name(world: ApiWorld, tmp_path: Path) -> None:
    path = tmp_path / "large.yml"
    path.write_text("name: j\ncomponents: {w: {command: x, resources: {cpu: 64}}}\n")
    put(world, world.keys.nodes, "n1", {"name": "n1", "state": "READY", "resources": {"cpu": 2000, "memory": 1 << 30}})
    with pytest.raises(ManifestError, match=r"large\.yml: components\.w\.resources: needs 64 cpu"):
        world.client().start(path, strict=True)


def test_a_name_that_is_live_is_a_conflict_that_says_what_to_do(world: ApiWorld) -> None:
    client = world.client()
    client.start(JOB)
    with pytest.raises(ConflictError, match="grass job stop j"):
        client.start(JOB)
    world.end_job(client.job("j").id)
    assert client.start(JOB).name == "j"


def test_ended_jobs_are_listed_on_request(world: ApiWorld) -> None:
    client = world.client()
    world.end_job(client.start(JOB).id)
    assert client.jobs() == []
    assert [job.state for job in client.jobs(all=True)] == ["SUCCEEDED"]


@pytest.mark.parametrize("ask", ["job", "tasks", "why", "wait", "stop", "delete", "schedule", "stop_schedule", "node"])
def test_what_does_not_exist_is_not_found(world: ApiWorld, ask: str) -> None:
    with pytest.raises(NotFoundError, match="nothing"):
        getattr(world.client(), ask)("nothing")


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.job(1),
        lambda client: client.job("\udcff"),
        lambda client: client.node(None),
        lambda client: client.start(None),
        lambda client: client.start(b"x"),
        lambda client: client.wait("j", timeout="10m"),
        lambda client: client.wait("j", timeout=float("nan")),
        lambda client: client.wait("no-such-job", timeout=10**400),
        lambda client: list(client.logs("j", tail="x")),
        lambda client: list(client.logs("j", tail=1.5)),
        lambda client: list(client.logs("j", 0)),
        lambda client: list(client.logs("j", grep=b"x")),
        lambda client: client.execute("j", "w.0", "echo hi"),
        lambda client: client.execute("j", "w.0", None),
    ],
)
def test_what_makes_no_sense_is_an_error_of_grass(world: ApiWorld, ask: Callable[[Any], Any]) -> None:
    with pytest.raises((InputError, NotFoundError)):
        ask(world.client())


def test_an_unknown_component_is_named_with_those_that_are(world: ApiWorld) -> None:
    client = world.client()
    client.start(JOB)
    with pytest.raises(NotFoundError, match="no component x; it has w"):
        client.tasks("j", "x")


@pytest.mark.alone
def test_waiting_ends_the_moment_the_job_does(world: ApiWorld) -> None:
    client = world.client()
    job_id = client.start(JOB).id
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: (client.wait("j"), time.monotonic()))
        wait_until(lambda: waiting_threads(world) == 1)
        ended_at = time.monotonic()
        world.end_job(job_id, "FAILED")
        view, known_at = waiting.result(10)
    assert (view.id, view.state) == (job_id, "FAILED")
    assert known_at - ended_at < 1.0


@pytest.mark.parametrize(("submitted", "state"), [(None, "FAILED"), (1.0, "SUCCEEDED")])
def test_who_waits_learns_the_end_from_the_news_unless_it_is_of_a_run_before(
    world: ApiWorld, submitted: float | None, state: str
) -> None:
    client = world.client()
    job_id = client.start(JOB).id
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, "j")
        wait_until(lambda: waiting_threads(world) == 1)
        record = builtins(world.store.run(job_id))
        told = {**record, "state": "FAILED", "ended": 2.0, "submitted": submitted or record["submitted"]}
        stored = {**record, "state": "SUCCEEDED", "ended": 2.0}
        event = {"time": 1.0, "kind": "x", "user": "", "message": "m", "job": "j"}
        world.backend.apply(
            [
                ("HSET", world.keys.jobs, job_id, pack(stored)),
                ("XADD", world.keys.ends, 0, "id", job_id, "record", pack(told)),
                ("XADD", world.keys.events, 0, "event", pack(event)),
            ]
        )
        assert waiting.result(10).state == state


def test_waiting_for_a_job_that_has_ended_returns_at_once(world: ApiWorld) -> None:
    client = world.client()
    world.end_job(client.start(JOB).id)
    assert client.wait("j", timeout=0).state == "SUCCEEDED"


def test_waiting_gives_up_when_told_to_and_the_job_goes_on(world: ApiWorld) -> None:
    client = world.client()
    client.start(JOB)
    with pytest.raises(WaitTimeoutError, match=r"job j has not ended after 0\.2 s; it goes on"):
        client.wait("j", timeout=0.2)


def test_waiting_tells_of_progress(world: ApiWorld) -> None:
    client = world.client()
    job_id = client.start(JOB).id
    moves = iter(
        [
            lambda: world.change_job(job_id, "job-running", state="RUNNING"),
            lambda: world.change_job(job_id, counts={"RUNNING": 2}),
            lambda: world.end_job(job_id),
        ]
    )
    seen = []

    def on_progress(view: JobView) -> None:
        seen.append((view.state, view.counts))
        move = next(moves, None)
        if move is not None:
            move()

    client.wait("j", on_progress=on_progress)
    assert seen == [
        ("QUEUED", {"PENDING": 2}),
        ("RUNNING", {"PENDING": 2}),
        ("RUNNING", {"RUNNING": 2}),
        ("SUCCEEDED", {"RUNNING": 2}),
    ]


def test_who_takes_long_over_a_view_is_told_next_how_it_is_by_then(world: ApiWorld) -> None:
    client = world.client()
    job_id = client.start(JOB).id
    seen = []

    def on_progress(view: JobView) -> None:
        seen.append(view.counts)
        if len(seen) == 1:
            for count in (1, 2):
                world.change_job(job_id, "job-running", state="RUNNING", counts={"RUNNING": count})
                time.sleep(2 * INTERVAL)  # the server sends it meanwhile
            world.end_job(job_id)

    client.wait("j", on_progress=on_progress)
    assert seen == [{"PENDING": 2}, {"RUNNING": 2}]


def test_waiting_goes_on_with_the_run_it_began_with(world: ApiWorld) -> None:
    client = world.client()
    first = client.start(JOB).id
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, "j")
        wait_until(lambda: waiting_threads(world) == 1)
        world.end_job(first)
        world.client("root").start(JOB)
        assert waiting.result(10).id == first


def test_who_waits_for_an_end_is_not_woken_by_the_beginning(world: ApiWorld) -> None:
    feed: Feed = world.app.extensions["grass"].feed
    with feed.listen("j") as everything, feed.listen("j", until_end=True) as later:
        job_id = world.client().start(JOB).id
        wait_until(everything.is_set)
        everything.clear()
        world.change_job(job_id, "job-running", state="RUNNING")
        wait_until(everything.is_set)
        assert not later.is_set()
        world.end_job(job_id)
        wait_until(later.is_set)


def test_a_job_that_is_deleted_while_somebody_waits_is_not_found(world: ApiWorld) -> None:
    client = world.client()
    job_id = client.start(JOB).id
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, "j")
        wait_until(lambda: waiting_threads(world) == 1)
        world.backend.apply([("HDEL", world.keys.jobs, job_id)])
        world.store.log_event(EventKind.JOB_DELETE_REQUESTED, "ann", "gone", job="j")
        with pytest.raises(NotFoundError, match="was deleted"):
            waiting.result(10)


def test_a_hundred_wait_at_once_and_others_are_answered_meanwhile(tmp_path: Path) -> None:
    with api_world(tmp_path, waiting=8) as world:
        job_id = world.client().start(JOB).id
        clients = [world.client() for _ in range(100)]
        with ThreadPoolExecutor(100) as pool:
            waiting = [pool.submit(client.wait, "j") for client in clients]
            wait_until(lambda: waiting_threads(world) >= 8)
            begun = time.monotonic()
            assert world.client().status().user == "ann"
            assert time.monotonic() - begun < 5
            world.end_job(job_id)
            assert {future.result(30).state for future in waiting} == {"SUCCEEDED"}
        wait_until(lambda: waiting_threads(world) == 0)


def test_waiting_survives_a_restart_of_the_server(world: ApiWorld) -> None:
    client = world.client()
    job_id = client.start(JOB).id
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, "j")
        wait_until(lambda: waiting_threads(world) == 1)
        world.stop()
        world.serve()
        world.end_job(job_id)
        assert waiting.result(10).state == "SUCCEEDED"


def test_waiting_bears_a_restart_that_takes_longer_than_the_timeout_of_a_request_and_says_so(world: ApiWorld) -> None:
    client, said = world.client(timeout=PATIENCE), list[str]()
    client.on_away(said.append)
    job_id = client.start(JOB).id
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, "j")
        wait_until(lambda: waiting_threads(world) == 1)
        world.stop()
        away = steady()
        wait_until(lambda: said and steady() - away > PATIENCE, what="the message")
        world.serve()
        world.end_job(job_id)
        assert waiting.result(10).state == "SUCCEEDED"
    [message] = said
    assert message.endswith("does not answer; waiting for it to come back")


def test_a_wait_that_begins_during_a_restart_bears_it_if_the_server_has_answered_before(world: ApiWorld) -> None:
    client = world.client(timeout=PATIENCE)
    job_id = client.start(JOB).id
    world.stop()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, "j")
        back = threading.Timer(PATIENCE + 0.5, world.serve)
        back.start()
        back.join()
        world.end_job(job_id)
        assert waiting.result(10).state == "SUCCEEDED"


def test_a_server_that_is_away_for_a_moment_is_not_noticed(world: ApiWorld) -> None:
    client = world.client()
    client.status()
    world.stop()
    back = threading.Timer(0.5, world.serve)
    back.start()
    assert client.start(JOB).name == "j"
    back.join()
    assert tickets(world) == ["start"]


def test_a_server_that_dies_late_in_a_long_request_is_given_time_to_come_back(world: ApiWorld) -> None:
    put(world, world.keys.nodes, "n1", {"name": "n1", "state": "READY", "resources": {"cpu": 1, "memory": 1, "gpu": 0}})
    client = world.client(timeout=PATIENCE)
    world.stop()
    with ThreadPoolExecutor(1) as pool, socket.create_server(("127.0.0.1", world.port)) as dying:
        asking = pool.submit(client.watch_node, "n1", None, 20.0)
        peer, _ = dying.accept()
        begun = steady()
        wait_until(lambda: steady() - begun > PATIENCE + 0.3)
        dying.close()
        peer.close()
        world.serve()
        assert asking.result(10).node.name == "n1"


def test_a_cluster_that_stays_away_is_unreachable(world: ApiWorld) -> None:
    client = world.client(timeout=0.3)
    world.stop()
    try:
        with pytest.raises(UnreachableError, match=r"cluster local at http://127\.0\.0\.1:\d+ does not answer"):
            client.jobs()
    finally:
        world.serve()


def test_a_client_finds_the_api_at_the_standby_and_remembers_it(world: ApiWorld) -> None:
    folder = world.client().folder / "client"
    here = load_profile(folder)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the master, whose machine answers nothing
        gone = replace(here, url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        exchange(folder, gone)
        assert world.client(timeout=0.5).jobs() == []
        assert load_profile(folder) == here
    save_other(folder, gone)
    world.stop()
    try:
        with pytest.raises(UnreachableError, match=f"at {here.url} does not answer"):
            world.client(timeout=0.3).jobs()
    finally:
        world.serve()
        save_other(folder, None)


def test_a_request_that_may_have_arrived_says_that_its_change_may_still_be_made(world: ApiWorld) -> None:
    world.client().jobs()  # opens the session of both
    client = world.client(timeout=0.3)
    world.stop()
    may = "the requested change may still be made"
    try:
        with pytest.raises(UnreachableError) as refused:
            client.start(JOB)
        with socket.create_server(("127.0.0.1", world.port)):  # accepts, and never answers
            with pytest.raises(UnreachableError) as silent:
                client.start(JOB)
            with pytest.raises(UnreachableError) as question:
                client.jobs()
    finally:
        world.serve()
    assert [may in str(each.value) for each in (refused, silent, question)] == [False, True, False]


def test_no_connection_is_left_by_an_exchange_that_ends_after_the_client_was_closed(world: ApiWorld) -> None:
    client = world.client()
    client.close()
    client.jobs()
    peers = [each.raddr.port for each in psutil.Process().net_connections("tcp") if each.raddr]
    assert world.port not in peers


class FullBackend(MemoryBackend):
    """Once ``full``, refuses a write, and is silent at further ones until ``over``."""

    def __init__(self) -> None:
        super().__init__()
        self.full, self.over, self.refused = False, threading.Event(), 0

    def apply(self, *arguments: Any, **options: Any) -> int:
        if not self.full:
            return super().apply(*arguments, **options)
        self.refused += 1
        if self.refused > 1:
            self.over.wait(10)
        raise StoreFullError("the store refuses writes: its disk is full")


def test_why_a_store_refuses_is_told_although_it_is_silent_at_the_last_try(tmp_path: Path) -> None:
    backend = FullBackend()
    world = ApiWorld(tmp_path, backend=backend)
    try:
        world.client().jobs()  # opens the session
        client = world.client(timeout=0.5)
        backend.full = True
        with pytest.raises(StoreFullError, match="its disk is full; the requested change may still be made"):
            client.start(JOB)
        assert backend.refused > 1
    finally:
        backend.over.set()
        world.close()


def test_whoever_meets_a_full_disk_is_told_the_largest_logs_of_the_jobs_that_they_may_see(tmp_path: Path) -> None:
    backend = FullBackend()
    backend.over.set()
    world = ApiWorld(tmp_path, backend=backend)
    try:
        for user, sizes in (("ann", (5, 3)), ("bob", (9,))):
            for size in sizes:
                job_id = world.client(user).start({**JOB, "name": f"{user}-{size}"}).id
                folder = world.config.logs_dir / job_id
                folder.mkdir(parents=True)
                (folder / "w.0.jsonl").write_bytes(bytes(size << 20))
        ann, root = world.client("ann", timeout=0.5), world.client("root")
        ann.jobs()
        assert root.status().store is None
        backend.full = True
        largest = r"the largest logs are of ann-5-\S+ \(5MiB\), ann-3-\S+ \(3MiB\): "
        with pytest.raises(StoreFullError, match=largest):
            ann.start({**JOB, "name": "another"})
        assert " of bob-9-" in str(root.status().store)
    finally:
        world.close()


def test_a_stranger_on_the_port_is_not_the_cluster(world: ApiWorld) -> None:
    from werkzeug.serving import make_server
    from werkzeug.wrappers import Response

    client = world.client(timeout=0.3)
    world.stop()
    stranger = make_server("127.0.0.1", world.port, Response("hello"))
    thread = threading.Thread(target=stranger.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        with pytest.raises(UnreachableError, match="another server does"):
            client.watch_node("n1", None, 20.0)  # whose tries each have seconds for an answer
    finally:
        stranger.shutdown()
        thread.join()
        stranger.server_close()
        world.serve()


def test_a_missing_program_of_a_framework_is_refused_before_anything_is_stored(world: ApiWorld) -> None:
    component = {"command": "torchrun x.py", "framework": "torchrun", "env": {"PATH": "/nowhere"}}
    parts = {"components": {"w": component}}
    for submit in (
        lambda: world.client().start({"name": "j", **parts}),
        lambda: world.client().start_schedule({"name": "s", "jobs": ["a"], **parts}),
    ):
        with pytest.raises(ManifestError, match=r"components\.w\.command: torchrun is not installed"):
            submit()
    assert tickets(world) == []


def test_a_submission_whose_reply_was_lost_is_not_started_twice(world: ApiWorld) -> None:
    client = world.client()
    lose_replies(client, 2)
    started = client.start(JOB)
    assert [job.id for job in client.jobs()] == [started.id]
    assert tickets(world) == ["start"]


def test_a_schedule_whose_reply_was_lost_is_no_conflict(world: ApiWorld) -> None:
    client = world.client()
    lose_replies(client, 1)
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(client.start_schedule, BATCH)
        wait_until(lambda: tickets(world) == ["schedule-start"])
        [(_, fields)] = world.backend.stream(world.keys.tickets, "0", 10)
        put(world, world.keys.schedules, "s", schedule_record(fields["body"]))
        view = starting.result(10)
    assert (view.name, view.state, view.warnings) == ("s", "ACTIVE", ())
    with pytest.raises(ConflictError, match="grass schedule stop s"):
        client.start_schedule(BATCH)
    assert tickets(world) == ["schedule-start"]


def test_a_deletion_of_a_schedule_whose_reply_was_lost_has_succeeded(world: ApiWorld) -> None:
    record = {**schedule_record('{"schedule": {"name": "s", "kind": "batch", "jobs": []}}'), "state": "DONE"}
    put(world, world.keys.schedules, "s", record)
    client = world.client()
    honest, replies = client._transport._release, []

    def lose_the_second(connection: Any, response: Any) -> None:
        replies.append(response.status)
        if len(replies) == 3:  # of the session, of the record, of the deletion
            connection.close()
            raise ConnectionResetError("the reply was lost")
        honest(connection, response)

    client._transport._release = lose_the_second  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as pool:
        deleting = pool.submit(client.delete_schedule, "s")
        wait_until(lambda: "schedule-delete" in tickets(world))
        event = ("XADD", world.keys.events, 0, "event", pack({"time": 1.0, "kind": "x", "user": "", "message": "m"}))
        world.backend.apply([("HDEL", world.keys.schedules, "s"), event])
        assert deleting.result(10).name == "s"
    assert replies[-2:] == [200, 404] and tickets(world) == ["schedule-delete"]
    with pytest.raises(NotFoundError, match="schedule s: not found"):
        client.delete_schedule("s")


def test_an_operation_whose_reply_was_lost_is_sent_again_under_the_same_id(world: ApiWorld) -> None:
    client = world.client()
    job_id = client.start(JOB).id
    lose_replies(client, 1)
    with ThreadPoolExecutor(1) as pool:
        scaling = pool.submit(client.scale, "j", "w", delta=1)
        wait_until(lambda: tickets(world).count("scale") == 2)  # the server answers once its patience is over
        bodies = [json.loads(fields["body"]) for _, fields in world.backend.stream(world.keys.tickets, "0", 10)]
        [name] = {body["id"] for body in bodies if body["kind"] == "scale"}
        world.change_operation(operation_record(job_id, name))
        assert scaling.result(20).id == name


def test_an_operation_that_is_known_is_answered_and_not_filed_again(world: ApiWorld) -> None:
    client = world.client()
    world.change_operation(operation_record(client.start(JOB).id, "0123abcd"))
    again = client._transport.call("POST", "/v1/jobs/j/operations", {"kind": "suspend", "id": "0123abcd"})
    assert (again["id"], again["kind"]) == ("0123abcd", "scale")
    assert tickets(world) == ["start"]


def operation_record(job_id: str, name: str) -> OperationRecord:
    return OperationRecord(id=name, job_id=job_id, component="w", kind=OperationKind.SCALE, author="ann", filed=1.0)


def test_the_id_of_an_operation_is_checked(world: ApiWorld) -> None:
    client = world.client()
    client.start(JOB)
    with pytest.raises(InputError, match="id: must be 8 hexadecimal digits, got 'r1'"):
        client._transport.call("POST", "/v1/jobs/j/operations", {"kind": "restart", "id": "r1"})
    assert tickets(world) == ["start"]


def schedule_record(ticket: str) -> dict[str, Any]:
    wire = json.loads(ticket)["schedule"]
    names = [job["name"] for job in wire["jobs"]]
    record = {"name": wire["name"], "state": "ACTIVE", "kind": wire["kind"], "user": "ann", "spec": wire}
    return {**record, "cron": None, "time_zone": "UTC", "next": None, "last": None, "jobs": names, "reason": None}


def lose_replies(client: Client, count: int) -> None:
    """The next requests reach the server, but their replies are lost on the way."""
    lost = iter(range(count))
    honest = client._transport._release

    def release(connection: Any, response: Any) -> None:
        if next(lost, None) is not None:
            connection.close()
            raise ConnectionResetError("the reply was lost")
        honest(connection, response)

    client._transport._release = release  # type: ignore[method-assign]


def test_a_stopped_schedule_of_another_user_is_not_replaced(world: ApiWorld) -> None:
    record = schedule_record('{"schedule": {"name": "s", "kind": "batch", "jobs": []}}')
    put(world, world.keys.schedules, "s", {**record, "state": "STOPPED"})
    for user in ("bob", "root"):
        with pytest.raises(ConflictError, match="schedule s: a schedule of ann has this name; choose another name"):
            world.client(user).start_schedule(BATCH)
    assert tickets(world) == []


def test_a_schedule_is_shown_and_stopped(world: ApiWorld) -> None:
    client = world.client()
    record = schedule_record('{"schedule": {"name": "s", "kind": "batch", "jobs": []}}')
    put(world, world.keys.schedules, "s", record)
    assert client.schedules() == [client.schedule("s")]
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(client.stop_schedule, "s")
        wait_until(lambda: tickets(world) == ["schedule-stop"])
        put(world, world.keys.schedules, "s", {**record, "state": "STOPPED"})
        assert stopping.result(10).state == "STOPPED"
    assert client.stop_schedule("s").state == "STOPPED"
    assert tickets(world) == ["schedule-stop"]


def test_stopping_twice_is_no_error(world: ApiWorld) -> None:
    client = world.client()
    job_id = client.start(JOB).id
    assert client.stop("j", grace=0).id == job_id
    world.end_job(job_id, "STOPPED")
    assert client.stop("j").state == "STOPPED"
    assert tickets(world) == ["start", "stop"]


def test_a_senseless_grace_is_refused(world: ApiWorld) -> None:
    client = world.client()
    client.start(JOB)
    for grace in (-1, float("nan"), "soon"):
        with pytest.raises(InputError):
            client.stop("j", grace=grace)  # type: ignore[arg-type]
    assert tickets(world) == ["start"]


def test_only_an_ended_job_is_deleted(world: ApiWorld) -> None:
    client = world.client()
    job_id = client.start(JOB).id
    with pytest.raises(ConflictError, match="stop it first"):
        client.delete("j")
    world.end_job(job_id)
    with ThreadPoolExecutor(1) as pool:
        deleting = pool.submit(client.delete, "j")
        wait_until(lambda: tickets(world) == ["start", "delete"])
        world.backend.apply([("HDEL", world.keys.jobs, job_id)])
        assert deleting.result(10).id == job_id
    assert client.jobs(all=True) == []


def test_nodes_are_shown(world: ApiWorld) -> None:
    node = {"name": "n1", "state": "READY", "resources": {"cpu": 1, "memory": 1, "gpu": 0}, "secret": "x"}
    put(world, world.keys.nodes, "n1", node)
    client = world.client("eve")
    assert client.nodes() == [client.node("n1")]
    assert client.node("n1").state == "READY"
    assert "secret" not in client._transport.call("GET", "/v1/nodes/n1")
    assert client.status().nodes == {"READY": 1}


def test_the_newest_events_come_oldest_first(world: ApiWorld) -> None:
    for number in range(5):
        world.store.log_event(EventKind.EXEC, "ann", str(number))
    client = world.client()
    assert [event.message for event in client.events(limit=3)] == ["2", "3", "4"]
    assert list(client.events(limit=0)) == []
    assert [event.message for event in client.events(job="other")] == []


def test_events_are_found_by_words(world: ApiWorld) -> None:
    for number in range(2500):
        world.store.log_event(EventKind.EXEC, "ann", f"number {number}", job="even" if number % 2 == 0 else "odd")
    client = world.client()
    assert [event.message for event in client.events(text="ODD 17", limit=3)][-1] == "number 2417"
    assert list(client.events(text="17 nowhere")) == []
    last = next(client.events(text="2417")).id
    assert [event.message for event in client.older_events(last, 1, text="odd 17").events] == ["number 2317"]


def test_more_events_than_one_read_holds_are_all_there(world: ApiWorld) -> None:
    for number in range(2500):
        world.store.log_event(EventKind.EXEC, "ann", str(number))
    messages = [event.message for event in world.client().events(limit=10_000)]
    assert messages == [str(number) for number in range(2500)]


def test_old_events_of_one_job_are_found_behind_many_of_others(world: ApiWorld) -> None:
    world.store.log_event(EventKind.EXEC, "ann", "old", job="mine")
    for number in range(1200):
        world.store.log_event(EventKind.EXEC, "ann", str(number), job="other")
    assert [event.message for event in world.client().events(job="mine", limit=5)] == ["old"]


def test_the_newest_events_are_read_from_the_end_of_the_log(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3000):
        world.store.log_event(EventKind.EXEC, "ann", str(number))
    read: list[int] = []
    backwards = world.backend.backwards

    def counted(key: str, before: str | None, limit: int) -> list[Entry]:
        found = backwards(key, before, limit)
        read.append(len(found))
        return found

    monkeypatch.setattr(world.backend, "backwards", counted)
    monkeypatch.setattr(world.backend, "stream", None)
    assert [event.message for event in world.client().events(limit=2)] == ["2998", "2999"]
    assert sum(read) == 100


def test_followed_events_survive_a_restart_without_loss_or_repeat(world: ApiWorld) -> None:
    world.store.log_event(EventKind.EXEC, "ann", "0")
    events = world.client().events(follow=True)
    assert next(events).message == "0"
    world.store.log_event(EventKind.EXEC, "ann", "1")
    assert next(events).message == "1"
    world.stop()
    world.store.log_event(EventKind.EXEC, "ann", "2")
    world.serve()
    world.store.log_event(EventKind.EXEC, "ann", "3")
    assert [next(events).message for _ in range(2)] == ["2", "3"]
    events.close()  # type: ignore[attr-defined]


def test_followers_beyond_the_places_are_served_in_turn(tmp_path: Path) -> None:
    with api_world(tmp_path, waiting=1) as world:
        world.store.log_event(EventKind.EXEC, "ann", "0")
        streams = [world.client().events(follow=True) for _ in range(3)]
        assert [next(stream).message for stream in streams] == ["0", "0", "0"]
        world.store.log_event(EventKind.EXEC, "ann", "1")
        assert [next(stream).message for stream in streams] == ["1", "1", "1"]
        for stream in streams:
            stream.close()  # type: ignore[attr-defined]


def test_one_client_serves_many_threads(world: ApiWorld) -> None:
    client = world.client()
    with ThreadPoolExecutor(8) as pool:
        assert {view.user for view in pool.map(lambda _: client.status(), range(40))} == {"ann"}


def test_a_defect_of_the_server_is_told_under_seal(world: ApiWorld, caplog: pytest.LogCaptureFixture) -> None:
    client = world.client()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.plan, JOB)
        wait_until(lambda: world.backend.newest(world.keys.tickets) is not None)
        world.backend.apply([("XADD", world.keys.plans, 0, "no", "answer")])
        with pytest.raises(GrassError, match="internal error of the API server"):
            asked.result()
    assert "KeyError" in caplog.text


def test_a_damaged_record_is_named(world: ApiWorld) -> None:
    listed = moved(world.keys, "ann", 1.0, "j-1", None, JobState.QUEUED)
    world.backend.apply([("HSET", world.keys.jobs, "j-1", "{}"), *listed])
    with pytest.raises(GrassError, match=r"redis key grass:local:jobs, field j-1: .*missing required field id"):
        world.client().job("j-1")
    assert world.client().jobs() == []  # lists leave it out


def test_there_is_no_client_without_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="grass create"):
        Client("nowhere", home=tmp_path)


def test_what_is_no_json_is_an_input_error(world: ApiWorld) -> None:
    with pytest.raises(InputError):
        world.client().start({**JOB, "tags": {"a": {1, 2}}})


def asked_paths(world: ApiWorld) -> list[str]:
    """Paths of the requests that the server gets from now on."""
    seen: list[str] = []
    inner = world.app.wsgi_app

    def watched(environ: dict[str, Any], start: Any) -> Any:
        seen.append(environ["PATH_INFO"])
        return inner(environ, start)

    world.app.wsgi_app = watched  # type: ignore[method-assign]
    return seen


def session_file(world: ApiWorld) -> Path:
    return world.home / "home-ann" / "clusters" / "local" / "client" / "session.json"


def test_one_signed_request_serves_many_clients_one_after_the_other(world: ApiWorld) -> None:
    seen = asked_paths(world)
    for _ in range(3):
        assert world.client().jobs() == []
    assert seen.count("/v1/session") == 1
    assert session_file(world).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in session_file(world).parent.glob("session.json*")] == ["session.json"]


def test_a_session_that_the_server_lost_is_opened_again_once_and_nobody_notices(world: ApiWorld) -> None:
    client = world.client()
    client.start(JOB)
    for key in [key for key in world.backend._strings if ":session:" in key]:
        world.backend.apply([("DEL", key)])
    world.stop()
    world.serve()
    seen = asked_paths(world)
    assert client.job("j").name == "j"
    assert [event.kind for event in world.client().events()] == ["job-submitted"]
    assert (
        seen.count("/v1/session") <= 2
    )  # twice if it restarted within seconds of another: the first was too old for it


def test_a_stream_that_meets_the_end_of_its_session_opens_another(world: ApiWorld) -> None:
    client = world.client()
    job = client.start(JOB).id
    for key in [key for key in world.backend._strings if ":session:" in key]:
        world.backend.apply([("DEL", key)])
    world.stop()
    world.serve()
    world.end_job(job)
    assert client.wait("j").state == "SUCCEEDED"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"session": "x", "key": "y", "key_id": "z"}', "\x00" * 100])
def test_a_damaged_file_of_a_session_is_replaced(world: ApiWorld, content: str) -> None:
    session_file(world).write_text(content)
    session_file(world).chmod(0o600)
    assert world.client().jobs() == []
    assert json.loads(session_file(world).read_text())["session"]


def test_a_session_that_others_could_read_is_not_used(world: ApiWorld) -> None:
    world.client().jobs()
    before = session_file(world).read_text()
    session_file(world).chmod(0o644)
    world.client().jobs()
    assert session_file(world).read_text() != before
    assert session_file(world).stat().st_mode & 0o777 == 0o600


def test_a_session_file_that_is_a_link_is_not_followed(world: ApiWorld, tmp_path: Path) -> None:
    world.client().jobs()
    elsewhere = tmp_path / "elsewhere"
    session_file(world).rename(elsewhere)
    session_file(world).symlink_to(elsewhere)
    seen = asked_paths(world)
    world.client().jobs()
    assert "/v1/session" in seen and not session_file(world).is_symlink()


def test_a_session_file_that_is_a_fifo_is_replaced_without_waiting_for_a_writer(world: ApiWorld) -> None:
    os.mkfifo(session_file(world), 0o600)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(lambda: world.client().jobs())
        try:
            assert asking.result(timeout=20) == []
        finally:
            if session_file(world).is_fifo():
                os.close(os.open(session_file(world), os.O_RDWR | os.O_NONBLOCK))  # end a read that waits
    assert session_file(world).is_file()


def test_many_clients_at_once_do_not_break_each_others_session(world: ApiWorld) -> None:
    with ThreadPoolExecutor(16) as pool:
        futures = [pool.submit(lambda: world.client().jobs()) for _ in range(64)]
        assert all(future.result(30) == [] for future in futures)
    json.loads(session_file(world).read_text())


def test_a_session_of_another_key_is_not_used(world: ApiWorld) -> None:
    world.client().jobs()
    content = json.loads(session_file(world).read_text())
    session_file(world).write_text(json.dumps({**content, "key_id": "other"}))
    seen = asked_paths(world)
    world.client().jobs()
    assert seen.count("/v1/session") == 1


def test_the_path_of_a_session_imports_no_rsa(world: ApiWorld) -> None:
    world.client().jobs()
    home = world.home / "home-ann"
    program = (
        "import sys; from pathlib import Path; from grass.api.client import Client;"
        f"Client('local', home=Path({str(home)!r})).jobs();"
        "print([name for name in ('joserfc', 'yaml', 'flask', 'asyncio') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_list_comes_in_pages_from_the_newest_on(world: ApiWorld) -> None:
    client = world.client()
    ids = [client.start({**JOB, "name": f"j{number}"}).id for number in range(5)]
    world.end_job(ids[4])
    known = [job.id for job in client.jobs(all=True)]
    assert sorted(known) == sorted(ids)
    assert [job.id for job in client.jobs(limit=2)] == [each for each in known if each != ids[4]][-2:]
    assert [job.id for job in client.jobs(all=True, limit=2, before=known[3])] == known[1:3]
    assert client.jobs(limit=0) == []
    assert client.status().jobs == {"QUEUED": 4, "SUCCEEDED": 1}


def test_those_that_run_are_chosen_before_the_newest(world: ApiWorld) -> None:
    client = world.client()
    ids = [client.start({**JOB, "name": f"j{number}"}).id for number in range(6)]
    world.change_job(ids[0], state="RUNNING")
    world.change_job(ids[2], state="RUNNING")
    world.change_job(ids[2], state="STOPPING")
    world.change_job(ids[5], state="RUNNING")
    world.end_job(ids[5])
    page = client.newest_jobs(limit=3)
    assert ([job.id for job in page.jobs], page.total) == ([ids[0], ids[2], ids[4]], 5)
    page = client.newest_jobs(all=True, limit=10)
    assert ([job.id for job in page.jobs], page.total) == (ids, 6)


class CountingBackend(MemoryBackend):
    """Counts what is read of it: fields of hashes and members of sorted sets."""

    read = 0

    def hgetall(self, key: str) -> dict[str, str]:
        found = super().hgetall(key)
        self.read += len(found)
        return found

    def hget_many(self, key: str, fields: Sequence[str]) -> dict[str, str]:
        self.read += len(fields)
        return {field: text for field in fields if (text := self.hget(key, field)) is not None}

    def highest(self, key: str, below: str | None, limit: int) -> list[str]:
        found = super().highest(key, below, limit)
        self.read += len(found)
        return found


def test_a_page_and_the_status_cost_the_same_however_many_jobs_there_are(tmp_path: Path) -> None:
    backend = CountingBackend()
    world = ApiWorld(tmp_path, backend=backend)
    try:
        client = world.client()
        record = builtins(world.store.run(client.start(JOB).id))
        costs = []
        for first, end in ((0, 200), (200, 4_000)):
            queue(world, record, first, end)
            backend.read = 0
            assert client.status().jobs == {"QUEUED": end + 1}
            assert len(client.jobs(limit=50)) == 50
            assert (page := client.newest_jobs(limit=50)).total == end + 1
            assert len(client.jobs(limit=50, before=page.jobs[0].id)) == 50
            costs.append(backend.read)
        assert costs[0] == costs[1] < 400
        assert len({job.id for job in client.jobs()}) == 4_001
    finally:
        world.close()


def queue(world: ApiWorld, record: dict[str, Any], first: int, end: int) -> None:
    ops: list[Any] = []
    for number in range(first, end):
        job_id, submitted = f"k-{number:08x}", 5.0 + number // 3  # several at once, as a batch has them
        ops.append(("HSET", world.keys.jobs, job_id, pack({**record, "id": job_id, "submitted": submitted})))
        ops += moved(world.keys, record["user"], submitted, job_id, None, JobState.QUEUED)
    world.backend.apply(ops)


@pytest.mark.parametrize("length", [2500, 100_000])
def test_a_question_that_is_too_long_is_refused_before_it_is_sent(world: ApiWorld, length: int) -> None:
    with pytest.raises(InputError, match="too long: it has a name, a tag or a pattern"):
        world.client().jobs(name="*" * length)
    assert world.client().jobs(name="*" * 1900) == []


def test_calls_take_numbers_of_numpy_and_paths(world: ApiWorld, tmp_path: Path) -> None:
    client, one = world.client(), np.int64(1)
    path = tmp_path / "job.yml"
    path.write_text("name: j\ncomponents: {w: {command: 'true'}}\n")
    job = client.start(path, env={"SEED": one, "FOLDER": tmp_path}).id  # type: ignore[dict-item]
    assert client.job(job).specification.components["w"].env == {"SEED": "1", "FOLDER": str(tmp_path)}
    client.set(job, priority=one, timeout=np.float32(0.5), parallelism={"w": one})
    client.scale(job, "w", delta=one, deadline=np.float32(0.5))
    client.stop(job, grace=np.float32(0.5))
    assert list(client.logs(job, "w", np.int64(0), tail=one, since=np.float32(0))) == []
    with pytest.raises(WaitTimeoutError):
        client.wait(job, timeout=np.float32(0.01))
    with pytest.raises(WaitTimeoutError):
        client.wait_any([job], timeout=np.int64(0))
