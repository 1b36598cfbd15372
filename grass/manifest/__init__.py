"""Parse documents into jobs, schedules and cluster settings, in Grass's format and in MARO's. Pure.

Called by the CLI, the Python client and the API server. This package opens no file; ``grass.document_file`` does.
"""

from grass.manifest.document import read_document
from grass.manifest.job import ParsedJob, parse_job
from grass.manifest.quantities import duration, memory
from grass.manifest.schedule import ParsedSchedule, parse_schedule
from grass.manifest.settings import Settings, parse_settings
from grass.manifest.values import Wrong

__all__ = [
    "ParsedJob",
    "ParsedSchedule",
    "Settings",
    "Wrong",
    "duration",
    "memory",
    "parse_job",
    "parse_schedule",
    "parse_settings",
    "read_document",
]
