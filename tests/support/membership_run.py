"""A node with its node-api-server, whose memberships the test changes as the master-agent would."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grass.api.task_token import job_secret
from grass.wire.codec import builtins
from grass.wire.keys import LaunchKey
from grass.wire.membership import Member, Membership
from node.runtime.process.client import ask
from node.runtime.shepherd_messages import ListAttempts
from tests.support.example_run import free_port
from tests.support.node_run import NodeRun
from tests.support.templates import document

SECRET = job_secret("master", "j-1")


class MembershipRun(NodeRun):
    """Components of the job ``j-1``: ``self.sizes`` has the members of each."""

    def __init__(self, **node: Any) -> None:
        super().__init__(api_port=free_port(), **node)
        self._generations: dict[str, int] = {}
        self.api: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> MembershipRun:
        super().__enter__()
        self.start_api()
        return self

    def __exit__(self, *problem: object) -> None:
        if self.api is not None:
            self.api.terminate()
            self.api.wait()
        super().__exit__(*problem)

    def start_api(self) -> None:
        command = [sys.executable, "-m", "node.api", str(self.config.path)]
        self.api = subprocess.Popen(command, stderr=self.log, stdin=subprocess.DEVNULL)

    def membership(
        self, component: str, attempts: Sequence[tuple[int, int]], most: int = 8, **ports: int
    ) -> Membership:
        """Return the next generation: (index, attempt) of each member, by rank."""
        self._generations[component] = self._generations.get(component, 0) + 1
        node = self.config.node
        members = tuple(
            Member(f"{component}.{index}", attempt, node.name, node.address, 1, rank, ports, node.api_port)
            for rank, (index, attempt) in enumerate(attempts)
        )
        return Membership(self._generations[component], 1, len(members), 1, most, 1, members)

    def tell(self, component: str, attempts: Sequence[tuple[int, int]], **ports: int) -> None:
        """Change a membership."""
        self.change(membership={f"j-1/{component}": builtins(self.membership(component, attempts, **ports))})

    def begin(self, component: str, command: str, attempts: Sequence[tuple[int, int]], **template: Any) -> list[str]:
        """Start attempts and have them listed in the membership, in the same change. Return their keys."""
        keys = [f"j-1/{component}.{index}/{attempt}" for index, attempt in attempts]
        listed = template.pop("listed", attempts)
        key = LaunchKey("j-1", component)
        body = document(key, size=len(attempts), grace=5.0, command=command, secret=SECRET, **template)
        change: dict[str, Any] = {
            "launch": {str(key): body},
            "set": {key: {"seq": seq} for seq, key in enumerate(keys)},
        }
        if listed:
            change["membership"] = {f"j-1/{component}": builtins(self.membership(component, listed))}
        self.change(**change)
        return keys

    def add(self, component: str, *attempts: tuple[int, int]) -> list[str]:
        """Start more attempts of a component."""
        keys = [f"j-1/{component}.{index}/{attempt}" for index, attempt in attempts]
        self.change(set={key: {"seq": 100 + seq} for seq, key in enumerate(keys)})
        return keys

    def pid(self, key: str) -> int:
        [pid] = [
            each.pid for each in ask(self.config.socket("shepherd"), ListAttempts()) if each.key == key and each.pid
        ]
        return int(pid)

    def out(self, key: str) -> str:
        path: Path = self.path(key, "stdout")
        return path.read_text() if path.exists() else ""

    def err(self, key: str) -> str:
        path: Path = self.path(key, "stderr")
        return path.read_text() if path.exists() else ""

    def wait_out(self, key: str, text: str, seconds: float = 30) -> None:
        try:
            self.wait(lambda: text in self.out(key), seconds)
        except AssertionError as error:
            raise AssertionError(f"{key}: no {text!r} in\n{self.out(key)}\n{self.err(key)}\n{error}") from error
