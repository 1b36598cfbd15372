"""`grass.Executor` and `grass.Job` on a real local cluster."""

from __future__ import annotations

import operator
import os
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, wait
from functools import partial
from pathlib import Path

import pytest

import grass
from grass import Client, Executor
from grass.errors import InputError, RemoteCallError, TaskDiedError
from tests.integration.test_cli import Grass
from tests.integration.test_cli import grass as command
from tests.support.needs import require
from tests.support.waiting import wait_until

__all__ = ["command"]


@pytest.fixture(scope="module")
def client(command: Grass) -> Iterator[Client]:
    with Client("local", home=command.home) as client:
        yield client


def test_a_map_is_one_array_job_with_results_in_order(client: Client) -> None:
    with Executor(client, cpu=0.1, max_workers=3, keep=True, name="mapping") as executor:
        assert list(executor.map(operator.add, range(1000), range(1000))) == list(range(0, 2000, 2))
        assert list(executor.map(abs, [])) == []
    jobs = client.jobs(all=True, name="mapping-*")
    assert [(job.state, job.counts) for job in jobs] == [("SUCCEEDED", {"SUCCEEDED": 3})]


def test_an_executor_of_four_runs_four_calls_at_once(client: Client, tmp_path: Path) -> None:
    def run(number: int) -> int:
        mine = tmp_path / str(number)
        mine.touch()
        wait_until(lambda: len(list(tmp_path.glob("*"))) == 2 or (tmp_path / "done").exists(), seconds=20)
        (tmp_path / "done").touch()
        mine.unlink()
        return len(list(tmp_path.glob("[0-9]*")))

    with Executor(2, client=client, cpu=0.1) as executor:
        running = [executor.submit(run, number) for number in range(5)]
        assert max(future.result(50) for future in running) <= 1


def test_an_exception_comes_back_with_its_traceback(client: Client) -> None:
    with Executor(client, cpu=0.1) as executor:
        good, bad = executor.submit(pow, 2, 10), executor.submit(operator.truediv, 1, 0)
        assert good.result(30) == 1024
        with pytest.raises(ZeroDivisionError) as raised:
            bad.result(30)
        assert "ZeroDivisionError" in str(raised.value.__cause__)
        with pytest.raises(InputError, match="cannot be pickled"):
            executor.submit(threading.Lock().acquire).result(30)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, 1)


def test_large_arguments_travel_in_files_that_are_gone_at_the_end(client: Client, command: Grass) -> None:
    model = os.urandom(2 << 20)

    def score(weights: bytes, rows: bytes) -> int:
        return len(weights) + len(rows) + len(model)

    with Executor(client, cpu=0.1, max_workers=2) as executor:
        rows = [os.urandom(300_000) for _ in range(3)]
        assert list(executor.map(score, [model] * 3, rows)) == [2 * len(model) + 300_000] * 3
        [folder] = (command.home / "clusters/local/data/executors").iterdir()
        assert len(list(folder.iterdir())) == 5  # the model, three times rows, and the function
        assert executor.submit(len, model).result() == len(model)
    assert not folder.exists()


def test_a_killed_task_is_an_error_that_names_its_job(client: Client) -> None:
    with Executor(client, cpu=0.1) as executor:
        future = executor.submit(lambda: os.kill(os.getpid(), signal.SIGKILL))
        assert wait([future], 30, FIRST_EXCEPTION).done
        with pytest.raises(TaskDiedError, match=r"job executor-.*SIGKILL"):
            future.result()


def not_found() -> None:
    raise urllib.error.HTTPError("http://x", 404, "no such page", None, None)  # type: ignore[arg-type]


def test_one_bad_call_of_a_batch_leaves_the_others_alone(client: Client) -> None:
    with Executor(client, cpu=0.1) as executor:
        bad = [executor.submit(not_found), executor.submit(len, threading.Lock()), executor.submit(lambda: os._exit(3))]
        good = [executor.submit(pow, 2, exponent) for exponent in range(3)]
        assert [each.result(30) for each in good] == [1, 2, 4]
        expected = [RemoteCallError, InputError, TaskDiedError]
        assert [type(each.exception(30)) for each in bad] == expected


