"""Isolation of the tasks of different users on nodes of several hosts. Pure. Used by all packages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Isolation(str, Enum):
    """NONE: all process tasks run as the user of the daemons. USER: those of each Grass user run under a system account
    of that user, with a private view of files."""

    NONE = "none"
    USER = "user"


CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "IPC_LOCK", "KILL", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP"),
    *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT", "SYS_NICE", "SYS_PTRACE"),
)
"""Capabilities that settings may leave to root in containers. All others lead out of a container."""


class ContainerUser(str, Enum):
    """ACCOUNT: containers run under the account of their Grass user, as processes do. IMAGE: under the user that their
    image or job names, often root."""

    ACCOUNT = "account"
    IMAGE = "image"


@dataclass(frozen=True)
class ContainerRights:
    """Rights of containers with ``isolation: user``. ``capabilities``: names without ``CAP_``; all others are dropped.
    They have an effect for root only."""

    user: ContainerUser = ContainerUser.ACCOUNT
    capabilities: tuple[str, ...] = ()


class UidRange(NamedTuple):
    """User ids for the accounts of Grass users on a node. Both ends belong to the range."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


UIDS = UidRange(58_000, 59_999)
"""Default. The end of the range for regular users in Debian and Fedora, which is filled from its begin."""
LEAST_UID = 1_000
"""Lower ones belong to the system: an account for tasks must never share an id with a service, or with root."""
GREATEST_UID = 2_147_483_646
MOST_UIDS = 100_000
RESERVED_UIDS = (UidRange(60_001, 60_577), UidRange(61_184, 65_535))
"""Used by systemd for accounts that are in no file, and "nobody"."""


def account_name(uid: int) -> str:
    """Return the name of an account. It derives from the id, so no name of a user becomes one of the system."""
    return f"grass-u{uid}"


def uid_range_problem(uids: UidRange) -> str:
    """Return why the range cannot be used, whatever the machine; empty if it can."""
    if uids.first > uids.last:
        return f"{uids} is empty: the first id is greater than the last"
    if uids.first < LEAST_UID or uids.last > GREATEST_UID:
        return f"{uids} is not within {LEAST_UID}-{GREATEST_UID}; lower ids belong to the system"
    if uids.last - uids.first >= MOST_UIDS:
        return f"{uids} has more than {MOST_UIDS} ids"
    for reserved in RESERVED_UIDS:
        if overlap(uids, reserved):
            return f"{uids} overlaps {reserved}, which systemd uses"
    return ""


def overlap(one: UidRange, other: UidRange) -> bool:
    return one.first <= other.last and other.first <= one.last
