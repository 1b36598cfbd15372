"""Every reply is what the OpenAPI document says, and every request that the client makes is, too."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from grass.api.client import Client
from grass.api.transport import Body, PlainData, Transport
from grass.errors import ConflictError, GrassError, InputError
from grass.manifest import parse_job
from grass.model.lifecycle import TaskState
from grass.model.schedule import Schedule, ScheduleKind
from grass.wire import error_views
from grass.wire.attempt_record import AttemptRecord, field_of
from grass.wire.codec import Form, builtins
from grass.wire.codec import encode as pack
from grass.wire.operation_record import OperationKind, OperationRecord, OperationState, Outcome, ScaleRule
from grass.wire.own_curves import INDEX, OwnCurve, OwnIndex, OwnNotes, notes_field
from grass.wire.own_curves import field as own_field
from grass.wire.task_record import TaskRecord
from grass.wire.usage import GpuUsage, NodeSample, TaskSample, TaskTotals, UsageSample
from grass.wire.usage_history import FINE, Chunk
from grass.wire.usage_history import field as chunk_field
from master.agent.node_run import NodeRun
from master.agent.records import node_record
from master.api.route import Route
from master.api.routes import ROUTES
from master.collector.journal import Journal, Source, folder_of
from tests.support.api_world import ApiWorld
from tests.support.shapes import faults
from tests.support.waiting import wait_until

JOB = {"name": "j", "components": {"w": {"command": "true", "replicas": 2}}}
CRON = {"name": "s", "cron": "0 3 * * *", "components": {"w": {"command": "true"}}}

DATA: Form[Any] = Form(dict[str, Any])


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
    """A client whose requests and replies are held against the schemas; ``seen`` are the routes that it used.

    A reply that was decoded to its view is encoded to the same JSON again.
    """

    def __init__(self, world: ApiWorld, user: str = "ann") -> None:
        self.seen: set[str] = set()
        self.found: list[str] = []
        checked = self

        class CheckedTransport(Transport):
            def call(self, method: str, target: str, body: Body = None, *, wait: float = 0.0) -> Any:
                checked.asked(method, target, body)
                answer = super().call(method, target, body, wait=wait)
                checked.answered(method, target, answer)
                return answer

            def stream(
                self, method: str, target: str, body: Body = None, **options: Any
            ) -> Generator[PlainData, None, None]:
                checked.asked(method, target, body)
                for piece in super().stream(method, target, body, **options):
                    checked.answered(method, target, piece)
                    yield piece

        self.client = world.client(user, transport=CheckedTransport)

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
        again = json.dumps(builtins(Form[Any](route.response).convert(answer)))
        if again != json.dumps(answer):  # `-o json` prints the view of a reply, and must print what was sent
            self.found.append(f"{route.operation} reply: {json.dumps(answer)} is {again} as a view")


def put_usage(world: ApiWorld, job_id: str) -> None:
    """A sample of node n1 with a task and a GPU, and histories of them and of a figure of the task's own."""
    totals = TaskTotals(cpu=1.5, memory=7, partial=True)
    running = TaskSample(key=f"{job_id}/w.0/1", cpu=0.5, memory=7, files=3, totals=totals)
    gpu = GpuUsage(id=0, utilisation=50, power=300.0)
    node = NodeSample(
        cpu=5, memory=1, memory_total=2, disk_used=1, disk_total=2, network_sent=0, network_received=0, gpus=(gpu,)
    )
    now, keys = int(time.time()), world.keys
    chunk, curve = Chunk(FINE, FINE.number(now)), OwnCurve()
    chunk.put(now, {"cpu": 0.5})
    curve.add(1, 0.25, now)
    history = keys.job_history(job_id)
    world.backend.apply(
        [
            ("XADD", keys.node_usage("n1"), 60, "body", pack(UsageSample(now, node, (running,)))),
            ("HSET", history, chunk_field(FINE, chunk.number, "w.0"), chunk.pack()),
            ("HSET", history, INDEX, pack(OwnIndex([("w.0", "loss")])), own_field("w.0", "loss"), curve.pack()),
            ("HSET", history, notes_field("w.0"), pack(OwnNotes({"lr": "0.1"}, {"loss": 2}))),
        ]
    )


