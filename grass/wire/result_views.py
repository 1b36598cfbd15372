"""The reply of the API about the results of a job: one row for each task. Sent by the API server."""

from __future__ import annotations

import msgspec

from grass.model.lifecycle import TaskState
from grass.model.reasons import FailureClass
from grass.wire.codec import Form


class ResultRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came out of one task. Times are seconds since the epoch."""

    task: str
    state: TaskState
    values: dict[str, str] = {}
    """Its values of `matrix`, or its entry of `from` as `entry`."""
    cause: str = ""
    """Why it failed: what its output says of that, or how it ended."""
    failure: FailureClass | None = None
    """Whose fault that was."""
    exit_code: int | None = None
    attempt: int = 0
    run: str = ""
    """Id of the earlier run in which it succeeded. Empty: it is a task of this run."""
    node: str | None = None
    started: float | None = None
    ended: float | None = None
    cpu: float | None = None
    """Seconds of CPU time of its ended attempts."""
    memory: float | None = None
    """Bytes of memory at its peak."""
    figures: dict[str, tuple[float, float, float]] = {}
    """Figure that it reported → last, least and greatest value."""
    parameters: dict[str, str] = {}
    """What it said of itself with ``grass.log_params``, without secrets."""
    not_finite: dict[str, int] = {}
    """Figure → how many of its values were NaN or infinite, which count nowhere else."""
    troubles: dict[str, int] = {}
    """What it reported that is not kept, and why → how often."""


class ResultsView(msgspec.Struct, frozen=True):
    """What came out of a job."""

    id: str
    name: str
    tags: dict[str, str]
    settings: dict[str, dict[str, str]]
    """Component → its variables, without secrets, and its command as ``command``."""
    rows: tuple[ResultRow, ...]
    full: bool
    """Whether its tasks reported more figures than are kept of one job, so that those of some tasks are missing."""
    left_out: int = 0
    """Parameters that its tasks said beyond those that are kept."""


class MediumView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A text or a file that a task reported."""

    task: str
    name: str
    number: int
    """How many of this name its task had reported before."""
    step: float
    at: float
    """Seconds since the epoch."""
    kind: str
    """``text``, ``picture``, ``table``, or ``file``, which is no kind that is shown."""
    text: str = ""
    file: str = ""
    """Its path in the share, below the output folder of the run in which the task ran."""
    size: int = 0
    """Bytes of the file."""


class MediaView(msgspec.Struct, frozen=True, kw_only=True):
    """Texts and files that tasks of a job reported: by task and name, oldest first."""

    id: str
    media: tuple[MediumView, ...]
    tasks: tuple[str, ...]
    """All tasks that reported some, also those that were not asked for."""
    thinned: int
    """How many more were reported and are left out here: of each name some, spread evenly, are kept."""
    troubles: dict[str, dict[str, int]]
    """Task → what it reported that is not kept, and why → how often."""


MEDIA_VIEW: Form[MediaView] = Form(MediaView)
RESULTS: Form[ResultsView] = Form(ResultsView)
