"""The launch template: what a node must know of one component of a job, once for all its attempts there.

Written by the master-agent, read by node-agents.
"""

from __future__ import annotations

from typing import Any

import msgspec

from grass.errors import UndecodableError
from grass.model.job import Component
from grass.wire.codec import Form


class LaunchTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the attempts of one component share. By launch key in the hash ``node:<n>:launch``."""

    job_id: str
    job: str
    """Name of the job."""
    component: Component
    """As the job file describes it."""
    size: int = 1
    """The component's present size, when this template was last sent. ``Membership`` has the current one."""
    width: int | None = None
    """Most attempts of this template that run at once on this node. The others wait there in the order of ``seq``, and
    start as soon as one ends, without the master (ADR 2). None: no limit."""
    awaited: dict[str, str] = {}
    """Name of a job that the job waited for → id of its run. Tasks get the paths of their output folders."""
    user: str = ""
    """Whose job it is. Nodes that isolate users run its processes under an account of theirs."""
    read_only_data: bool = False
    """Whether its tasks may only read the files of users in the share, on nodes that isolate users."""
    secret: str = ""
    """Secret of the job, from which the tokens of its tasks for the membership API are derived (``task_token``)."""
    gang: bool = False
    """Whether its tasks start together or not at all."""
    gang_tasks: int = 0
    """How many tasks that start together are on this node, of all components of the gang. 0: it is of no gang."""
    alone: bool = False
    """Whether it is the only task of its job, so that no other one asks for its address."""


class _Templates(Form[LaunchTemplate]):
    """Also reads what a master of protocol 1 has left in redis, where tasks go on through an upgrade: the fields of the
    component were beside those of the template."""

    def decode(self, text: str | bytes) -> LaunchTemplate:
        try:
            return super().decode(text)
        except UndecodableError:
            flat = _FIELDS.decode(text)
            if not isinstance(flat.get("component"), str):
                raise
        resources = {"cpu": flat.get("cpu", 0), "memory": flat.get("memory", 0)}
        component = {**flat, "name": flat["component"], "resources": resources}
        return self.convert({**flat, "component": component, "size": flat.get("replicas", 1)})


_FIELDS: Form[dict[str, Any]] = Form(dict[str, Any])  # Any: fields of an earlier version
LAUNCH_TEMPLATE = _Templates(LaunchTemplate)
