"""Start of a container by the docker runtime, over the engine's own create and start by its SDK, taken in turns.

Ours: from `start` of an attempt until the runtime reports it as started, with share, scratch folder, addresses, limits
and labels. The SDK's: create and start of the same image and command, host network and init too, nothing else; then
both with all that Grass asks for (mounts, limits, labels), which tells what the engine takes for that.
Needs root or the group docker; run it from the repository root: `python -m tests.bench.container_start`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

import docker  # noqa: E402
import figures  # noqa: E402

from grass.model.runtime import RuntimeName  # noqa: E402
from node.runtime.docker import plan  # noqa: E402
from node.runtime.docker.engine import SOCKET  # noqa: E402
from node.runtime.protocol import Launch, Start, Stop  # noqa: E402
from tests.support.docker_run import DockerRun  # noqa: E402
from tests.support.engine import IMAGE, provide_image  # noqa: E402

COMMAND = ["sleep", "1000"]
LIMITS = {"cpu": 1000, "memory": 256 << 20}


def main() -> None:
    options = figures.arguments(__doc__, rounds=20).parse_args()
    provide_image(SOCKET)
    client = docker.APIClient(base_url=f"unix://{SOCKET}", version="auto")
    ours, plain, same = figures.Figure("grass", [], "ms"), figures.Figure("SDK", [], "ms"), []
    with DockerRun() as run:
        run.listed()
        for number in range(options.rounds + 1):
            rounds = (
                _timed(lambda n=number: _grass(run, n)),
                _timed(lambda n=number: _sdk(client, run, n, alike=False)),
                _timed(lambda n=number: _sdk(client, run, n, alike=True)),
            )
            if number:  # the first warms up
                for samples, took in zip((ours.samples, plain.samples, same), rounds, strict=True):
                    samples.append(took)
    client.close()
    alike = figures.Figure("SDK, same request", same, "ms")
    found = [ours, plain, alike, figures.ratio(ours, plain), figures.ratio(ours, alike)]
    figures.report(options, "container start", found, "at most 1.10 × docker's own create and start")


def _timed(work: Callable[[], Callable[[], None]]) -> float:
    """Milliseconds; what ``work`` returns cleans up, and is not measured."""
    began = time.perf_counter()
    clean = work()
    took = (time.perf_counter() - began) * 1000
    clean()
    return took


def _grass(run: DockerRun, number: int) -> Callable[[], None]:
    key = f"bench-1/c.{number}/1"
    run.start(COMMAND, key, **LIMITS)
    run.runs(key)

    def clean() -> None:
        run.runtime.stop([Stop(key, 0.0)])
        run.ended(key)
        run.runtime.forget([key])
        run.wait(lambda: not run.containers())

    return clean


def _sdk(client: docker.APIClient, run: DockerRun, number: int, *, alike: bool) -> Callable[[], None]:
    start = Start(f"bench-1/s.{number}/1", "bench-1/s", {})
    body = {"Image": IMAGE, "Cmd": COMMAND, "HostConfig": {"NetworkMode": "host", "Init": True}}
    if alike:
        scratch = run.path("scratch", f"bench-1/c.{number}/1")
        launch = Launch(COMMAND, {}, None, 5.0, runtime=RuntimeName.DOCKER, image=IMAGE, **LIMITS)
        body = plan.request(run.config, start, launch, str(scratch), 99)
    made = client.create_container_from_config(body, f"bench-1.s.{number}.1")["Id"]
    client.start(made)
    return lambda: client.remove_container(made, force=True)


if __name__ == "__main__":
    main()
