"""The master-agent's loop: receive, decide, commit, dispatch. It reads the clock and does the I/O of a round.

Beside it do I/O only ``__main__``, ``output_folders``, and the courier's thread (``courier``, ``webhook``). An import
contract in ``pyproject.toml`` keeps this true. Started by ``__main__``.

A round is normally one commit: its messages and what was decided on them. If deciding raises, the memory is rebuilt
from the store. Then the messages are committed by themselves, and the rest is decided without the work that failed.
"""

from __future__ import annotations

import gc
import logging
import random
from collections.abc import Callable, Iterable
from typing import TypeVar

from grass import __version__, trace
from grass.api.task_token import job_secret, shared_space
from grass.config import ClusterConfig
from grass.errors import UnreachableError
from grass.model.event_kind import EventKind
from grass.store.accounts import Accounts
from grass.store.agent_store import AgentStore, Message
from grass.store.backend import Op
from grass.system import process_memory
from grass.system.clock import boot_id, sleep, steady, wall
from grass.wire.heartbeat import Heartbeat
from grass.wire.hello import Hello
from grass.wire.notification import Notification
from grass.wire.offer_report import OfferReport
from grass.wire.schedule_record import ScheduleState
from grass.wire.tickets import PlanJob
from master.agent import nodes
from master.agent.addresses import send_addresses
from master.agent.agenda import Agenda
from master.agent.changes import Changes, store_operations
from master.agent.fault_containment import check_later, contain
from master.agent.floods import Floods
from master.agent.log_removal import LogRemoval
from master.agent.members import send_memberships
from master.agent.output_folders import OutputFolders, output_mode
from master.agent.reactor import answer, apply_messages, decide, react
from master.agent.recover import rebuild
from master.agent.schedules import arm
from master.agent.set_aside import Work
from master.agent.state import Cluster
from master.agent.step import Limits, Step
from master.planning.decide import decide as planner
from master.planning.model import Plan, Snapshot

_T = TypeVar("_T")
log = logging.getLogger("grass.master-agent")
LONGEST_WAIT = 2.0
"""Seconds that one read of the store waits for messages."""
RETRY = 0.1
"""Seconds between tries while the store does not answer."""
LISTENING_GAP = 1.0
"""Seconds between two reads, beyond the time that was waited, after which the master-agent itself was unable to listen
(redis was away, or this process was suspended). Such a gap does not count as silence of the nodes."""
MOST_FAILURES = 8
"""How many jobs one round may set aside after a failure."""
RETRY_DECIDING = 5.0
"""Seconds until the next try, after deciding failed on something that cannot be set aside."""
_NO_WORK = (Hello, Heartbeat, OfferReport)
"""Messages that an idle cluster sends, too."""


