"""The master-agent's loop: receive, decide, commit, dispatch. The only place of this package that reads a clock."""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from grass import __version__
from grass.clock import boot_id, sleep, steady, wall
from grass.config import ClusterConfig
from grass.errors import UnreachableError
from grass.store.accounts import Accounts
from grass.store.agent_store import AgentStore, Message
from master.agent import nodes
from master.agent.agenda import Agenda
from master.agent.changes import Changes, operations
from master.agent.reactor import react
from master.agent.recover import rebuild
from master.agent.schedules import arm
from master.agent.state import Cluster
from master.agent.step import Limits, Step

_T = TypeVar("_T")
log = logging.getLogger("grass.master-agent")
LONGEST_WAIT = 2.0
RETRY = 0.1
DEAF = 1.0
"""Seconds between two looks at what has come, beyond the time that was waited: redis was away, or this process."""
_NO_WORK = ("hello", "heartbeat")
"""Messages that an idle cluster has, too."""


class MasterAgent:
    """``accounts``: of the nodes that join. ``idle``: called when the cluster has had nothing to do for as long as its
    settings allow. ``alive``: called at every turn."""

    def __init__(
        self,
        config: ClusterConfig,
        store: AgentStore,
        accounts: Accounts,
        idle: Callable[[], None],
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._config = config
        self._store = store
        self._accounts = accounts
        self._idle = idle
        self._alive = alive
        self._agenda = Agenda()
        self._cluster = Cluster()
        self._random = random.Random()
        self._idle_rounds = 0
        self._listened = steady()
        """When what had come was last looked at."""
        self._worked = False
        """Whether anything was asked for or done since the last round of housekeeping, however short."""
        self._limits = Limits(**config.master.policy(), version=__version__)

    def start(self, owner: str) -> None:
        """Take the lease and rebuild the memory; waits for redis as long as it takes."""
        self._patiently(lambda: self._store.acquire(owner))
        self._remember()
        self._patiently(lambda: self._accounts.keep({self._config.node.name, *self._cluster.nodes}))
        step = self._step()
        step.changes.plan = True
        self._round(step, [])
        known = self._cluster
        log.info("leads cluster %s: %d jobs, %d nodes", self._config.name, len(known.jobs), len(known.nodes))

    def run(self, stopped: Callable[[], bool]) -> None:
        while not stopped():
            self._alive()
            wait = self._agenda.wait(steady(), LONGEST_WAIT)
            messages = self._patiently(lambda: self._store.receive(wait))  # noqa: B023 (called at once)
            step = self._step()
            if step.now - self._listened > wait + DEAF:
                nodes.excuse(step, step.now - self._listened)
            self._listened = step.now
            self._round(step, messages)

    def _remember(self) -> None:
        """Make memory and agenda anew from the store."""
        self._agenda = Agenda()
        loaded = self._patiently(self._store.load)
        self._cluster = rebuild(loaded, self._agenda, steady(), boot_id(), self._limits.usage_half_life)
        if self._config.master.own_node is not None:
            self._store.watch(self._config.master.own_node)  # it never joins
        self._agenda.add(steady(), "nodes")
        self._agenda.add(steady() + self._limits.check_interval, "housekeeping")
        step = self._step()
        for record in self._cluster.schedules.values():
            arm(step, record)

    def _step(self) -> Step:
        return Step(self._cluster, self._agenda, self._limits, self._random, steady(), wall(), boot_id())

    def _round(self, step: Step, messages: list[Message]) -> None:
        due = self._agenda.due(step.now)
        try:
            react(step, messages, due)
        except Exception:
            log.exception("a defect: deciding on %d messages failed; going on without the one to blame", len(messages))
            self._isolate(messages)
            return
        self._worked = self._worked or any(message.kind not in _NO_WORK for message in messages)
        if messages or step.changes:
            ops = operations(step.changes, self._cluster, self._store.keys)
            for name, digest in step.changes.accounts.items():
                if digest is not None:
                    self._patiently(lambda: self._accounts.add(name, digest))  # noqa: B023 (called at once)
            for job_id in step.changes.admitted:
                self._make_folder(job_id)
            self._patiently(lambda: self._store.commit(messages, ops))
        self._dispatch(step.changes)
        if any(item[0] == "housekeeping" for item in due):
            self._count_idle()

    def _isolate(self, messages: list[Message]) -> None:
        """One message that cannot be taken must not stop the cluster: forget this round, take them one by one."""
        self._remember()
        if len(messages) > 1:
            for message in messages:
                self._round(self._step(), [message])
            return
        step = self._step()
        for message in messages:
            step.event("message-refused", f"{message.kind} could not be processed; see the master-agent's log")
        self._patiently(lambda: self._store.commit(messages, operations(step.changes, self._cluster, self._store.keys)))

    def _dispatch(self, changes: Changes) -> None:
        """Effects outside the store, after the commit. Logs of a job that a crash left behind go with `grass clean`."""
        for name, digest in changes.accounts.items():
            if digest is not None:
                self._store.watch(name)
            else:
                self._store.unwatch(name)
                self._patiently(lambda: self._accounts.remove(name))  # noqa: B023 (called at once)
        for job_id in changes.removed:
            shutil.rmtree(Path(self._config.logs_dir) / job_id, ignore_errors=True)
            with suppress(OSError):  # what it wrote stays, until somebody removes it
                self._folder(job_id).rmdir()

    def _folder(self, job_id: str) -> Path:
        return self._config.data_dir / "jobs" / job_id

    def _make_folder(self, job_id: str) -> None:
        """Where the job may write (GRASS_OUTPUT). A share that fails is no reason not to run it."""
        try:
            self._folder(job_id).mkdir(parents=True, exist_ok=True)
            if self._config.share is None:  # in the cluster's own folder, which nobody else can enter
                self._folder(job_id).chmod(0o777)  # containers may run as another user
        except OSError as error:
            log.error("cannot make the folder of job %s in the share: %s", job_id, error)

    def _count_idle(self) -> None:
        active = any(record["state"] == "ACTIVE" for record in self._cluster.schedules.values())
        self._idle_rounds = 0 if self._cluster.queue or active or self._worked else self._idle_rounds + 1
        self._worked = False
        if not self._config.master.keep_agent_alive and self._idle_rounds >= self._config.master.agent_countdown:
            log.info("idle for %d rounds: shutting the cluster down", self._idle_rounds)
            self._idle()
            self._idle_rounds = 0

    def _patiently(self, action: Callable[[], _T]) -> _T:
        """Until redis is back: everything that the loop does with the store may be repeated."""
        told = False
        while True:
            try:
                return action()
            except UnreachableError as error:
                if not told:
                    log.warning("%s; trying again until it is back", error)
                    told = True
                self._alive()
                sleep(RETRY)
