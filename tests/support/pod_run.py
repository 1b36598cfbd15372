"""A ``PodRuntime`` on a namespace of its own of the real Kubernetes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.credentials import Credential
from grass.kubernetes.names import pod_name
from grass.node_config import KubernetesConfig
from node.runtime.attempts import Folders
from node.runtime.kubernetes.place import Place
from node.runtime.kubernetes.removal import TOMBSTONE
from node.runtime.kubernetes.runtime import PodRuntime
from tests.support import kubernetes

SETTINGS = KubernetesConfig("", pull_policy="Never", output=False)


class PodRun:
    """``server``: an administrator's. The runtime has connections of its own."""

    def __init__(self, server: ApiServer, namespace: str, folder: Path, settings: KubernetesConfig = SETTINGS) -> None:
        self.server = server
        self.gateway = kubernetes.gateway()
        self.share = folder / "jobs"
        self.place = Place("c1", "n1", namespace, str(folder / "attempts"), str(self.share))
        self.folders = Folders(self.place.folder)
        self.settings = settings
        self.runtime = self.open()

    def open(self, tombstone: float = TOMBSTONE) -> PodRuntime:
        """Return a runtime, as one more agent opens it."""
        api = ApiServer(Credential(lambda: self.gateway.credentials))
        return PodRuntime(api, self.place, self.settings, tombstone=tombstone)

    def cut(self) -> None:
        """Disconnect the server."""
        self.gateway.cut()

    def gone(self, key: str) -> bool:
        """Return whether an attempt has no pod any more, or one that is a tombstone."""
        name = pod_name(self.place.cluster, key)
        try:
            found = self.server.get(f"{self.place.path}/{name}", kubernetes.ANY)
        except RefusedError:
            return True
        return "deletionTimestamp" in found["metadata"]

    def stdout(self, key: str) -> str:
        path = Path(self.folders.path(key, "stdout"))
        return path.read_text() if path.exists() else ""


@contextmanager
def pod_run() -> Iterator[PodRun]:
    with (
        kubernetes.namespace() as (server, name),
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        run = PodRun(server, name, Path(folder))
        try:
            yield run
        finally:
            run.runtime.close()
            run.gateway.close()
