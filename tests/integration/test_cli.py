"""`grass` as people and scripts use it: processes of it, against a real local cluster."""

from __future__ import annotations

import http.client
import json
import os
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest

from grass.api.keyring import Profile, Role, create_user_key, load_client, load_profile, save_profile
from grass.api.notice import open_notice
from grass.api.user_files import register_user
from grass.cli.exits import Exit
from grass.config import ClusterConfig
from grass.model.daemons import DAEMONS, REDIS, SUPERVISOR
from grass.node_config import NodeHome
from grass.supervision.supervisor import Supervisor
from grass.wire.version import HEADER, spoken
from tests.support.other_version import renumbered
from tests.support.silent_proxy import SilentProxy
from tests.support.waiting import wait_until

NAMES = {SUPERVISOR, REDIS, *(daemon.name for daemon in DAEMONS)}
PROGRAM = [sys.executable, "-c", "from grass.cli.entry import main; main()"]
FOREIGN = ("click", "gunicorn", "master", "msgspec", "node", "psutil", "redis", "signal", "supervisor", "yaml")
"""Modules of a user that have the names of what Grass imports."""


class Grass:
    """The command, in a GRASS_HOME of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GRASS_")}
        self.environment = {**kept, "GRASS_HOME": str(home), "PYTHONWARNINGS": "error"}

    def with_modules_of_the_user(self) -> Grass:
        """Return the command in a shell whose PYTHONPATH has modules with the names of what Grass imports."""
        modules = self.home / "modules"
        modules.mkdir(exist_ok=True)
        for name in FOREIGN:
            (modules / f"{name}.py").write_text(f"raise SystemExit('{name} of the user was imported')")
        other = Grass(self.home)
        other.environment["PYTHONPATH"] = str(modules)
        return other

    def __call__(self, *arguments: str, timeout: float = 40) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def good(self, *arguments: str) -> str:
        done = self(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.good(*arguments, "-o", "json"))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*PROGRAM, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # whoever runs the tests in the background of a shell hands down an ignored SIGINT
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def on_terminal(self, columns: int, *arguments: str, seen: Callable[[bytes], object] = lambda _: None) -> str:
        """What it writes to a terminal of that width. ``seen`` is called with all so far, whenever there is more."""
        ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environment = {key: value for key, value in self.environment.items() if key not in ("COLUMNS", "LINES")}
        environment.setdefault("NO_COLOR", "1")
        process = subprocess.Popen([*PROGRAM, *arguments], env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        written = b""
        try:
            while piece := os.read(ours, 65536):
                written += piece
                seen(written)
        except OSError:  # how the end of a terminal shows on Linux
            pass
        finally:
            os.close(ours)
        assert process.wait(timeout=20) in tuple(Exit)
        return written.decode()


@contextmanager
def own_cluster(cpu: int, memory: str) -> Iterator[Grass]:
    """Yield the command with a local cluster that offers so much."""
    home = Path(tempfile.mkdtemp(prefix="grass-cli-", dir="/tmp"))
    command = Grass(home)
    settings = home / "settings.yml"
    settings.write_text(f"mode: local\nname: local\nresources: {{cpu: {cpu}, memory: {memory}, gpu: 0}}\n")
    try:
        command.with_modules_of_the_user().good("create", str(settings))
        yield command
    finally:
        command("delete", "local", "--yes")
        shutil.rmtree(home)


@pytest.fixture(scope="module")
def grass() -> Iterator[Grass]:
    with own_cluster(8, "2GiB") as command:
        yield command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def all_jobs(grass: Grass) -> list[str]:
    """Their ids."""
    return [job["id"] for job in grass.json("job", "list", "--all")]


def job_file(folder: Path, name: str, command: str, *lines: str) -> str:
    path = folder / f"{name}.yml"
    body = "".join(f"    {line}\n" for line in lines)
    head = f"name: {name}\ncomponents:\n  main:\n    command: {json.dumps(command)}\n"
    path.write_text(f"{head}    resources: {{cpu: 0.1}}\n{body}")
    return str(path)


def wait_for_line(process: subprocess.Popen[str], pattern: str) -> str:
    """The first line of its stdout that matches; the test's own deadline ends it."""
    assert process.stdout is not None
    for line in process.stdout:
        if re.search(pattern, line):
            return line
    raise AssertionError(f"ended without a line like {pattern!r}")


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def test_an_older_grass_changes_nothing_of_a_cluster_and_every_server_says_what_it_speaks(
    grass: Grass, folder: Path
) -> None:
    older = renumbered(folder / "older", "0.0.9", REVISION=0)
    home = grass.home / "clusters" / "local"
    before = {path: path.read_bytes() for path in home.glob("*.*")}
    env = {**grass.environment, "PYTHONPATH": str(older)}
    done = subprocess.run([*PROGRAM, "create"], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.BAD_INPUT and "Go on with Grass 0.1.0; there is no way back to 0.0.9" in done.stderr
    assert {path: path.read_bytes() for path in home.glob("*.*")} == before
    config = NodeHome.load(home / "cluster.json")
    for port in (config.master.api_port, config.node.api_port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/")
        assert connection.getresponse().headers[HEADER] == spoken("0.1.0").header
        connection.close()


def test_modules_of_the_user_are_for_tasks_and_not_for_grass(grass: Grass) -> None:
    theirs = grass.with_modules_of_the_user()
    modules = theirs.environment["PYTHONPATH"]
    shown = "import os; print(os.environ['PYTHONPATH']); import yaml"
    done = theirs("run", "--", sys.executable, "-c", shown)
    assert done.stdout == f"{modules}\n" and "yaml of the user was imported" in done.stderr
    there = subprocess.run(
        [*PROGRAM, "status"], env=grass.environment, cwd=modules, capture_output=True, text=True, timeout=30
    )
    assert (there.returncode, there.stderr) == (0, "")


def test_status_names_each_daemon_with_pid_state_and_start(grass: Grass) -> None:
    status = grass.json("status")
    assert {daemon["name"] for daemon in status["daemons"]} == NAMES
    for daemon in status["daemons"]:
        assert Path(f"/proc/{daemon['pid']}").exists()
        assert daemon["state"] == "RUNNING"
        assert daemon["start"] > 0
    assert status["nodes"][0]["state"] == "READY"
    table = grass.good("status")
    assert status["url"] in table
    assert all(name in table for name in NAMES)


def test_a_notice_says_where_the_master_is_and_a_machine_that_is_no_node_follows_none(
    grass: Grass, folder: Path
) -> None:
    text = grass.good("cluster", "notice")
    client = grass.home / "clusters" / "local" / "client"
    known = load_client(client)
    assert open_notice(text, known.master().thumbprint(), "local").urls == (known.profile.url,)
    (folder / "notice").write_text(text)
    done = grass("node", "follow", str(folder / "notice"), "--of", "elsewhere", "--rootless")
    assert done.returncode == Exit.BAD_INPUT and "is not a node of cluster elsewhere" in done.stderr
    done = grass("node", "follow", str(folder / "nothing"), "--of", "elsewhere", "--rootless")
    assert done.returncode == Exit.BAD_INPUT and "nothing" in done.stderr


def test_a_name_that_exists_cannot_be_created_again(grass: Grass) -> None:
    done = grass("create", str(grass.home / "settings.yml"))
    assert done.returncode == Exit.BAD_INPUT
    assert "local" in done.stderr


def test_a_plan_is_shown_and_nothing_is_started(grass: Grass, folder: Path) -> None:
    file = job_file(folder, "planned", "true", "replicas: 3", "parallelism: 2")
    before = all_jobs(grass)
    assert grass.good("job", "plan", file).splitlines() == [
        "planned would start now",
        "",
        "COMPONENT  TASKS  NODE   GPUS  REASON",
        "main           2  local  -",
        "main           1  -      -     at most 2 run at once",
    ]
    waits = grass("job", "plan", job_file(folder, "odd", "true", "where: {zone: moon}"))
    assert "warning: components.main.where.zone: no node has this label" in waits.stderr
    assert waits.stdout.startswith("odd would wait")
    assert all_jobs(grass) == before


def test_what_autoscale_would_do_is_explained(grass: Grass, folder: Path) -> None:
    file = job_file(folder, "scaled", "sleep 60", "min: 1", "max: 2", "autoscale: opportunistic")
    grass.good("job", "start", file)
    [component] = grass.json("job", "autoscale", "scaled")["components"]
    assert (component["component"], component["enabled"]) == ("main", True)
    assert "main" in grass.good("job", "autoscale", "scaled", "--explain")
    grass.good("job", "stop", "scaled", "--grace", "0")


def test_each_task_of_a_matrix_finds_its_values(grass: Grass, folder: Path) -> None:
    file = job_file(folder, "matrix", "echo $lr $GRASS_MATRIX_SEED", "matrix: {lr: [0.1, 0.01], seed: [1, 2]}")
    grass.good("job", "start", file)
    grass.good("job", "wait", "matrix")
    lines = grass.good("job", "logs", "matrix").splitlines()
    assert sorted(lines) == [
        "main.0 | 0.1 1",
        "main.1 | 0.1 2",
        "main.2 | 0.01 1",
        "main.3 | 0.01 2",
    ]


def test_a_job_is_started_listed_shown_and_waited_for(grass: Grass, folder: Path) -> None:
    started = grass.json("job", "start", job_file(folder, "good", "echo hello; pwd"))
    assert started["name"] == "good"
    done = grass("job", "wait", "good")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("good: SUCCEEDED")
    assert grass.good("job", "logs", "good") == f"hello\n{folder}\n"
    assert started["id"] in grass.good("job", "list", "--all", "-o", "quiet").split()
    assert started["id"] not in grass.good("job", "list", "-o", "quiet").split()
    page = grass.good("job", "show", "good")
    assert "main.0" in page
    assert [task["state"] for task in grass.json("job", "show", "good")["tasks"]] == ["SUCCEEDED"]
    deleted = grass.good("job", "delete", "good")
    assert started["id"] in deleted
    assert grass("job", "show", started["id"]).returncode == Exit.BAD_INPUT


def test_a_bad_file_is_told_with_its_path_and_changes_nothing(grass: Grass, folder: Path) -> None:
    before = all_jobs(grass)
    path = job_file(folder, "bad", "true", "replicas: -1")
    plain = grass("job", "start", path)
    assert plain.returncode == Exit.BAD_INPUT
    assert f"{path}: components.main.replicas" in plain.stderr
    told = json.loads(grass("job", "start", path, "-o", "json").stderr)["error"]
    assert told["code"] == "bad-manifest"
    assert told["problems"][0]["path"] == "components.main.replicas"
    assert grass("job", "start", str(folder / "none.yml")).returncode == Exit.BAD_INPUT
    assert all_jobs(grass) == before


def test_waiting_for_a_job_that_failed_or_was_stopped_is_never_0(grass: Grass, folder: Path) -> None:
    grass.good("job", "start", job_file(folder, "fails", "exit 3"))
    failed = grass("job", "wait", "fails", "-o", "json")
    assert failed.returncode == Exit.JOB_FAILED
    assert json.loads(failed.stdout)["state"] == "FAILED"
    grass.good("job", "start", job_file(folder, "sleeps", "sleep 100"))
    assert grass("job", "wait", "sleeps", "--timeout", "200ms").returncode == Exit.TIMED_OUT
    grass.good("job", "stop", "sleeps")
    stopped = grass("job", "wait", "sleeps")
    assert stopped.returncode == Exit.JOB_FAILED
    assert "STOPPED" in stopped.stdout


def test_stopping_a_job_that_has_ended_says_so(grass: Grass, folder: Path) -> None:
    grass.good("job", "start", job_file(folder, "over", "true"))
    grass.good("job", "wait", "over")
    refused = grass("job", "stop", "over")
    assert refused.returncode == Exit.BAD_INPUT and "job over: already SUCCEEDED; nothing to stop" in refused.stderr
    grass.good("job", "start", job_file(folder, "stopped", "sleep 100"))
    grass.good("job", "stop", "stopped", "--grace", "0")
    grass("job", "wait", "stopped")
    assert "stopped before" in grass.good("job", "stop", "stopped")  # what was asked for is so


def test_a_command_beside_a_task_that_does_not_exist_exits_as_in_a_shell(grass: Grass, folder: Path) -> None:
    grass.good("job", "start", job_file(folder, "long", "sleep 100"))
    wait_until(lambda: grass.json("job", "show", "long")["counts"].get("RUNNING") == 1, what="long runs")
    missing = grass("job", "exec", "long.main.0", "--", "nosuch")
    assert missing.returncode == 127 and "cannot start nosuch: No such file or directory" in missing.stderr
    assert grass("job", "exec", "long.main.0", "--", "/etc/passwd").returncode == 126
    grass.good("job", "stop", "long", "--grace", "0")


def test_a_template_is_written_to_a_file_only_where_that_is_asked_for(grass: Grass, folder: Path) -> None:
    assert grass.json("template", "job")["name"] == "job" and not Path("json").exists()
    grass.good("template", "job", "--to", str(folder / "new.yml"))
    assert (folder / "new.yml").read_text() == grass.json("template", "job")["text"]
    again = grass("template", "job", "--to", str(folder / "new.yml"))
    assert again.returncode == Exit.BAD_INPUT and "nothing was written" in again.stderr


def test_cleaning_keeps_what_jobs_wrote_unless_told(grass: Grass, folder: Path) -> None:
    for name, options in (("kept", ()), ("removed", ("--outputs",))):
        job_id = grass.json("job", "start", job_file(folder, name, "echo 1 > $GRASS_OUTPUT/result"))["id"]
        grass.good("job", "wait", name)
        grass.good("clean", "--yes", *options)
        assert (grass.home / "clusters/local/data/jobs" / job_id / "result").exists() == (name == "kept")


def test_a_job_that_cannot_start_says_why_at_every_width(grass: Grass, folder: Path) -> None:
    path = folder / "large.yml"
    path.write_text("name: large\ncomponents: {main: {command: 'true', resources: {cpu: 1000}}}\n")
    assert grass("job", "start", str(path), "--strict").returncode == Exit.BAD_INPUT
    grass.good("job", "start", str(path))
    wait_until(lambda: "needs 1000 cpu per task; the largest node has 8" in grass.good("job", "why", "large"))
    assert "main: 1 task PENDING" in grass.good("job", "why", "large")
    for columns in (60, 80, 200):
        shown = grass.on_terminal(columns, "job", "list")
        lines = shown.replace("\r", "").splitlines()
        assert all(len(line) <= columns for line in lines)
        words = " ".join(shown.split())
        assert all(word in words for word in ("needs", "1000", "cpu", "per", "task"))
    grass.good("job", "stop", "large")


@pytest.mark.parametrize("how", ["run", "logs"])
def test_a_line_is_shown_on_a_terminal_while_a_task_writes_it(grass: Grass, folder: Path, how: str) -> None:
    command = f"printf '50 percent'; until [ -e {folder}/go ]; do sleep 0.02; done; printf '\\r100 percent\\n'"

    def seen(written: bytes) -> None:
        if b"50 percent" in written:
            (folder / "go").touch()

    if how == "logs":
        grass.good("job", "start", job_file(folder, "half", command, "timeout: 30s"))
        shown = grass.on_terminal(80, "job", "logs", "-f", "half", seen=seen)
    else:
        shown = grass.on_terminal(80, "run", "--timeout", "30s", "--", "sh", "-c", command, seen=seen)
    assert shown.endswith("50 percent\r100 percent\r\n") and shown.count("percent") == 2


def test_waiting_on_a_terminal_overwrites_one_line(grass: Grass, folder: Path) -> None:
    gate = folder / "gate"
    grass.good("job", "start", job_file(folder, "watched", f"until [ -e {gate} ]; do sleep 0.05; done"))
    seen = lambda written: gate.touch() if b"\x1b[K" in written else None  # noqa: E731
    shown = grass.on_terminal(80, "job", "wait", "watched", seen=seen)
    assert "\r\x1b[K" in shown
    assert shown.rstrip().endswith("watched: SUCCEEDED, 1 succeeded")


def test_logs_can_be_narrowed(grass: Grass, folder: Path) -> None:
    command = "for i in 1 2 3; do echo out $GRASS_INDEX line $i; done; echo err $GRASS_INDEX >&2"
    grass.good("job", "start", job_file(folder, "talks", command, "replicas: 2"))
    grass.good("job", "wait", "talks")
    lines = grass.good("job", "logs", "talks").splitlines()
    assert sorted(lines) == sorted(
        f"main.{index} | {text}"
        for index in (0, 1)
        for text in (*(f"out {index} line {i}" for i in (1, 2, 3)), f"err {index}")
    )
    assert "out 1 line 2\n" in grass.good("job", "logs", "talks", "main.1")
    assert "out 0" not in grass.good("job", "logs", "talks", "main.1")
    assert len(grass.good("job", "logs", "talks", "main.1", "--tail", "1").splitlines()) == 1
    assert grass.good("job", "logs", "talks", "main", "--grep", "line [12]").count("\n") == 4
    assert grass.good("job", "logs", "talks", "--since", "1h").count("\n") == 8
    assert grass.good("job", "logs", "talks", "--since", "2100-01-01T00:00") == ""
    assert re.match(r"20\d\d-\d\d-\d\dT[\d:.+-]+ main\.\d \| ", grass.good("job", "logs", "talks", "--timestamps"))
    records = [json.loads(line) for line in grass.good("job", "logs", "talks", "-o", "json").splitlines()]
    assert {record["stream"] for record in records} == {"stdout", "stderr"}
    for part in ("nobody", "main.2"):
        assert grass("job", "logs", "talks", part).returncode == Exit.BAD_INPUT
    assert grass("job", "logs", "nothing").returncode == Exit.BAD_INPUT


def test_following_logs_ends_with_the_job(grass: Grass, folder: Path) -> None:
    gate = folder / "gate"
    grass.good(
        "job", "start", job_file(folder, "slow", "echo first; until [ -e gate ]; do sleep 0.05; done; echo last")
    )
    process = grass.start("job", "logs", "slow", "-f")
    wait_for_line(process, "^first$")
    gate.touch()
    assert finish(process)[:2] == (0, "last\n")


def test_a_log_reader_who_leaves_ends_the_command_quietly(grass: Grass, folder: Path) -> None:
    grass.good("job", "start", job_file(folder, "endless", "while :; do echo more; done", "timeout: 20s"))
    process = grass.start("job", "logs", "endless", "-f")
    wait_for_line(process, "more")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=20) == Exit.PIPE_CLOSED
    assert process.stderr.read() == ""
    process.stderr.close()
    grass.good("job", "stop", "endless", "--grace", "0")


def test_binary_output_passes_byte_for_byte(grass: Grass, folder: Path) -> None:
    grass.good("job", "start", job_file(folder, "binary", r"printf '\377\000\033[1m\n no newline'"))
    grass.good("job", "wait", "binary")
    done = subprocess.run([*PROGRAM, "job", "logs", "binary"], env=grass.environment, capture_output=True, timeout=20)
    assert done.stdout == b"\xff\x00\x1b[1m\n no newline"


def test_run_shows_the_output_and_exits_as_the_command_does(grass: Grass) -> None:
    done = grass("run", "--cpu", "0.5", "--memory", "64MiB", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "err\n" in done.stderr
    assert grass("run", "true").returncode == 0
    assert grass("run", "--", "sh", "-c", "kill -9 $$").returncode == 137
    missing = grass("run", "--", "no-such-program")
    assert missing.returncode == 127
    assert "no-such-program" in missing.stderr


def test_the_first_interrupt_stops_what_runs_and_says_so(grass: Grass) -> None:
    process = grass.start("run", "--name", "stopme", "--", "sh", "-c", "echo begun; sleep 100")
    wait_for_line(process, "begun")
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code not in (0, Exit.INTERRUPTED)
    assert "stopping stopme" in err
    assert grass.json("job", "show", "stopme")["state"] == "STOPPED"


def test_a_run_whose_reader_leaves_is_stopped_and_says_so(grass: Grass) -> None:
    process = grass.start("run", "--name", "unread", "--", "sh", "-c", "while :; do echo more; sleep 0.1; done")
    wait_for_line(process, "more")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=20) == Exit.PIPE_CLOSED
    assert "the reader of the output of unread is gone" in process.stderr.read()
    process.stderr.close()
    assert grass("job", "wait", "unread", "--timeout", "20s").returncode == Exit.JOB_FAILED
    assert grass.json("job", "show", "unread")["state"] == "STOPPED"


def test_the_second_interrupt_detaches(grass: Grass) -> None:
    stubborn = "trap '' TERM; echo begun; while :; do sleep 1; done"
    process = grass.start("run", "--name", "stubborn", "--", "sh", "-c", stubborn)
    wait_for_line(process, "begun")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "stopping" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == Exit.INTERRUPTED
    assert "detached; stubborn continues" in err
    grass.good("job", "stop", "stubborn", "--grace", "0")


def test_an_interrupted_wait_leaves_the_job_alone(grass: Grass, folder: Path) -> None:
    grass.good("job", "start", job_file(folder, "left", "sleep 100"))
    process = grass.start("job", "wait", "left")
    wait_for_line(process, "RUNNING")
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == Exit.INTERRUPTED
    assert "left continues" in err
    assert grass.json("job", "show", "left")["state"] == "RUNNING"
    grass.good("job", "stop", "left", "--grace", "0")


def test_the_log_of_a_job_that_never_started_says_why(grass: Grass, tmp_path: Path) -> None:
    path = tmp_path / "never.yml"
    path.write_text("name: never\ncomponents: {m: {command: 'true', resources: {cpu: 900}}}\n")
    grass.good("job", "start", str(path))
    following = grass.start("job", "logs", "never", "-f")
    assert following.stderr is not None
    assert re.match(r"never: QUEUED \(.+\)", following.stderr.readline())
    grass.good("job", "stop", "never")
    code, out, err = finish(following)
    assert (code, out) == (0, "") and re.search(r"^never: STOPPED before any task started \(.+\)$", err, re.M)
    later = grass("job", "logs", "never", "m.0")
    assert (later.returncode, later.stdout) == (0, "") and "never: STOPPED before m.0 started (" in later.stderr


@contextmanager
def unanswered(grass: Grass, tmp_path: Path, request: str) -> Iterator[tuple[SilentProxy, dict[str, str]]]:
    """Yield a proxy that keeps the answer to a request back, and the environment of commands that go through it."""
    client, seen = (home / "clusters" / "local" for home in (grass.home, tmp_path / "home"))
    shutil.copytree(client / "client", seen / "client")
    shutil.copy(client / "mode", seen / "mode")
    profile = json.loads((seen / "client" / "profile.json").read_text())
    with SilentProxy(profile["url"], request) as proxy:
        (seen / "client" / "profile.json").write_text(json.dumps({**profile, "url": proxy.url}))
        yield proxy, {**grass.environment, "GRASS_HOME": str(tmp_path / "home")}


def interrupted(
    grass: Grass, tmp_path: Path, request: str, number: signal.Signals, *command: str
) -> tuple[int, str, str]:
    """Send a signal to a command while its request is on its way. Return its exit code, and what it said."""
    with unanswered(grass, tmp_path, request) as (proxy, environment):
        process = subprocess.Popen(
            [*PROGRAM, *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert proxy.passed.wait(20)
        process.send_signal(number)
        return finish(process)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, Exit.INTERRUPTED), (signal.SIGTERM, Exit.TERMINATED)], ids=["int", "term"]
)
def test_who_interrupts_a_submission_is_told_that_the_job_may_run_and_how_to_stop_it(
    grass: Grass, tmp_path: Path, number: signal.Signals, code: Exit
) -> None:
    file = job_file(tmp_path, f"unsure-{number.name.lower()}", "sleep 100")
    ended, _, err = interrupted(grass, tmp_path, "POST /v1/jobs ", number, "job", "start", file)
    found = re.search(r"error: job (\S+): interrupted while .*; it may run; `grass (job stop \S+)` stops it", err)
    assert (ended, bool(found)) == (code, True), err
    assert found is not None
    wait_until(lambda: grass("job", "show", found[1]).returncode == 0, what="the job of the interrupted submission")
    grass.good(*found[2].split())


