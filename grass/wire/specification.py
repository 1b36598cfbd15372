"""What a job is to run: its specification, by job id in the hash ``specs``. Written by the API.

Apart from ``job_record``, so that a client that reads records need not load it.
"""

from __future__ import annotations

from grass.model.job import Job
from grass.wire.codec import Form

SPECIFICATION: Form[Job] = Form(Job)
