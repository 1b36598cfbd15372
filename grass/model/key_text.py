"""The text of launches, tasks and attempts, taken apart without types: the one home of its grammar. Pure.

For hot paths, and for the shepherd, which loads no msgspec. Elsewhere ``grass.wire.keys`` has the types. A component's
name holds neither a dot nor a slash, a job id no slash. Used by all packages.
"""

from __future__ import annotations

import re

from grass.model.names import COMPONENT, JOB_ID, is_name

_LAUNCH = re.compile(rf"({JOB_ID})/({COMPONENT})")
_TASK = re.compile(rf"({COMPONENT})\.([0-9]{{1,9}})")
_ATTEMPT = re.compile(rf"({JOB_ID})/({COMPONENT})\.([0-9]{{1,9}})/([1-9][0-9]{{0,8}})")
_OPENED = re.compile(r"([^:]+):([A-Za-z0-9_-]{8,64})")


def launch_parts(text: str) -> tuple[str, str] | None:
    """Return the job id and the component that ``<job id>/<component>`` names; None: it names no launch."""
    found = _LAUNCH.fullmatch(text)
    return None if found is None else (found[1], found[2])


def task_parts(text: str) -> tuple[str, int] | None:
    """Return the component and the index that ``worker.3`` names; None: it names no task."""
    found = _TASK.fullmatch(text)
    return None if found is None else (found[1], int(found[2]))


def is_attempt_key(text: str) -> bool:
    """Check the key of an attempt that came from outside. No part of it can lead out of a folder."""
    return _ATTEMPT.fullmatch(text) is not None


def checked_attempt_parts(text: str) -> tuple[str, str, int, int] | None:
    """Return job id, component, index and number of the key of an attempt; None: it is none (``is_attempt_key``)."""
    found = _ATTEMPT.fullmatch(text)
    return None if found is None else (found[1], found[2], int(found[3]), int(found[4]))


def job_of(key: str) -> str:
    """Return the job id of the key of an attempt. Nothing is checked."""
    return key.partition("/")[0]


def attempt_parts(key: str) -> tuple[str, str, str]:
    """Return job id, task and number of the key of an attempt. Nothing is checked but the slashes: ValueError."""
    job_id, task, attempt = key.split("/")
    return job_id, task, attempt


def attempt_text(job_id: str, task: str, attempt: int) -> str:
    """Return the key of an attempt of the task ``worker.3``."""
    return f"{job_id}/{task}/{attempt}"


def opened_parts(text: str) -> tuple[str, str] | None:
    """Return the node and the id of ``NODE:ID``: a session or a forward that is open there. None: it names none."""
    found = _OPENED.fullmatch(text)
    return None if found is None or not is_name(found[1]) else (found[1], found[2])


def opened_name(node: str, name: str) -> str:
    """Return the name by which other machines know what the node opened as ``name``."""
    return f"{node}:{name}"