@pytest.mark.parametrize(
    ("begin", "command", "said"),
    [
        ("POST /v1/nodes/", ("node", "cordon", "{node}"), "node {node}: interrupted; the request (cordon) may still"),
        ("POST /v1/schedules ", ("schedule", "start", "{file}"), "`grass schedule stop unsure-schedule` stops it"),
    ],
    ids=["node", "schedule"],
)
def test_other_interrupted_changes_say_so_too(
    grass: Grass, tmp_path: Path, begin: str, command: tuple[str, ...], said: str
) -> None:
    [node] = grass.json("node", "list")
    file = tmp_path / "schedule.yml"
    file.write_text("name: unsure-schedule\ncron: '0 0 1 1 *'\njob: {components: {m: {command: 'true'}}}\n")
    words = [word.format(node=node["name"], file=file) for word in command]
    _, _, err = interrupted(grass, tmp_path, begin, signal.SIGINT, *words)
    assert said.format(node=node["name"]) in err
    grass("schedule", "stop", "unsure-schedule")
    grass("node", "uncordon", node["name"])


def test_ctrl_c_during_the_submission_of_a_run_stops_its_job(grass: Grass, tmp_path: Path) -> None:
    with unanswered(grass, tmp_path, "POST /v1/jobs ") as (proxy, environment):
        process = subprocess.Popen(
            [*PROGRAM, "run", "--name", "unsure-run", "--", "sleep", "100"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert proxy.passed.wait(20)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert "stopping unsure-run; Ctrl-C again returns at once" in process.stderr.readline()
        proxy.answer_again()
        stopped_before_or_after_its_task_began = (Exit.JOB_FAILED, 128 + signal.SIGTERM)
        assert process.wait(30) in stopped_before_or_after_its_task_began
        process.stderr.close()
    assert grass.json("job", "show", "unsure-run")["state"] == "STOPPED"


def test_nodes_and_events_are_shown(grass: Grass, folder: Path) -> None:
    [node] = grass.json("node", "list")
    assert grass.good("node", "list", "-o", "quiet").strip() == node["name"]
    assert node["name"] in grass.good("node", "show", node["name"])
    assert grass("node", "show", "nothing").returncode == Exit.BAD_INPUT
    azure_file = folder / "azure.yml"
    sizes = "autoscale: {sizes: {Standard_B2s: {max: 1}}}"
    azure_file.write_text(f"mode: grass/azure\nname: local\ncloud: {{location: westeurope}}\n{sizes}\n")
    for wrong in (["--max-price", "0.1"], ["--spot", "--max-price", "cheap"], ["--or-regular"]):
        assert grass("node", "scale", "Standard_B2s", "1", *wrong).returncode == Exit.BAD_INPUT
    for refused in (
        grass("node", "scale", "Standard_B2s", "1", "--spot"),
        grass("node", "stop", node["name"]),
        grass("node", "start", node["name"]),
        grass("cost"),
        grass("autoscale", str(azure_file)),
    ):
        assert refused.returncode == Exit.BAD_INPUT and "on this machine only" in refused.stderr, refused.stderr
    grass.good("job", "start", job_file(folder, "eventful", "true"))
    grass.good("job", "wait", "eventful")
    assert "eventful" in grass.good("events")
    events = [json.loads(line) for line in grass.good("events", "-o", "json").splitlines()]
    assert any(event.get("job") == "eventful" for event in events)


def test_a_batch_is_started_shown_and_stopped(grass: Grass, folder: Path) -> None:
    path = folder / "batch.yml"
    component = "{command: 'true', resources: {cpu: 0.1}}"
    path.write_text(f"name: batch\njobs: [one, two]\ncomponents: {{main: {component}}}\n")
    assert grass.good("schedule", "start", str(path)).startswith("batch")
    assert "batch" in grass.good("schedule", "list", "-o", "quiet").split()
    assert "batch" in grass.good("schedule", "show", "batch")
    assert grass("job", "wait", "two").returncode == 0
    grass.good("schedule", "stop", "batch")
    assert grass("schedule", "show", "nothing").returncode == Exit.BAD_INPUT


def test_a_cluster_that_is_away_is_3_and_damaged_keys_are_2(grass: Grass) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        away = grass.home / "clusters" / "away"
        shutil.copytree(grass.home / "clusters" / "local" / "client", away / "client")
        try:
            profile = json.loads((away / "client" / "profile.json").read_text())
            profile["url"] = f"http://127.0.0.1:{probe.getsockname()[1]}"
            (away / "client" / "profile.json").write_text(json.dumps(profile))
            assert grass("job", "list", "--cluster", "away").returncode == Exit.UNREACHABLE
            for file, content in (("profile.json", "{"), ("profile.json", "[]"), ("user.pem", "x")):
                (away / "client" / file).write_text(content)
                done = grass("job", "list", "--cluster", "away")
                assert done.returncode == Exit.BAD_INPUT, done.stderr
                assert "damaged" in done.stderr
        finally:
            shutil.rmtree(away)


def test_what_a_viewer_may_not_do_is_4(grass: Grass, folder: Path) -> None:
    local, viewer = grass.home / "clusters" / "local", grass.home / "clusters" / "viewer"
    try:
        key = create_user_key(viewer / "client")
        register_user(local / "master", "vera", Role.VIEWER, key)
        known = load_profile(local / "client")
        master = json.loads((local / "client" / "master.pub.json").read_text())
        save_profile(viewer / "client", Profile("local", known.url, "vera", key["kid"]), master)
        assert grass("job", "list", "--cluster", "viewer").returncode == 0
        refused = grass("job", "start", job_file(folder, "refused", "true"), "--cluster", "viewer")
        assert refused.returncode == Exit.NOT_ALLOWED
        assert "viewer" in refused.stderr
    finally:
        shutil.rmtree(viewer)
        (local / "master" / "users" / "vera.json").unlink()


def test_a_person_logs_in_works_rotates_the_key_is_disabled_and_logs_out(
    grass: Grass, folder: Path, tmp_path: Path
) -> None:
    person = Grass(tmp_path)
    invitation = grass.json("user", "add", "paula")["invitation"]
    try:
        person.good("login", invitation, "--name", "lab")
        again = Grass(tmp_path / "thief")("login", invitation)
        assert (again.returncode, "was used already" in again.stderr) == (Exit.NOT_ALLOWED, True)
        person.good("job", "start", job_file(folder, "of-paula", "true"))
        person.good("login", "--rotate")
        assert [job["user"] for job in person.json("job", "list", "--all")] == ["paula"]
        assert person.json("status")["daemons"] == []
        assert person("user", "list").returncode == Exit.NOT_ALLOWED
        assert person("delete", "lab").returncode == Exit.BAD_INPUT
        grass.good("user", "disable", "paula", "--stop-jobs")
        refused = person("job", "list")
        assert (refused.returncode, "disabled" in refused.stderr) == (Exit.NOT_ALLOWED, True)
        assert "paula" in grass.good("user", "list")
        person.good("logout", "lab")
        assert person("job", "list").returncode != 0
    finally:
        grass("user", "remove", "paula", "--stop-jobs")


def files_below(folder: Path) -> list[Path]:
    """The files of a cluster that runs: some of them vanish meanwhile."""
    return [path for parent, _, names in os.walk(folder) for name in names if (path := Path(parent, name)).is_file()]


def content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0


def test_no_secret_is_in_an_argument_an_environment_a_log_or_the_store(grass: Grass, folder: Path) -> None:
    grass.good("run", "--name", "secretive", "--", "true")
    home = grass.home / "clusters" / "local"
    secrets = json.loads((home / "secrets.json").read_text())
    words = [*secrets["redis"].values(), secrets["node_token"], secrets["samba"]]
    words += [
        (path.read_text().splitlines()[3]) for path in (home / "master" / "key.pem", home / "client" / "user.pem")
    ]
    planted = [word.encode() for word in words if word]
    assert len(planted) == 7
    supervisor = Supervisor(ClusterConfig.load(home / "cluster.json"))
    pids = [str(daemon.pid) for daemon in supervisor.daemons() if daemon.pid]
    looked = [Path("/proc", pid, name) for pid in pids for name in ("cmdline", "environ")]
    looked += [path for part in ("log", "redis", "data") for path in files_below(home / part)]
    looked += [home / "cluster.json", home / "supervisord.conf"]
    assert len(looked) > 20
    assert [path for path in looked if any(word in content(path) for word in planted)] == []
    others = [path for path in files_below(home) if mode(path) & 0o044]
    assert [path for path in others if any(word in content(path) for word in planted)] == []


def test_bad_logins_are_2_and_leave_nothing(grass: Grass, tmp_path: Path) -> None:
    person = Grass(tmp_path)
    for words in (
        ["login"],
        ["login", "nonsense"],
        ["login", "grass-login1.e30", "--rotate"],
        ["login", "x", "--name", ".."],
    ):
        assert person(*words).returncode == Exit.BAD_INPUT
    assert grass("user", "add", "../root").returncode == Exit.BAD_INPUT
    assert grass("logout", "local").returncode == Exit.BAD_INPUT
    assert grass("node", "token", "--list", "--revoke", "x").returncode == Exit.BAD_INPUT
    assert not (tmp_path / "clusters").exists()


def test_daemons_are_shown_and_the_exit_code_is_3_while_the_api_is_down(grass: Grass) -> None:
    supervisor = Supervisor(ClusterConfig.load(grass.home / "clusters" / "local" / "cluster.json"))
    supervisor.stop_daemon("master-api-server")
    try:
        wait_until(lambda: "STOPPED" in [one.state for one in supervisor.daemons() if one.name == "master-api-server"])
        done = grass("status", "-o", "json")
    finally:
        supervisor.start_daemon("master-api-server")
    assert done.returncode == Exit.UNREACHABLE
    status = json.loads(done.stdout)
    assert "does not answer" in status["error"]
    assert {daemon["name"] for daemon in status["daemons"]} == NAMES
    wait_until(lambda: grass("job", "list").returncode == 0, what="the API")


def test_the_shell_completes_names_of_jobs(grass: Grass, folder: Path) -> None:
    grass.good("job", "start", job_file(folder, "completed", "true"))
    asked = {"_GRASS_COMPLETE": "bash_complete", "COMP_WORDS": "grass job show comp", "COMP_CWORD": "3"}
    done = subprocess.run(PROGRAM, env={**grass.environment, **asked}, capture_output=True, text=True, timeout=20)
    assert done.stdout.split() == ["plain,completed"]


def test_ended_jobs_are_cleaned_away_and_others_stay(grass: Grass, folder: Path) -> None:
    grass.good("job", "start", job_file(folder, "ended", "true"))
    ended = grass.json("job", "wait", "ended")["id"]
    stays = grass.json("job", "start", job_file(folder, "stays", "sleep 100"))["id"]
    grass.good("clean", "--yes")
    left = {job["id"] for job in grass.json("job", "list", "--all")}
    assert stays in left and ended not in left
    assert grass("job", "delete", "stays").returncode == Exit.BAD_INPUT
    grass.good("job", "stop", "stays", "--grace", "0")


def test_cleaning_goes_on_over_what_is_gone_meanwhile_and_counts_what_it_deleted(grass: Grass, folder: Path) -> None:
    grass.good("clean", "--yes")
    ids = [grass.json("job", "start", job_file(folder, f"gone-{number}", "true"))["id"] for number in range(3)]
    for job_id in ids:
        grass.good("job", "wait", job_id)
    ours, theirs = pty.openpty()
    words = [*PROGRAM, "clean", "-o", "json"]
    process = subprocess.Popen(words, env=grass.environment, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    asked = b""
    while b"[y/N]" not in asked:
        asked += os.read(ours, 4096)
    grass.good("job", "delete", ids[1])  # by somebody else, while the question is open
    os.write(ours, b"y\n")
    out, _ = process.communicate(timeout=20)
    os.close(ours)
    assert process.returncode == 0
    assert {ids[0], ids[2]} == {*json.loads(out)["deleted"]} & {*ids}  # jobs of other tests may have ended, too


def test_every_command_prints_json_that_parses(grass: Grass) -> None:
    for words in (
        ["status"],
        ["job", "list", "-a"],
        ["node", "list"],
        ["schedule", "list"],
        ["doctor"],
        ["use", "local"],
    ):
        done = grass(*words, "-o", "json")
        assert done.returncode in (0, 1), done.stderr
        json.loads(done.stdout)


def test_a_check_holds_a_node_shows_what_it_found_and_is_refused_while_tasks_use_the_node(
    grass: Grass, folder: Path
) -> None:
    [check] = grass.json("node", "check", "local")["checks"]
    assert check["verdict"]["state"] == "good" and check["figures"]["disk write MiB/s"] > 0
    wait_until(lambda: grass.json("node", "show", "local")["check"] == check)
    grass.good("job", "start", job_file(folder, "user-of-the-node", "exec sleep 600"))
    wait_until(lambda: grass.json("node", "show", "local")["tasks"] == 1)
    refused = grass("node", "check", "local", "--level", "1")
    assert refused.returncode == 2 and "node local: has 1 task(s)" in refused.stderr
    grass.good("job", "stop", "user-of-the-node", "--grace", "0s")


@pytest.mark.nightly  # test_a_task_holds_a_node_as_long_as_the_program_beside_it (test_node_check.py); takes a minute
@pytest.mark.timeout(180)
def test_a_check_whose_client_is_killed_holds_its_node_for_a_minute_at_most(grass: Grass) -> None:
    wait_until(lambda: grass.json("node", "show", "local")["tasks"] == 0)
    with grass.start("node", "check", "local", "--level", "1") as process:
        wait_for_line(process, r"level 1 on 1 node\(s\)")
        process.kill()
    wait_until(lambda: grass.json("node", "show", "local")["tasks"] == 0, 90)
    wait_until(lambda: not [job for job in grass.json("job", "list") if job["name"].startswith("check-")])


def test_a_job_starts_once_its_node_has_passed_a_check_under_load(grass: Grass, folder: Path) -> None:
    text = "name: careful\ncomponents: {w: {command: exit 0, check: {before: 1}}}\n"
    (folder / "careful.yml").write_text(text)
    grass.good("job", "start", str(folder / "careful.yml"))
    wait_until(lambda: grass.json("job", "show", "careful")["state"] == "SUCCEEDED", 40)
    check = grass.json("node", "show", "local")["check"]
    assert (check["user"], check["level"], check["verdict"]["state"]) == ("grass", 1, "good") and check["times"]
