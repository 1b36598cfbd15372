"""``cleanPodPolicy``, which all foreign kinds have: which pods to delete once the job has ended. Pure.

Used by ``mars_job``, ``run_policy`` and ``training_job``.
"""

from __future__ import annotations

from enum import Enum


class CleanPods(str, Enum):
    ALL = "All"
    RUNNING = "Running"
    NONE = "None"
