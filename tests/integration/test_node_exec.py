"""Commands beside running tasks, through the node's API: processes and containers, with a terminal and without."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psutil
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from grass.api.task_token import task_token
from grass.node_config import NodeHome
from node.api.app import create_app
from node.membership.files import open_secrets, write_secret
from node.runtime.protocol import Stop
from tests.support.docker_run import DockerRun
from tests.support.engine import require_engine
from tests.support.processes import running
from tests.support.shepherd_run import ShepherdRun
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)

TOKEN = "the-token"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
KEY = "j-1/c.0/1"


class Caller:
    def __init__(self, config: NodeHome, **options: Any) -> None:
        self.config = config
        self.client: FlaskClient = create_app(config, TOKEN, **options).test_client()

    def open(self, *argv: str, user: str = "ann", **more: Any) -> Any:
        return self.client.post("/v1/exec", headers=HEADERS, json={"key": KEY, "argv": argv, "user": user, **more})

    def start(self, *argv: str, user: str = "ann", **more: Any) -> Command:
        reply = self.open(*argv, user=user, **more)
        assert reply.status_code == 200, reply.get_json()
        return Command(self.client, reply.get_json()["id"], user)

    def run(self, *argv: str, **more: Any) -> tuple[int, str, str]:
        command = self.start(*argv, **more)
        command.wait(lambda: command.code is not None)
        assert command.code is not None
        return command.code, command.text("stdout"), command.text("stderr")


class Command:
    def __init__(self, client: FlaskClient, name: str, user: str = "ann") -> None:
        self.client, self.name = client, name
        self.path = f"/v1/exec/{user}/j-1/c.0/{name}"
        self.received: dict[str, bytes] = {"stdout": b"", "stderr": b""}
        self.next = 0
        self.code: int | None = None

    def text(self, stream: str = "stdout") -> str:
        return self.received[stream].decode()

    def poll(self) -> None:
        reply = self.client.get(f"{self.path}/output?after={self.next}", headers=HEADERS).get_json()
        for stream, data in reply["chunks"]:
            self.received[stream] += base64.b64decode(data)
        self.next, self.code = reply["next"], reply["code"]

    def wait(self, condition: Any) -> None:
        def met() -> bool:
            if not condition():
                self.poll()
            return bool(condition())

        wait_until(met, what=f"what is waited for; there is {self.received}", every=0.0)

    def give(self, text: str, *, end: bool = False) -> None:
        body = {"data": base64.b64encode(text.encode()).decode(), "end": end}
        assert self.client.post(f"{self.path}/input", headers=HEADERS, json=body).get_json() == {"taken": len(text)}


@pytest.fixture(params=["process", "docker"])
def caller(request: pytest.FixtureRequest) -> Iterator[Caller]:
    """There is one running attempt, which has COLOUR in its environment and /tmp as its working folder."""
    if request.param == "process":
        with ShepherdRun() as run:
            run.connect()
            run.launch(KEY, ["/bin/sleep", "100"], cwd="/tmp", COLOUR="green")
            run.start(KEY, KEY)
            run.started(KEY)
            yield Caller(run.config)
        return
    require_engine()
    with DockerRun(runtimes=("docker",)) as containers:
        containers.start(["sleep", "100"], KEY, cwd="/tmp", env={"COLOUR": "green"})
        containers.runs(KEY)
        yield Caller(containers.config)


def test_a_command_sees_what_its_task_sees(caller: Caller) -> None:
    assert caller.run("sh", "-c", "echo $COLOUR; pwd; echo oops >&2; exit 4") == (4, "green\n/tmp\n", "oops\n")


def test_input_goes_in_and_ends(caller: Caller) -> None:
    command = caller.start("cat")
    command.give("hello ")
    command.wait(lambda: command.text() == "hello ")
    command.give("there\n", end=True)
    command.wait(lambda: command.code is not None)
    assert (command.code, command.text()) == (0, "hello there\n")


def test_a_terminal_is_one_and_can_be_resized(caller: Caller) -> None:
    command = caller.start("sh", tty=True, rows=30, cols=90)
    command.give("stty size\n")
    command.wait(lambda: "30 90" in command.text())
    reply = command.client.post(f"{command.path}/resize", headers=HEADERS, json={"rows": 40, "cols": 100})
    assert reply.status_code == 200
    command.give("stty size\n")
    command.wait(lambda: "40 100" in command.text())
    command.give("exec sh -c 'echo $((1+1))$((1+2)); exec sleep 100'\n")
    command.wait(lambda: "23\r\n" in command.text())
    command.give("\x03")
    command.wait(lambda: command.code is not None)
    assert command.code == 130


def test_a_million_bytes_arrive_whole_though_only_a_part_waits_at_a_time(caller: Caller) -> None:
    code, out, _ = caller.run("sh", "-c", "yes 0123456789 | head -n 400000")
    assert code == 0 and out == "0123456789\n" * 400_000


def test_one_that_is_closed_or_forgotten_ends(caller: Caller) -> None:
    command = caller.start("sh", "-c", "echo $$; exec sleep 1000")
    command.wait(lambda: command.text().endswith("\n"))
    assert command.client.delete(command.path, headers=HEADERS).status_code == 200
    assert command.client.get(f"{command.path}/output", headers=HEADERS).status_code == 404
    forgotten = Caller(caller.config, abandoned=0.1).start("sleep", "1000")
    forgotten.wait(lambda: forgotten.code is not None)  # who asks so rarely finds it ended
    assert forgotten.code != 0


def test_all_that_a_user_runs_ends_at_once_and_nothing_of_others(caller: Caller) -> None:
    marks = [f"11{number}.{os.getpid()}" for number in range(3)]
    for mark, user in zip(marks, ("ann", "ann", "bob"), strict=True):
        caller.start("sleep", mark, user=user)
    wait_until(lambda: len(sleepers(marks)) == 3, what="three commands")
    assert caller.client.delete("/v1/users/ann").status_code == 403, "without the node's token"
    assert caller.client.delete("/v1/users/ann", headers=HEADERS).status_code == 200
    wait_until(lambda: not sleepers(marks[:2]), what="the end of two")
    assert len(sleepers(marks[2:])) == 1


def test_the_id_of_a_session_is_nothing_to_another_user_job_or_task(caller: Caller) -> None:
    command = caller.start("cat")
    for owner in ("bob/j-1/c.0", "ann/j-2/c.0", "ann/j-1/c.1"):
        path = f"/v1/exec/{owner}/{command.name}"
        for method, verb in (("GET", "/output"), ("POST", "/input"), ("POST", "/resize"), ("DELETE", "")):
            reply = caller.client.open(path + verb, method=method, headers=HEADERS, json={"data": "eA==", "end": True})
            assert (reply.status_code, reply.get_json()["error"]["code"]) == (404, "not-found"), (owner, verb)
    command.give("mine", end=True)
    command.wait(lambda: command.code is not None)
    assert (command.code, command.text()) == (0, "mine")


def test_a_session_that_begins_when_a_finished_one_is_forgotten_gets_an_id_of_its_own(caller: Caller) -> None:
    forgetful = Caller(caller.config, abandoned=0.05)
    stale = forgetful.start("true")
    ids = {stale.name}

    def forgotten() -> bool:
        began = forgetful.start("true")
        assert began.name not in ids
        ids.add(began.name)
        resized = began.client.post(f"{stale.path}/resize", headers=HEADERS, json={})  # no poll: it keeps nothing alive
        return resized.status_code == 404

    wait_until(forgotten, what="the end of the first")


@pytest.fixture
def tasks() -> Iterator[NodeHome]:
    """A node where KEY runs, and where jobs j-1 and j-2 have secrets."""
    with ShepherdRun() as run:
        run.connect()
        run.launch(KEY, ["/bin/sleep", "100"])
        run.start(KEY, KEY)
        run.started(KEY)
        open_secrets(run.config)
        for job in ("j-1", "j-2"):
            write_secret(run.config, job, f"secret of {job}")
        yield run.config


class Task:
    """A task that runs commands in ``KEY``."""

    def __init__(self, client: FlaskClient, key: str) -> None:
        self._client = client
        self._headers = {"Authorization": f"Bearer {task_token(f'secret of {key[:3]}', key)}"}

    def call(self, method: str, path: str, body: dict[str, object] | None = None) -> TestResponse:
        target = f"/v1/tasks/exec/{path}".rstrip("/")
        return self._client.open(target, method=method, headers=self._headers, json=body or {})

    def opened(self, program: str, request_id: str = "") -> str:
        reply = self.call("POST", "", {"key": KEY, "argv": [program], "id": request_id})
        assert reply.status_code == 200, reply.get_json()
        return str(reply.get_json()["id"])


def test_a_command_with_an_id_of_its_own_is_there_though_a_finished_one_was_forgotten(tasks: NodeHome) -> None:
    launcher = Task(create_app(tasks, TOKEN, of_tasks=0.05).test_client(), "j-1/launcher.0/1")
    stale, ids = launcher.opened("true"), set[str]()

    def forgotten() -> bool:
        began = launcher.opened("true", f"{len(ids):016}")
        assert began not in ids and launcher.call("GET", f"{began}/output").status_code == 200
        ids.add(began)
        return launcher.call("POST", f"{stale}/signal", {"signal": "INT"}).status_code == 404

    wait_until(forgotten, what="the end of the first")


def test_a_task_reaches_only_the_commands_that_it_began_itself(tasks: NodeHome) -> None:
    client = create_app(tasks, TOKEN).test_client()
    launcher, other, foreign = (Task(client, f"{each}/1") for each in ("j-1/l.0", "j-1/l.1", "j-2/l.0"))
    name = launcher.opened("cat", "a" * 16)
    assert launcher.opened("cat", "a" * 16) == name, "a repeated request starts nothing"
    assert other.opened("cat", "a" * 16) != name, "requests of another task are others"
    for task in (other, foreign):
        for method, verb in (("GET", "/output"), ("POST", "/input"), ("POST", "/signal"), ("DELETE", "")):
            assert task.call(method, name + verb, {"data": "eA==", "signal": "INT"}).status_code == 404
    assert foreign.call("POST", "", {"key": KEY, "argv": ["true"]}).status_code == 403
    assert launcher.call("DELETE", name).status_code == 200


def test_what_it_began_ends_with_it(caller: Caller) -> None:
    marks = [f"10{number}.{os.getpid()}" for number in range(2)]
    command = caller.start("sh", "-c", f"sleep {marks[0]} & sleep {marks[1]}; true")
    wait_until(lambda: len(sleepers(marks)) == 2, what="both processes")
    command.client.delete(command.path, headers=HEADERS)
    wait_until(lambda: not sleepers(marks), what="the end of both")


@pytest.mark.parametrize("runs", [True, False])
def test_one_in_a_container_ends_though_this_user_may_not_kill_it(runs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def may_not(pid: int, number: int) -> None:
        raise PermissionError

    require_engine()
    monkeypatch.setattr(os, "kill", may_not)
    with DockerRun(runtimes=("docker",)) as containers:
        containers.start(["sleep", "100"], KEY, container={"user": "1234"})
        containers.runs(KEY)
        marks = [f"102.{os.getpid()}"]
        command = Caller(containers.config).start("sleep", *marks)
        if runs:  # or the engine has not quite begun it
            wait_until(lambda: bool(sleepers(marks)), what="its process")
        command.client.delete(command.path, headers=HEADERS)
        wait_until(lambda: not containers.containers()[0]["ExecIDs"], what="its end")
        assert not sleepers(marks)


def sleepers(marks: list[str]) -> list[psutil.Process]:
    return [process for mark in marks for process in running("sleep", mark)]


def test_who_has_no_such_command_is_told(caller: Caller) -> None:
    reply = caller.open("no-such-program")
    if reply.status_code == 200:  # an engine says so only when it has begun
        command = Command(caller.client, reply.get_json()["id"])
        command.wait(lambda: command.code is not None)
        assert command.code in (126, 127)
    else:
        assert reply.status_code in (400, 503) and "no-such-program" in reply.get_json()["error"]["message"]


def test_only_running_attempts_and_whole_requests_are_served() -> None:
    with ShepherdRun() as run:
        caller = Caller(replace(run.config))
        run.run(["/bin/true"], key=KEY)
        assert caller.open("true").status_code == 409
        whole = {"key": KEY, "argv": ["true"], "user": "ann"}
        wrong = ({"key": "../x"}, {"argv": []}, {"argv": "true"}, {"user": ""}, {"user": "a/b"}, {"user": None})
        for body in ({}, *({**whole, **part} for part in wrong)):
            assert caller.client.post("/v1/exec", headers=HEADERS, json=body).status_code == 400
        assert caller.client.post("/v1/exec", json={"key": KEY, "argv": ["true"]}).status_code == 403
        unknown = {**whole, "key": "j-9/c.0/1"}
        assert caller.client.post("/v1/exec", headers=HEADERS, json=unknown).status_code == 404
        run.launch("j-2/c", ["/bin/sleep", "100"])
        run.start("j-2/c", "j-2/c.0/1")
        run.started("j-2/c.0/1")
        bad = {**whole, "key": "j-2/c.0/1", "tty": True, "rows": 0, "cols": 5}
        assert caller.client.post("/v1/exec", headers=HEADERS, json=bad).status_code == 400
        run.runtime.stop([Stop("j-2/c.0/1", 0.0)])
        assert os.path.exists(run.folder)
