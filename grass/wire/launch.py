"""The launch template: what a node must know of one component of a job, once for all its attempts there.

Written by the master-agent, read by node-agents.
"""

from __future__ import annotations

import msgspec

from grass.model.framework import Framework
from grass.model.job import DEFAULT_GRACE, DEFAULT_OUTPUT_LIMIT, PLAIN_CONTAINER, Container, Ready
from grass.wire.codec import Form


class LaunchTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the attempts of one component share.

    By launch key in the hash ``node:<n>:launch``. Most fields are those of ``grass.model.job.Component``.
    """

    job_id: str
    job: str
    """Name of the job."""
    component: str
    replicas: int = 1
    """Its present size, when this template was last sent. ``Membership`` has the current one."""
    min: int | None = None
    max: int | None = None
    unit: int = 1
    command: str | tuple[str, ...]
    """A string is run by ``/bin/sh -c``, a list is an argv."""
    env: dict[str, str] = {}
    cwd: str | None = None
    base: str | None = None
    """Folder that ``cwd`` is relative to; None: the share."""
    shell: tuple[tuple[str, str], ...] = ()
    """Variables of the submitting shell, in place of those that the node inherited. Empty: none were sent."""
    process: tuple[tuple[str, int], ...] = ()
    """Umask and soft limits of the submitting shell (``grass.model.process_settings``)."""
    ready: Ready | None = None
    grace: float = DEFAULT_GRACE
    """Seconds between TERM and KILL when an attempt exceeds its time limit or is no longer desired."""
    timeout: float | None = None
    """Seconds that an attempt may run."""
    output_limit: int = DEFAULT_OUTPUT_LIMIT
    """Bytes that the log of a task may take."""
    width: int | None = None
    """Most attempts of this template that run at once on this node. The others wait there in the order of ``seq``, and
    start as soon as one ends, without the master (ADR 2). None: no limit."""
    framework: Framework | None = None
    runtime: str | None = None
    """``process``, ``docker``, or None: docker if there is an image and the node has an engine."""
    image: str | None = None
    cpu: int = 0
    """Limit of a container, weight of an isolated process, in thousandths of a core; 0: none."""
    memory: int = 0
    """Limit of a container or of an isolated process, in bytes; 0: none."""
    container: Container = PLAIN_CONTAINER
    matrix: dict[str, tuple[str, ...]] = {}
    entries: tuple[str, ...] = ()
    """The entry of each task, by index. Empty: the tasks have none."""
    awaited: dict[str, str] = {}
    """Name of a job that the job waited for → id of its run. Tasks get the paths of their output folders."""
    user: str = ""
    """Whose job it is. Nodes that isolate users run its processes under an account of theirs."""
    read_only_data: bool = False
    """Whether its tasks may only read the files of users in the share, on nodes that isolate users."""
    secret: str = ""
    """Secret of the job, from which the tokens of its tasks for the membership API are derived (``task_token``)."""


LAUNCH_TEMPLATE: Form[LaunchTemplate] = Form(LaunchTemplate)
