"""Data that a joining machine chose and received, kept on the machine for the next call.

Used by ``join_steps``, ``joining``, ``leaving``, ``node_plan`` and ``pinned``.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from grass.api.invitation import Invitation
from grass.hosts import Host
from grass.manifest.join_file import Offer
from grass.provision.on_premises import node_steps, record
from grass.provision.on_premises.facts import Facts
from grass.provision.on_premises.node_paths import NodePaths
from grass.provision.on_premises.record import Made
from grass.system.entropy import password, request_id
from grass.wire.codec import Form
from grass.wire.join_views import ShareServer


class Own(msgspec.Struct, kw_only=True):
    """Data that this machine chose and received. As JSON: the ``details`` of its record."""

    join_id: str = msgspec.field(default_factory=request_id)
    password: str = msgspec.field(default_factory=password)
    name: str | None = None
    node_token: str = ""
    share: ShareServer | None = None
    urls: list[str] = []
    key: str = ""
    number: tuple[int, int] = (0, 0)
    """Number of the master that it joined, see ``grass.wire.notice``."""
    others: list[str] = []
    """Where the API would be after a failover."""
    offer: Offer | None = None
    """The offer. Includes the detected address if no address was chosen."""

    @classmethod
    def from_facts(cls, facts: Facts, paths: NodePaths) -> Own:
        return _OWN.convert(facts.records.get(f"{paths.cluster}+{node_steps.ROLE}", Made()).details)

    def invitation(self, cluster: str, urls: tuple[str, ...] = ()) -> Invitation:
        """Return an invitation with which the machine finds the master again. ``urls``: where that is now."""
        return Invitation(urls or tuple(self.urls), self.key, "", cluster=cluster)


_OWN: Form[Own] = Form(Own)


def with_record(host: Host, facts: Facts, paths: NodePaths) -> Facts:
    """Return the facts with the rootless user's record. It lies in the user's own folder, which ``gather`` skips."""
    if not paths.rootless:
        return facts
    done = host.run(["cat", record_path(paths)])
    if not done.ok:
        return facts
    own = Made.parse(done.out)
    return replace(facts, records={**facts.records, f"{paths.cluster}+{node_steps.ROLE}": own})


def put_record(host: Host, made: Made, paths: NodePaths) -> None:
    """Write the record, merged with the additions that steps have made meanwhile."""
    root = None if paths.rootless else "root:root"
    if (there := host.run(["cat", record_path(paths)], sudo=True)).ok:
        made = record.merged(Made.parse(there.out), made)
    host.put(made.text(), record_path(paths), 0o600, root, sudo=True)


def record_path(paths: NodePaths) -> str:
    if paths.rootless:
        return f"{paths.home}/record.json"
    return record.path(paths.cluster, node_steps.ROLE)
