"""What this version of Grass speaks and keeps, in numbers. In every hello, session, status and refusal, and in files.

``PROTOCOL``: between the daemons of a cluster. It grows with each incompatible change of this package; the master
quarantines a node with another number. A client is admitted from ``OLDEST_CLIENT`` on, and itself tries all of these
numbers, the highest first.

``REVISION``: grows with each addition that an older peer refuses or does not know: a call, a field of a call, a field
of a view (which has a default, because an older server does not send it), a field that a node must heed.

``FORMAT``: of ``cluster.json`` and of the store. It grows when an earlier Grass would misread them, or would leave out
what protects something. An earlier Grass refuses them before it changes anything.

Pure. Used by ``grass.api``, ``grass.config``, ``grass.store``, ``master.agent``, ``master.api`` and ``node.agent``.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form

PROTOCOL = 2
OLDEST_CLIENT = 1
REVISION = 4
FORMAT = 2
HEADER = "Grass-Speaks"
"""HTTP header of requests and answers: ``PROTOCOL.REVISION VERSION``. It is not sealed, so only texts depend on it."""


class Speaks(msgspec.Struct, frozen=True):
    """What a peer speaks. A server that says nothing is of before revision 1."""

    protocol: int
    revision: int = 0
    version: str = ""
    """Version of Grass."""

    def __str__(self) -> str:
        return f"Grass {self.version or 'of an unknown version'}, protocol {self.protocol}.{self.revision}"

    @property
    def header(self) -> str:
        return f"{self.protocol}.{self.revision} {self.version}"


SPEAKS: Form[Speaks] = Form(Speaks)


def spoken(version: str) -> Speaks:
    """Return what this Grass speaks. ``version``: its own."""
    return Speaks(PROTOCOL, REVISION, version)


def is_older(peer: Speaks, than: Speaks) -> bool:
    return (peer.protocol, peer.revision) < (than.protocol, than.revision)


def difference(client: Speaks, cluster: Speaks) -> str:
    """Return what a client and a cluster of different versions mean for a call that failed. Empty: no difference."""
    numbers = f"cluster: {cluster}; client: {client}"
    if is_older(cluster, client):
        return (
            f"the cluster runs an older Grass than this client and may not know this ({numbers}); upgrade it with the "
            "client's `grass create FILE`, or use a client of its version"
        )
    if is_older(client, cluster):
        return f"this client is older than the cluster ({numbers}); install Grass {cluster.version} here"
    return ""


def mismatch(peer: str, protocol: int, version: str, own_version: str, oldest: int = PROTOCOL) -> str | None:
    """Return why ``peer`` ("node n1") is refused; None: same protocol. ``protocol`` 0: it stated none.

    ``oldest``: the lowest protocol that is admitted.
    """
    if oldest <= protocol <= PROTOCOL:
        return None
    stated = f"protocol {protocol}" if protocol else "no known protocol"
    newer = "" if protocol <= PROTOCOL else ", or upgrade the cluster with that one's `grass create`"
    return (
        f"{peer} speaks {stated} (Grass {version or 'of an unknown version'}), the master speaks protocol {PROTOCOL} "
        f"(Grass {own_version}); install Grass {own_version} there{newer}"
    )


def newer_format(what: str, found: int, version: str, own_version: str) -> str | None:
    """Return why what is kept in format ``found`` cannot be read. None: it can. ``version``: of who wrote it."""
    return _newer(what, f"format {found} (this one: {FORMAT})", version, own_version) if found > FORMAT else None


def newer_writer(what: str, numbers: tuple[int, int, int], version: str, own_version: str) -> str | None:
    """Return why what a Grass of other ``numbers`` (format, protocol, revision) wrote must not be written anew by this
    one, which may not know all of it. None: it may."""
    kept_format, protocol, revision = numbers
    if kept_format <= FORMAT and (protocol, revision) <= (PROTOCOL, REVISION):
        return None
    found = f"format {kept_format}, protocol {protocol}.{revision}"
    return _newer(what, f"{found} (this one: format {FORMAT}, protocol {PROTOCOL}.{REVISION})", version, own_version)


def _newer(what: str, numbers: str, version: str, own_version: str) -> str:
    newer = f"Grass {version}" if version else "the newer Grass"
    return (
        f"{what}: written by a newer Grass than this one ({own_version}): {newer}, {numbers}; nothing was changed. Go "
        f"on with {newer}; there is no way back to {own_version} but to delete the cluster with the newer one"
    )
