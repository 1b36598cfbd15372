"""Copies files to and from the claim that is the share of a namespace of Kubernetes. Used by ``grass.cli``.

The work is done by a program of the node (``node.runtime.kubernetes.transfer``), which uses the user's own kubeconfig.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grass.errors import GrassError, InputError, NotAllowedError, UnreachableError
from grass.node_config import NodeHome
from grass.system import own_program

_PROGRAM = "node.runtime.kubernetes.transfer"
_ERRORS: dict[int, type[GrassError]] = {
    each.exit_code: each for each in (InputError, UnreachableError, NotAllowedError)
}
_ITS_END = 20.0
"""Seconds in which an interrupted transfer removes its pod."""


@dataclass(frozen=True)
class Copied:
    """What was copied: ``size`` in bytes, and how many entries of a folder were left out, because they are no files, or
    links that lead out of it."""

    size: int
    left_out: int


def push(node: NodeHome, local: Path, remote: str, *, copy_links: bool) -> Copied:
    """Send a file or folder. Raises InputError, UnreachableError, NotAllowedError."""
    return _run(node, "push", local, remote, ["--copy-links"] if copy_links else [])


def pull(node: NodeHome, remote: str, local: Path, *, force: bool) -> Copied:
    """Fetch a file or folder. Raises as ``push``; InputError also if files here would be changed, without ``force``."""
    return _run(node, "pull", local, remote, ["--force"] if force else [])


def _run(node: NodeHome, direction: str, local: Path, remote: str, options: Sequence[str]) -> Copied:
    command = own_program.command(_PROGRAM, str(node.path), direction, str(local.absolute()), remote, *options)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=own_program.environment(), cwd="/", stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as running:
        try:
            out, said = running.communicate()
        except KeyboardInterrupt:
            _end(running)
            raise
    if running.returncode:
        kind = _ERRORS.get(running.returncode, GrassError)
        raise kind(said.strip() or f"{direction} of {remote}: ended with exit code {running.returncode}")
    size, left_out = out.split()
    return Copied(int(size), int(left_out))


def _end(running: subprocess.Popen[str]) -> None:
    """Interrupt a transfer, which then removes its pod."""
    running.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        running.communicate(timeout=_ITS_END)
    running.kill()
