"""Record of everything that Grass creates on a host, written before the creation, so that removal is exact. Pure.

There is one file for each cluster and role: ``/var/lib/grass/installed/NAME.json`` of a master, ``NAME+node.json`` of a
node. Several records can name the same object (the user `grass`, ``/opt/grass``, a unit's file). Each role that needs
an object names it in its record, if the object did not exist before all of them. The object is removed with the last of
these records. Used by this package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

FOLDER = "/var/lib/grass/installed"
_OURS = re.compile(
    r"/(opt|etc|srv|run|var/lib)/grass(/[^\n]*)?|/etc/systemd/system/[^/\n]*grass[^/\n]*(/[^\n]*)?|/usr/local/bin/grass"
)
"""Only these paths are ever removed from a host, whatever a record says."""
CHANGED = ("/etc/grass", "/srv/grass", "/var/lib/grass")
"""Folders whose mode and owner Grass sets, although somebody else may have made them."""
_HAD = re.compile(r"[0-7]{3,4} \d+:\d+")


@dataclass(frozen=True)
class Made:
    """Objects that Grass created on a host.

    ``files`` and ``folders`` are paths; a folder is removed with everything in it. ``units``: names of instances.
    ``groups``: groups that the user `grass` was added to.
    """

    units: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    """Services that a package is about to bring, and that are stopped then. Services of the owner are never in it."""
    before: dict[str, str] = field(default_factory=dict)
    """Folder of ``CHANGED`` that was there before Grass → mode and owner that it had then (``MODE UID:GID``)."""
    details: dict[str, Any] = field(default_factory=dict)  # Any: JSON of the role's own type
    """Further data of the role: ``join_record.Own`` of a node, ``authorized`` (the mark of its keys) of a master."""

    def text(self) -> bytes:
        return (json.dumps(asdict(self), indent=2, sort_keys=True) + "\n").encode()

    @classmethod
    def parse(cls, text: str | bytes) -> Made:
        """Parse a record. Ignore paths that cannot be Grass's, and unknown keys, which belong to newer versions.

        Raises ValueError for text that is not a JSON object.
        """
        wire = json.loads(text)
        if not isinstance(wire, dict):
            raise ValueError("a record must be a JSON object")
        lists = {
            name: tuple(item for item in wire.get(name) or () if isinstance(item, str))
            for name in (*_SHARED, "services")
        }
        for name in ("files", "folders", "mounts"):
            lists[name] = tuple(path for path in lists[name] if _OURS.fullmatch(path) and ".." not in path.split("/"))
        details, before = wire.get("details"), wire.get("before")
        kept = {folder: str(had) for folder, had in before.items()} if isinstance(before, dict) else {}
        kept = {folder: had for folder, had in kept.items() if folder in CHANGED and _HAD.fullmatch(had)}
        return cls(**lists, before=kept, details=details if isinstance(details, dict) else {})


_SHARED = ("units", "mounts", "files", "folders", "users", "packages", "groups")


def path(cluster: str, role: str = "") -> str:
    return f"{FOLDER}/{cluster}{f'+{role}' if role else ''}.json"


def claim(wanted: Made, there: Made, records: Mapping[str, Made]) -> Made:
    """Return ``wanted`` without objects (paths, users, packages, groups) that were ``there`` before Grass.

    ``there``: what exists now. It was there before Grass if no record names it.
    """
    claimed = {name: {item for made in records.values() for item in getattr(made, name)} for name in _SHARED}
    kept = {
        name: tuple(item for item in getattr(wanted, name) if item not in getattr(there, name) or item in claimed[name])
        for name in ("files", "folders", "users", "packages", "groups")
    }
    before = dict(there.before) if not records else {}
    for made in records.values():
        before |= made.before
    return Made(units=wanted.units, mounts=wanted.mounts, details=wanted.details, before=before, **kept)


def leaving(own: Made, others: Collection[Made]) -> Made:
    """Return the part of ``own`` that no other record names: it is removed with ``own``.

    A folder in which another record has something stays, too. What was changed is put back with the last record.
    """
    kept = {
        name: tuple(item for item in getattr(own, name) if not any(item in getattr(other, name) for other in others))
        for name in _SHARED
    }
    theirs = [path for other in others for path in (*other.files, *other.folders, *other.mounts)]
    kept["folders"] = tuple(
        folder for folder in kept["folders"] if not any(path.startswith(f"{folder}/") for path in theirs)
    )
    return Made(**kept, before={} if others else own.before, details=own.details)


def merged(first: Made, second: Made) -> Made:
    """Return the union of an earlier run's record and the record of the coming run.

    Which services wait to be stopped is known by the earlier record alone: ``packages`` changes it in place.
    """
    lists = {name: tuple(dict.fromkeys([*getattr(first, name), *getattr(second, name)])) for name in _SHARED}
    before, details = {**second.before, **first.before}, {**first.details, **second.details}
    return Made(**lists, services=first.services, before=before, details=details)


assert {each.name for each in fields(Made)} == {*_SHARED, "services", "before", "details"}
