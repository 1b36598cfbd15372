"""The docker runtime over the machine's engine, as a separate cluster, for one test."""

from __future__ import annotations

import dataclasses
import select
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grass.model.job import Container
from grass.node_config import NodeHome
from node.runtime.attempts import Folders
from node.runtime.docker.engine import SOCKET, Engine
from node.runtime.docker.runtime import DockerRuntime
from node.runtime.docker.starts import ImageSource
from node.runtime.protocol import Launch, Listed, Observed, Start, Waiting
from tests.support.engine import IMAGE, Door, cluster_name, remove_containers
from tests.support.shepherd_run import cluster_config

ONE = "j-1/c.0/1"


class DockerRun:
    """One docker runtime. ``reconnect`` makes the runtime anew, as a restarted node-agent does. ``config``: of a node
    that has its folders already."""

    def __init__(
        self,
        engine: str = SOCKET,
        images: ImageSource | None = None,
        config: NodeHome | None = None,
        **node: Any,
    ) -> None:
        self.folder: Path | None = None
        if config is None:
            self.folder = Path(tempfile.mkdtemp(prefix="grass-"))
            config = cluster_config(self.folder, **node)
            config.data_dir.mkdir(parents=True)
        self.config: NodeHome = dataclasses.replace(config, name=cluster_name())
        self.engine = Engine(engine)
        self.door = Door(engine)
        self.images = images
        self.known: dict[str, Observed] = {}
        self.waiting: list[Waiting] = []
        self.lists = 0
        self.runtime = self._runtime()

    def _runtime(self) -> DockerRuntime:
        return DockerRuntime(self.config, Engine(self.door.path), self.images)

    def __enter__(self) -> DockerRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.runtime.close()
        self.door.remove()
        remove_containers(self.config.name, self.engine.socket)
        self.engine.close()
        if self.folder is not None:
            shutil.rmtree(self.folder)

    def cut(self) -> None:
        """Disconnect the engine and connect it again."""
        self.door.shut()
        self.door.open()

    def reconnect(self) -> None:
        self.runtime.close()
        self.known.clear()
        self.lists = 0
        self.runtime = self._runtime()
        self.listed()

    def listed(self) -> None:
        before = self.lists
        self.wait(lambda: self.lists > before)

    def run(self, command: str | list[str], key: str = ONE, **options: Any) -> Observed:
        """Start one attempt and wait for its end."""
        self.start(command, key, **options)
        return self.ended(key)

    def start(self, command: str | list[str], key: str = ONE, **options: Any) -> None:
        if not self.lists:
            self.listed()
        container = Container(**options.pop("container", {}))
        given = {name: options.pop(name) for name in ("ports", "gpus") if name in options}
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        launch = Launch(argv, {}, None, 5.0, runtime="docker", image=IMAGE, container=container)
        self.runtime.define({key: launch._replace(**options)})
        self.runtime.start([Start(key, key, {}, **given)])

    def ended(self, key: str = ONE) -> Observed:
        self.wait(lambda: key in self.known and self.known[key].ended is not None)
        return self.known[key]

    def runs(self, key: str = ONE) -> Observed:
        self.wait(lambda: key in self.known and self.known[key].pid is not None)
        return self.known[key]

    def wait(self, condition: Callable[[], object], seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds} s; known: {self.known}; {self.waiting}"
            select.select([self.runtime], [], [], 0.01)
            self._take()

    def _take(self) -> None:
        for event in self.runtime.receive():
            if isinstance(event, Listed):
                self.lists += 1
                self.known = {attempt.key: attempt for attempt in event.attempts}
            elif isinstance(event, Observed):
                self.known[event.key] = event
            else:
                self.waiting.append(event)

    def path(self, suffix: str, key: str = ONE) -> Path:
        return Path(Folders(str(self.config.node_dir / "attempts")).path(key, suffix))

    def stdout(self, key: str = ONE) -> str:
        """Return the stdout so far: the file is created with the first log output."""
        path = self.path("stdout", key)
        return path.read_text() if path.exists() else ""

    def containers(self) -> list[dict[str, Any]]:
        return self.engine.containers([f"grass.cluster={self.config.name}"])