def hang_after(path: str, number: int) -> int:
    if number == 1:
        raise ValueError("the second")
    if number > 1:
        (Path(path) / str(number)).touch()
        signal.pause()
    return number


def test_a_map_that_raised_stops_the_rest_and_its_time_is_that_of_all_results(client: Client, tmp_path: Path) -> None:
    with Executor(client, cpu=0.1, max_workers=4, name="stopped-map") as executor:
        results = executor.map(partial(hang_after, str(tmp_path)), range(4))
        assert next(results) == 0
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2, what="the tasks that hang")
        with pytest.raises(ValueError, match="the second"):
            next(results)
        with pytest.raises(TimeoutError):
            list(executor.map(signal.sigwait, [[signal.SIGUSR1]] * 2, timeout=0.2))
        with pytest.raises(ValueError, match="chunksize"):
            executor.map(abs, [1], chunksize=0)
    assert {job.state for job in client.jobs(all=True, name="stopped-map-*")} == {"STOPPED"}


def driver(tmp_path: Path, home: Path, body: str) -> subprocess.Popen[str]:
    program = tmp_path / "driver.py"
    # whoever runs the tests in the background of a shell hands down an ignored SIGINT
    listens = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    imports = "from pathlib import Path\nimport signal\nfrom grass import Executor"
    program.write_text(f"{imports}\n{listens}\n{body}")
    environment = {**os.environ, "GRASS_HOME": str(home), "GRASS_CLUSTER": "local"}
    return subprocess.Popen([sys.executable, str(program)], env=environment, cwd="/", stderr=-1, text=True)


def test_a_call_that_is_submitted_in_the_last_line_runs(command: Grass, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    last = driver(tmp_path, command.home, f"Executor(cpu=0.1).submit(Path({str(marker)!r}).touch)")
    assert last.communicate(timeout=30) == (None, "") and last.returncode == 0
    assert marker.exists()


@pytest.mark.parametrize("how", ["with", "without"])
def test_ctrl_c_stops_the_jobs_of_a_driver_and_says_which(
    client: Client, command: Grass, tmp_path: Path, how: str
) -> None:
    wait = f"submit(lambda: (Path({str(tmp_path / 'marker')!r}).touch(), signal.pause())).result()"
    executor = f"Executor(cpu=0.1, name={how!r})"
    body = f"with {executor} as executor:\n    executor.{wait}" if how == "with" else f"{executor}.{wait}"
    running = driver(tmp_path, command.home, body)
    wait_until((tmp_path / "marker").exists)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=30)[1]
    [job] = client.jobs(all=True, name=f"{how}-*")
    assert f"interrupted; stopping {job.id}" in said
    assert client.wait(job.id, 30).state == "STOPPED"


def test_a_job_is_an_object_with_typed_views(client: Client, tmp_path: Path) -> None:
    require(shutil.which("rsync") is not None, "rsync")
    script = "echo '<hello>'; echo 1 > $GRASS_OUTPUT/result"
    job = client.submit({"name": "object", "components": {"main": {"command": script, "replicas": 1}}}, cwd=tmp_path)
    view = job.wait(30)
    assert (view.state, job.state, view.components["main"].replicas) == ("SUCCEEDED", "SUCCEEDED", 1)
    assert [task.exit_code for task in job.tasks()] == [0]
    assert (job.output() / "result").read_text() == "1\n"
    assert job.pull(local=tmp_path / "fetched") and (tmp_path / "fetched" / "result").read_text() == "1\n"
    assert job.text() == "<hello>\n" and [line.text for line in job.logs()] == ["<hello>"]
    assert "1 succeeded" in job._repr_html_() and grass.Job(client, "object").id == job.id
    with pytest.raises(AttributeError):
        view.state = "FAILED"
    job.delete()
    with pytest.raises(grass.errors.NotFoundError):
        grass.Job(client, job.id)
