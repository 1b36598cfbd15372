"""The groups of gangs: which pods a queue of Kubernetes admits together. Pure; used by ``runtime``.

A gang that is placed anew is another group, because queues know each group once only. A new agent finds the groups in
its pods. A task that starts again while others of its gang run joins theirs, if the queue takes it for a replacement.
Otherwise it is of no group: Volcano never lets it go once tasks of its group have ended and their pods are gone.
"""

from __future__ import annotations

from grass.kubernetes.names import pod_name
from grass.model.key_text import job_of


class Gangs:
    """The groups of one node. ``cluster``: the id of the Grass cluster."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._groups: dict[str, str] = {}
        """Job → its group."""
        self._members: dict[str, set[str]] = {}
        """Job → keys of the attempts in it that have not ended."""
        self._joined: dict[str, int] = {}
        """Job → how many attempts have joined its group."""

    def join(self, key: str, group: str = "", most: int | None = None) -> str:
        """Add an attempt to the group of its gang, and return its name; empty: it is of none.

        ``group``: the one that its pod names. ``most``: how many attempts may join a group; None: any number."""
        job = job_of(key)
        members = self._members.get(job, set())
        if key not in members:
            if members and most is not None and self._joined[job] >= most:
                return ""
            self._joined[job] = self._joined.get(job, 0) + 1
            self._members[job] = members | {key}
        return self._groups.setdefault(job, group or pod_name(self._cluster, f"{job}/gang of {key}"))

    def leave(self, key: str) -> str:
        """Take out an attempt that has ended. Return the name of its group if that is empty now."""
        job = job_of(key)
        members = self._members.get(job, set())
        if key not in members:
            return ""
        members.remove(key)
        if members:
            return ""
        del self._members[job], self._joined[job]
        return self._groups.pop(job)

    def names(self) -> set[str]:
        """Return the groups that have members."""
        return set(self._groups.values())
