"""How fast unmodified torch under torchrun goes from two workers to three and back: with Grass, and with torchrun's own
c10d rendezvous on the same machine, in turns.

From the request for a third worker, or for its end, until all that remain train with each other. With c10d, the request
is the start of the third torchrun, or TERM for it. Its ``last_call_timeout``, which it waits for more workers, is one
second instead of 30. A change after which the workers do not train within two minutes counts as two minutes.

c10d shares one store between rendezvous and training by default. In torch 2.13, a worker that joins later then waits in
vain for the address of that store: rank 0 tells it in the first round only. Without sharing, it tells it in each round.
Needs the virtual environment with torch of ``scripts/test-frameworks``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import figures
from local_cluster import LocalCluster

from tests.support.frameworks import cache_folder

TRAIN = """
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
for step in range(10**9):
    total = torch.ones(1)
    dist.all_reduce(total)
    assert int(total) == size
    if step == 1:
        with open(f"{sys.argv[1]}/{size}.{rank}.part", "w") as file:
            file.write(repr(time.time()))
        os.rename(file.name, file.name.removesuffix(".part"))
    time.sleep(0.02)
"""
ENV = {"OMP_NUM_THREADS": "1"}
NOT_SHARED = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
PATIENCE = 120.0
"""Seconds that a change may take."""
START = 120.0
"""Seconds until the first two train."""


def trained(folder: Path, size: int, since: float, seconds: float) -> float | None:
    """Wait until so many workers have trained with each other after ``since``; return when the last one did."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            times = [float((folder / f"{size}.{rank}").read_text()) for rank in range(size)]
            if min(times) > since:
                return max(times)
        except (OSError, ValueError):
            pass
        time.sleep(0.005)
    return None


def first_two(folder: Path) -> None:
    if trained(folder, 2, 0, START) is None:
        sys.exit(f"two workers do not train with each other after {START:g} s")


def measured(folder: Path, size: int, change: Callable[[], object]) -> float:
    """Return the milliseconds from a change until so many train."""
    begin = time.time()
    change()
    end = trained(folder, size, begin, PATIENCE)
    return 1000 * (PATIENCE if end is None else end - begin)


@contextmanager
def grass(torch: Path, program: Path, folder: Path) -> Iterator[tuple[Callable[[], object], Callable[[], object]]]:
    with LocalCluster() as cluster:
        worker = {
            "command": ["torchrun", str(program), str(folder)],
            "env": {"PATH": f"{torch}/bin:/usr/bin:/bin", **ENV},
            "framework": "torchrun",
            "replicas": 2,
            "min": 2,
            "max": 3,
            "resources": {"cpu": 0.1},
        }
        client = cluster.client
        job = client.start({"name": "bench-torch", "components": {"worker": worker}}).id
        first_two(folder)
        yield lambda: client.scale(job, "worker", 3), lambda: client.scale(job, "worker", 2)
        client.stop(job, grace=0)
        client.wait(job)


@contextmanager
def c10d(torch: Path, program: Path, folder: Path) -> Iterator[tuple[Callable[[], object], Callable[[], object]]]:
    command = [f"{torch}/bin/torchrun", "--nnodes", "2:3", "--rdzv-backend", "c10d", "--rdzv-id", "bench"]
    command += ["--rdzv-endpoint", "localhost:29555", "--rdzv-conf", "last_call_timeout=1", "--max-restarts", "1000"]
    agents: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        log = (folder / f"log-{len(agents)}").open("wb")
        argv, env = [*command, str(program), str(folder)], {**os.environ, **ENV, **NOT_SHARED}
        agents.append(subprocess.Popen(argv, env=env, stdout=log, stderr=log, start_new_session=True))

    def end() -> None:
        agents[-1].send_signal(signal.SIGTERM)

    try:
        start()
        start()
        first_two(folder)
        yield start, end
    finally:
        for agent in agents:
            if agent.poll() is None:
                agent.terminate()
        for agent in agents:
            agent.wait()


def main() -> None:
    options = figures.arguments(__doc__, 5).parse_args()
    torch = cache_folder() / "torch"
    if not (torch / "complete").exists():
        sys.exit(f"there is no torch at {torch}; scripts/test-frameworks makes it")
    names = [f"{change}, {who}" for change in ("two to three", "three to two") for who in ("Grass", "c10d")]
    samples: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for who, ready in (("Grass", grass), ("c10d", c10d)):
            with tempfile.TemporaryDirectory(prefix="bench-torch-") as name:
                folder = Path(name)
                program = folder / "train.py"
                program.write_text(TRAIN)
                with ready(torch, program, folder) as (grow, shrink):
                    samples[f"two to three, {who}"].append(measured(folder, 3, grow))
                    samples[f"three to two, {who}"].append(measured(folder, 2, shrink))
    found = {name: figures.Figure(name, taken, "ms") for name, taken in samples.items()}
    ratios = [
        figures.ratio(found[f"{change}, Grass"], found[f"{change}, c10d"])
        for change in ("two to three", "three to two")
    ]
    figures.report(options, "unmodified torch changes its size", [*found.values(), *ratios], "≤ c10d in the same run")


if __name__ == "__main__":
    main()