def put_elastic(world: ApiWorld, client: Client) -> None:
    """A running job that may change its size, with a change that Grass has made."""
    job_id = client.start({"name": "elastic", "components": {"w": {"command": "true", "min": 1, "max": 4}}}).id
    world.change_job(job_id, "job-started", state="RUNNING", started=1.0)
    done: dict[str, Any] = {"state": OperationState.ENDED, "outcome": Outcome.DONE, "ended": 3.0, "author": "grass"}
    sizes: dict[str, Any] = {"from_size": 2, "to_size": 1, "rule": ScaleRule.UNDO, "reason": "gained nothing"}
    scaled = OperationRecord(
        id="0" * 8, job_id=job_id, component="w", kind=OperationKind.SCALE, filed=2.0, **done, **sizes
    )
    world.backend.apply([("HSET", world.keys.operations(job_id), scaled.id, pack(scaled))])


def test_the_client_and_the_server_keep_to_the_document(world: ApiWorld) -> None:
    checked = Checked(world)
    client = checked.client
    world.backend.apply([("HSET", world.keys.nodes, "n1", pack(node_record(NodeRun("n1"))))])
    job_id = client.start(JOB).id
    task = pack(TaskRecord(TaskState.RUNNING, 1, "n1", ports={"p": 1}, ready=True))
    world.backend.apply([("HSET", world.keys.tasks(job_id), "w.0", task)])
    client.job("j"), client.jobs(), client.tasks("j"), client.tasks("j", "w"), client.why("j"), client.job_file("j")
    earlier = {
        field_of("w.0", number): pack(AttemptRecord(number, "n1", 1, None, None, 1.0, 2.0)) for number in (1, 3, 4)
    }
    again = pack(TaskRecord(TaskState.RUNNING, 5, "n1", ports={"p": 1}, ready=True))
    fields = [text for pair in earlier.items() for text in pair]
    world.backend.apply(
        [("HSET", world.keys.attempts(job_id), *fields), ("HSET", world.keys.tasks(job_id), "w.0", again)]
    )
    there_again = pack(TaskRecord(TaskState.PENDING, 1))  # w.1 was removed, and waits for its second attempt
    world.backend.apply([("HSET", world.keys.tasks(job_id), "w.1", there_again)])
    assert [one.attempt for one in client.attempts("j")] == [1, 3, 4, 5]
    assert len(client.attempts("j", "w.0,w.1")) == 4
    pages, after = [], None
    while True:
        page = client._get("/v1/jobs/j/attempts", DATA, limit=1, after=after)
        pages += [one["attempt"] for one in page["attempts"]]
        if (after := page["after"]) is None:
            break
    assert pages == [1, 3, 4, 5]
    with pytest.raises(InputError, match="pass on `after`"):
        client._get("/v1/jobs/j/attempts", DATA, after="nonsense")
    put_usage(world, job_id)
    (
        client.usage(),
        client.node_usage("n1", step=60),
        client.job_usage("j", first=3),
        client.job_metrics("j"),
        client.media("j"),
    )
    client.task_usage("j", "w.0", since=5.0), client.results("j")
    client.nodes(), client.node("n1"), client.notice(), client.status(), client.stop("j", grace=1.5)
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
        assert planning.result(10).name == "k"
        again = client.rerun("j").id
        for change, kind, values in (
            (client.hold, "hold", {"held": "ann"}),
            (client.release, "release", {"held": None}),
        ):
            changing = pool.submit(change, again)
            wait_until(lambda: kind in tickets(world))  # noqa: B023 (called at once)
            world.change_job(again, kind, **values)
            changing.result(10)
        setting = pool.submit(client.set, again, priority=7, timeout="2h")
        wait_until(lambda: "set" in tickets(world))
        spec = world.store.spec(again)
        assert spec is not None
        world.backend.apply(
            [("HSET", world.keys.specs, again, pack(dataclasses.replace(spec, priority=7, timeout=7200.0)))]
        )
        world.change_job(again, "job-set", priority=7)
        assert setting.result(10).priority == 7
        client.stop(again, tasks=["w"])
        deleting = pool.submit(client.delete, job_id)
        schedule = pool.submit(client.start_schedule, CRON)
        wait_until(lambda: {"delete", "schedule-start"} <= tickets(world))
        world.backend.apply([("HDEL", world.keys.jobs, job_id)])
        deleting.result(10)
        put_schedule(world, "ACTIVE")
        assert schedule.result(10).state == "ACTIVE"
        client.schedules(), client.schedule("s")
        for verb, kind, state in (
            (client.pause_schedule, "schedule-pause", "PAUSED"),
            (client.run_schedule, "schedule-run", "PAUSED"),
            (client.resume_schedule, "schedule-resume", "ACTIVE"),
        ):
            changing = pool.submit(verb, "s")
            wait_until(lambda: kind in tickets(world))  # noqa: B023 (called at once)
            put_schedule(world, state, runs=1 if kind == "schedule-run" else 0)
            assert changing.result(10).state == state
        stopping = pool.submit(client.stop_schedule, "s")
        wait_until(lambda: "schedule-stop" in tickets(world))
        put_schedule(world, "STOPPED")
        stopping.result(10)
        removing = pool.submit(client.delete_schedule, "s")
        wait_until(lambda: "schedule-delete" in tickets(world))
        world.backend.apply([("HDEL", world.keys.schedules, "s")])
        removing.result(10)
    list(client.events(limit=100)), next(client.changes()), client.shares()
    put_elastic(world, client)
    client.autoscale("elastic")
    client.create_queue("q", lease=30), client.put_items("q", ["a"]), client.queues(), client.queue("q")
    assert checked.found == []
    assert of_nobody_knows_where(world) == []
    away = {f"nodes.{verb}" for verb in ("wait", "cordon", "uncordon", "drain", "stop", "remove")}  # test_api_joins
    away.add("jobs.stacks")  # test_node_stacks
    elsewhere = ("joins", "exec", "forward", "session", "checks")  # checks: test_api_node_checks
    assert checked.seen == operations_but(*elsewhere, *ADMINISTERED) - away


