"""Typed identifiers with several parts, and their text form in messages and in the store.

A job id is ``<name>-<8 hex>`` (one run of a job), a task ``<component>.<index>``. A component's name holds neither a
dot nor a slash, a job id no slash. Used by all packages.
"""

from __future__ import annotations

import msgspec

from grass.errors import UndecodableError
from grass.model.key_text import checked_attempt_parts, launch_parts, task_parts


class LaunchKey(msgspec.Struct, frozen=True, order=True):
    """The key of a launch template: one component of one job. Text: ``<job id>/<component>``."""

    job_id: str
    component: str

    def __str__(self) -> str:
        return f"{self.job_id}/{self.component}"

    @classmethod
    def parse(cls, text: str) -> LaunchKey:
        """Raises UndecodableError."""
        found = launch_parts(text)
        if found is None:
            raise UndecodableError("", f"not a launch key: {text!r}")
        return cls(*found)


class TaskKey(msgspec.Struct, frozen=True, order=True):
    """One task of a known job. Text: ``<component>.<index>``."""

    component: str
    index: int

    def __str__(self) -> str:
        return f"{self.component}.{self.index}"

    @classmethod
    def parse(cls, text: str) -> TaskKey:
        """Raises UndecodableError."""
        found = task_parts(text)
        if found is None:
            raise UndecodableError("", f"not a task: {text!r}")
        return cls(*found)


class AttemptKey(msgspec.Struct, frozen=True, order=True):
    """One execution of a task, numbered from 1. Text: ``<job id>/<component>.<index>/<attempt>``."""

    job_id: str
    component: str
    index: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.job_id}/{self.component}.{self.index}/{self.attempt}"

    @property
    def launch(self) -> LaunchKey:
        return LaunchKey(self.job_id, self.component)

    @property
    def task(self) -> TaskKey:
        return TaskKey(self.component, self.index)

    @classmethod
    def parse(cls, text: str) -> AttemptKey:
        """Raises UndecodableError."""
        found = checked_attempt_parts(text)
        if found is None:
            raise UndecodableError("", f"not an attempt key: {text!r}")
        return cls(*found)
