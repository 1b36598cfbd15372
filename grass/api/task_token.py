"""The secret of a job and the tokens of its attempts, by which tasks use the membership API. Derived, so nothing is
stored twice. Pure.

The master derives a job's secret and sends it to the nodes that run a part of the job. Each of them can check the token
of every attempt of the job, wherever that runs.
"""

from __future__ import annotations

import hmac

from grass.errors import NotAllowedError, UndecodableError
from grass.wire.keys import AttemptKey


def job_secret(master_secret: str, job_id: str) -> str:
    """Return the secret of a job. ``master_secret``: ``node_token`` in the master's secrets; empty: there is none."""
    if not master_secret:
        return ""
    return hmac.digest(master_secret.encode(), f"job:{job_id}".encode(), "sha256").hex()


def shared_space(secret: str) -> str:
    """Return the name under which the tasks of a job share values. Computing it needs the job's ``secret``."""
    return hmac.digest(secret.encode(), b"shared values", "sha256").hex()[:32]


def task_token(secret: str, key: str) -> str:
    """Return the token of an attempt: its key and a code. ``secret``: of its job."""
    return f"{key}:{hmac.digest(secret.encode(), key.encode(), 'sha256').hex()}"


def message_code(token: str, body: str) -> str:
    """Return a code of a message that only who knows the token can make."""
    return hmac.digest(token.encode(), body.encode(), "sha256").hex()


def check_message(secret: str, key: AttemptKey, body: str, code: str) -> None:
    """Raise NotAllowedError unless the message is of the attempt. ``secret``: of its job."""
    expected = message_code(task_token(secret, str(key)), body)
    if not secret or not hmac.compare_digest(expected.encode(), code.encode()):
        raise NotAllowedError(f"attempt {key}: the message is of somebody else")


def bearer(header: str) -> tuple[AttemptKey, str]:
    """Return who an ``Authorization`` header claims to be, and the whole token. Raises NotAllowedError."""
    kind, _, token = header.partition(" ")
    try:
        if kind != "Bearer":
            raise UndecodableError("", "not a token")
        return AttemptKey.parse(token.rpartition(":")[0]), token
    except UndecodableError as error:
        raise NotAllowedError(
            "GRASS_TOKEN is missing or malformed; send `Authorization: Bearer $GRASS_TOKEN`"
        ) from error


def check(secret: str | None, key: AttemptKey, token: str) -> None:
    """Raise NotAllowedError unless the token belongs to the attempt. ``secret``: of its job; None: unknown here."""
    expected = task_token(secret, str(key)) if secret else ""
    if not secret or not hmac.compare_digest(expected.encode(), token.encode()):
        raise NotAllowedError(f"attempt {key}: the token is wrong, or this node runs no part of the job")
