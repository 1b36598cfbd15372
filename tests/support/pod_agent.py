"""A program that has a ``PodRuntime`` and its agent's way to end: what a test stops and continues.

``python -m tests.support.pod_agent SERVER NAMESPACE FOLDER``: each line of its input is the key of an attempt to start.
"""

from __future__ import annotations

import os
import select
import sys
import threading

from grass.kubernetes.api import ApiServer
from grass.kubernetes.credentials import Credential, Credentials
from node.agent.__main__ import ThreadFailureHook
from node.runtime.kubernetes.claim import Times
from node.runtime.kubernetes.place import Place
from node.runtime.kubernetes.runtime import PodRuntime
from node.runtime.protocol import Launch, Listed, Start
from tests.support.engine import IMAGE
from tests.support.pod_run import SETTINGS

CLUSTER = "paused"
TIMES = Times(3.0, 2.0, 0.3)
LAUNCH = Launch(
    ["/bin/sh", "-c", "exec sleep 100"], {}, None, 1.0, runtime="kubernetes", image=IMAGE, cpu=50, memory=32 << 20
)


def main(server: str, namespace: str, folder: str) -> None:
    threading.excepthook = ThreadFailureHook(30.0)
    api = ApiServer(Credential(lambda: Credentials(server, token="any")))
    runtime = PodRuntime(api, Place(CLUSTER, "n1", namespace, folder, f"{folder}/jobs"), SETTINGS, TIMES)
    runtime.define({"slow": LAUNCH})
    while True:
        ready, _, _ = select.select([runtime, 0], [], [], 0.1)
        for event in runtime.receive():
            print("listed" if isinstance(event, Listed) else event, flush=True)
        if 0 in ready:
            keys = os.read(0, 1 << 16).decode().split()
            runtime.start([Start(key, "slow", {}) for key in keys])


if __name__ == "__main__":
    main(*sys.argv[1:])