class MasterAgent:
    """The loop of one master-agent. Call ``start``, then ``run``.

    ``accounts``: redis users of nodes that join. ``idle``: called when the cluster has been idle for as long as its
    settings allow. ``alive``: called in every round, for the watchdog. ``notified``: called with notifications
    that were committed. ``decide``: the planner. ``steady``, ``sleep``: the clock.
    """

    def __init__(
        self,
        config: ClusterConfig,
        store: AgentStore,
        accounts: Accounts,
        idle: Callable[[], None],
        alive: Callable[[], None] = lambda: None,
        notified: Callable[[Iterable[Notification]], None] = lambda _: None,
        decide: Callable[[Snapshot], Plan] = planner,
        secret: str = "",
        probe: str = "",
        steady: Callable[[], float] = steady,
        sleep: Callable[[float], None] = sleep,
    ) -> None:
        self._config = config
        self._store = store
        self._accounts = accounts
        self._idle = idle
        self._alive = alive
        self._notified = notified
        self._decide_with = decide
        self._steady = steady
        self._sleep = sleep
        self._agenda = Agenda()
        self._cluster = Cluster()
        self._random = random.Random()  # noqa: S311 # for delays, not for secrets
        self._floods = Floods()
        self._folders = OutputFolders(config.data_dir / "jobs", output_mode(config))
        self._logs = LogRemoval(config.logs_dir, steady)
        self._idle_rounds = 0
        self._listened_at = self._steady()
        """Steady time of the last read of messages."""
        self._worked = False
        """Whether there was any work since the last housekeeping."""
        self._limits = Limits(**config.master.policy(), version=__version__, secret=secret, probe=probe)

    def start(self, owner: str) -> None:
        """Acquire the lease and load the memory. Waits for redis without a limit."""
        self._until_store_answers(lambda: self._store.acquire(owner))
        self._folders.remove_left()
        self._logs.remove_left()
        self._remember()
        own = self._config.master.own_node or ""
        self._until_store_answers(lambda: self._accounts.keep({own, *self._cluster.nodes}))
        step = self._step()
        step.changes.plan = True
        step.event(
            EventKind.MASTER_AGENT_STARTED, f"master-agent: started, version {__version__}; it leads the cluster"
        )
        self._round(step, [])
        known = self._cluster
        log.info(
            "cluster %s: this master-agent leads; %d jobs, %d nodes",
            self._config.name,
            len(known.jobs),
            len(known.nodes),
        )

    def run(self, stopped: Callable[[], bool]) -> None:
        """Run rounds until ``stopped`` returns true. Raises StaleLeaseError once another master-agent leads."""
        while not stopped():
            self._alive()
            self._guard()
            wait = self._agenda.wait(self._steady(), LONGEST_WAIT)
            messages = self._until_store_answers(lambda: self._store.receive(wait))  # noqa: B023 (called at once)
            trace.mark("master-agent: woken")
            step = self._step()
            if step.now - self._listened_at > wait + LISTENING_GAP:
                nodes.extend_contact(step, step.now - self._listened_at)
            self._listened_at = step.now
            self._floods.note([message.node for message in messages if message.node], step.now)
            self._round(step, messages)

    def _guard(self) -> None:
        """Cut off nodes that send or connect more than a node may. The machine of such a node was taken over.

        The master's own machine is not judged: who took that over has the store anyway."""
        now = self._steady()
        if not self._floods.due(now):
            return
        if self._config.collector is None and self._cluster.nodes.keys() <= {self._config.master.own_node}:
            self._floods.judge({}, (), now)  # nobody reaches the store from other machines
            return
        try:
            found = self._floods.judge(self._store.report_sizes(), self._accounts.crowded(), now)
            if self._store.mend_wakeups(wall()):
                log.warning("a node damaged the wake-up stream; it was created again")
            if removed := self._accounts.bound_shared(self._spaces):
                log.error("%d values that tasks share were removed: more than jobs may have, or of no job", removed)
        except UnreachableError:
            return  # the next read of messages waits for the store
        for name, problem in found.items():
            node = self._cluster.nodes.get(name)
            if node is not None and name != self._config.master.own_node:
                log.warning("node %s: cut off; %s", name, problem)
                step = self._step()
                nodes.cut_off(step, node, problem)
                self._round(step, [])
                self._until_store_answers(lambda: self._store.discard_reports(name))  # noqa: B023 (called at once)

    def _spaces(self) -> set[str]:
        """Return where the tasks of active jobs share values."""
        return {shared_space(job_secret(self._limits.secret, job_id)) for job_id in self._cluster.jobs}

    def _remember(self) -> None:
        """Rebuild memory and agenda from the store. What is set aside stays set aside."""
        set_aside = self._cluster.set_aside
        gc.disable()  # loading 20,000 jobs makes no garbage, and collecting would take most of the time
        try:
            self._until_store_answers(self._rebuild)
        finally:
            gc.enable()
        process_memory.give_back()
        self._cluster.set_aside = set_aside
        if self._config.master.own_node is not None:
            self._store.watch(self._config.master.own_node)  # it never joins
        self._agenda.add(self._steady(), "nodes")
        self._agenda.add(self._steady() + self._limits.check_interval, "housekeeping")
        set_aside.next_check = None  # the new agenda has no timer for it
        if set_aside:
            check_later(self._agenda, set_aside, self._steady())
        step = self._step()
        for record in self._cluster.schedules.values():
            arm(step, record)

    def _rebuild(self) -> None:
        self._agenda = Agenda()
        loaded = self._store.load()
        self._cluster = rebuild(loaded, self._agenda, self._steady(), boot_id(), self._limits.usage_half_life)

    def _step(self) -> Step:
        return Step(
            self._cluster,
            self._agenda,
            self._limits,
            self._random,
            self._steady(),
            wall(),
            boot_id(),
            self._decide_with,
            self._store.epoch,
        )

    def _round(self, step: Step, messages: list[Message]) -> None:
        due = self._agenda.due(step.now)
        try:
            react(step, messages, due)
            ops = store_operations(step.changes, self._cluster, self._store.keys)
        except Exception as error:
            log.exception(
                "internal error while deciding on %d messages; committing them before deciding again",
                len(messages),
            )
            self._recover(step.work, error, messages)
            return
        self._worked = self._worked or any(not isinstance(message.body, _NO_WORK) for message in messages)
        if messages or step.changes:
            self._write(step, messages, ops)
        if any(item[0] == "housekeeping" for item in due):
            self._count_idle()

    def _write(self, step: Step, messages: list[Message], ops: list[Op]) -> None:
        """Commit the step. Carry out its effects outside the store, before and after."""
        for error in step.errors:
            log.error("internal error in the planner; the job is set aside", exc_info=error)
        for name, digest in step.changes.accounts.items():
            if digest is not None:
                self._until_store_answers(lambda: self._accounts.add(name, digest))  # noqa: B023 (called at once)
        for job_id in step.changes.admitted:
            if job_id not in step.changes.removed:
                self._folders.make(job_id)
        trace.mark("master-agent: decided")
        names = step.changes.names_taken
        if not self._until_store_answers(lambda: self._store.commit(messages, ops, names)):
            log.info("the API accepted a job meanwhile whose name is one of %s; deciding again", ", ".join(names))
            self._remember()
            again = self._step()
            again.changes.plan = True
            self._round(again, messages)
            return
        trace.mark("master-agent: committed")
        self._dispatch(step.changes)

    # recovery from a failed round

    def _recover(self, work: Work | None, error: Exception, messages: list[Message]) -> None:
        """Discard the failed round. Commit its messages first, then decide again without the work that failed."""
        self._remember()
        self._take(messages)
        failed = [] if work is None else [(work, error)]
        questions = [message for message in messages if isinstance(message.body, PlanJob)]
        for _ in range(MOST_FAILURES):
            step = self._step()
            step.changes.plan = True
            try:
                for each in failed:
                    contain(step, *each)
                decide(step)
                answer(step, questions)
                ops = store_operations(step.changes, self._cluster, self._store.keys)
            except Exception as again:
                log.exception("internal error while deciding")
                self._remember()
                if step.work is None:
                    break
                failed.append((step.work, again))
            else:
                self._write(step, [], ops)
                return
        log.error(
            "internal error while deciding; messages are still taken, and deciding is tried again in %g s",
            RETRY_DECIDING,
        )
        self._agenda.add(self._steady() + RETRY_DECIDING, "plan")

    def _take(self, messages: list[Message]) -> None:
        """Commit the messages without deciding anything. Refuse a message that fails, and take all others."""
        step = self._step()
        try:
            apply_messages(step, messages)
            send_addresses(step)
            send_memberships(step)
            ops = store_operations(step.changes, self._cluster, self._store.keys)
        except Exception:
            log.exception("internal error while processing %d messages; trying each of them alone", len(messages))
            self._remember()
            if len(messages) > 1:
                for message in messages:
                    self._take([message])
                return
            step = self._step()
            for message in messages:
                text = f"{message.name}: refused because of an internal error; see the master-agent's log"
                step.event(EventKind.MESSAGE_REFUSED, text, node=message.node)
            ops = store_operations(step.changes, self._cluster, self._store.keys)
        self._cluster.unsettled.update(dict.fromkeys(step.changes.jobs))
        self._write(step, messages, ops)

    def _dispatch(self, changes: Changes) -> None:
        """Carry out effects outside the store, after the commit. A crash before them leaves files of removed jobs."""
        for name, digest in changes.accounts.items():
            if digest is not None:
                self._store.watch(name)
            else:
                self._store.unwatch(name)
                self._until_store_answers(lambda: self._accounts.remove(name))  # noqa: B023 (called at once)
        for job_id in changes.removed:
            self._logs.remove(job_id)
            self._folders.remove(job_id)
        for job_id in changes.logs_dropped:
            self._logs.remove(job_id)
        if changes.admitted:
            self._folders.make_next()
        if changes.notifications:
            self._notified(changes.notifications.values())
        changes.committed()

    def _count_idle(self) -> None:
        active = any(record.state is ScheduleState.ACTIVE for record in self._cluster.schedules.values())
        self._idle_rounds = 0 if self._cluster.queue or active or self._worked else self._idle_rounds + 1
        self._worked = False
        if not self._config.master.keep_agent_alive and self._idle_rounds >= self._config.master.agent_countdown:
            log.info("cluster idle for %d checks; shutting it down", self._idle_rounds)
            self._idle()
            self._idle_rounds = 0

    def _until_store_answers(self, action: Callable[[], _T]) -> _T:
        """Repeat the action until redis answers. Everything that the loop does with the store may be repeated."""
        logged = False
        while True:
            try:
                return action()
            except UnreachableError as error:
                if not logged:
                    log.warning("%s; trying again until the store answers", error)
                    logged = True
                self._alive()
                self._sleep(RETRY)
