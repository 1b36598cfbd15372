"""`grass node follow`: this machine, a node, finds the master of its cluster where that is now, and joins it again.

For nodes that nobody reaches over SSH after a restore, a move or a failover. The new address comes from a notice that
the cluster's key has signed: a file that somebody brought, or the answer of a machine that the node knows. The node
has the key's thumbprint from the token with which it joined. Its tasks go on. Used by ``follow_on_host``, ``hearing``
and ``grass.cli.node_follow``.
"""

from __future__ import annotations

from dataclasses import dataclass

from grass.api.invitation import Invitation
from grass.api.join_client import ask_notice, open_join_client
from grass.api.notice import open_notice
from grass.errors import ConflictError, GrassError, UnreachableError
from grass.hosts import Host
from grass.provision.on_premises import joining, leaving
from grass.provision.on_premises.node_paths import NodePaths
from grass.provision.on_premises.pinned import Pinned
from grass.provision.on_premises.steps import Progress
from grass.wire.node_views import NodeView
from grass.wire.notice import Notice


@dataclass(frozen=True)
class Followed:
    """What came of it. ``view``: the node; None: it knew this master already, and nothing was changed."""

    node: str
    url: str
    view: NodeView | None


def follow(
    host: Host,
    cluster: str | None,
    text: str | None,
    *,
    progress: Progress,
    paths: NodePaths | None = None,
    pinned: Pinned | None = None,
) -> Followed:
    """``cluster`` None: the only one that the machine belongs to. ``text``: a notice; None: the addresses that the node
    knows are asked. ``pinned``: what the node knows; None: what its record says.

    Raises NotFoundError: the machine is no node; InputError, ForgedNoticeError, OldNoticeError: of the notice;
    ConflictError: an earlier master answers there; UnreachableError; and what ``joining.join`` raises."""
    found = leaving.node_here(host, cluster, paths)
    own, name = found.own, found.own.name or found.facts.hostname
    known = pinned or Pinned.of(own)
    if text is None:
        notice, _ = newest(known, found.cluster)
    else:
        notice = open_notice(text, known.key, found.cluster, known.number)
    if notice.urls == known.urls:
        return Followed(name, notice.urls[0], None)
    if notice.number == known.number:
        raise ConflictError(
            f"notice of cluster {found.cluster}: says that the master is at {notice.urls[0]}, and {name} knows another "
            "address from a notice of the same number; `grass cluster notice` makes a new one"
        )
    progress(f"{name}: the master of cluster {found.cluster} is at {notice.urls[0]} now")
    invitation = Invitation(notice.urls, known.key, "", cluster=found.cluster)
    client = open_join_client(invitation)
    try:
        view = joining.join(host, client, invitation, None, progress=progress, paths=found.paths)
    finally:
        client.close()
    return Followed(name, notice.urls[0], view)


def newest(known: Pinned, cluster: str) -> tuple[Notice, str]:
    """Return the latest of the notices that the addresses answer which the node knows, also as it came. Raises
    UnreachableError."""
    found: list[tuple[Notice, str]] = []
    failures: list[str] = []
    asked = [*known.urls, *known.others]
    for url in asked:  # an old master answers with the address of the next one
        try:
            text = ask_notice(url)
            notice = open_notice(text, known.key, cluster, known.number)
        except GrassError as error:
            failures.append(f"  - {error}")
            continue
        found.append((notice, text))
        asked += [each for each in notice.urls if each not in asked]
    if not found:
        lines = "\n".join(failures)
        raise UnreachableError(
            f"cluster {cluster}: none of the addresses that this node knows says where the master is:\n{lines}\n"
            "  `grass cluster notice > FILE` elsewhere, and `grass node follow FILE` here, tell it"
        )
    return max(found, key=lambda each: each[0].number)
