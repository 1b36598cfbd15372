"""The replies of the API about users, and how the cluster is shared between them. The rules of ``views`` apply.

Sent by the API server.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form


class UserView(msgspec.Struct, frozen=True):
    """A user. Times are seconds since the epoch."""

    name: str
    role: str
    state: str
    """active, invited (no key yet) or disabled."""
    created: float
    by: str
    invited_until: float | None
    """When an unused invitation expires. None: there is none."""
    jobs_stopped: int = 0
    """Jobs that this call stopped."""


class FilesOffer(msgspec.Struct, frozen=True):
    """Where a user's files key is accepted: by SSH, for files of the share only."""

    address: str
    port: int
    user: str
    host_key: str
    """Host key as ``TYPE BASE64``."""


class OwnKeyView(UserView, frozen=True):
    """The caller, after a login or a change of keys."""

    files: FilesOffer | None = None
    """None: the cluster has no files over SSH."""


class UsersView(msgspec.Struct, frozen=True):
    """All users."""

    users: tuple[UserView, ...]


class UserInvitation(msgspec.Struct, frozen=True):
    """A new invitation. It is shown only now."""

    user: str
    role: str
    invitation: str
    """The text for `grass login`. It is a secret until it is used."""
    expires: float


class UserFairShare(msgspec.Struct, frozen=True):
    """One user's part of the cluster. Whoever has the least of ``share`` and ``past`` together is served first."""

    user: str
    share: float
    """Share of the whole cluster now: the largest part of any resource, from 0 to 1."""
    past: float
    """Share of the recent use of all users, from 0 to 1. Older use counts less (``usage_half_life``)."""
    hours: float
    """Recent use, as hours of the whole cluster."""
    running: int
    """Jobs."""
    waiting: int
    """Jobs."""
    allocated: dict[str, int]
    """Resource → amount that the user's tasks have now."""
    quota: dict[str, int]
    """Resource → the most that all running tasks of the user may have; a resource without an entry is not limited."""


class QueuedView(msgspec.Struct, frozen=True):
    """A waiting job, as everybody may see it."""

    job: str | None
    """Id. None: a job that the caller may not see."""
    user: str
    priority: int
    submitted: float
    why: str
    """Why it has this position."""


class FairSharesView(msgspec.Struct, frozen=True):
    """Who has how much of the cluster, and who is served next."""

    users: tuple[UserFairShare, ...]
    """Whose turn is first."""
    queue: tuple[QueuedView, ...]
    """Waiting jobs, in the order in which they are served."""


USER: Form[UserView] = Form(UserView)
OWN_KEY: Form[OwnKeyView] = Form(OwnKeyView)
USERS: Form[UsersView] = Form(UsersView)
USER_INVITATION: Form[UserInvitation] = Form(UserInvitation)
FAIR_SHARES: Form[FairSharesView] = Form(FairSharesView)
