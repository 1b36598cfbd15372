"""Parse documents into jobs, schedules and cluster settings, in Grass's format and in MARO's. Pure.

Called by the CLI, the Python client and the API server. This package opens no file; ``grass.document_file`` does.
The readers of schedules and settings are loaded at first use: a command that starts a job does without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grass.manifest.document import read_document
from grass.manifest.job import ParsedJob, parse_job
from grass.manifest.quantities import duration, memory
from grass.manifest.values import Wrong

if TYPE_CHECKING:
    from grass.manifest.schedule import ParsedSchedule, parse_schedule
    from grass.manifest.settings import parse_settings

__all__ = [
    "ParsedJob",
    "ParsedSchedule",
    "Wrong",
    "duration",
    "memory",
    "parse_job",
    "parse_schedule",
    "parse_settings",
    "read_document",
]


def __getattr__(name: str) -> object:
    found: object
    if name in ("ParsedSchedule", "parse_schedule"):
        from grass.manifest import schedule

        found = getattr(schedule, name)
    elif name == "parse_settings":
        from grass.manifest import settings

        found = settings.parse_settings
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
