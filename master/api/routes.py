"""The table of all API routes. ``registry`` registers them, ``openapi`` documents them.

Used by ``openapi``, ``registry`` and ``schemas``.
"""

from __future__ import annotations

from master.api.cluster_routes import CLUSTER_ROUTES
from master.api.job_routes import JOB_ROUTES

ROUTES = (*JOB_ROUTES, *CLUSTER_ROUTES)
