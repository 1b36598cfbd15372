"""A HyperQueue cluster (server and one worker) and its client, driven by JSON lines on stdin.

Runs in HyperQueue's own virtual environment, started by `hyperqueue_peer.py`; imports nothing of Grass. Waiting is
HyperQueue's own `wait_for_jobs`, which is what a user of its Python API has.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["TQDM_DISABLE"] = "1"

from hyperqueue import Client, Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
from hyperqueue.ffi.protocol import ResourceRequest
from hyperqueue.task.function import PythonEnv


def run_array(client: Client, folder: str, count: int) -> dict[str, float]:
    """One job of ``count`` tasks /bin/true, one cpu each, with a stdout and a stderr file per task as is its default.

    ``seconds`` until the client has seen the end, ``last`` until the last task's files were made.
    """
    workdir = tempfile.mkdtemp(dir=folder)
    wall, begin = time.time(), time.perf_counter()
    job = Job(default_workdir=workdir, max_fails=None)
    for _ in range(count):
        job.program(["/bin/true"], resources=ResourceRequest(cpus=1))
    client.wait_for_jobs([client.submit(job)])
    seconds = time.perf_counter() - begin
    started = [path.stat().st_mtime for path in Path(workdir).rglob("*") if path.is_file()]
    if len(started) < count:
        raise RuntimeError(f"only {len(started)} files of {count} tasks")
    shutil.rmtree(workdir)
    return {"seconds": seconds, "last": max(started) - wall}


def run_functions(client: Client, folder: str, count: int) -> dict[str, float]:
    """One job of ``count`` tasks that each call a Python function. HyperQueue brings no results back."""
    workdir = tempfile.mkdtemp(dir=folder)
    begin = time.perf_counter()
    job = Job(default_workdir=workdir, max_fails=None)
    for number in range(count):
        job.function(abs, args=(number,), resources=ResourceRequest(cpus=1), stdout=None, stderr=None)
    client.wait_for_jobs([client.submit(job)])
    seconds = time.perf_counter() - begin
    shutil.rmtree(workdir)
    return {"seconds": seconds}


def run_stamp(client: Client, folder: str, command: list[str], stamp: str) -> dict[str, float]:
    """One task whose program writes its wall clock to the file ``stamp``."""
    job = Job(default_workdir=folder)
    job.program(command, resources=ResourceRequest(cpus=1))
    submitted = time.time()
    client.wait_for_jobs([client.submit(job)])
    known = time.time()
    return {"submitted": submitted, "stamped": float(Path(stamp).read_text()), "known": known}


def answer(client: Client, folder: str, request: dict[str, Any]) -> dict[str, float]:
    kind = request.pop("kind")
    run = {"array": run_array, "functions": run_functions, "stamp": run_stamp}[kind]
    return run(client, folder, **request)


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # HyperQueue prints tables; stdout carries replies only
    with tempfile.TemporaryDirectory(prefix="bench-hq-") as folder:
        server_dir = Path(folder, "server")
        server_dir.mkdir()
        os.chdir(folder)
        with LocalCluster(str(server_dir), worker_config=WorkerConfig(cores=os.cpu_count())) as cluster:
            client = cluster.client(python_env=PythonEnv(sys.executable))
            print(json.dumps({"ready": True}), file=replies, flush=True)
            for line in sys.stdin:
                print(json.dumps(answer(client, folder, json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main()
