"""Join tokens in the store: issued by an administrator, used by machines. Part of ``ApiStore``.

A record is kept for a while after its token expired or was used up, so that a refusal can name the reason.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from grass.errors import ConflictError
from grass.store.backend import Backend, Guard, Op
from grass.store.keys import Keys
from grass.wire.codec import Form, encode
from grass.wire.tickets import JoinNode

_REMEMBERED = 86_400
"""Seconds for which an expired token is still known."""
_JOINING = 30
"""Seconds for which a name is reserved for one machine, until the node has a record."""
_AGAIN = "`grass node token` makes another"
_ID = 12


def token_id(digest: str) -> str:
    """Return the id by which people name a token."""
    return digest[:_ID]


class JoinToken(msgspec.Struct, frozen=True):
    """One token. ``name``: the only node that may use it. ``uses``: the number left. ``taken``: join id → node."""

    name: str | None
    uses: int
    by: str
    expires: float
    """Wall seconds of the master."""
    taken: dict[str, str] = {}
    revoked: bool = False

    def state(self, now: float) -> str:
        if self.revoked:
            return "revoked"
        if self.uses < 1:
            return "used"
        return "expired" if self.expires <= now else "valid"


_JOIN_TOKEN: Form[JoinToken] = Form(JoinToken)


class JoinTokens:
    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys

    def issue(self, digest: str, token: JoinToken, now: float) -> None:
        ops: list[Op] = [self._write(digest, token, now), ("HSET", self._keys.join_tokens, digest, "1")]
        if gone := self._forgotten():
            ops.append(("HDEL", self._keys.join_tokens, *gone))
        self._backend.apply(ops)

    def all(self) -> dict[str, JoinToken]:
        """Return the tokens that are still known, by digest."""
        texts = {digest: self._backend.get(self._keys.join(digest)) for digest in self._digests()}
        return {digest: _JOIN_TOKEN.decode(text) for digest, text in texts.items() if text is not None}

    def revoke(self, digest: str, now: float) -> JoinToken | None:
        """Revoke a token. Machines that joined with it stay. Return None for an unknown one."""
        while (text := self._backend.get(self._keys.join(digest))) is not None:
            revoked = replace(_JOIN_TOKEN.decode(text), revoked=True)
            if (
                self._backend.apply([self._write(digest, revoked, now)], [("equals", self._keys.join(digest), text)])
                == 0
            ):
                return revoked
        return None

    def revoke_used_by(self, node: str, now: float) -> list[str]:
        """Revoke the tokens with which machines joined as this node. Return the digests of those that were good."""
        used = [digest for digest, token in self.all().items() if node in token.taken.values() and not token.revoked]
        return [digest for digest in used if self.revoke(digest, now) is not None]

    def check(self, digest: str, join_id: str, node: str, now: float) -> JoinToken:
        """Return the token if ``node`` may join with it. The same join may be repeated: its reply may have been lost.

        Raises ConflictError: unknown, expired, used up, or for another node.
        """
        return self._read(digest, join_id, node, now)[0]

    def problem(self, digest: str, now: float) -> str | None:
        """Return why no new machine may join with this token; None: one may."""
        try:
            self._read(digest, "", None, now)
        except ConflictError as error:
            return str(error)
        return None

    def use(self, digest: str, join_id: str, ticket: JoinNode, now: float) -> None:
        """Use the token for ``ticket.name`` and file the ticket, in one durable step.

        Raises ConflictError as ``check`` does. May be repeated with the same ``join_id``.
        """
        node = ticket.name
        joining = self._keys.joining(node)
        while True:
            token, text = self._read(digest, join_id, node, now)
            used = token
            if join_id not in token.taken:
                used = replace(token, uses=token.uses - 1, taken={**token.taken, join_id: node})
            other = self._backend.get(joining)
            if other not in (None, join_id):
                raise ConflictError(f"another machine is joining as {node} right now; choose another name")
            ops: list[Op] = [
                self._write(digest, used, now),
                ("SETEX", joining, _JOINING, join_id),
                ("XADD", self._keys.tickets, 0, "body", encode(ticket)),
            ]
            guards: list[Guard] = [("equals", self._keys.join(digest), text)]
            guards.append(("no-key", joining, "") if other is None else ("equals", joining, other))
            if self._backend.apply(ops, guards) == 0:
                return
            # the token was used concurrently: read it again

    def joined(self, join_id: str, node: str) -> None:
        """End the reservation of the name: the node has a record now."""
        self._backend.apply([("SETEX", self._keys.joining(node), 1, join_id)])

    def _read(self, digest: str, join_id: str, node: str | None, now: float) -> tuple[JoinToken, str]:
        text = self._backend.get(self._keys.join(digest))
        if text is None:
            raise ConflictError(f"this cluster does not know this join token; {_AGAIN}")
        token = _JOIN_TOKEN.decode(text)
        if token.revoked:  # also for the machine that has used it: it may have been removed since
            raise ConflictError(f"this join token was revoked by an administrator; {_AGAIN}")
        if node is not None and token.taken.get(join_id) == node:
            return token, text
        if token.uses < 1:
            users = ", ".join(sorted(set(token.taken.values())))
            raise ConflictError(f"this join token is used up (by {users}); {_AGAIN}")
        if token.expires <= now:
            raise ConflictError(f"this join token expired {_ago(now - token.expires)} ago; {_AGAIN}")
        if node is not None and token.name not in (None, node):
            raise ConflictError(f"this join token is for the node {token.name}, not for {node}; {_AGAIN}")
        return token, text

    def _digests(self) -> list[str]:
        return list(self._backend.hgetall(self._keys.join_tokens))

    def _forgotten(self) -> list[str]:
        """Return the digests in the list whose record has expired."""
        return [digest for digest in self._digests() if self._backend.get(self._keys.join(digest)) is None]

    def _write(self, digest: str, token: JoinToken, now: float) -> Op:
        left = max(0, int(token.expires - now)) + _REMEMBERED
        return ("SETEX", self._keys.join(digest), left, encode(token))


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
