"""Stock launchers over the ``ssh`` of Grass: Open MPI and MPICH of Debian. The test plays the master-agent."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psutil
import pytest

from grass.wire.task_events import Drained
from tests.support.membership_run import MembershipRun
from tests.support.needs import require
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(100)

RANK = Path(__file__).parents[1] / "support" / "mpi_rank.py"
ENV = {"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}
_numbers = count(1)


@pytest.fixture(scope="module")
def node() -> Iterator[MembershipRun]:
    with MembershipRun() as run:
        keys = run.begin("worker", "exec sleep 1000", [(0, 1), (1, 1)], framework={"name": "openmpi"}, env=ENV)
        for key in keys:
            run.wait(lambda key=key: any(event.key == key for event in run.events))  # type: ignore[misc]
        yield run


def launch(node: MembershipRun, framework: str, command: str) -> str:
    """Start a launcher; return its key."""
    [key] = node.begin("launcher", command, [(0, next(_numbers))], framework={"name": framework}, env=ENV)
    return key


# Both go the same way through Grass: one of them in each run is enough.
@pytest.fixture(params=[pytest.param("openmpi", marks=pytest.mark.nightly), "mpich"])
def mpirun(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The framework, and the command to launch two ranks."""
    name = str(request.param)
    program = f"mpiexec.{name}"
    require(shutil.which(program) is not None, name, f"Debian's {name}")
    return name, f"exec {program} -np 2 python3 {RANK} {name}"


def pids(node: MembershipRun, launcher: str) -> list[int]:
    return [int(pid) for pid in re.findall(r"pid (\d+) end", node.out(launcher))]


def test_ranks_start_in_the_tasks_and_find_each_other(node: MembershipRun, mpirun: tuple[str, str]) -> None:
    launcher = launch(node, *mpirun)
    assert node.ended(launcher, 20).code == 0, node.err(launcher)
    assert node.out(launcher).count("of 2: 2 here") == 2


def test_a_killed_rank_ends_the_launcher_and_leaves_nothing(node: MembershipRun, mpirun: tuple[str, str]) -> None:
    launcher = launch(node, mpirun[0], mpirun[1] + " wait")
    node.wait(lambda: len(pids(node, launcher)) == 2, 20)
    ranks = pids(node, launcher)
    os.kill(ranks[1], signal.SIGKILL)
    assert node.ended(launcher, 20).code != 0
    wait_until(lambda: not any(map(psutil.pid_exists, ranks)))


def test_an_interrupt_of_the_launcher_ends_all_ranks(node: MembershipRun, mpirun: tuple[str, str]) -> None:
    launcher = launch(node, mpirun[0], mpirun[1] + " wait")
    node.wait(lambda: len(pids(node, launcher)) == 2, 20)
    os.kill(node.pid(launcher), signal.SIGINT)
    node.ended(launcher, 20)
    wait_until(lambda: not any(map(psutil.pid_exists, pids(node, launcher))))


def test_ssh_passes_streams_exit_code_and_signals(node: MembershipRun) -> None:
    script = """
printf 'in\\nput' | ssh -x -o BatchMode=yes worker-0-1 'cat; echo "$GRASS_TASK"; echo oops >&2; exit 7'; echo "code $?"
ssh worker.1 'trap "echo caught; exit 5" TERM; echo up; while :; do sleep 0.05; done' > up & pid=$!
until grep -q up up; do sleep 0.05; done; kill -TERM $pid; wait $pid; echo "code $?"; cat up
ssh elsewhere true; echo "code $?"; ssh worker-0-1; echo "code $?"
"""
    launcher = launch(node, "horovod", script)
    node.ended(launcher, 20)
    expected = "in\nputj.worker.0\ncode 7\ncode 5\nup\ncaught\ncode 255\ncode 255\n"
    assert node.out(launcher) == expected, node.err(launcher)
    assert "oops" in node.err(launcher) and "no task of this job" in node.err(launcher)


def test_another_jobs_token_starts_nothing(node: MembershipRun) -> None:
    script = """
GRASS_TOKEN=other-1/worker.0/1:$(printf %064d 0) ssh worker-0-1 'echo inside'; echo "code $?"
GRASS_TOKEN=$(echo "$GRASS_TOKEN" | sed 's/launcher/worker/') ssh worker-0-1 'echo inside'; echo "code $?"
"""
    launcher = launch(node, "horovod", script)
    node.ended(launcher, 20)
    assert node.out(launcher) == "code 255\ncode 255\n"
    assert node.err(launcher).count("the token is wrong") == 2


