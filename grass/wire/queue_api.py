"""Work queues: the steps that tasks and users ask for, the answers, and the records in redis.

A task sends a step to its node's membership API, and a user to the API server. The node-agent passes the step on as a
``QueueCall``; the API server carries all of them out. Used by ``grass.api``, ``master.api`` and ``node.membership``.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw

from grass.model.names import REQUEST_ID
from grass.wire.calls import Call
from grass.wire.codec import Form
from grass.wire.error_views import ErrorBody

MOST_TOGETHER = 1_000
"""Items of one step."""
MOST_ITEM = 16_384
"""Characters of an item's value."""
DEFAULT_LEASE, LONGEST_LEASE = 600.0, 7 * 86_400.0
DEFAULT_TRIES, MOST_TRIES = 3, 1_000_000

ItemName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._/:-]{1,160}$")]
Names = Annotated[tuple[ItemName, ...], Meta(max_length=MOST_TOGETHER)]
Label = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
RequestId = Annotated[str, Meta(pattern=f"^({REQUEST_ID})?$")]
Seconds = Annotated[float, Meta(gt=0, le=LONGEST_LEASE)]


class Create(Call, frozen=True, tag_field="step", tag="create"):
    """Make the queue. If it exists with these settings already, nothing changes."""

    lease: Seconds = DEFAULT_LEASE
    """How long an item belongs to who got it, unless a step says otherwise."""
    tries: Annotated[int, Meta(ge=1, le=MOST_TRIES)] = DEFAULT_TRIES
    """How often an item is given out. After that, it goes to the dead letters."""


class NewItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An item to put."""

    value: Annotated[str, Meta(max_length=MOST_ITEM)] = ""
    name: ItemName | None = None
    """None: it gets a number. A name that is in the queue already is not put again."""


class Put(Call, frozen=True, tag_field="step", tag="put"):
    """Append items. ``names`` of the answer: those that were added."""

    items: Annotated[tuple[NewItem, ...], Meta(max_length=MOST_TOGETHER)]
    id: RequestId = ""
    """Made up by the caller. A repeated step with the same id adds nothing, and gets the first answer."""


class Get(Call, frozen=True, tag_field="step", tag="get"):
    """Lease items: the oldest first. Wait for the first of them."""

    count: Annotated[int, Meta(ge=1, le=MOST_TOGETHER)] = 1
    wait: Annotated[float, Meta(ge=0)] = 0.0
    seconds: Seconds | None = None
    """Of the lease. None: as the queue says."""
    id: RequestId = ""
    """Made up by the caller. A repeated step with the same id gets the same items, while they are leased."""


class Finish(Call, frozen=True, tag_field="step", tag="finish"):
    """End a lease. ``names`` of the answer: the items that the caller still held."""

    lease: str
    names: Names
    how: Literal["ack", "retry", "dead"] = "ack"
    """``ack``: done, and removed. ``retry``: ready again, unless all tries are used up. ``dead``: a dead letter."""
    id: RequestId = ""


class Extend(Call, frozen=True, tag_field="step", tag="extend"):
    """Let a lease last ``seconds`` from now. ``names`` of the answer: the items that the caller still holds."""

    lease: str
    names: Names
    seconds: Seconds | None = None


class Revive(Call, frozen=True, tag_field="step", tag="revive"):
    """Make dead letters ready again, with all their tries."""

    names: Names = ()
    """Empty: all of them."""
    id: RequestId = ""


class Snapshot(Call, frozen=True, tag_field="step", tag="snapshot"):
    """Keep all items that are not done, as of now, under a name. One of the same name is replaced."""

    name: Label


class Restore(Call, frozen=True, tag_field="step", tag="restore"):
    """Replace all items by those of a snapshot. All of them are ready, and leases from before have ended."""

    name: Label
    id: RequestId = ""


class Look(Call, frozen=True, tag_field="step", tag="look"):
    """Count the items."""


class Delete(Call, frozen=True, tag_field="step", tag="delete"):
    """Remove the queue with its items and snapshots."""

    id: RequestId = ""


QueueStep = Create | Put | Get | Finish | Extend | Revive | Snapshot | Restore | Look | Delete


class QueueRequest(Call, frozen=True):
    """A step of a user."""

    step: QueueStep


class LeasedItem(msgspec.Struct, frozen=True):
    """An item that the caller has got."""

    name: str
    value: str
    tries: int
    """How often it was given out, with this time."""


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a step did, and how many items there are afterwards."""

    ready: int = 0
    leased: int = 0
    dead: int = 0
    done: int = 0
    """Items that were acknowledged since the queue was made, or restored."""
    names: tuple[str, ...] = ()
    items: tuple[LeasedItem, ...] = ()
    lease: str = ""
    """Of ``items``: needed to end or extend it."""
    until: float = 0.0
    """When the lease ends, in seconds since the epoch, by the master's clock."""


class QueueReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``POST /v1/queues/NAME`` of the membership API. Its body is a step: ``{"step": "get"}``."""

    generation: int
    epoch: int
    queue: QueueAnswer


class QueueCall(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a task, in the stream ``queue-calls``. A code beside it shows that its sender has the token."""

    id: str
    node: str
    """Whose agent waits for the answer."""
    attempt: str
    """Attempt key."""
    queue: str
    wait: float
    step: Raw


class QueueOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a ``QueueCall``, in the stream ``node:<n>:answers``."""

    id: str
    answer: QueueAnswer | None = None
    error: ErrorBody | None = None


class QueueRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A queue, by its name in the hash ``queues``."""

    user: str
    created: float
    lease: float
    tries: int
    job: str = ""
    """Id of the job with which it is removed. Empty: it stays until somebody deletes it."""


class ItemRecord(msgspec.Struct, array_like=True):
    """An item that is not done, by its name in the hash ``queue:<name>``. Not frozen: the API server's memory of it is
    the record."""

    number: int
    """Its position: items are given out in this order."""
    value: str
    tries: int = 0
    lease: str = ""
    """Empty: nobody holds it."""
    holder: str = ""
    """An attempt key, or ``user:NAME``: who holds it, or held it last."""
    until: float = 0.0
    dead: str = ""
    """Why it is a dead letter. Empty: it is none."""


class TallyRecord(msgspec.Struct, array_like=True):
    """What is counted of a queue, in the same hash, under the empty name."""

    number: int = 0
    """The last number of an item."""
    done: int = 0
    kept: dict[str, int] = {}
    """Name of a snapshot → its bytes."""


class ItemView(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a queue."""

    name: str
    value: str
    state: Literal["ready", "leased", "dead"]
    tries: int
    holder: str
    until: float | None
    """When its lease ends, in seconds since the epoch."""
    dead: str
    """Why it is a dead letter."""


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue. Times are seconds since the epoch."""

    name: str
    user: str
    job: str
    created: float
    lease: float
    tries: int
    ready: int
    leased: int
    dead: int
    done: int
    bytes: int
    """Of names and values."""
    snapshots: tuple[str, ...]
    items: tuple[ItemView, ...] = ()
    """The first ones, dead letters before leased and ready ones. Empty in lists."""


class QueuesView(msgspec.Struct, frozen=True):
    """All queues that the caller may see."""

    queues: tuple[QueueView, ...]


QUEUE_STEP: Form[QueueStep] = Form(QueueStep)
QUEUE_CALL: Form[QueueCall] = Form(QueueCall)
QUEUE_OUTCOME: Form[QueueOutcome] = Form(QueueOutcome)
QUEUE_ANSWER: Form[QueueAnswer] = Form(QueueAnswer)
QUEUE_RECORD: Form[QueueRecord] = Form(QueueRecord)
ITEM_RECORD: Form[ItemRecord] = Form(ItemRecord)
TALLY_RECORD: Form[TallyRecord] = Form(TallyRecord)
QUEUE: Form[QueueView] = Form(QueueView)
QUEUES: Form[QueuesView] = Form(QueuesView)
