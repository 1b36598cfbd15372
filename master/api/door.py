"""Who may come in: from an HTTP request to an authenticated caller, or a refusal that tells nothing.

Order: decrypt, verify the signature, compare the claims with the request that arrived, freshness, id never seen before.
The body is looked at by whoever called this, after it returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from joserfc.jwk import RSAKey

from grass.api.keyring import User, load_master_key, load_users
from grass.api.sealing import (
    Claims,
    EnvelopeError,
    OpenedRequest,
    is_fresh,
    open_guest_request,
    open_request,
)
from grass.clock import steady
from grass.errors import InputError, NotAllowedError
from grass.store.api_store import ApiStore
from master.api.seen import SeenHere


class StaleRequestError(NotAllowedError):
    """The sender's clock and ours differ too much (or an old request is played again). The reply carries our time."""

    code = "stale-request"
    http_status = 401


@dataclass(frozen=True)
class Caller:
    """``user`` is None for a guest, who proves with the body what may be done."""

    user: User | None
    request: OpenedRequest


class Users:
    """The registered users. Read again when the folder changes (`register_user` replaces files by rename)."""

    def __init__(self, master_dir: Path) -> None:
        self._master_dir = master_dir
        self._folder = master_dir / "users"
        self._stamp: int | None = None
        self._users: dict[str, User] = {}

    def find(self, key_id: str) -> User | None:
        stamp = self._folder.stat().st_mtime_ns
        if stamp != self._stamp:
            self._users, self._stamp = load_users(self._master_dir), stamp
        return self._users.get(key_id)


class Door:
    def __init__(self, master_dir: Path, store: ApiStore) -> None:
        self._key = load_master_key(master_dir)
        self._users = Users(master_dir)
        self._store = store
        self._seen_here = SeenHere(steady())

    @property
    def key_id(self) -> str:
        """The thumbprint of the master's key."""
        return self._key.thumbprint()

    def public_key(self) -> dict[str, object]:
        """The public half, as a JWK."""
        return dict(self._key.as_dict(private=False, kid=self.key_id))

    def identify(self, token: bytes, method: str, target: str) -> Caller:
        """Everything that needs no memory. Raises EnvelopeError: nothing may be answered but a constant."""
        user: User | None = None

        def key_of(key_id: str) -> RSAKey | None:
            nonlocal user
            user = self._users.find(key_id)
            return user.key if user else None

        try:
            opened = open_request(token, self._key, key_of)
        except InputError as error:
            raise EnvelopeError("the users of this cluster cannot be read") from error
        claims = opened.claims
        if user is None or claims.user != user.name or (claims.method, claims.path) != (method, target):
            raise EnvelopeError("a request does not fit its claims")
        return Caller(user, opened)

    def identify_guest(self, token: bytes, method: str, target: str) -> Caller:
        """As ``identify``, of a request that nobody signed. Raises EnvelopeError."""
        opened = open_guest_request(token, self._key)
        claims = opened.claims
        if (claims.user, claims.method, claims.path) != ("", method, target):
            raise EnvelopeError("a request does not fit its claims")
        return Caller(None, opened)

    def admit(self, caller: Caller, now: float, takes_id: bool = False) -> None:
        """Freshness, and replay unless the handler ``takes_id``.

        Raises StaleRequestError (answered under seal) or EnvelopeError.
        """
        claims = caller.request.claims
        if not is_fresh(claims, now):
            raise StaleRequestError("this request is too old or too new: the clocks of client and server differ")
        if not takes_id and not self._first_sight(claims):
            raise EnvelopeError("a request was played again")

    def _first_sight(self, claims: Claims) -> bool:
        if claims.method == "GET":
            return self._seen_here.first_sight(claims.request_id, steady())
        return self._store.first_sight(claims.request_id)
