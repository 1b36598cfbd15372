"""Signed notices of where a cluster's master is: ``grass-notice1.<JWS>``, signed with the master's key. Pure.

Who holds a notice knows the thumbprint of the master's key: it is in each join token, and in the folder of each client.
The notice has the public key itself, which must have this thumbprint. An old notice stays valid for ever, so the reader
compares numbers: a notice that is older than what it knows is refused. Used by ``transport``, ``join_client``
and ``master.api``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from grass.errors import GrassError, InputError, NotAllowedError
from grass.wire.codec import encode
from grass.wire.notice import NOTICE, Notice

if TYPE_CHECKING:
    from joserfc.jwk import RSAKey
    from joserfc.jws import JWSRegistry

MOVED = 421
"""HTTP status with which an old master answers all requests; the content is the notice of the new one."""
MEDIA_TYPE = "application/grass-notice"
LONGEST = 16_384
"""Characters of a notice, at most."""
_LONGEST_HEADER = 4096
_KIND = "grass-notice1"
_TYPE = "grass-notice"


class ForgedNoticeError(NotAllowedError):
    """A notice that the cluster's key did not sign, or that is of another cluster."""

    code = "forged-notice"


class OldNoticeError(NotAllowedError):
    """A notice that is older than what its reader knows."""

    code = "old-notice"


def sign(notice: Notice, key: RSAKey) -> str:
    from joserfc import jws

    public = {name: value for name, value in key.as_dict(private=False).items() if name in ("kty", "n", "e")}
    header = {"alg": "PS256", "typ": _TYPE, "jwk": public}
    return f"{_KIND}.{jws.serialize_compact(header, encode(notice), key, registry=_registry())}"


def open_notice(text: str, thumbprint: str, cluster: str, oldest: tuple[int, int] | None = None) -> Notice:
    """Return what a notice says, once it is proven. ``oldest``: the least number that is accepted.

    Raises InputError: this is no notice; ForgedNoticeError; OldNoticeError.
    """
    from joserfc import jws
    from joserfc.errors import JoseError

    from grass.api.keyring import public_key

    kind, _, signed = text.strip().partition(".")
    if kind != _KIND or len(text) > LONGEST:
        raise InputError(f"this is no notice of a cluster: one begins with `{_KIND}.`; `grass cluster notice` makes it")
    try:
        found = jws.extract_compact(signed.encode(), registry=_registry())
        header = found.headers()
        key = public_key(_jwk(header))
        valid = header.get("typ") == _TYPE and jws.validate_compact(found, key, registry=_registry())
        if not valid or key.thumbprint() != thumbprint:
            raise ForgedNoticeError(
                f"notice of cluster {cluster}: it is not signed with the key of this cluster; it is of another "
                "cluster, or somebody made it up"
            )
        notice = NOTICE.decode(found.payload)
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError("this notice of a cluster is damaged; was it copied whole?") from error
    except GrassError as error:
        if isinstance(error, ForgedNoticeError):
            raise
        raise InputError(f"this notice of a cluster cannot be read: {error}") from error
    if notice.cluster != cluster or not notice.urls:
        raise ForgedNoticeError(f"notice of cluster {notice.cluster}: cluster {cluster} is meant here")
    if oldest is not None and notice.number < oldest:
        raise OldNoticeError(
            f"notice of cluster {cluster}: it is older than what is known here (number {shown(notice.number)}, and at "
            f"least {shown(oldest)} is expected)"
        )
    return notice


def shown(number: tuple[int, int]) -> str:
    return f"{number[0]}.{number[1]}"


def _registry() -> JWSRegistry:
    """Return the algorithm that is accepted. A header has the public key, which joserfc's own limit does not admit."""
    from joserfc.jws import JWSRegistry

    registry = JWSRegistry(algorithms=["PS256"])
    registry.max_header_length = _LONGEST_HEADER
    return registry


def _jwk(header: Mapping[str, object]) -> dict[str, object]:
    jwk = header["jwk"]
    if not isinstance(jwk, dict):
        raise TypeError("no key")
    return jwk
