"""The text of tasks and attempts, taken apart without types. Pure.

For hot paths, and for the shepherd, which loads no msgspec. Elsewhere ``grass.wire.keys`` has the types. A component's
name holds neither a dot nor a slash, a job id no slash. Used by all packages.
"""

from __future__ import annotations

import re

from grass.model.names import is_job_id, is_name

_ATTEMPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.[0-9]{1,9}/[1-9][0-9]{0,8}")
_TASK = re.compile(r"([^/.]+)\.([0-9]{1,9})")
_OPENED = re.compile(r"([^:]+):([A-Za-z0-9_-]{8,64})")


def task_parts(text: str) -> tuple[str, int] | None:
    """Return the component and the index that ``worker.3`` names; None: it names no task."""
    found = _TASK.fullmatch(text)
    return None if found is None else (found[1], int(found[2]))


def is_attempt_key(text: str) -> bool:
    """Check the key of an attempt that came from outside. No part of it can lead out of a folder."""
    job_id, _, rest = text.partition("/")
    return is_job_id(job_id) and _ATTEMPT.fullmatch(rest) is not None


def job_of(key: str) -> str:
    """Return the job id of the key of an attempt. Nothing is checked."""
    return key.partition("/")[0]


def attempt_parts(key: str) -> tuple[str, str, str]:
    """Return job id, task and number of ``<job id>/<component>.<index>/<attempt>``. Raises ValueError."""
    job_id, task, attempt = key.split("/")
    return job_id, task, attempt


def opened_parts(text: str) -> tuple[str, str] | None:
    """Return the node and the id of ``NODE:ID``: a session or a forward that is open there. None: it names none."""
    found = _OPENED.fullmatch(text)
    return None if found is None or not is_name(found[1]) else (found[1], found[2])


def opened_name(node: str, name: str) -> str:
    """Return the name by which other machines know what the node opened as ``name``."""
    return f"{node}:{name}"
