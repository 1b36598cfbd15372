"""When a Job of Kubernetes makes another pod, and when it gives up. Pure; used by ``manifests``.

Grass counts the restarts of each task. A Job of one task can say so everywhere, one of several only in newer versions.
"""

from __future__ import annotations

from grass.manifest.document import Document
from grass.manifest.export.pod_spec import TASK
from grass.model.job import Component, Job, RestartOn

_UNLIMITED = (1 << 31) - 1
_LEAST, _WITH_CODES, _BY_INDEX = "1.24", "1.26", "1.29"
"""Versions of Kubernetes with a stable Indexed Job, its policy of exit codes, its limit of restarts by index."""


def _limit(part: Component) -> int:
    """Return how often a task starts again."""
    restart = part.restart
    if restart.policy is RestartOn.NEVER:
        return 0
    return _UNLIMITED if restart.limit is None else restart.limit


def _is_by_index(job: Job, part: Component) -> bool:
    """Return whether what one task does must not count for the others."""
    return part.replicas > 1 and (_limit(part) > 0 or not job.fail_fast)


def restarts(job: Job, part: Component) -> Document:
    """Return when a Job makes another pod, and when it gives up. Grass counts restarts of each task."""
    by_index = _is_by_index(job, part)
    found: Document = {"backoffLimitPerIndex" if by_index else "backoffLimit": _limit(part)}
    if by_index and job.fail_fast:
        found["maxFailedIndexes"] = 0
    if part.restart.codes and _limit(part):
        others = {"containerName": TASK, "operator": "NotIn", "values": sorted(set(part.restart.codes))}
        action = "FailIndex" if by_index else "FailJob"
        not_its_own = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        final = {"action": action, "onExitCodes": others, "onPodConditions": []}  # until 1.28, it must be there
        found["podFailurePolicy"] = {"rules": [not_its_own, final]}
    return found


def least_version(job: Job, part: Component) -> str:
    if _is_by_index(job, part):
        return _BY_INDEX
    return _WITH_CODES if part.restart.codes and _limit(part) else _LEAST
