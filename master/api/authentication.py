"""The authenticator: from an HTTP request to an authenticated caller, or a refusal without details. Used by ``call``.

There are three kinds of requests: of a session, signed (to open a session), and unsigned (of a machine without a user).
The checks of each, in this order: decrypt; compare with the HTTP request; freshness; id never seen before. The body is
parsed by the caller of this module, after all checks.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from pathlib import Path

from joserfc.jwk import RSAKey

from grass.api.envelope import EnvelopeError
from grass.api.keyring import load_master_key
from grass.api.notice import sign
from grass.api.sealing import ReplyKey, open_call, session_of
from grass.api.signing import Claims, OpenedRequest, open_request, open_unsigned_request
from grass.api.user_files import User, load_users
from grass.errors import InputError, NotAllowedError
from grass.store.api_store import ApiStore
from grass.store.sessions import Sighting
from grass.system.clock import steady
from grass.system.clock import wall as read_wall
from grass.wire.notice import Notice
from master.api.freshness import Freshness
from master.api.open_sessions import OpenSessions

log = logging.getLogger("master.api")


class StaleRequestError(NotAllowedError):
    """The clocks of sender and server differ too much, or an old request was replayed. The reply has our time."""

    code = "stale-request"
    http_status = 401


@dataclass(frozen=True)
class Caller:
    """Who sent a request. ``user``: None for an unsigned request, whose body must prove what it may do."""

    user: User | None
    key_id: str
    request_id: str
    body: str | None
    reply: ReplyKey
    claims: Claims | None = None
    """Set for a request without a session."""
    sighting: Sighting | None = None
    """Set for a request of a session."""


_SETTLED = 1.0


class Users:
    """The registered users. Read again when the folder changes, because files are replaced by rename.

    Two changes within one tick of the kernel's clock leave the same time at the folder. So what was read within
    ``_SETTLED`` seconds of a change is read again at the next request."""

    def __init__(self, master_dir: Path) -> None:
        self._master_dir = master_dir
        self._folder = master_dir / "users"
        self._stamp: int | None = None
        self._users: dict[str, User] = {}

    def find(self, key_id: str) -> User | None:
        """Return the user with this key, if there is one.

        A malformed file excludes only its own user. It is named in the log whenever the folder changes."""
        stamp = self._folder.stat().st_mtime_ns
        if stamp != self._stamp:
            self._users = load_users(self._master_dir, self._report_damage)
            settled = abs(read_wall() - stamp / 1e9) > _SETTLED
            self._stamp = stamp if settled else None
        return self._users.get(key_id)

    def _report_damage(self, damage: InputError) -> None:
        log.error("%s; requests of that user are refused", damage)


class Authenticator:
    """Identifies callers and refuses replays. ``wall``: the wall-clock time now. Safe for several threads."""

    def __init__(self, master_dir: Path, store: ApiStore, wall: float) -> None:
        self._key = load_master_key(master_dir)
        self._users = Users(master_dir)
        self._store = store
        self._wall_ahead = wall - steady()
        self._first = threading.Lock()
        self._freshness: Freshness | None = None
        self.sessions = OpenSessions(store.sessions)

    @property
    def key_id(self) -> str:
        """The thumbprint of the master's key."""
        return self._key.thumbprint()

    def public_key(self) -> dict[str, object]:
        """Return the master's public key, as a JWK."""
        return dict(self._key.as_dict(private=False, kid=self.key_id))

    def identify(self, token: bytes, method: str, target: str) -> Caller:
        """Return the caller of a session's request. On EnvelopeError only a constant may be answered."""
        known = self.sessions.find(session_of(token), steady())
        if known is None:
            raise EnvelopeError("unknown session")
        call = open_call(token, known.session)
        user = self._users.find(known.key_id)
        if user is None or user.name != known.user or (call.method, call.path) != (method, target):
            raise EnvelopeError("a call does not match its session")
        sighting = Sighting(known.session.id, known.record, call.request_id)
        reply = known.session.reply_key(call.request_id)
        return Caller(user, known.key_id, call.request_id, call.body, reply, sighting=sighting)

    def identify_signer(self, token: bytes, method: str, target: str) -> Caller:
        """Return the caller of a signed request. Raises as ``identify``."""
        user: User | None = None

        def key_of(key_id: str) -> RSAKey | None:
            nonlocal user
            user = self._users.find(key_id)
            return user.key if user else None

        opened = open_request(token, self._key, key_of)
        if user is None or opened.claims.user != user.name:
            raise EnvelopeError("a request is signed by another user")
        return _without_session(opened, user, method, target)

    def identify_unsigned(self, token: bytes, method: str, target: str) -> Caller:
        """Return the caller of an unsigned request, of an unauthenticated client. Raises as ``identify``."""
        opened = open_unsigned_request(token, self._key)
        if opened.claims.user:
            raise EnvelopeError("an unsigned request names a user")
        return _without_session(opened, None, method, target)

    def admit(self, caller: Caller, *, reads: bool, takes_id: bool) -> None:
        """Check freshness, and that the request is not a replay.

        ``reads``: the call changes nothing. ``takes_id``: the handler stores the request id in its own step.
        Raises NotAllowedError for a disabled user, StaleRequestError, UnreachableError (all answered encrypted) or
        EnvelopeError.
        """
        if caller.user is not None and caller.user.disabled:
            raise NotAllowedError(f"user {caller.user.name}: disabled by an administrator; ask one to enable it again")
        if caller.claims is not None:
            freshness = self._known_freshness()
            if not freshness.is_fresh(caller.claims.issued_at):
                raise StaleRequestError(
                    "request refused: the clocks of client and server differ too much; set the client's clock"
                )
            freshness.move_horizon(self._store.keep_horizon)
            if not freshness.first_sight(caller.request_id):
                raise EnvelopeError("a request was replayed")
        if caller.sighting is not None and not self.sessions.admit(caller.sighting, reads=reads, takes_id=takes_id):
            raise EnvelopeError("a call was replayed, or its session has ended")

    def still_admits(self, caller: Caller) -> bool:
        """Return whether the caller's user is still there, with the same rights. Streams ask before each object."""
        return caller.user is None or self._same_rights(caller.user, self._users.find(caller.key_id))

    def _same_rights(self, before: User, now: User | None) -> bool:
        return now is not None and (now.name, now.role, now.disabled) == (before.name, before.role, before.disabled)

    def sign_notice(self, notice: Notice) -> str:
        return sign(notice, self._key)

    @property
    def time(self) -> float:
        """The time that clients must use."""
        return self._known_freshness().now()

    def _known_freshness(self) -> Freshness:
        """Return the judge of requests without a session, made for the first of them: the server starts also while the
        store is away. Raises UnreachableError."""
        with self._first:
            if self._freshness is None:
                self._freshness = Freshness(self._wall_ahead + steady(), self._store.horizon())
            return self._freshness


def _without_session(opened: OpenedRequest, user: User | None, method: str, target: str) -> Caller:
    claims = opened.claims
    if (claims.method, claims.path) != (method, target):
        raise EnvelopeError("a request does not match its claims")
    return Caller(user, claims.key_id, claims.request_id, opened.body, opened.reply, claims)
