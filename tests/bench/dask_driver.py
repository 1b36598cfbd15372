"""A cluster of Dask and its client, driven by JSON lines on stdin.

Runs in Dask's own virtual environment, started by `dask_peer.py`; imports nothing of Grass.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time

import dask
from distributed import Client, LocalCluster


def run(client: Client, count: int) -> dict[str, float]:
    begin = time.perf_counter()
    futures = client.map(abs, range(count), pure=False)
    assert sum(client.gather(futures)) == count * (count - 1) // 2
    return {"seconds": time.perf_counter() - begin}


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # stdout carries replies only
    with tempfile.TemporaryDirectory(prefix="bench-dask-") as folder:
        dask.config.set({"temporary-directory": folder})
        with (
            LocalCluster(n_workers=os.cpu_count(), threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            print(json.dumps({"ready": True}), file=replies, flush=True)
            for line in sys.stdin:
                print(json.dumps(run(client, **json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main()