ADMINISTERED = ("cloud", "daemons", "images", "operations", "users")
"""Nouns of the next test."""


def operations_but(*nouns: str) -> set[str]:
    return {route.operation for route in ROUTES if route.noun not in nouns}


def test_changes_of_jobs_users_and_images_keep_to_the_document(
    world: ApiWorld,
) -> None:
    checked = Checked(world, "root")
    client = checked.client
    job_id = client.start(JOB).id
    with ThreadPoolExecutor(1) as pool:
        scaling = pool.submit(client.scale, "j", "w", delta=1)
        wait_until(lambda: "scale" in tickets(world))
        [ticket] = [body for body in ticket_bodies(world) if body["kind"] == "scale"]
        waits = OperationRecord(
            id=ticket["id"], job_id=job_id, component="w", kind=OperationKind.SCALE, author="root", filed=1.0
        )
        world.change_operation(waits)
        assert scaling.result(10).id == waits.id
        assert [each.id for each in client.operations("j")] == [waits.id]
        cancelling = pool.submit(client.cancel_operation, "j", waits.id)
        wait_until(lambda: "operation-cancel" in tickets(world))
        world.change_operation(replace(waits, state=OperationState.ENDED, ended=2.0, outcome=Outcome.CANCELLED))
        assert cancelling.result(10).outcome == "CANCELLED"
    assert client.wait_for_operation("j", waits.id).state == "ENDED"
    journal = Journal(folder_of(world.config))
    journal.append(Source(None, "monitor"), [{"time": 1.0, "level": "INFO", "text": "ready"}])
    assert [line.text for line in client.daemon_logs()] == ["ready"]
    client.tell_cloud("the master", 60.0)
    client.sign_off_image("trainer:1", "0" * 64), client.forget_image("trainer:1")
    assert client.add_user("vera").user == "vera"
    client.users(), client.set_user_role("vera", "viewer"), client.rotate_user("vera")
    client.disable_user("vera", stop_jobs=True), client.enable_user("vera"), client.remove_user("vera")
    assert checked.found == []
    assert of_nobody_knows_where(world) == []
    away = {"users.login", "users.key"}  # test_api_users
    assert checked.seen - {"jobs.start"} == {route.operation for route in ROUTES if route.noun in ADMINISTERED} - away


def ticket_bodies(world: ApiWorld) -> list[dict[str, Any]]:
    return [json.loads(fields["body"]) for _, fields in world.backend.stream(world.keys.tickets, "0", 100)]


