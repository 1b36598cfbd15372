"""A node as it is in a cluster: real redis, shepherd and node-agent; the test is its master-agent."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from grass.config import RedisConfig, Secrets
from grass.model.reasons import Reason
from grass.node_config import NodeHome
from grass.store.backend import Op
from grass.store.embedded import find_server
from grass.store.keys import Keys
from grass.wire.codec import builtins, encode
from grass.wire.desired import DESIRED_ATTEMPT, DESIRED_CHANGE
from grass.wire.heartbeat import Heartbeat, NodeUsage
from grass.wire.hello import Hello
from grass.wire.keys import LaunchKey
from grass.wire.reports import REPORT
from grass.wire.task_events import Ended, Ready, Started, TaskEvent, TaskEvents, Waiting
from tests.support.redis_server import RedisServer
from tests.support.shepherd_run import ShepherdRun
from tests.support.templates import document

TOKEN = "secret-token"
E = TypeVar("E", Started, Waiting, Ready, Ended)


class NodeRun:
    def __init__(self, share: str | None = None, **node: Any) -> None:
        self.redis = RedisServer(find_server(), node=node.get("name", "local"))
        self.shepherd = ShepherdRun()
        before = self.shepherd.config
        self.config = NodeHome(
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
        self.events: list[TaskEvent] = []
        self.hellos: list[Hello] = []
        self.heartbeats = 0
        self.usage = NodeUsage()
        """Usage in the last heartbeat."""
        self.conditions: tuple[Reason, ...] = ()
        self.defect = ""
        """What the agent's log must have a traceback of; empty: it must have none."""
        self._changes = 0
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
        assert ("Traceback" in text) == bool(self.defect) and self.defect in text, text

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

    def change(self, **fields: Any) -> None:
        """Change the desired state (``DesiredChange`` fields): hashes and stream in one step, as the agent does."""
        change = DESIRED_CHANGE.convert(fields)
        keys, node = self.keys, self.config.node.name
        ops: list[Op] = [("HSET", keys.launch(node), key, encode(value)) for key, value in change.launch.items()]
        ops += [("HSET", keys.desired(node), key, encode(value)) for key, value in change.set.items()]
        if change.remove:
            ops.append(("HDEL", keys.desired(node), *change.remove))
        if change.drop:
            ops.append(("HDEL", keys.launch(node), *change.drop))
        ops += [("HSET", keys.addresses(node), key, text) for key, text in change.addresses.items()]
        ops += [("HSET", keys.membership(node), key, encode(value)) for key, value in change.membership.items()]
        self._changes += 1
        told = msgspec.structs.replace(change, membership={}, memberships=tuple(change.membership))
        ops.append(("XADD", keys.changes(node), 100, "number", str(self._changes), "body", encode(told)))
        self.backend.apply(ops)

    def start(self, command: str | list[str], *keys: str, launch: str = "j-1/c", **template: Any) -> None:
        """Start attempts of one component; its name is in the keys."""
        ports = template.pop("ports", {})
        key = LaunchKey.parse(launch)
        body = document(key, size=len(keys), grace=5.0, command=command, **template)
        self.change(launch={launch: body}, set={key: {"ports": ports, "seq": seq} for seq, key in enumerate(keys)})

    def stop(self, *keys: str, grace: float = 5.0) -> None:
        node = self.config.node.name
        found = {key: DESIRED_ATTEMPT.decode(self.backend.hget(self.keys.desired(node), key) or "") for key in keys}
        stopped = {key: msgspec.structs.replace(entry, stop_grace=grace) for key, entry in found.items()}
        self.change(set={key: builtins(entry) for key, entry in stopped.items()})

    def take(self) -> None:
        """Take the reports since the last call. Each entry is removed, as by the commit that takes it."""
        stream = self.keys.reports(self.config.node.name)
        entries = self.backend.wait({stream: self._last}, 0.05, 1000).get(stream, [])
        for entry_id, fields in entries:
            self._last = entry_id
            match REPORT.decode(fields["body"]):
                case Hello() as hello:
                    self.hellos.append(hello)
                case Heartbeat(usage, conditions):
                    self.heartbeats += 1
                    self.usage, self.conditions = usage, conditions
                case TaskEvents(events):
                    self.events += events
        if entries:
            self.backend.apply([("XDEL", stream, *[entry_id for entry_id, _ in entries])])

    def of(self, key: str, kind: type[E]) -> list[E]:
        return [each for each in self.events if isinstance(each, kind) and each.key == key]

    def event(self, key: str, kind: type[E], seconds: float = 20) -> E:
        self.wait(lambda: bool(self.of(key, kind)), seconds)
        return self.of(key, kind)[0]

    def ended(self, key: str, seconds: float = 20) -> Ended:
        return self.event(key, Ended, seconds)

    def wait(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            log = (Path(self.config.home) / "agent.log").read_text
            assert time.monotonic() < deadline, f"not within {seconds} s: {self.events[-5:]}\n{log()}"
            self.take()

    def path(self, key: str, suffix: str) -> Path:
        return self.shepherd.path(key, suffix)
