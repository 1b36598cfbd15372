"""Record of everything that Grass makes on a host, written before it is made, so that removal is exact. Pure.

One file for each cluster and role: ``/var/lib/grass/installed/NAME.json`` of a master, ``NAME+node.json`` of a
node. Several can need the same thing (the user `grass`, ``/opt/grass``, a unit's file): each that needs it names it, if
it was not there before all of them, and it goes with the last.
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


@dataclass(frozen=True)
class Made:
    """``files`` and ``folders`` are paths (folders go with all that is in them); ``units`` names of instances."""

    units: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    """Further data of the role (master or node)."""

    def text(self) -> bytes:
        return (json.dumps(asdict(self), indent=2, sort_keys=True) + "\n").encode()

    @classmethod
    def parse(cls, wire: Mapping[str, Any]) -> Made:
        """Takes only paths that may be Grass's. Keys that it does not know belong to somebody newer."""
        lists = {
            name: tuple(item for item in wire.get(name) or () if isinstance(item, str))
            for name in ("units", "mounts", "files", "folders", "users", "packages")
        }
        for name in ("files", "folders", "mounts"):
            lists[name] = tuple(path for path in lists[name] if _OURS.fullmatch(path) and ".." not in path.split("/"))
        details = wire.get("details")
        return cls(**lists, details=details if isinstance(details, dict) else {})


_SHARED = ("units", "mounts", "files", "folders", "users", "packages")


def path(cluster: str, role: str = "") -> str:
    return f"{FOLDER}/{cluster}{f'+{role}' if role else ''}.json"


def claim(wanted: Made, there: Collection[str], records: Mapping[str, Made]) -> Made:
    """``wanted`` without what was ``there`` (paths, users, packages) before Grass came: what no record names."""
    claimed = {name: {item for made in records.values() for item in getattr(made, name)} for name in _SHARED}
    kept = {
        name: tuple(item for item in getattr(wanted, name) if item not in there or item in claimed[name])
        for name in ("files", "folders", "users", "packages")
    }
    return Made(units=wanted.units, mounts=wanted.mounts, details=wanted.details, **kept)


def leaving(own: Made, others: Collection[Made]) -> Made:
    """Return the part of ``own`` that no other record names: it is removed with ``own``."""
    kept = {
        name: tuple(item for item in getattr(own, name) if not any(item in getattr(other, name) for other in others))
        for name in _SHARED
    }
    return Made(**kept, details=own.details)


def merged(first: Made, second: Made) -> Made:
    """Both: what an earlier run made, and what this one is going to."""
    lists = {name: tuple(dict.fromkeys([*getattr(first, name), *getattr(second, name)])) for name in _SHARED}
    return Made(**lists, details={**first.details, **second.details})


assert {each.name for each in fields(Made)} == {*_SHARED, "details"}
