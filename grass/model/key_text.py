"""The text of tasks and attempts, taken apart without types. Pure.

For hot paths, and for the shepherd, which loads no msgspec. Elsewhere ``grass.wire.keys`` has the types. A component's
name holds neither a dot nor a slash, a job id no slash.
"""

from __future__ import annotations

import re

from grass.model.names import is_job_id

_ATTEMPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.[0-9]{1,9}/[1-9][0-9]{0,8}")
_TASK = re.compile(r"([^/.]+)\.([0-9]{1,9})")


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
