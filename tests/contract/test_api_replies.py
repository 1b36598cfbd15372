"""Every reply is what the OpenAPI document says, and every request that the client makes is, too."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from grass.api.client import Client
from grass.errors import GrassError
from grass.manifest import parse_job
from grass.model.lifecycle import TaskState
from grass.model.schedule import Schedule, ScheduleKind
from grass.wire import views
from grass.wire.codec import encode as pack
from grass.wire.task_record import TaskRecord
from master.agent.records import node_record
from master.agent.state import NodeRun
from master.api.routes import ROUTES, Route
from tests.support.api_world import ApiWorld, api_world
from tests.support.shapes import faults
from tests.support.waiting import wait_until

JOB = {"name": "j", "components": {"w": {"command": "true", "replicas": 2}}}
CRON = {"name": "s", "cron": "0 3 * * *", "components": {"w": {"command": "true"}}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ApiWorld]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with api_world(tmp_path) as world:
        yield world


def route_of(method: str, target: str) -> Route:
    parts = target.partition("?")[0].split("/")
    for route in ROUTES:
        pattern = route.path.split("/")
        fits = len(pattern) == len(parts) and all(
            one == two or one.startswith("{") for one, two in zip(pattern, parts, strict=True)
        )
        if route.method == method and fits:
            return route
    raise AssertionError(f"no route for {method} {target}")


class Checked:
    """A client whose requests and replies are held against the schemas; ``seen`` are the routes that it used."""

    def __init__(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = client
        self.seen: set[str] = set()
        self.found: list[str] = []
        call, stream = client._transport.call, client._transport.stream

        def checked_call(method: str, target: str, body: Any = None, **options: Any) -> Any:
            self.asked(method, target, body)
            answer = call(method, target, body, **options)
            self.answered(method, target, answer)
            return answer

        def checked_stream(method: str, target: str, body: Any = None, **options: Any) -> Iterator[Any]:
            self.asked(method, target, body)
            for piece in stream(method, target, body, **options):
                self.answered(method, target, piece)
                yield piece

        monkeypatch.setattr(client._transport, "call", checked_call)
        monkeypatch.setattr(client._transport, "stream", checked_stream)

    def asked(self, method: str, target: str, body: Any) -> None:
        route = route_of(method, target)
        content = body(0) if callable(body) else body
        if route.request is not None:
            self.found += faults(content, route.request, f"{route.operation} request")
        else:
            assert not content

    def answered(self, method: str, target: str, answer: Any) -> None:
        route = route_of(method, target)
        self.seen.add(route.operation)
        self.found += faults(answer, route.response, f"{route.operation} reply")


def test_the_client_and_the_server_keep_to_the_document(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = Checked(world.client(), monkeypatch)
    client = checked.client
    world.backend.apply([("HSET", world.keys.nodes, "n1", pack(node_record(NodeRun("n1"))))])
    job_id = client.start(JOB)["id"]
    task = pack(TaskRecord(TaskState.RUNNING, 1, "n1", ports={"p": 1}, ready=True))
    world.backend.apply([("HSET", world.keys.tasks(job_id), "w.0", task)])
    client.job("j"), client.jobs(), client.tasks("j"), client.tasks("j", "w"), client.why("j")
    client.nodes(), client.node("n1"), client.status(), client.stop("j", grace=1.5)
    folder = world.config.logs_dir / job_id
    folder.mkdir(parents=True)
    (folder / "w.0.jsonl").write_text('{"attempt":1,"stream":"stdout","offset":0,"time":1.0,"text":"hello\\n"}\n')
    (
        list(client.logs("j", "w.0", since=0.5)),
        list(client.logs("j", tail=1)),
        next(client.logs("j", follow=True, tail=1)),
    )
    world.end_job(job_id)
    client.wait("j", timeout=5, on_progress=lambda view: None)
    with ThreadPoolExecutor(2) as pool:
        planning = pool.submit(client.plan, {**JOB, "name": "k"})
        wait_until(lambda: "plan" in tickets(world))
        world.answer_plan(reason=None)
        assert planning.result(10)["name"] == "k"
        deleting = pool.submit(client.delete, "j")
        schedule = pool.submit(client.start_schedule, CRON)
        wait_until(lambda: {"delete", "schedule-start"} <= tickets(world))
        world.backend.apply([("HDEL", world.keys.jobs, job_id)])
        deleting.result(10)
        put_schedule(world, "ACTIVE")
        assert schedule.result(10)["state"] == "ACTIVE"
        client.schedules(), client.schedule("s")
        stopping = pool.submit(client.stop_schedule, "s")
        wait_until(lambda: "schedule-stop" in tickets(world))
        put_schedule(world, "STOPPED")
        stopping.result(10)
    list(client.events(limit=100))
    assert checked.found == []
    elsewhere = {f"nodes.{verb}" for verb in ("wait", "cordon", "uncordon", "drain", "remove")}  # test_api_joins
    assert (
        checked.seen
        == {route.operation for route in ROUTES if route.noun not in ("joins", "exec", "session")} - elsewhere
    )


def tickets(world: ApiWorld) -> set[str]:
    return {json.loads(fields["body"])["kind"] for _, fields in world.backend.stream(world.keys.tickets, "0", 10)}


SPEC = Schedule("s", ScheduleKind.CRON, (parse_job(JOB).job,), "0 3 * * *")


def put_schedule(world: ApiWorld, state: str) -> None:
    """As ``master.agent.schedules.start`` makes it."""
    record = {"name": "s", "state": state, "kind": "cron", "user": "ann", "cron": "0 3 * * *", "time_zone": "UTC"}
    rest = {"next": 1.0, "last": None, "jobs": [], "reason": None, "spec": SPEC, "pending": False, "runs": 0}
    event = {"time": 1.0, "kind": "schedule-started", "user": "ann", "message": "m", "schedule": "s"}
    world.backend.apply(
        [
            ("HSET", world.keys.schedules, "s", pack({**record, **rest})),
            ("XADD", world.keys.events, 0, "event", pack(event)),
        ]
    )


def test_every_kind_of_error_has_the_documented_form(world: ApiWorld) -> None:
    from tests.contract.test_api_attacks import Wire

    wire = Wire(world)
    calls: list[tuple[str, str, Any]] = [
        ("POST", "/v1/jobs", {}),
        ("POST", "/v1/jobs", {"manifest": {"name": "j", "components": {"w": {"comand": "x"}}}}),
        ("GET", "/v1/jobs/none", None),
        ("GET", "/v1/jobs?all=maybe", None),
        ("GET", "/v1/jobs?most=1", None),
        ("GET", "/v1/jobs/none/wait?timeout=1e9", None),
        ("GET", "/v1/events?after=x", None),
        ("GET", "/v1/events?limit=99999999", None),
    ]
    for method, path, body in calls:
        status, answer = wire.call(method, path, body)
        assert status in (400, 404)
        assert faults(answer, views.ErrorView, "error") == []


def test_errors_come_back_as_what_they_were(world: ApiWorld) -> None:
    from grass.api.transport import error_of
    from grass.errors import ManifestError

    error = error_of({"code": "bad-manifest", "message": "m", "problems": [{"path": "a.b", "message": "wrong"}]})
    assert isinstance(error, ManifestError)
    assert str(error) == "a.b: wrong"
    assert type(error_of({"code": "of-tomorrow", "message": "m", "problems": []})) is GrassError
