"""Elastic Horovod without its C++ part: ``driver FOLDER`` launches as `horovodrun` does, ``train FOLDER`` is a worker.

Everything is Horovod's own code, but for what its C++ part does: ``reset`` asks the driver for rank and size as
``GlooContext::Initialize`` does, and ``Collective`` stands for a collective of gloo, which fails when a member is gone.
"""

from __future__ import annotations

import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ENV = os.environ
SECONDS = 10.0


def drive(folder: str) -> None:
    from horovod.runner.elastic.discovery import HostDiscoveryScript
    from horovod.runner.elastic.settings import ElasticSettings
    from horovod.runner.gloo_run import gloo_run_elastic

    settings = ElasticSettings(
        discovery=HostDiscoveryScript(ENV["GRASS_DISCOVER_HOSTS"], 1),
        num_proc=int(ENV["GRASS_NP"]),
        min_num_proc=int(ENV["GRASS_MIN_NP"]),
        max_num_proc=int(ENV["GRASS_MAX_NP"]),
        elastic_timeout=60,
        reset_limit=None,
        nics={"lo"},
    )
    command = [sys.executable, __file__, "train", folder]
    gloo_run_elastic(settings, dict(ENV), command, sys.executable)


class Collective:
    """A value of rank 0 for all ranks, through the driver's store, which is emptied at each new assignment of ranks."""

    def __init__(self) -> None:
        self.new_world()

    def new_world(self) -> None:
        self._number = 0
        self._pids: dict[int, int] = {}
        """Rank → its process, which took part in an earlier collective."""

    def broadcast(self, value: Any) -> Any:
        from horovod.common.exceptions import HorovodInternalError
        from horovod.runner.common.util import codec

        self._number += 1
        rank, size = int(ENV["HOROVOD_RANK"]), int(ENV["HOROVOD_SIZE"])
        own = (os.getpid(), value)
        request("PUT", f"/test/{self._number}-{rank}", codec.dumps_base64(own).encode())
        found, until = {}, time.monotonic() + SECONDS
        while len(found) < size:
            for each in range(size):
                text = None if each in found else request("GET", f"/test/{self._number}-{each}")
                if text:
                    self._pids[each], found[each] = codec.loads_base64(text.decode())
            gone = [pid for each, pid in self._pids.items() if each not in found and not Path(f"/proc/{pid}").exists()]
            if gone or time.monotonic() > until:
                raise HorovodInternalError("a member did not answer")
            if len(found) < size:
                time.sleep(0.05)
        return found[0]


def request(method: str, path: str, body: bytes | None = None) -> bytes | None:
    """Ask the driver. None: there is no such value."""
    server = f"http://{ENV['HOROVOD_GLOO_RENDEZVOUS_ADDR']}:{ENV['HOROVOD_GLOO_RENDEZVOUS_PORT']}"
    asked = urllib.request.Request(server + path, data=body, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return None


def train(folder: str) -> None:
    from horovod.common.elastic import ObjectState, run_fn

    collective, stop = Collective(), Path(folder, "stop")

    def reset() -> None:
        text = request("GET", f"/rank_and_size/{ENV['HOROVOD_HOSTNAME']}:{ENV['HOROVOD_LOCAL_RANK']}") or b""
        numbers = text.decode().split(",")
        if numbers[0] == "-1":
            raise RuntimeError(f"{ENV['HOROVOD_HOSTNAME']} has been removed from elastic job")
        for name, number in zip(("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"), numbers, strict=False):
            ENV[f"HOROVOD_{name}"] = number
        collective.new_world()

    def learn(state: Any) -> None:
        host, rank, size = ENV["HOROVOD_HOSTNAME"], ENV["HOROVOD_RANK"], ENV["HOROVOD_SIZE"]
        Path(folder, f"{host}.pid").write_text(str(os.getpid()))
        print(f"{host} is rank {rank} of {size} at {'a later' if state.step else 'the first'} step", flush=True)
        while not collective.broadcast(stop.exists()):
            state.step += 1
            state.commit()
            time.sleep(0.3)

    state = ObjectState(bcast_object=collective.broadcast, get_rank=lambda: int(ENV["HOROVOD_RANK"]), step=0)
    run_fn(learn, reset)(state)


if __name__ == "__main__":
    {"driver": drive, "train": train}[sys.argv[1]](sys.argv[2])
