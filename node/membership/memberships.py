"""The memberships of the jobs that this node runs a part of. Changed by the node-agent, read by the API's threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from grass.frameworks.seat import NO_MEMBERSHIP
from grass.node_config import NodeHome
from grass.wire.keys import AttemptKey, LaunchKey
from grass.wire.launch import LaunchTemplate
from grass.wire.membership import Membership
from grass.wire.membership_api import World
from node.membership import files
from node.membership.late_files import LateFiles


class Memberships:
    """The memberships that this node knows.

    ``of_job`` and ``world`` may be called in any thread; the others are for one thread at a time.
    """

    def __init__(self, config: NodeHome, late: LateFiles | None = None) -> None:
        """``late``: takes the files that cannot be written now."""
        self._config = config
        self._late = late or LateFiles()
        self._changed = threading.Condition()
        self._jobs: dict[str, dict[str, Membership]] = {}
        """Job id → component → membership."""
        self._listed: dict[LaunchKey, set[tuple[str, int]]] = {}
        """Attempts of this node that were members once."""
        self._secrets: dict[str, str] = {}
        """By job id."""

    # changes

    def reset(self, memberships: Mapping[str, Membership], launches: Mapping[str, LaunchTemplate]) -> None:
        """Replace everything by the whole desired state. Call it first."""
        files.open_secrets(self._config)
        jobs = {LaunchKey.parse(name).job_id for name in launches}
        self.forget([job_id for job_id in (*self._secrets, *files.secrets_on_disk(self._config)) if job_id not in jobs])
        self.apply(memberships, launches, launches)

    def apply(
        self,
        memberships: Mapping[str, Membership],
        fresh: Mapping[str, LaunchTemplate],
        launches: Mapping[str, LaunchTemplate],
    ) -> None:
        """Take new memberships and templates (``fresh``), and write the files of both. ``launches``: all templates."""
        for template in fresh.values():
            self._take_secret(template)
        for name, membership in memberships.items():
            self._take_membership(LaunchKey.parse(name), membership)
        jobs = {LaunchKey.parse(name).job_id for name in (*memberships, *fresh)}
        for template in launches.values():
            if template.job_id in jobs and template.component.framework is not None:
                self._write_framework(template)
        with self._changed:
            self._changed.notify_all()

    def forget(self, job_ids: Iterable[str]) -> None:
        """Forget jobs that have nothing left on this node. Their folders are removed elsewhere."""
        gone = set(job_ids)
        self._late.forget(gone)
        for job_id in gone:
            files.remove_secret(self._config, job_id)
            with self._changed:
                self._secrets.pop(job_id, None)
                for component in self._jobs.pop(job_id, {}):
                    self._listed.pop(LaunchKey(job_id, component), None)
                self._changed.notify_all()

    def _take_secret(self, template: LaunchTemplate) -> None:
        if template.secret and self._secrets.get(template.job_id) != template.secret:
            job_id, secret = template.job_id, template.secret
            self._late.write(job_id, "secret", lambda: files.write_secret(self._config, job_id, secret))
            self._secrets[template.job_id] = template.secret

    def _take_membership(self, key: LaunchKey, membership: Membership) -> None:
        if self.of_job(key.job_id).get(key.component) == membership:
            return
        name = (self._config, key.job_id, key.component)
        self._write(key, "membership", lambda: files.write_membership(*name, membership))
        here = {(each.task, each.attempt) for each in membership.members if each.node == self._config.node.name}
        before = self._listed.get(key)
        listed = files.read_listed(*name) if before is None else before
        if before is None or not here <= listed:
            self._write(key, "listed", lambda: files.write_listed(*name, listed | here))
        with self._changed:
            self._listed[key] = listed | here
            jobs = self._jobs.get(key.job_id, {})
            self._jobs[key.job_id] = {**jobs, key.component: membership}  # replaced: other threads iterate over it

    def _write_framework(self, template: LaunchTemplate) -> None:
        def write() -> None:
            files.write_library(self._config, template.job_id)
            files.write_rendered(self._config, template, self.of_job(template.job_id))

        self._write(LaunchKey(template.job_id, template.component.name), "framework", write)

    def _write(self, key: LaunchKey, name: str, write: Callable[[], None]) -> None:
        self._late.write(key.job_id, f"{key.component}/{name}", write)

    # for any thread

    def secret(self, job_id: str) -> str | None:
        return self._secrets.get(job_id)

    def of_job(self, job_id: str) -> Mapping[str, Membership]:
        """Return the memberships of a job, by component."""
        return self._jobs.get(job_id, {})

    def world(self, key: AttemptKey, after: int, seconds: float) -> World:
        """Return the membership of an attempt's component. Wait for a generation above ``after``, or its release."""
        with self._changed:
            self._changed.wait_for(lambda: self._over(key, after), seconds)
            return self._world(key)

    def _over(self, key: AttemptKey, after: int) -> bool:
        found = self._world(key)
        return found.generation > after or found.released or key.job_id not in self._secrets

    def _world(self, key: AttemptKey) -> World:
        found = self.of_job(key.job_id).get(key.component, NO_MEMBERSHIP)
        own = (str(key.task), key.attempt)
        rank = next((each.rank for each in found.members if (each.task, each.attempt) == own), None)
        return World(
            generation=found.generation,
            epoch=found.epoch,
            desired=found.desired,
            min=found.min,
            max=found.max,
            unit=found.unit,
            members=found.members,
            rank=rank,
            released=rank is None and own in self._listed.get(key.launch, ()),
        )
