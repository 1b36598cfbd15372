"""What a machine that joins chose and was given, kept on that machine so that the next call finds it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from grass.api.invitation import Invitation
from grass.entropy import password, request_id
from grass.hosts import Host
from grass.provision.on_premises import node_steps, record
from grass.provision.on_premises.facts import Facts
from grass.provision.on_premises.node_places import Places
from grass.provision.on_premises.record import Made


class Own:
    """What this machine chose and was given; it survives in the details of its record."""

    def __init__(self, details: dict[str, Any]) -> None:
        self.join_id: str = details.get("join_id") or request_id()
        self.password: str = details.get("password") or password()
        self.name: str | None = details.get("name")
        self.node_token: str = details.get("node_token") or ""
        self.share: dict[str, Any] | None = details.get("share")
        self.urls: list[str] = details.get("urls") or []
        self.key: str = details.get("key") or ""
        self.offer: dict[str, Any] = details.get("offer") or {}
        """As ``offers.noted``."""
        self.granted = False
        """The master knows this node: there is nothing to ask for."""

    @classmethod
    def of(cls, facts: Facts, places: Places) -> Own:
        wire = facts.records.get(f"{places.cluster}+{node_steps.ROLE}")
        return cls(Made.parse(wire).details if wire else {})

    def details(self) -> dict[str, Any]:
        kept = {"join_id": self.join_id, "password": self.password, "name": self.name}
        given = {"node_token": self.node_token, "share": self.share, "urls": self.urls, "key": self.key}
        return {**kept, **given, "offer": self.offer}

    def invitation(self, cluster: str) -> Invitation:
        """To find the master again."""
        return Invitation(tuple(self.urls), self.key, "", cluster=cluster)


def with_record(host: Host, facts: Facts, places: Places) -> Facts:
    """A user's record is in the user's own folder, where the facts do not look."""
    if not places.rootless:
        return facts
    done = host.run(["cat", record_path(places)])
    if not done.ok:
        return facts
    return replace(facts, records={**facts.records, f"{places.cluster}+{node_steps.ROLE}": json.loads(done.out)})


def put_record(host: Host, made: Made, places: Places) -> None:
    """With what steps have noted there meanwhile."""
    root = None if places.rootless else "root:root"
    if (there := host.run(["cat", record_path(places)], sudo=True)).ok:
        made = record.merged(Made.parse(json.loads(there.out)), made)
    host.put(made.text(), record_path(places), 0o600, root, sudo=True)


def record_path(places: Places) -> str:
    if places.rootless:
        return f"{places.home}/record.json"
    return record.path(places.cluster, node_steps.ROLE)
