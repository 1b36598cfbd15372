"""From files to what they ask for: jobs, schedules and the settings of a cluster, in Grass's and in MARO's words.

Called by the CLI and again by the API server, so nothing here touches anything but the file that it is given.
"""

from grass.manifest.document import load_document, read_document
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
    "load_document",
    "memory",
    "parse_job",
    "parse_schedule",
    "parse_settings",
    "read_document",
]
