"""Derives the end of an attempt from the engine's state of its ended container. Pure; used by ``ends``."""

from __future__ import annotations

import math
import signal
from datetime import datetime
from typing import NamedTuple

from grass.model.reasons import Reason, ReasonCode
from node.runtime.docker.engine_json import Answer
from node.runtime.out_of_memory import out_of_memory

_KILL = signal.SIGKILL.value
_SHELL_SIGNAL = 128
_SIGNALS = 32
"""The first real-time signal. Codes from here on are more likely a program's own."""
_INIT_FAILED = b"[FATAL tini ("
"""Beginning of the message of the engine's init, on stderr, when it cannot run the command."""


class Outcome(NamedTuple):
    code: int | None
    signal: int | None
    reason: Reason | None
    ended: float | None


class Past(NamedTuple):
    """Further facts. ``booted``: wall time of this boot. ``stderr``: its beginning. ``memory``: its limit in bytes.

    ``signalled``: Grass sent it a signal. ``left``: wall time at which the machine began to shut down in the boot of
    the container, if that is known. ``with_engine``: the engine stopped it because the engine itself was stopped.
    """

    same_boot: bool = True
    booted: float = 0.0
    stderr: bytes = b""
    memory: int = 0
    signalled: bool = False
    left: float = math.inf
    with_engine: bool = False


def outcome(state: Answer, past: Past) -> Outcome:
    """Return how the attempt ended. ``state``: the engine's, as inspected.

    After a power loss, the engine reports containers that ran before as dead, with a made-up exit code. An engine that
    is stopped sends TERM to its containers; a program may well end with 0 then, with its work undone. Not every engine
    notices that the kernel killed a container for using too much memory.
    """
    ended, code = wall(state["FinishedAt"]), state["ExitCode"]
    if not past.same_boot and (
        ended is None or ended >= min(past.booted, past.left) or code == _SHELL_SIGNAL + signal.SIGTERM
    ):
        message = "the node was rebooted while it ran"
        return Outcome(None, None, Reason(ReasonCode.NODE_REBOOTED, message), ended)
    if past.with_engine:
        message = "the container engine of its node was stopped while it ran"
        return Outcome(None, None, Reason(ReasonCode.NODE_STOPPED, message), ended)
    if code in (126, 127) and past.stderr.startswith(_INIT_FAILED):
        text = past.stderr.split(b"\n")[0].decode(errors="replace").partition("] ")[2]
        return Outcome(code, None, Reason(ReasonCode.CANNOT_START, f"cannot start in its image: {text}"), ended)
    if state.get("OOMKilled") or (code == _SHELL_SIGNAL + _KILL and past.memory and not past.signalled):
        return Outcome(None, _KILL, out_of_memory(past.memory, seen=bool(state.get("OOMKilled"))), ended)
    number = code - _SHELL_SIGNAL
    if 0 < number < _SIGNALS:
        return Outcome(None, number, None, ended)
    return Outcome(code, None, None, ended)


def wall(text: str) -> float | None:
    """Return the engine's ``2026-11-21T07:46:43.265937537Z`` as seconds since the epoch; None for its year 1
    (never)."""
    if text.startswith("0001"):
        return None
    moment, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(moment + "+00:00").timestamp() + float(f"0.{fraction or 0}")
