"""The findings about jobs that hold now, in memory and in the store. Used by ``hangs`` and ``slow_members``."""

from __future__ import annotations

from collections.abc import Callable

from grass.store.finding_store import FindingStore
from grass.wire.finding import Finding


class OpenFindings:
    """Findings by job, and by what they are about: a group of tasks, or a slow one. For one thread."""

    def __init__(self, store: FindingStore) -> None:
        self._store = store
        self._open: dict[str, dict[str, Finding]] = {}

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._open

    def put(self, name: str, finding: Finding) -> None:
        """Add a finding, or replace that of the same name. Raises UnreachableError."""
        found = self._open.setdefault(finding.job_id, {})
        found[name] = finding
        self._store.put(finding.job_id, list(found.values()))

    def remove(self, job_id: str, generation: str) -> Finding | None:
        """Remove a finding that holds no longer. Return it; None: there is none. Raises UnreachableError."""
        found = self._open.get(job_id, {})
        gone = [name for name, each in found.items() if each.generation == generation]
        removed = [found.pop(name) for name in gone]
        if not found:
            self._open.pop(job_id, None)
        if removed:
            self._store.put(job_id, list(found.values()))
        return removed[0] if removed else None

    def forget(self, job_id: str) -> None:
        """Remove all findings about a job. Raises UnreachableError."""
        self._open.pop(job_id, None)
        self._store.put(job_id, ())

    def keep(self, job_id: str, known: tuple[Finding, ...], holds: Callable[[Finding], bool]) -> None:
        """Keep of what an earlier monitor found only what may still hold. Raises UnreachableError."""
        kept = [finding for finding in known if holds(finding)]
        if len(kept) < len(known):
            self._store.put(job_id, kept)
