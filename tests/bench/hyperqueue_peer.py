"""HyperQueue as the peer, in a virtual environment and a process of its own.

HyperQueue's wheel brings no `hq` binary; its Python API holds server, worker and client.
"""

from __future__ import annotations

from pathlib import Path

from peer_environment import Peer, interpreter

VERSION = "0.27.0"


def python() -> Path:
    """Python of HyperQueue's environment, made on first use."""
    return interpreter(f"hyperqueue-{VERSION}", f"hyperqueue=={VERSION}")


class HyperQueue(Peer):
    """A running cluster with as many cores as the machine has. Use as a context."""

    def __init__(self) -> None:
        super().__init__(python(), "hyperqueue_driver.py")

    def __enter__(self) -> HyperQueue:
        return self

    def array(self, count: int) -> dict[str, float]:
        """``seconds`` from building the job until the client has seen all done, ``last`` until the last one started."""
        return self.ask({"kind": "array", "count": count})

    def functions(self, count: int) -> dict[str, float]:
        """``seconds`` from building one job of so many calls of Python's ``abs`` until the client has seen all done."""
        return self.ask({"kind": "functions", "count": count})

    def stamp(self, command: list[str], stamp: Path) -> dict[str, float]:
        """Wall clock at submission, in the task (`command` writes it to `stamp`), and when its end was known."""
        return self.ask({"kind": "stamp", "command": command, "stamp": str(stamp)})
