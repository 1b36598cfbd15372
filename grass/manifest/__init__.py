"""Parse documents into jobs, schedules and cluster settings, in Grass's format and in MARO's. Pure.

Called by the CLI, the Python client and the API server. This package opens no file; ``grass.document_file`` does.
The readers of schedules and settings are named in full: a command that starts a job does without them.
"""

from __future__ import annotations

from grass.manifest.document import read_document
from grass.manifest.job import ParsedJob, parse_job
from grass.manifest.quantities import duration, memory
from grass.manifest.values import Wrong

__all__ = [
    "ParsedJob",
    "Wrong",
    "duration",
    "memory",
    "parse_job",
    "read_document",
]