def tickets(world: ApiWorld) -> set[str]:
    return {body["kind"] for body in ticket_bodies(world)}


def of_nobody_knows_where(world: ApiWorld) -> list[str]:
    """Return the kinds of tickets and of events of users that do not say from where they came."""
    asked = [body for body in ticket_bodies(world) if body["kind"] not in ("start", "plan")]  # these cause no event
    done = [event for event in world.client("root").events() if event.user and event.message != PLANTED]
    assert asked and done
    unknown = [event.kind for event in done if event.address != "127.0.0.1"]
    return unknown + [body["kind"] for body in asked if body.get("address") != "127.0.0.1"]


PLANTED = "m"
SPEC = Schedule("s", ScheduleKind.CRON, (parse_job(JOB).job,), "0 3 * * *")


def put_schedule(world: ApiWorld, state: str, runs: int = 0, requests: Sequence[str] = ()) -> None:
    """As ``master.agent.schedules.start`` makes it."""
    record = {"name": "s", "state": state, "kind": "cron", "user": "ann", "cron": "0 3 * * *", "time_zone": "UTC"}
    rest = {"next": 1.0, "last": None, "jobs": [], "reason": None, "spec": SPEC, "pending": False, "runs": runs}
    rest["requests"] = list(requests)
    event = {"time": 1.0, "kind": "schedule-started", "user": "ann", "message": PLANTED, "schedule": "s"}
    world.backend.apply(
        [
            ("HSET", world.keys.schedules, "s", pack({**record, **rest})),
            ("XADD", world.keys.events, 0, "event", pack(event)),
        ]
    )


@pytest.mark.parametrize("verb", ["run", "pause", "resume"])
def test_a_request_about_a_schedule_that_is_known_is_answered_and_makes_no_ticket(world: ApiWorld, verb: str) -> None:
    client = world.client("ann")
    put_schedule(world, "STOPPED", requests=["0000000a"])
    assert client._transport.call("POST", f"/v1/schedules/s/{verb}", {"id": "0000000a"})["state"] == "STOPPED"
    assert tickets(world) == set()
    with pytest.raises(ConflictError):
        client._transport.call("POST", f"/v1/schedules/s/{verb}", {"id": "0000000b"})
    with pytest.raises(InputError, match="8 hexadecimal digits"):
        client._transport.call("POST", f"/v1/schedules/s/{verb}", {"id": "b"})


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
        ("GET", "/v1/events?before=x", None),
        ("GET", "/v1/events?before=1-0&follow=true", None),
        ("GET", "/v1/events?limit=99999999", None),
    ]
    for method, path, body in calls:
        status, answer = wire.call(method, path, body)
        assert status in (400, 404)
        assert faults(answer, error_views.ErrorView, "error") == []


def test_errors_come_back_as_what_they_were(world: ApiWorld) -> None:
    from grass.api.error_reply import error_of
    from grass.errors import ManifestError

    error = error_of({"code": "bad-manifest", "message": "m", "problems": [{"path": "a.b", "message": "wrong"}]})
    assert isinstance(error, ManifestError)
    assert str(error) == "a.b: wrong"
    assert type(error_of({"code": "of-tomorrow", "message": "m", "problems": []})) is GrassError


@pytest.mark.parametrize(("state", "held"), [("STOPPED", "ann"), ("SUSPENDED", None), ("RUNNING", None)])
def test_a_job_that_is_not_held_is_not_released_and_the_answer_says_its_state(
    world: ApiWorld, state: str, held: str | None
) -> None:
    client = world.client()
    world.change_job(client.start(JOB).id, state=state, held=held)
    with pytest.raises(ConflictError, match=f"job j: not held; it is {state}"):
        client.release("j")
    assert "release" not in tickets(world)


def test_a_suspended_job_that_was_held_is_released(world: ApiWorld) -> None:
    client = world.client()
    job_id = client.start(JOB).id
    world.change_job(job_id, state="SUSPENDED", held="ann")
    with ThreadPoolExecutor(1) as pool:
        releasing = pool.submit(client.release, "j")
        wait_until(lambda: "release" in tickets(world))
        world.change_job(job_id, "job-released", held=None)
        assert releasing.result(10).held is None
