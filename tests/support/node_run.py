"""A node as it is in a cluster: real redis, shepherd and node-agent; the test is its master-agent."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from grass.config import ClusterConfig, RedisConfig, Secrets
from grass.store.embedded import find_server
from grass.store.keys import Keys
from tests.support.redis_server import RedisServer
from tests.support.shepherd_run import ShepherdRun

TOKEN = "secret-token"


class NodeRun:
    def __init__(self, share: str | None = None, **node: Any) -> None:
        self.redis = RedisServer(find_server(), node=node.get("name", "local"))
        self.shepherd = ShepherdRun()
        before = self.shepherd.config
        self.config = ClusterConfig(
            name=before.name,
            mode=before.mode,
            home=before.home,
            runtime_dir=before.runtime_dir,
            redis=RedisConfig(socket=str(self.redis.socket)),
            node=replace(before.node, **node),
            share=share,
        )
        self.config.save()
        Secrets(redis=self.redis.passwords, node_token=TOKEN).save(self.config.home)
        self.keys = Keys(self.config.key_prefix)
        self.agent: subprocess.Popen[bytes] | None = None
        self.log = (Path(self.config.home) / "agent.log").open("ab")
        self.events: list[dict[str, Any]] = []
        self.hellos: list[dict[str, Any]] = []
        self.heartbeats = 0
        self.usage: dict[str, Any] = {}
        """In the last of them."""
        self.conditions: list[dict[str, Any]] = []
        self._orders = 0
        self._last = "0-0"

    def __enter__(self) -> NodeRun:
        self.redis.start()
        self.backend = self.redis.backend("admin")
        self.shepherd.__enter__()
        self.start_agent()
        return self

    def __exit__(self, *problem: object) -> None:
        try:
            self.end_agent()
            self.shepherd.connect()
        finally:
            self.backend.close()
            self.log.close()
            text = (Path(self.config.home) / "agent.log").read_text()
            self.shepherd.__exit__(*problem)
            self.redis.remove()
        assert "Traceback" not in text, text

    def start_agent(self) -> None:
        command = [sys.executable, "-m", "node.agent", str(self.config.path)]
        self.agent = subprocess.Popen(command, stderr=self.log, stdin=subprocess.DEVNULL)

    def kill_agent(self) -> None:
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait()

    def end_agent(self) -> None:
        assert self.agent is not None
        if self.agent.poll() is None:
            self.agent.terminate()
            assert self.agent.wait(15) == 0

    def order(self, **order: Any) -> None:
        """Change what is desired, as the master-agent does: the hashes and the stream in one step."""
        self._orders += 1
        keys, node = self.keys, self.config.node.name
        ops: list[tuple[str | int, ...]] = []
        for key, value in order.get("launch", {}).items():
            ops.append(("HSET", keys.launch(node), key, json.dumps(value)))
        for key, value in order.get("set", {}).items():
            ops.append(("HSET", keys.desired(node), key, json.dumps(value)))
        if order.get("remove"):
            ops.append(("HDEL", keys.desired(node), *order["remove"]))
        if order.get("drop"):
            ops.append(("HDEL", keys.launch(node), *order["drop"]))
        for key, value in order.get("addresses", {}).items():
            ops.append(("HSET", keys.addresses(node), key, value))
        ops.append(("XADD", keys.changes(node), 100, "number", str(self._orders), "body", json.dumps(order)))
        self.backend.apply(ops)

    def start(self, command: str | list[str], *keys: str, launch: str = "j-1/c", **template: Any) -> None:
        """Attempts of one component; its name is in the keys."""
        entry = {"ports": template.pop("ports", {})}
        job_id, component = launch.split("/")
        defaults = {"job_id": job_id, "job": job_id.rpartition("-")[0], "component": component, "replicas": len(keys)}
        rest = {"env": {}, "cwd": None, "ready": None, "grace": 5.0, "timeout": None, "width": None, "framework": None}
        body = {**defaults, **rest, "command": command, **template.pop("limits", {}), **template}
        self.order(launch={launch: body}, set={key: {**entry, "seq": seq} for seq, key in enumerate(keys)})

    def stop(self, *keys: str, grace: float = 5.0) -> None:
        node = self.config.node.name
        found = {key: self.backend.hget(self.keys.desired(node), key) for key in keys}
        self.order(set={key: {**json.loads(text or "{}"), "stop_grace": grace} for key, text in found.items()})

    def take(self) -> None:
        """What was reported since the last time. Each entry is removed, as by the commit that takes it."""
        stream = self.keys.reports(self.config.node.name)
        entries = self.backend.wait({stream: self._last}, 0.05, 1000).get(stream, [])
        for entry_id, fields in entries:
            self._last = entry_id
            body = json.loads(fields["body"])
            match fields["kind"]:
                case "hello":
                    self.hellos.append(body)
                case "heartbeat":
                    self.heartbeats += 1
                    self.usage, self.conditions = body["usage"], body["conditions"]
                case "tasks":
                    self.events += body["events"]
        if entries:
            self.backend.apply([("XDEL", stream, *[entry_id for entry_id, _ in entries])])

    def of(self, key: str, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["key"] == key and each["event"] == event]

    def event(self, key: str, event: str, seconds: float = 20) -> dict[str, Any]:
        self.wait(lambda: bool(self.of(key, event)), seconds)
        return self.of(key, event)[0]

    def ended(self, key: str, seconds: float = 20) -> dict[str, Any]:
        return self.event(key, "ended", seconds)

    def wait(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            log = (Path(self.config.home) / "agent.log").read_text
            assert time.monotonic() < deadline, f"not within {seconds} s: {self.events[-5:]}\n{log()}"
            self.take()

    def path(self, key: str, suffix: str) -> Path:
        return self.shepherd.path(key, suffix)
