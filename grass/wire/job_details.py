"""The reply of the API about one job with what it runs.

Apart from ``job_views``, so that a client that lists jobs need not load the types of their specifications. Sent by the
API server.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from grass.model.job import Job
from grass.wire.codec import Form
from grass.wire.job_views import JobView


class JobDetails(JobView, frozen=True, kw_only=True):
    """One job with what it runs."""

    specification: Job | UnsetType = UNSET
    """What its file said. Secrets in environments are redacted. Absent: the job is being deleted."""


JOB_DETAILS: Form[JobDetails] = Form(JobDetails)
