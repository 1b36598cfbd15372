"""Reads how the tasks of different users are kept apart, from the settings of a cluster on several hosts.

Used by ``native``, ``on_premises``, ``local_settings`` and ``grass.provision.on_premises.design``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.values import Wrong, show
from grass.model.isolation import (
    CAPABILITIES,
    UIDS,
    ContainerRights,
    ContainerUser,
    Isolation,
    UidRange,
    uid_range_problem,
)

KEYS = ("isolation", "uids", "containers", "data")
_UIDS = re.compile(r"(?P<first>[0-9]{1,10})-(?P<last>[0-9]{1,10})")


class Data(str, Enum):
    """How tasks see the files of users in the share, outside of the folders of jobs."""

    WRITABLE = "rw"
    READ_ONLY = "ro"


@dataclass(frozen=True)
class IsolationSettings:
    """How the settings keep tasks of different users apart.

    ``kind``: the other fields apply with USER. None: a cluster that exists keeps its own, a new one gets USER.
    ``uids``: for accounts of Grass users.
    """

    kind: Isolation | None = None
    uids: UidRange = UIDS
    containers: ContainerRights = field(default_factory=ContainerRights)
    read_only_data: bool = False


def read_isolation(fields: Fields) -> IsolationSettings:
    return IsolationSettings(
        kind=fields.read("isolation", values.one_of(Isolation), None),
        uids=fields.read("uids", uid_range, UIDS),
        containers=_read_containers(fields),
        read_only_data=read_only_data(fields),
    )


def read_only_data(fields: Fields) -> bool:
    """Return whether ``data`` of the settings, or of a job, says that the files of users are only read."""
    return fields.read("data", values.one_of(Data), Data.WRITABLE) is Data.READ_ONLY


def _read_containers(fields: Fields) -> ContainerRights:
    with fields.within("containers") as section:
        user = section.read("user", values.one_of(ContainerUser), ContainerUser.ACCOUNT)
        names = [section.parsed(path, capability, item, "") for path, item in section.items("capabilities")]
        if names and user is ContainerUser.ACCOUNT:
            section.problems.add(section.at("capabilities"), "requires `user: image`; accounts of users have none")
    return ContainerRights(user, tuple(dict.fromkeys(names)))


def capability(value: Any) -> str:
    """Parse the name of a capability, with or without ``CAP_``. Raise Wrong."""
    name = value.upper().removeprefix("CAP_") if isinstance(value, str) else ""
    if name not in CAPABILITIES:
        raise Wrong(f"must be one of {', '.join(CAPABILITIES)}; got {show(value)}")
    return name


def uid_range(value: Any) -> UidRange:
    """Parse ``FIRST-LAST``. Raise Wrong."""
    match = _UIDS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise Wrong(f"must be FIRST-LAST such as {UIDS}, got {show(value)}")
    uids = UidRange(int(match["first"]), int(match["last"]))
    if problem := uid_range_problem(uids):
        raise Wrong(problem)
    return uids
