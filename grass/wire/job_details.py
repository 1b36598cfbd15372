"""The reply of the API about one job with what it runs: a module of its own, so that `job show` loads no more."""

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
