"""A ``PodRuntime`` on a double of the API server, in which a test says what becomes of pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from grass.kubernetes.names import pod_name
from grass.node_config import KubernetesConfig
from node.runtime.attempts import Folders
from node.runtime.kubernetes.logs import FOLLOWERS
from node.runtime.kubernetes.place import Place
from node.runtime.kubernetes.removal import TOMBSTONE
from node.runtime.kubernetes.runtime import PodRuntime
from node.runtime.protocol import Launch, Listed, Observed, Start
from tests.doubles.kubernetes_api import KubernetesApi, kubernetes_api
from tests.support.waiting import wait_until

SETTINGS = KubernetesConfig("", output=False)
LAUNCH = Launch(["true"], {}, None, 1.0, runtime="kubernetes", image="i", cpu=10, memory=16 << 20)


class DoubledPods:
    """``known``: what the runtime last told of each attempt. ``told``: all that it told, in this order."""

    def __init__(self, server: KubernetesApi, folder: Path, followers: int) -> None:
        self.server = server
        self.place = Place("c1", "n1", server.namespace, str(folder / "attempts"), str(folder / "jobs"))
        self.known: dict[str, Observed] = {}
        self.told: list[Observed] = []
        self.listed = False
        self.followers = followers
        self.runtime = self._open(TOMBSTONE)

    def _open(self, tombstone: float) -> PodRuntime:
        made = PodRuntime(self.server.api(), self.place, SETTINGS, tombstone=tombstone, followers=self.followers)
        made.define({"j-1/c": LAUNCH})
        return made

    def restart(self, tombstone: float = TOMBSTONE) -> None:
        """Be the next agent, and wait for its first list."""
        self.runtime.close()
        self.known, self.told, self.listed = {}, [], False
        self.runtime = self._open(tombstone)
        self.wait(lambda: self.listed)

    def wait(self, condition: Callable[[], object], seconds: float = 20.0) -> None:
        def met() -> object:
            for event in self.runtime.receive():
                self.listed = self.listed or isinstance(event, Listed)
                for each in event.attempts if isinstance(event, Listed) else [event]:
                    if isinstance(each, Observed):
                        self.known[each.key] = each
                        self.told.append(each)
            return condition()

        wait_until(met, seconds)

    def stdout(self, key: str) -> str:
        return Path(Folders(self.place.folder).path(key, "stdout")).read_text()

    def name(self, key: str) -> str:
        return pod_name(self.place.cluster, key)

    def begin(self, *keys: str) -> None:
        """Start attempts, and let their tasks run."""
        self.runtime.start([Start(each, "j-1/c", {}) for each in keys])
        self.wait(lambda: len(self.server.pods()) >= len(keys))
        for each in keys:
            self.server.begin(self.name(each))
        self.wait(lambda: all(each in self.known and self.known[each].since is not None for each in keys))


@contextmanager
def doubled_pods(folder: Path, followers: int = FOLLOWERS) -> Iterator[DoubledPods]:
    with kubernetes_api() as server:
        run = DoubledPods(server, folder, followers)
        run.wait(lambda: run.listed)
        try:
            yield run
        finally:
            run.runtime.close()
