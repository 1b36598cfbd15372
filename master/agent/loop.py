"""The master-agent's loop: receive, decide, commit, dispatch. The only module of this package that reads a clock and
does I/O.

A round is taken and decided together, and written in one commit. If that fails, which is a defect, the round is
forgotten: its messages are committed first, then the rest is decided without the job that made it fail.
"""

from __future__ import annotations

import gc
import logging
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from grass import __version__, process_memory, trace
from grass.clock import boot_id, sleep, steady, wall
from grass.config import ClusterConfig
from grass.errors import UnreachableError
from grass.store.accounts import Accounts
from grass.store.agent_store import AgentStore, Message
from grass.store.backend import Op
from grass.wire.heartbeat import Heartbeat
from grass.wire.hello import Hello
from grass.wire.schedule_record import ScheduleState
from grass.wire.tickets import PlanJob
from master.agent import nodes
from master.agent.addresses import send_addresses
from master.agent.agenda import Agenda
from master.agent.aside import Work
from master.agent.changes import Changes, operations
from master.agent.leaving_out import leave_out
from master.agent.reactor import answer, decide, react, take
from master.agent.recover import rebuild
from master.agent.schedules import arm
from master.agent.state import Cluster
from master.agent.step import Limits, Step
from master.planning.decide import decide as planner
from master.planning.model import Plan, View

_T = TypeVar("_T")
log = logging.getLogger("grass.master-agent")
LONGEST_WAIT = 2.0
RETRY = 0.1
DEAF = 1.0
"""Seconds between two looks at what has come, beyond the time that was waited: redis was away, or this process."""
MOST_FAILURES = 8
"""Jobs that one round may set aside after a failure."""
BLAMELESS_WAIT = 5.0
"""Seconds until deciding is tried again after it failed on nothing that could be set aside."""
_NO_WORK = (Hello, Heartbeat)
"""Messages that an idle cluster has, too."""


class MasterAgent:
    """``accounts``: of the nodes that join. ``idle``: called when the cluster has had nothing to do for as long as its
    settings allow. ``alive``: called at every turn. ``decide``: the planner."""

    def __init__(
        self,
        config: ClusterConfig,
        store: AgentStore,
        accounts: Accounts,
        idle: Callable[[], None],
        alive: Callable[[], None] = lambda: None,
        decide: Callable[[View], Plan] = planner,
    ) -> None:
        self._config = config
        self._store = store
        self._accounts = accounts
        self._idle = idle
        self._alive = alive
        self._decide_with = decide
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
            trace.mark("master-agent: woken")
            step = self._step()
            if step.now - self._listened > wait + DEAF:
                nodes.excuse(step, step.now - self._listened)
            self._listened = step.now
            self._round(step, messages)

    def _remember(self) -> None:
        """Make memory and agenda anew from the store. What is set aside stays so."""
        aside = self._cluster.aside
        gc.disable()  # nothing of a state of 20,000 jobs is garbage, and looking through it takes most of the time
        try:
            self._patiently(self._rebuild)
        finally:
            gc.enable()
        process_memory.give_back()
        self._cluster.aside = aside
        if self._config.master.own_node is not None:
            self._store.watch(self._config.master.own_node)  # it never joins
        self._agenda.add(steady(), "nodes")
        self._agenda.add(steady() + self._limits.check_interval, "housekeeping")
        if aside:
            self._agenda.add(steady(), "retry")
        step = self._step()
        for record in self._cluster.schedules.values():
            arm(step, record)

    def _rebuild(self) -> None:
        self._agenda = Agenda()
        loaded = self._store.load()
        self._cluster = rebuild(loaded, self._agenda, steady(), boot_id(), self._limits.usage_half_life)

    def _step(self) -> Step:
        return Step(
            self._cluster, self._agenda, self._limits, self._random, steady(), wall(), boot_id(), self._decide_with
        )

    def _round(self, step: Step, messages: list[Message]) -> None:
        due = self._agenda.due(step.now)
        try:
            react(step, messages, due)
            ops = operations(step.changes, self._cluster, self._store.keys)
        except Exception as error:
            log.exception("internal error while deciding on %d messages; taking them without it", len(messages))
            self._recover(step.work, error, messages)
            return
        self._worked = self._worked or any(not isinstance(message.body, _NO_WORK) for message in messages)
        if messages or step.changes:
            self._write(step, messages, ops)
        if any(item[0] == "housekeeping" for item in due):
            self._count_idle()

    def _write(self, step: Step, messages: list[Message], ops: list[Op]) -> None:
        """Commit the step, with its effects outside the store before and after."""
        for error in step.errors:
            log.error("internal error of the planner; the job is set aside", exc_info=error)
        for name, digest in step.changes.accounts.items():
            if digest is not None:
                self._patiently(lambda: self._accounts.add(name, digest))  # noqa: B023 (called at once)
        for job_id in step.changes.admitted:
            self._make_folder(job_id)
        trace.mark("master-agent: decided")
        self._patiently(lambda: self._store.commit(messages, ops))
        trace.mark("master-agent: committed")
        self._dispatch(step.changes)

    # when a round failed

    def _recover(self, work: Work | None, error: Exception, messages: list[Message]) -> None:
        """Forget the failed round. Take its messages first, then decide again without the work that failed."""
        self._remember()
        self._take(messages)
        failed = [] if work is None else [(work, error)]
        questions = [message for message in messages if isinstance(message.body, PlanJob)]
        for _ in range(MOST_FAILURES):
            step = self._step()
            step.changes.plan = True
            try:
                for each in failed:
                    leave_out(step, *each)
                decide(step)
                answer(step, questions)
                ops = operations(step.changes, self._cluster, self._store.keys)
            except Exception as again:
                log.exception("internal error while deciding")
                self._remember()
                if step.work is None:
                    break
                failed.append((step.work, again))
            else:
                self._write(step, [], ops)
                return
        log.error("nothing could be decided; messages are taken all the same, deciding is tried again")
        self._agenda.add(steady() + BLAMELESS_WAIT, "plan")

    def _take(self, messages: list[Message]) -> None:
        """Commit what the messages say. One that cannot be taken is refused, and no other is lost with it."""
        step = self._step()
        try:
            take(step, messages)
            send_addresses(step)
            ops = operations(step.changes, self._cluster, self._store.keys)
        except Exception:
            log.exception("internal error while taking %d messages", len(messages))
            self._remember()
            if len(messages) > 1:
                for message in messages:
                    self._take([message])
                return
            step = self._step()
            for message in messages:
                text = f"internal error while processing {message.name}; see the master-agent's log"
                step.event("message-refused", text, node=message.node)
            ops = operations(step.changes, self._cluster, self._store.keys)
        self._cluster.unsettled.update(dict.fromkeys(step.changes.jobs))
        self._write(step, messages, ops)

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
        changes.committed()

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
        active = any(record.state is ScheduleState.ACTIVE for record in self._cluster.schedules.values())
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
