"""Files, commands and checks of real pods: what they write to ``GRASS_OUTPUT`` arrives in the folder of their job."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from grass.kubernetes.command import LOST
from grass.kubernetes.names import pod_name
from grass.kubernetes.ports import answers
from grass.model.reasons import Reason, ReasonCode
from grass.node_config import KubernetesConfig, NodeConfig, NodeHome
from node.runtime.kubernetes.execution import PodExecution
from node.runtime.kubernetes.kind import PodInside
from node.runtime.protocol import Launch, Listed, Observed, Start, Stop, Waiting
from tests.support import kubernetes
from tests.support.api_gateway import Asked, Fault
from tests.support.engine import IMAGE
from tests.support.pod_run import PodRun
from tests.support.waiting import wait_until

PAUSE = "test-pause:1"
"""An image with one program, which never ends, and nothing else."""
SETTINGS = KubernetesConfig("", pull_policy="Never")
TASK = Launch([], {}, None, 20.0, runtime="kubernetes", image=IMAGE, cpu=200, memory=32 << 20)


class Files(PodRun):
    """A runtime whose attempts are followed until they end."""

    known: dict[str, Observed]
    waiting: dict[str, Reason]
    listed = False

    def begin(self, key: str, script: str = "", image: str = IMAGE) -> str:
        argv = ["/bin/sh", "-c", script] if script else []
        self.runtime.define({key: TASK._replace(argv=argv, image=image)})
        self.runtime.start([Start(key, key, {})])
        return key

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 40
        while not condition():
            assert time.monotonic() < deadline, (self.known, self.waiting)
            select.select([self.runtime], [], [], 0.02)
            for event in self.runtime.receive():
                match event:
                    case Listed():
                        self.listed = True
                        self.known = {each.key: each for each in event.attempts}
                    case Observed():
                        self.known[event.key] = event
                    case Waiting():
                        self.waiting[event.key] = event.reason

    def runs(self, key: str) -> None:
        self.until(lambda: key in self.known and self.known[key].since is not None)

    def ended(self, key: str) -> Observed:
        self.until(lambda: key in self.known and self.known[key].ended is not None)
        return self.known[key]

    def reopen(self) -> None:
        """Start an agent, which the one before must have left."""
        self.known, self.listed = {}, False
        self.runtime = self.open()
        self.until(lambda: self.listed)

    def path(self, key: str) -> str:
        return f"{self.place.path}/{pod_name(self.place.cluster, key)}"

    def pod(self, key: str) -> Any:
        return self.server.get(self.path(key), kubernetes.ANY)

    def output(self, job: str) -> dict[str, str]:
        folder = self.share / job
        return {str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    with kubernetes.namespace() as (server, name):
        run = Files(server, name, tmp_path_factory.mktemp("files"), SETTINGS)
        run.known, run.waiting = {}, {}
        try:
            run.until(lambda: run.listed)
            yield run
        finally:
            run.runtime.close()
            run.gateway.close()


@pytest.fixture
def files(shared: Files) -> Iterator[Files]:
    yield shared
    shared.gateway.faults.clear()


def execs(asked: Asked) -> bool:
    return "/exec?" in asked.path and "grass%2Foutput" in asked.path


@pytest.mark.nightly
def test_the_files_of_several_tasks_arrive_in_the_folder_of_their_job(files: Files) -> None:
    one = files.begin("many-1/w.0/1", "mkdir $GRASS_OUTPUT/runs; echo 0 >$GRASS_OUTPUT/runs/0; exit 3")
    two = files.begin("many-1/w.1/1", "cd $GRASS_OUTPUT; mkdir runs; echo 1 >runs/1; busybox ln -s runs/1 latest")
    assert (files.ended(one).code, files.ended(two).code) == (3, 0)
    assert files.output("many-1") == {"runs/0": "0\n", "runs/1": "1\n", "latest": "1\n"}
    assert [each.name for each in files.share.iterdir() if each.name.startswith("many")] == ["many-1"]
    assert files.stdout(one) == ""
    wait_until(lambda: files.pod(two)["status"]["phase"] == "Succeeded")  # nothing of the quota is held any more


@pytest.mark.nightly
def test_a_stopped_task_ends_by_its_signal_and_what_it_writes_then_is_kept(files: Files) -> None:
    script = "trap 'echo last >$GRASS_OUTPUT/checkpoint; exit 5' TERM; echo up; while :; do sleep 0.1; done"
    key = files.begin("stop-1/w.0/1", script)
    files.until(lambda: "up" in files.stdout(key))
    why = Reason(ReasonCode.TIMEOUT, "too long")
    files.runtime.stop([Stop(key, 20.0, why)])
    ended = files.ended(key)
    assert (ended.code, ended.signal, ended.reason) == (5, None, why)
    assert files.output("stop-1") == {"checkpoint": "last\n"}


@pytest.mark.nightly
def test_a_task_that_ignores_term_is_killed_and_its_files_are_kept(files: Files) -> None:
    key = files.begin("deaf-1/w.0/1", "trap '' TERM; echo x >$GRASS_OUTPUT/x; echo up; while :; do sleep 0.1; done")
    files.until(lambda: "up" in files.stdout(key))
    files.runtime.stop([Stop(key, 0.5)])
    assert files.ended(key).signal == 9 and files.output("deaf-1") == {"x": "x\n"}


@pytest.mark.nightly
def test_an_agent_that_was_away_at_the_end_fetches_the_files_and_a_cut_connection_costs_none(files: Files) -> None:
    wait = "while [ ! -e /grass/scratch/go ]; do sleep 0.1; done"
    key = files.begin("away-1/w.0/1", f"{wait}; yes | head -c 3000000 >$GRASS_OUTPUT/large; echo done")
    files.runs(key)
    files.runtime.close()
    assert result(PodExecution(kubernetes.api(), files.path(key), ["touch", "/grass/scratch/go"], None))[0] == 0
    wait_until(lambda: "terminated" in files.pod(key)["status"]["containerStatuses"][1]["state"])
    files.gateway.faults.append(Fault(execs, after_bytes=1_000_000))
    files.reopen()
    assert files.ended(key).code == 0
    assert len(files.output("away-1")["large"]) == 3_000_000 and not files.gateway.faults
    before = len(files.gateway.asked)
    files.runtime.close()
    files.reopen()  # before the master has noted the end
    assert files.ended(key).code == 0 and not [each for each in files.gateway.asked[before:] if execs(each)]


@pytest.mark.nightly
def test_an_image_without_a_shell_runs_and_its_log_says_that_nothing_was_kept(files: Files) -> None:
    key = files.begin("bare-1/w.0/1", image=PAUSE)
    files.runs(key)
    files.runtime.stop([Stop(key, 2.0, Reason(ReasonCode.TIMEOUT, "too long"))])
    assert files.ended(key).reason == Reason(ReasonCode.TIMEOUT, "too long")
    assert "[grass] its files in GRASS_OUTPUT were not kept: " in files.stdout(key)


@pytest.fixture(scope="module")
def server(shared: Files) -> str:
    """A task that listens on port 8000, until the end of the module."""
    key = shared.begin("serve-1/w.0/1", "while :; do echo hello | nc -l -p 8000; done")
    shared.runs(key)
    return key


def result(execution: PodExecution) -> tuple[int, bytes]:
    output = b""
    while (found := execution.read(execution.descriptors()[0])) is not None:
        output += b"".join(data for _, data in found)
        select.select(execution.descriptors(), [], [], 0.05)
    code = execution.code()
    execution.end()
    return code, output


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["printf", "%s|", "two words", "$HOME", ""], 0, b"two words|$HOME||"),
        (["sh", "-c", "exit 7"], 7, b""),
        (["nothing-like-this"], 127, b"executable file not found"),
        (["/no/such/program"], 127, b"no such file"),
        (["/etc"], 126, b"permission denied"),
    ],
)
@pytest.mark.nightly
def test_a_command_in_a_pod_has_its_words_and_the_exit_code_of_a_shell(
    shared: Files, server: str, argv: list[str], code: int, said: bytes
) -> None:
    found = result(PodExecution(kubernetes.api(), shared.path(server), argv, None))
    assert found[0] == code and said in found[1]
    found = result(PodExecution(kubernetes.api(), shared.path(server), argv, None, shell=True))
    assert found[0] == code and (code > 0 or found[1] == said)


@pytest.mark.nightly
def test_a_command_ends_with_its_connection_and_takes_signals(shared: Files, server: str) -> None:
    def processes(what: str) -> int:
        listed = result(PodExecution(kubernetes.api(), shared.path(server), ["busybox", "ps", "-o", "args"], None))[1]
        return listed.decode().count(what)

    script = "trap 'exit 9' HUP; sleep 1111 & wait"
    ended = PodExecution(kubernetes.api(), shared.path(server), ["sleep", "2222"], None, shell=True)
    signalled = PodExecution(kubernetes.api(), shared.path(server), ["sh", "-c", script], None, shell=True)
    wait_until(lambda: processes("sleep 1111") == 2 and processes("sleep 2222") == 1)
    ended.end()
    signalled.signal(1)
    assert result(signalled)[0] == 9
    wait_until(lambda: processes("sleep 2222") == 0)


@pytest.mark.nightly
def test_a_command_whose_end_nobody_tells_ends_soon_after_its_task(files: Files) -> None:
    key = files.begin("silent-1/w.0/1", "while [ ! -e /grass/scratch/go ]; do sleep 0.1; done")
    files.runs(key)
    files.gateway.faults.append(Fault(lambda asked: "sleep+1000" in asked.path, silent=True))
    argv = ["sh", "-c", "touch /grass/scratch/go; sleep 1000"]
    code, said = result(PodExecution(files.server, files.path(key), argv, None))
    assert code == LOST and said == b"grass: the connection to the command is lost; how it ended is not known\r\n"
    assert files.ended(key).code == 0


@pytest.mark.nightly
def test_a_terminal_has_the_size_of_the_users_window(shared: Files, server: str) -> None:
    execution = PodExecution(kubernetes.api(), shared.path(server), ["sh", "-c", "sleep 1; stty size"], (31, 77))
    assert result(execution) == (0, b"31 77\r\n")


@pytest.mark.nightly
@pytest.mark.parametrize("rounds", [2, pytest.param(10, marks=pytest.mark.nightly)])
def test_looks_of_readiness_checks_leave_no_thread_and_no_descriptor(shared: Files, server: str, rounds: int) -> None:
    api, path, process = kubernetes.api(), shared.path(server), psutil.Process()
    of_node = KubernetesConfig(shared.place.namespace, "c1", str(kubernetes.KUBECONFIG))
    node = NodeConfig("n1", kubernetes=of_node)
    config = NodeHome(shared.place.cluster, "local", "/nowhere", "/nowhere", node=node)
    wait_until(lambda: answers(api, path, 8000))
    before = threading.active_count(), process.num_fds()
    for _ in range(rounds):
        assert PodInside(config, server, []).answers(8000) and not PodInside(config, server, []).answers(8001)
        assert not answers(api, path, 8001)
        assert PodInside(config, server, ["sh", "-c", "exit 4"]).failure(9.0, lambda: False).endswith("exit code 4")
        assert "not end within" in PodInside(config, server, ["sleep", "3"]).failure(0.05, lambda: False)
    wait_until(lambda: threading.active_count() <= before[0] and process.num_fds() <= before[1])


@pytest.mark.nightly
def test_a_check_that_is_asked_for_often_looks_less_often(shared: Files, server: str) -> None:
    config = NodeHome(
        shared.place.cluster,
        "local",
        "/nowhere",
        "/nowhere",
        node=NodeConfig("n1", kubernetes=KubernetesConfig(shared.place.namespace, "c1", str(kubernetes.KUBECONFIG))),
    )

    def looks() -> int:
        path = shared.path(server)
        return result(PodExecution(kubernetes.api(), path, ["cat", "/grass/scratch/looks"], None))[1].count(b".")

    inside = PodInside(config, server, ["sh", "-c", "echo . >>/grass/scratch/looks; exit 1"])
    said = {inside.failure(9.0, lambda: False) for _ in range(5)}
    assert said == {"its check ended with exit code 1"} and looks() == 1
    wait_until(lambda: inside.failure(9.0, lambda: False) and looks() > 1)
