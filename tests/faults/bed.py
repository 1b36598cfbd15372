"""What a round needs of a cluster, whether it is on one machine or on hosts."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from grass.api.client import Client
from grass.errors import ConflictError, GrassError
from tests.long.kill_matrix import patiently
from tests.support.waiting import wait_until

PROBE = "probe"


class Bed(ABC):
    """``marks``: the folder of the oracle, as tasks see it, on each host. ``there``: keys that send a component to the
    node which is harmed. ``seat``: resources that only one task can have. ``python``: the program that tasks run."""

    name: str
    marks: str
    python: str
    there: Mapping[str, Any]
    seat: Mapping[str, Any]
    client: Client
    image = ""

    @abstractmethod
    def grass(self, *words: str) -> subprocess.Popen[str]: ...

    @abstractmethod
    def lines_of(self, name: str) -> list[str]:
        """Return the lines of a file in ``marks``, of all hosts."""

    @abstractmethod
    def write(self, name: str) -> None:
        """Make an empty file in ``marks``, on each host."""

    @abstractmethod
    def is_up(self) -> bool:
        """Return whether all daemons run and all nodes are READY. Raises GrassError, too, if not."""

    def before(self, number: int) -> None:
        """Prepare the round ``number``."""
        return

    def opened(self) -> list[str]:
        """Return what an isolated user saw of others since the round began. On one machine there is only one user."""
        return []

    def forget_image(self) -> None:
        """Have the node load the image anew."""
        return

    def component(self, command: str | list[str], replicas: int = 1, **more: Any) -> dict[str, Any]:
        part = {"command": command, "replicas": replicas, "cwd": "/", "resources": {"cpu": 0.01, "memory": "16MiB"}}
        return {**part, **self.there, **more}

    def start(self, name: str, /, priority: int = 100, **components: Mapping[str, Any]) -> None:
        job = {"name": name, "priority": priority, "components": components}
        try:
            patiently(lambda: self.client.start(job))
        except ConflictError:  # accepted, though the answer was lost
            patiently(lambda: self.client.job(name))

    def heal(self, number: int, seconds: float) -> None:
        """Wait until the cluster is whole: a new job succeeds, too."""
        wait_until(lambda: no_error(self.is_up), seconds, f"the whole cluster ({self.name})", 0.1)
        name = f"{PROBE}-{number}"
        self.start(name, t=self.component("true"))
        view = patiently(lambda: self.client.wait(name, timeout=seconds))
        assert view.state == "SUCCEEDED", (view, patiently(lambda: self.client.why(name)))


def no_error(condition: Any) -> bool:
    try:
        return bool(condition())
    except GrassError:
        return False
