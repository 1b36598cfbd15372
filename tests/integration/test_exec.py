"""`grass job exec` on a real local cluster: streams, input, exit code, a terminal, and what is refused."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from socket import create_connection
from urllib.parse import urlsplit

import pytest

from grass.api.client import Client
from grass.api.login import log_in
from grass.api.login_invitation import parse_invitation
from grass.errors import ConflictError, InputError, NotAllowedError, NotFoundError
from grass.model.beside import INSIDE, holder
from node.runtime import proc
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

GRASS = Path(sys.executable).parent / "grass"
GREET = """
import os, socket
server, open_ones = socket.create_server(("127.0.0.1", int(os.environ["GRASS_PORT_WEB"]))), []
while True:
    open_ones.append(server.accept()[0])
    open_ones[-1].sendall(b"up")
"""
"""Says a word on each connection, and keeps it open."""
JOB = {
    "name": "held",
    "components": {
        "w": {"command": "sleep 300", "replicas": 1, "env": {"COLOUR": "green"}, "resources": {"cpu": 0.1}},
        "late": {"command": "true", "depends_on": {"w": "succeeded"}, "resources": {"cpu": 0.1}},
    },
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    made = LocalCluster()
    try:
        made.create()
        with made.client() as client:
            client.start(JOB, cwd="/")
            wait_until(lambda: client.tasks("held", "w")[0].state == "RUNNING", seconds=20)
        yield made
    finally:
        made.end()


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


def test_a_command_runs_beside_the_task_with_its_environment_and_its_exit_code_comes_back(client: Client) -> None:
    run = client.execute("held", "w.0", ["sh", "-c", "echo $COLOUR $GRASS_TASK; echo oh >&2; exit 7"])
    pieces = list(run.output())
    assert b"".join(data for stream, data in pieces if stream == "stdout") == b"green held.w.0\n"
    assert b"".join(data for stream, data in pieces if stream == "stderr") == b"oh\n"
    assert run.code == 7


def test_a_signal_reaches_the_first_process_of_the_tasks_that_are_named(client: Client) -> None:
    command = "trap 'echo told >&2; exit 3' USR1; while :; do sleep 0.1; done"
    client.start(
        {
            "name": "told",
            "components": {"w": {"command": command, "replicas": 2, "resources": {"cpu": 0.1}}},
            "fail_fast": False,
        },
        cwd="/",
    )
    wait_until(lambda: all(task.state == "RUNNING" for task in client.tasks("told")), seconds=20)
    assert client.signal("told", "sigusr1", ["w.1"]) == ["w.1"]
    wait_until(lambda: client.tasks("told")[1].exit_code == 3, seconds=20)
    assert client.tasks("told")[0].state == "RUNNING"
    assert client.signal("told", 12) == ["w.0"]
    wait_until(lambda: client.tasks("told")[0].signal == 12, seconds=20)
    with pytest.raises(ConflictError, match="none of these tasks runs now"):
        client.signal("told", "USR1")
    with pytest.raises(NotFoundError, match=r"has no component or task w\.9"):
        client.signal("held", "USR1", ["w.9"])
    for wrong in ("USR9", "", 400, "-1"):
        with pytest.raises(InputError, match="is no signal"):
            client.signal("held", wrong)


def test_a_task_with_a_notice_is_told_before_its_time_limit_and_may_end_by_itself(client: Client) -> None:
    limits = {"timeout": "4s", "notice": {"for": "3s", "signal": "USR1"}, "resources": {"cpu": 0.1}}
    save = "trap 'cat \"$GRASS_EVENTS\"; exit 0' USR1; while :; do sleep 0.1; done"
    components = {
        "saves": {"command": save, **limits},
        "deaf": {"command": "trap '' USR1; while :; do sleep 0.1; done", **limits},
    }
    client.start({"name": "limited", "components": components, "fail_fast": False}, cwd="/")
    assert client.wait("limited", 40).state == "FAILED"
    saves, deaf = client.tasks("limited")
    assert saves.exit_code == 0 and "its time limit is over in 3 s" in "".join(
        line.text for line in client.logs("limited")
    )
    assert deaf.reason is not None and deaf.reason.code == "timeout" and "limit of 4 s" in deaf.reason.message
    assert deaf.started and deaf.ended and deaf.ended - deaf.started > 3.5
    assert saves.started and saves.ended and saves.ended - saves.started < 3.5


@pytest.mark.alone
def test_calls_of_a_disabled_user_end_within_a_second_and_so_does_the_command(
    cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    log_in(parse_invitation(client.add_user("ann").invitation), tmp_path / "clusters" / "lab")
    script = ["sh", "-c", "echo up; exec sleep 301.5"]
    with Client("lab", home=tmp_path) as ann, ThreadPoolExecutor(4) as threads:
        ann.start({"name": "of-ann", "components": {"w": {"command": "echo up; exec sleep 300"}}}, cwd="/")
        wait_until(lambda: ann.tasks("of-ann", "w")[0].state == "RUNNING", seconds=20)
        streams = {
            "output of a command": ann.execute("of-ann", "w.0", script).output(),
            "logs": ann.logs("of-ann", follow=True),
            "events": ann.events(follow=True),
            "changes": ann.changes(),
        }
        for stream in streams.values():
            next(stream)
        ends = {what: threads.submit(refused_at, stream) for what, stream in streams.items()}
        wait_until(lambda: len(commands_of("301.5")) == 1, 10, "the command")
        client.status()
        disabled = time.monotonic()
        client.disable_user("ann")
        took = {what: end.result(30) - disabled for what, end in ends.items()}
        assert all(0 < seconds < 1 for seconds in took.values()), took
        wait_until(lambda: not commands_of("301.5"), 5, "the end of the command")
    assert client.tasks("of-ann", "w")[0].state == "RUNNING"  # her job goes on
    client.remove_user("ann", stop_jobs=True)
    assert client.wait("of-ann", timeout=20).state == "STOPPED"


@pytest.mark.alone
def test_what_a_disabled_user_has_open_ends_within_a_second_also_after_a_restart_of_the_api(
    cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    log_in(parse_invitation(client.add_user("eva").invitation), tmp_path / "clusters" / "lab")
    part = {"command": ["python3", "-c", GREET], "ports": ["web"], "web": "web", "ready": {"port": "web"}}
    with Client("lab", home=tmp_path) as eva, ThreadPoolExecutor(1) as threads:
        eva.start({"name": "of-eva", "components": {"w": part}}, cwd="/")
        wait_until(lambda: eva.tasks("of-eva", "w")[0].ready, 20, "the page")
        eva.execute("of-eva", "w.0", ["sh", "-c", "exec sleep 302.5"])
        wait_until(lambda: len(commands_of("302.5")) == 1, 10, "the command")
        forwarding = eva.forward("of-eva", "w")
        serving = threads.submit(forwarding.serve)
        with contextlib.closing(forwarding), create_connection(("127.0.0.1", port_of(forwarding.url)), 10) as browser:
            browser.sendall(b"?")
            assert browser.recv(2) == b"up"
            cluster.restart("master-api-server")
            client.status()
            disabled = time.monotonic()
            client.disable_user("eva")
            wait_until(lambda: not commands_of("302.5"), 1, "the end of the command")
            while browser.recv(1 << 16):
                pass
            assert time.monotonic() - disabled < 1
        with pytest.raises(NotAllowedError, match="disabled"):
            serving.result(30)
    client.remove_user("eva", stop_jobs=True)


def test_no_other_user_and_no_other_job_reaches_a_session_or_a_forward_by_its_name(
    client: Client, tmp_path: Path
) -> None:
    part = {"command": "exec sleep 300", "ports": ["web"], "web": "web", "resources": {"cpu": 0.1}, "replicas": 2}
    with ExitStack() as clients:
        users = {}
        for user in ("uma", "ute"):
            log_in(parse_invitation(client.add_user(user).invitation), tmp_path / user / "clusters" / "lab")
            users[user] = clients.enter_context(Client("lab", home=tmp_path / user))
        for user, job in (("uma", "of-uma"), ("uma", "more-of-uma"), ("ute", "of-ute")):
            users[user].start({"name": job, "components": {"w": part}}, cwd="/")
            wait_until(lambda u=user, j=job: states(users[u], j) == {"RUNNING"}, 20, f"{job}")  # type: ignore[misc]
        live = users["uma"].execute("of-uma", "w.0", ["cat"])
        forwarding = users["uma"].forward("of-uma", "w")
        session, forward = live.opened.id, forwarding._channel.opened.id
        piece, data = {"data": "eA==", "end": True}, {"connection": 1, "at": 0, "data": "eA==", "end": False}
        for caller, job, task in (
            (users["ute"], "of-ute", "w.0"),
            (client, "of-uma", "w.0"),  # an administrator, who may see the job
            (users["uma"], "more-of-uma", "w.0"),
            (users["uma"], "of-uma", "w.1"),
        ):
            calls: list[tuple[str, str, dict[str, object] | None]] = [
                ("GET", f"tasks/{task}/exec/{session}/output", None),
                ("POST", f"tasks/{task}/exec/{session}/input", piece),
                ("POST", f"tasks/{task}/exec/{session}/resize", {"rows": 9, "cols": 9}),
                ("DELETE", f"tasks/{task}/exec/{session}", None),
            ]
            if task == "w.0":  # a forward is named by its job alone
                calls += [
                    ("GET", f"forward/{forward}/output", None),
                    ("POST", f"forward/{forward}/input", data),
                    ("DELETE", f"forward/{forward}/connections/1", None),
                    ("DELETE", f"forward/{forward}", None),
                ]
            for method, path, body in calls:
                with pytest.raises(NotFoundError, match=r"no such (session|forward)"):
                    caller._transport.call(method, f"/v1/jobs/{job}/{path}", body)
        live.send(b"mine", end=True)
        assert b"".join(text for _, text in live.output()) == b"mine"
        forwarding.close()
    for user in users:
        client.remove_user(user, stop_jobs=True)


def states(client: Client, job: str) -> set[str]:
    return {task.state for task in client.tasks(job, "w")}


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


def refused_at(stream: Iterator[object]) -> float:
    with pytest.raises(NotAllowedError, match="disabled"):
        list(stream)
    return time.monotonic()


def commands_of(word: str) -> list[int]:
    return [pid for pid in proc.processes() if proc.read(f"/proc/{pid}/cmdline") == f"sleep\0{word}\0".encode()]


def test_input_reaches_it_however_much_that_is(client: Client) -> None:
    run = client.execute("held", "w.0", ["sha256sum"])
    run.send(b"x" * 300_000, end=True)
    import hashlib

    said = b"".join(data for _, data in run.output())
    assert said.split()[0].decode() == hashlib.sha256(b"x" * 300_000).hexdigest()


def test_what_does_not_run_or_is_not_there_is_refused(client: Client) -> None:
    with pytest.raises(ConflictError, match="not running"):
        client.execute("held", "late.0", ["true"])
    with pytest.raises(NotFoundError, match=r"no task w\.9"):
        client.execute("held", "w.9", ["true"])
    with pytest.raises(InputError, match="argv"):
        client.execute("held", "w.0", [])


def grass(cluster: LocalCluster, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "GRASS_HOME": str(cluster.home)}
    return subprocess.run([str(GRASS), *words], env=env, input=text, capture_output=True, text=True, timeout=50)


def test_the_command_line_passes_streams_and_the_exit_code_on(cluster: LocalCluster) -> None:
    done = grass(cluster, "job", "exec", "-i", "held.w.0", "--", "sh", "-c", "cat; echo no >&2; exit 3", text="hello\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, "hello\n", "no\n")


def test_without_stdin_the_command_sees_the_end_of_its_input(cluster: LocalCluster) -> None:
    done = grass(cluster, "job", "exec", "held.w.0", "--", "cat", text="not passed on")
    assert (done.returncode, done.stdout) == (0, "")


def test_a_terminal_is_refused_in_a_pipe_and_so_is_what_is_no_task(cluster: LocalCluster) -> None:
    assert grass(cluster, "job", "exec", "-it", "held.w.0", "--", "sh").returncode == 2
    assert grass(cluster, "job", "exec", "held", "--", "sh").returncode == 2


def test_with_a_terminal_a_shell_is_used_as_if_it_were_here(cluster: LocalCluster) -> None:
    child, terminal = pty.fork()
    if child == 0:
        words = [str(GRASS), "job", "exec", "-it", "held.w.0", "--", "sh"]
        os.execve(words[0], words, {**os.environ, "GRASS_HOME": str(cluster.home), "PS1": "ready> "})
    try:
        os.write(terminal, b"stty size; test -t 0 && echo is-a-terminal; exit 5\n")
        said = _read_all(terminal, 40)
    finally:
        _, status = os.waitpid(child, 0)
        os.close(terminal)
    assert b"is-a-terminal" in said, said
    assert os.waitstatus_to_exitcode(status) == 5


def _read_all(terminal: int, seconds: float) -> bytes:
    said, until = b"", time.monotonic() + seconds
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other side has closed it
            break
        if not piece:
            break
        said += piece
    return said


def test_stacks_of_a_running_task_come_from_its_node_and_only_running_tasks_have_some(cluster: LocalCluster) -> None:
    told = grass(cluster, "job", "signal", "held", "CONT", "w.0")
    assert (told.returncode, told.stdout) == (0, "held  w.0  CONT\n"), told.stderr
    done = grass(cluster, "job", "stacks", "held", "w")
    assert (done.returncode, done.stderr) == (0, "")
    assert "of 1 task" in done.stdout and "sleep" in done.stdout
    refused = grass(cluster, "job", "stacks", "held", "late.0")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "job held: none of these tasks runs; only running tasks have stacks" in refused.stderr
    assert "job held: no task w.7" in grass(cluster, "job", "stacks", "held", "w.7").stderr


def test_an_interactive_run_is_a_job_with_input_that_ends_with_its_command(cluster: LocalCluster) -> None:
    program = "import sys; print(sys.stdin.read().upper()); sys.exit(5)"
    done = subprocess.run(
        [str(GRASS), "run", "--name", "asked", "--cpu", "0.1", "-i", "--", sys.executable, "-c", program],
        env={**os.environ, "GRASS_HOME": str(cluster.home)},
        input="words",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (5, "WORDS\n"), done.stderr
    with cluster.client() as client:
        assert client.wait("asked", 20).state.ended
    for words in (["--replicas", "2"], ["--detach"], ["--stdin"], ["--hold"], ["--array", "1-3"]):
        wrong = grass(cluster, "run", "-i", *words, "--", "true")
        assert wrong.returncode == 2 and "-i and -t" in wrong.stderr, wrong
    assert "--tty needs a terminal" in grass(cluster, "run", "-it", "--", "true").stderr


def test_the_task_of_an_interactive_run_ends_with_its_command_also_if_that_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "GRASS_SCRATCH": str(tmp_path)}
    with subprocess.Popen(holder(), env=environment, stdout=subprocess.PIPE, start_new_session=True) as task:
        wait_until((tmp_path / ".interactive").exists, seconds=10)
        command = [*INSIDE, "/bin/sh", "-c", "echo up; exec sleep 300"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True) as inside:
            assert inside.stdout is not None and inside.stdout.readline() == b"up\n"
            assert task.poll() is None
            os.killpg(inside.pid, signal.SIGKILL)
        wait_until(lambda: task.poll() == 0, seconds=10)
        os.killpg(task.pid, signal.SIGKILL)