def test_a_command_dies_with_its_task_with_all_that_it_started(node: MembershipRun) -> None:
    [victim] = node.add("worker", (2, 1))
    node.tell("worker", [(0, 1), (1, 1), (2, 1)])
    node.wait(lambda: any(event.key == victim for event in node.events))
    launcher = launch(node, "horovod", "exec ssh worker-2-1 'set -m; sleep 900 & echo pid $! end; wait'")
    node.wait(lambda: len(pids(node, launcher)) == 1, 30)
    os.kill(node.pid(victim), signal.SIGKILL)
    node.tell("worker", [(0, 1), (1, 1)])  # launchers of other tests must not reach for it
    assert node.ended(launcher, 30).code not in (0, None)
    wait_until(lambda: not psutil.pid_exists(pids(node, launcher)[0]))


def test_a_host_that_left_is_reported_idle_once_no_launcher_uses_it_and_what_they_used_is_its_use(
    node: MembershipRun,
) -> None:
    used, unused = node.add("worker", (3, 1), (4, 1))
    node.tell("worker", [(0, 1), (1, 1), (3, 1), (4, 1)])
    node.wait(lambda: {used, unused} <= {event.key for event in node.events})
    burn = "import time; t = time.process_time; [0 for _ in iter(lambda: t() > 1, True)]"
    script = f"(ssh worker-3-1 'python3 -c \"{burn}\"; echo burnt; read line' < fifo) & exec 3> fifo; wait"
    launcher = launch(node, "horovod", f"mkfifo fifo; {script}")
    node.wait_out(launcher, "burnt")
    totals = node.config.node_dir / "usage.json"
    node.wait(lambda: totals.exists() and json.loads(totals.read_text()).get(used, {}).get("cpu", 0) > 0.9)
    node.tell("worker", [(0, 1), (1, 1)])
    node.wait(lambda: Drained(unused) in node.events)
    assert Drained(used) not in node.events
    os.kill(node.pid(launcher), signal.SIGKILL)
    node.wait(lambda: Drained(used) in node.events, 25)
    node.stop(used, unused, grace=1.0)
    usage = node.ended(used).usage
    assert usage is not None and usage.cpu > 0.9


def test_a_command_ends_when_the_node_api_server_that_runs_it_is_killed(node: MembershipRun) -> None:
    launcher = launch(node, "horovod", "exec ssh worker-0-1 'set -m; sleep 900 & echo pid $! end; wait'")
    node.wait(lambda: len(pids(node, launcher)) == 1, 30)
    assert node.api is not None
    for each in [*psutil.Process(node.api.pid).children(), psutil.Process(node.api.pid)]:
        each.kill()
    node.api.wait()
    node.start_api()
    wait_until(lambda: not psutil.pid_exists(pids(node, launcher)[0]))
    assert node.ended(launcher, 30).code not in (0, None)


def test_a_command_goes_on_while_the_node_agent_restarts(node: MembershipRun) -> None:
    script = "mkfifo fifo; exec 3<> fifo; (ssh worker-0-1 'echo up; read line; echo got $line' < fifo) & wait $!"
    launcher = launch(node, "horovod", script)
    node.wait_out(launcher, "up")
    node.kill_agent()
    node.start_agent()
    with (node.path(launcher, "scratch") / "fifo").open("w") as fifo:
        fifo.write("line\n")
    node.wait_out(launcher, "got line")


def test_a_repeated_request_starts_no_second_command_and_writes_no_input_twice(node: MembershipRun) -> None:
    script = """
PYTHONPATH=$GRASS_LIBRARY/python exec python3 - <<'END'
import base64
from grass_membership import Api, ApiError
api, mine = Api(), "0123456789abcdef"
body = {"host": "worker-0-1", "argv": ["sh", "-c", "echo started; cat"], "id": mine}
first, second = (api.call("POST", "/v1/exec", body)["id"] for _ in range(2))
assert first == second, (first, second)
path = "/v1/exec/" + first
for data, end, at in ((b"abc", False, 0), (b"abc", False, 0), (b"bcd", False, 1), (b"", True, 4), (b"", True, 4)):
    answer = api.call("POST", path + "/input", {"data": base64.b64encode(data).decode(), "end": end, "at": at})
    assert answer["taken"] == len(data), answer
after, said, code = 0, b"", None
while code is None:
    answer = api.call("GET", "%s/output?after=%d" % (path, after), seconds=20)
    said += b"".join(base64.b64decode(each) for _, each in answer["chunks"])
    after, code = answer["next"], answer["code"]
api.call("DELETE", path)
print(said.decode(), code)
for wrong in (body, {**body, "id": "short"}):
    try:
        api.call("POST", "/v1/exec", wrong)
    except ApiError as error:
        print(error.status, error)
END
"""
    launcher = launch(node, "horovod", script)
    assert node.ended(launcher, 20).code == 0, node.err(launcher)
    started, said, late, short = node.out(launcher).splitlines()
    assert (started, said) == ("started", "abcd 0")
    assert late.startswith("409 ") and "was started before, and has ended" in late
    assert short.startswith("400 ") and "16 to 64 letters" in short
