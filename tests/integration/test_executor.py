"""`grass.Executor` and `grass.Job` on a real local cluster."""

from __future__ import annotations

import operator
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, wait
from pathlib import Path

import pytest

import grass
from grass import Client, Executor
from grass.errors import InputError, TaskDiedError
from tests.integration.test_cli import Grass
from tests.integration.test_cli import grass as command
from tests.support.needs import require

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


def test_a_killed_task_is_an_error_that_names_its_job(client: Client) -> None:
    with Executor(client, cpu=0.1) as executor:
        future = executor.submit(lambda: os.kill(os.getpid(), signal.SIGKILL))
        assert wait([future], 30, FIRST_EXCEPTION).done
        with pytest.raises(TaskDiedError, match=r"job executor-.*SIGKILL"):
            future.result()


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
