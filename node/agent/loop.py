"""The node-agent's loop: take events, decide (``reconcile``), act. Run by ``python -m node.agent``.

Redis is used in threads of their own (``redis_threads``), and the collector in the shipper's thread. So tasks of this
node start, end and are followed by the next ones while redis or the collector is away.
"""

from __future__ import annotations

import logging
import selectors
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from grass import trace
from grass.model.exhaustive import assert_never
from grass.model.job import Component, runtime_of
from grass.model.key_text import job_of
from grass.model.reasons import Reason, ReasonCode
from grass.node_config import NodeHome
from grass.store.node_store import Desired, NodeStore, Revoked
from grass.system import clock
from grass.wire.backup import Restored
from grass.wire.desired import DesiredChange
from grass.wire.heartbeat import Heartbeat
from grass.wire.hello import Hello
from grass.wire.keys import LaunchKey
from grass.wire.offer_report import OfferReport
from grass.wire.task_events import Drained, Leaving, Located, Ready, Started, TaskEvent, Waiting
from node.agent import folders
from node.agent.attempts import Attempts, ended_event, not_started_event
from node.agent.conditions import together
from node.agent.end_records import EndRecords
from node.agent.hello import gpus, hello, resources
from node.agent.idle_hosts import IdleHosts
from node.agent.inbox import Checked, Done, Inbox, Left, Offers, Shipped
from node.agent.machine import Machine
from node.agent.notices import Notices
from node.agent.readiness import Readiness, Verdict
from node.agent.reconcile import Reconciliation, launch_key
from node.agent.redis_threads import HEARD, Changes, Reports
from node.agent.restore import Restore
from node.agent.shipper import Shipper
from node.agent.shutdown import Shutdown
from node.agent.starts import Starts
from node.membership import revoked_nodes
from node.membership.service import Service
from node.runtime import shutdown_note, task_commands
from node.runtime.protocol import Listed, Observed, Runtime, RuntimeEvent, Stop
from node.runtime.protocol import Waiting as RuntimeWaiting
from node.runtime.timers import Timers

HEARTBEAT = 2.0
OFFER = 10.0
"""Seconds between two reports of what runs on the machines of a namespace: tasks begin and end all the time."""
HOLD = 60.0
"""Seconds after a restore of the store for which attempts run on that it does not know: their tasks may be placed here
again."""
_MOST_UNCLAIMED = 1000
"""Attempts that are reported one by one when this time is over."""
_LEAVING_LOOK = 0.05
"""Seconds between two looks while the machine shuts down."""
LAST_REPORTS = 2.0
"""Seconds that a stopping agent takes to send its last reports. The next agent repeats those that were not sent."""

log = logging.getLogger(__name__)


class NodeAgent:
    """The loop of one node. ``run`` returns after ``stop``; tasks run on.

    ``inbox`` gets what the shipper, the service and the machine have to say. ``alive`` is called at every turn, at
    least with every heartbeat.
    """

    def __init__(
        self,
        config: NodeHome,
        store: NodeStore,
        runtime: Runtime,
        machine: Machine,
        shipper: Shipper,
        service: Service,
        inbox: Inbox,
        alive: Callable[[], None] = lambda: None,
        hold: float = HOLD,
    ) -> None:
        self._config = config
        self._alive = alive
        self._runtime = runtime
        self._machine = machine
        self._shipper = shipper
        self._service = service
        self._late_files = service.late_files
        self._inbox = inbox
        self._reconciliation = Reconciliation()
        self._records = EndRecords(config.node_dir)
        self._restore = Restore(hold)
        self._blocked_by: tuple[Reason, ...] = ()
        """Why nothing starts now."""
        self._stopping = False
        self._timers = Timers()
        self._turn = threading.Lock()
        """Held while taking events and acting: by the loop, or by the thread that reads changes, which starts tasks at
        once."""
        self._waits_until: float | None = 0.0
        """When the loop looks again if nothing wakes it, in steady seconds; None: never."""
        self._changes = Changes(store, self._apply_desired, self._on_unreadable)
        self._unreadable = ""
        """Why this version cannot decode what the master wrote."""
        self._reports = Reports(store, Path(config.home), Path(config.runtime_dir) / HEARD if config.tls else None)
        self._removal = folders.Removal(config)
        self._starts = Starts(config, runtime, machine, service, self._timers)
        self._readiness = Readiness(inbox.checked)
        self._attempts = Attempts(
            *(config, shipper, self._readiness, self._timers, self._removal),
            stop=self._stop_one,
            soon=self._end_soon,
            base=machine.environment,
        )
        self._idle_hosts = IdleHosts(
            self._timers, self._attempts.running, service.released, self._commanded, inbox.left
        )
        self._notices = Notices(config, self._timers, self._stop_one, inbox.done)
        self._shutdown = Shutdown()
        self._desired = False
        self._events_of_runtime: list[RuntimeEvent] = []
        self._said_hello = False
        self._offered: OfferReport | None = None
        """What the master was told last beyond the hello. None: nothing."""
        self._events: list[TaskEvent] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(inbox, selectors.EVENT_READ)
        self._selector.register(runtime, selectors.EVENT_READ)

    def stop(self) -> None:
        """End the loop; tasks run on. May be called from a signal handler or another thread."""
        self._stopping = True
        self._inbox.wake()

    def leave(self) -> None:
        """Tell the master that the machine shuts down, stop all tasks, and end the loop. For any thread."""
        with self._turn:
            if not self._shutdown.begun or self._shutdown.evicted:
                log.info("the machine shuts down; its tasks are stopped")
                shutdown_note.write(self._config.node_dir, shutdown_note.Note(clock.boot_id(), clock.wall()))
                self._shutdown = Shutdown()
                self._shutdown.begin(clock.steady())
        self._inbox.wake()

    def evict(self, why: str) -> None:
        """Stop all tasks and start none, as the cloud takes this machine back. ``why`` empty: it does not any more. For
        any thread."""
        with self._turn:
            if why and not self._shutdown.begun:
                log.warning("%s; its tasks are stopped", why)
                self._shutdown.begin(clock.steady(), why)
            elif not why and self._shutdown.evicted:
                log.info("the machine stays after all")
                self._shutdown = Shutdown()
        self._inbox.wake()

    def run(self) -> None:
        """Run until ``stop``, then end the threads. Tasks run on."""
        Path(self._config.node_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._records.begin(clock.wall())
        self._machine.start(self._reconciliation.entries)
        self._blocked_by = self._machine.conditions()
        self._starts.hold(bool(self._blocked_by))
        for part in (self._changes, self._reports, self._shipper, self._removal):
            part.start()
        try:
            while not self._stopping:
                self._alive()
                self._wait()
                with self._turn:
                    self._take()
                    self._act()
                    self._go_on_leaving(clock.steady())
                    self._waits_until = self._due()
        finally:
            for threads in (self._changes, self._service, self._readiness, self._machine):
                threads.stop()
            self._reports.stop(LAST_REPORTS)
            self._shipper.stop()
            self._removal.stop()
            with self._turn:
                self._runtime.close()
                self._records.close()
            self._selector.close()

    def _due(self) -> float | None:
        times = (self._timers.due, self._runtime.due(), self._leaving_due())
        return min((due for due in times if due is not None), default=None)

    def _leaving_due(self) -> float | None:
        """While the machine shuts down the loop looks often: reports are sent by another thread."""
        due = self._shutdown.due()
        return None if due is None else min(due, clock.steady() + _LEAVING_LOOK)

    def _go_on_leaving(self, now: float) -> None:
        running = self._reconciliation.running()
        for stop in self._shutdown.stops(now, running, self._reports.all_sent(), self._reconciliation.grace):
            self._stop_one(stop)
        self._stopping = self._stopping or self._shutdown.over(now, running)

    def _wait(self) -> None:
        until = self._waits_until
        self._selector.select(None if until is None else max(0.0, until - clock.steady()))
        self._inbox.rest()

    # take

    def _apply_desired(self, arrived: Iterable[Desired | DesiredChange | Revoked]) -> None:
        trace.mark("node-agent: change read")
        with self._turn:
            if self._stopping:
                return
            for each in arrived:
                match each:
                    case Desired():
                        self._on_desired(each)
                    case DesiredChange():
                        self._on_change(each)
                    case Revoked(nodes):
                        revoked_nodes.add(self._config, nodes)
                    case _:
                        assert_never(each)
            if self._late_files.trouble():
                self._check_conditions()
            self._act()
            due, waits_until = self._due(), self._waits_until
            if due is not None and (waits_until is None or due < waits_until):
                self._inbox.wake()

    def _take(self) -> None:
        self._events_of_runtime += self._runtime.receive()
        self._check_conditions()
        if self._desired:
            for happened in self._events_of_runtime:
                match happened:
                    case Listed():
                        self._on_listed(happened)
                    case Observed():
                        self._on_attempt(happened)
                    case RuntimeWaiting(key=key, reason=reason):
                        self._events.append(Waiting(key, reason))
                    case _:
                        assert_never(happened)
            self._events_of_runtime.clear()
        self._take_news()
        self._timers.run(clock.steady())

    def _take_news(self) -> None:
        for news in self._inbox.drain():
            match news:
                case Shipped(key):
                    self._attempts.shipped(key)
                case Left(key):
                    self._events.append(Drained(key))
                case Done(key):
                    self._notices.finish(key)
                case Checked(verdict, key, failure):
                    self._take_verdict(verdict, key, failure)
                case Offers():
                    if self._said_hello:
                        self._report_offer()
                case _:
                    assert_never(news)

    def _on_desired(self, desired: Desired) -> None:
        if not self._desired:
            self._desired = True
            self._inbox.wake()  # events of the runtime may wait for this
        if desired.restored is not None and desired.restored.at != self._restore.at:
            if self._said_hello:
                log.warning("the store was restored from a backup; the agent starts anew, as after a crash")
                self.stop()
                return
            self._on_restored(desired.restored)
        self._write_addresses(desired.addresses)
        self._service.reset(desired.membership, desired.launch)
        self._reconciliation.reset(desired.entries, desired.launch)
        self._starts.keep(desired.launch)
        self._tell_pods({LaunchKey.parse(name).job_id for name in desired.launch})
        if not self._reconciliation.holding:
            self._remove_jobs(folders.job_ids(self._config))

    def _on_restored(self, restored: Restored) -> None:
        """Compare the restored state with what this node knows."""
        past = self._records.past()
        new = self._restore.begin(restored, past)
        complete = not new or (past.since is not None and past.since <= restored.made)
        self._reconciliation.remember(past.ends, complete=complete, hold=new)
        if new:
            log.warning("the store was restored from a backup; attempts that it does not know run on for a while")
            self._timers.at(clock.steady() + self._restore.hold, self._release)

    def _release(self) -> None:
        """Stop what nobody desired again, and say so, attempt by attempt."""
        running, past = self._reconciliation.release()
        unclaimed = self._restore.unclaimed(running, past)
        self._events += unclaimed[:_MOST_UNCLAIMED]
        for each in unclaimed[_MOST_UNCLAIMED:]:
            log.warning("attempt %s began after the backup, and nothing desires it", each.key)
        self._remove_jobs(folders.job_ids(self._config))
        self._records.note_restore(self._restore.at, clock.wall())

    def _on_change(self, change: DesiredChange) -> None:
        self._write_addresses(change.addresses)
        self._reconciliation.apply(change)
        for key in change.set:
            if (attempt := self._restore.held.pop(key, None)) is not None:
                self._on_attempt(attempt)
        if change.membership or change.launch:
            self._service.apply(change.membership, change.launch, self._reconciliation.launches)
            self._idle_hosts.look()
        if change.membership or change.addresses:
            self._tell_pods({*change.addresses, *(LaunchKey.parse(name).job_id for name in change.membership)})
        if change.let_go:
            self._starts.let_go(change.let_go)
        if change.drop:
            self._starts.drop(change.drop)
            self._remove_jobs({LaunchKey.parse(name).job_id for name in change.drop})

    def _tell_pods(self, job_ids: Collection[str]) -> None:
        """Have the pods of jobs told what has changed."""
        if job_ids and self._config.node.kubernetes is not None:
            given = self._reconciliation
            keys = [key for key in given.handed_over() if job_of(key) in job_ids]
            self._starts.tell(keys, given.entries, given.launches, job_ids)

    def _locate(self, key: str, address: str) -> None:
        """Take the address of an attempt, which others may want to know."""
        if self._starts.located(key, address):
            self._events.append(Located(key, address))
            self._starts.tell([key], self._reconciliation.entries, self._reconciliation.launches)

    def _write_addresses(self, addresses: Mapping[str, str]) -> None:
        self._service.take_addresses(addresses)
        for job_id, text in addresses.items():
            self._late_files.write(job_id, "addresses", partial(folders.write_addresses, self._config, job_id, text))

    def _remove_jobs(self, job_ids: Iterable[str]) -> None:
        here = {LaunchKey.parse(name).job_id for name in self._reconciliation.launches}
        gone = [job_id for job_id in job_ids if job_id not in here]
        if gone:
            self._service.forget(gone)
            self._removal.jobs(gone)

    def _on_listed(self, listed: Listed) -> None:
        """At the first list, say hello. At every list, report everything again."""
        known = {attempt.key: attempt for attempt in listed.attempts}
        self._reconciliation.listed((each.key, each.ended is not None, each.stopping) for each in listed.attempts)
        if not self._said_hello:
            self._said_hello = True
            self._attempts.resume(known, self._reconciliation.entries)
            self._resume_waiting(known)
            self._say_hello()
            self._beat()
            self._offer_again()
        self._machine.listed(list(known))
        self._attempts.relisted()
        for attempt in listed.attempts:
            self._on_attempt(attempt)
        self._idle_hosts.look()

    def _on_attempt(self, attempt: Observed) -> None:
        key = attempt.key
        entry = self._reconciliation.entries.get(key)
        if attempt.ended is not None:
            used = self._machine.totals_at_end(attempt)
            sizes = self._attempts.end_streams(attempt)
            cause = self._attempts.cause(attempt, self._reconciliation.launches.get(launch_key(key)))
            self._reconciliation.note_end(key)
            self._notices.drop(key)
            self._starts.gone(key)
            kept = self._reconciliation.holding and not attempt.stopping
            if entry is not None or kept:
                if attempt.code == 0 and attempt.reason is None and attempt.since is not None:
                    ended = clock.steady() - max(0.0, clock.wall() - attempt.ended)
                    attempt = attempt._replace(reason=self._machine.loss(attempt.since, ended))
                event = ended_event(attempt, sizes, used, self._machine.software(attempt), cause)
                self._records.add(event)
                if entry is not None:
                    self._events.append(event)
                else:
                    self._restore.note_end(event)
                    self._reconciliation.note_past(key)
            return
        if entry is None and self._reconciliation.holding:
            self._restore.held[key] = attempt
            return
        self._machine.started(attempt)
        if attempt.stopping and entry is not None and entry.stop_grace is not None:
            self._machine.stopping(key, entry.stop_grace)  # an earlier agent may have stopped it
        if attempt.address is not None and entry is not None:
            self._locate(key, attempt.address)
        if self._attempts.started(attempt, entry, self._reconciliation.launches.get(launch_key(key))) and entry:
            started = attempt.started or clock.wall()
            software = self._machine.software(attempt)
            self._events.append(Started(key, started, attempt.pid, attempt.prepared, software))
        if attempt.leaving is not None and entry is not None:
            self._events.append(Leaving(key, attempt.leaving))

    def _take_verdict(self, verdict: Verdict, key: str, failure: str) -> None:
        match verdict:
            case Verdict.READY:
                self._attempts.ready(key)
                self._events.append(Ready(key))
            case Verdict.NOT_YET:
                self._events.append(Waiting(key, Reason(ReasonCode.NOT_READY, f"not ready yet: {failure}")))
            case Verdict.NOT_READY:
                self._attempts.not_ready(key, failure)
            case _:
                assert_never(verdict)

    def _hello(self) -> Hello:
        return hello(self._config.node, self._machine.offer(), self._machine.programs(), self._blocked_by)

    def _say_hello(self) -> None:
        """Send a hello. The master forgets what it was told of machines. For any thread."""
        self._reports.hello(self._hello())
        self._offered = None

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(self._machine.usage(), self._blocked_by, self._machine.programs())

    def _commanded(self) -> set[str]:
        """Return the attempts in which a launcher runs a command."""
        return {each.key for each in task_commands.running(self._config)}

    def _blocking_reasons(self) -> tuple[Reason, ...]:
        """Return the reasons why nothing may start on this node now."""
        troubles = (self._shutdown.reason, self._late_files.trouble(), self._runtime.trouble())
        return (*self._machine.conditions(), *(each for each in troubles if each))

    def _on_unreadable(self, problem: str) -> None:
        """Send a hello at once, so that the master learns which protocol this node speaks. Called in a thread."""
        if problem and not self._unreadable:
            self._say_hello()
        self._unreadable = problem

    def _check_conditions(self) -> None:
        if self._blocking_reasons() != self._blocked_by:
            self._on_conditions()

    def _on_conditions(self) -> None:
        """Hold or release the attempts that wait in the runtime, and report the conditions at once."""
        self._blocked_by = self._blocking_reasons()
        self._starts.hold(bool(self._blocked_by))
        self._report_blocked(self._reconciliation.handed_over())
        if self._said_hello:
            self._reports.heartbeat(self._heartbeat())

    def _resume_waiting(self, known: Mapping[str, Observed]) -> None:
        """Define the launches of waiting attempts again: an earlier agent may have held them back, or not."""
        waiting = [key for key, attempt in known.items() if attempt.started is None and attempt.ended is None]
        for name in {launch_key(key) for key in waiting}:
            if template := self._reconciliation.launches.get(name):
                self._starts.define(name, template)
        if self._blocked_by:
            self._report_blocked(waiting)

    def _report_blocked(self, keys: Iterable[str]) -> None:
        reason = together(self._blocked_by)
        self._events += [Waiting(key, reason) for key in keys if not self._attempts.runs(key)]

    # act

    def _act(self) -> None:
        actions = self._reconciliation.next_actions()
        if actions.start:
            self._start(actions.start)
        at_once = [Stop(key, grace) for key, grace in actions.stop.items() if not self._told(key, grace)]
        if at_once:
            self._runtime.stop(at_once)
            for stop in at_once:
                self._machine.stopping(stop.key, stop.grace)
        for key in actions.not_started:
            self._events.append(not_started_event(key, None))
        self._events += [self._restore.ends[key] for key in actions.ended_before]
        self._events += [not_started_event(key, self._restore.doubt()) for key in actions.unrecorded]
        if actions.forget:
            self._runtime.forget(actions.forget)
            self._machine.forget(actions.forget)
            for key in actions.forget:
                self._attempts.release(key)
        self._records.write(clock.wall())  # before the master may note an end, and the runtime forget it
        if self._events:
            self._reports.events(self._events)
            self._events = []

    def _told(self, key: str, grace: float) -> bool:
        """Return whether an attempt that is to be stopped is told first. It is stopped later then."""
        entry, template = self._reconciliation.entries.get(key), self._reconciliation.launches.get(launch_key(key))
        component = template.component if template is not None else None
        if (
            entry is None
            or not entry.notice
            or component is None
            or component.notice is None
            or not self._attempts.runs(key)
            or self._shutdown.begun
        ):
            self._notices.drop(key)
            return False
        self._notices.give(Stop(key, grace), entry.notice, component.notice, self._first_process(key, component))
        return True

    def _first_process(self, key: str, component: Component) -> int | None:
        """Return the pid of its first process; None: it is in a container."""
        contained = runtime_of(component, self._config.node.runtimes).contained
        return None if contained else self._attempts.pid(key)

    def _end_soon(self, stop: Stop, seconds: float) -> None:
        """Tell an attempt that it will reach its time limit, unless it is stopped already."""
        entry = self._reconciliation.entries.get(stop.key)
        template = self._reconciliation.launches.get(launch_key(stop.key))
        if entry is None or entry.stop_grace is not None or template is None or self._shutdown.begun:
            return
        component = template.component
        if component.notice is not None:
            notice, pid = replace(component.notice, seconds=seconds), self._first_process(stop.key, component)
            self._notices.give(stop, f"its time limit is over in {seconds:g} s", notice, pid)

    def _start(self, keys: list[str]) -> None:
        refused = self._starts.start(keys, self._reconciliation.entries, self._reconciliation.launches)
        for key, reason in refused.items():
            self._refuse(key, reason)
        if self._blocked_by:
            self._report_blocked(key for key in keys if key not in refused)

    def _refuse(self, key: str, reason: Reason) -> None:
        self._events.append(not_started_event(key, reason))
        self._reconciliation.note_end(key)
        self._inbox.wake()  # another attempt may start instead

    def _stop_one(self, stop: Stop) -> None:
        self._runtime.stop([stop])
        self._machine.stopping(stop.key, stop.grace)

    def _beat(self) -> None:
        self._events += [Waiting(key, reason) for key, reason in self._machine.cannot_end().items()]
        self._late_files.again()
        task_commands.end_abandoned(self._config)
        self._reports.heartbeat(self._heartbeat())
        self._timers.at(clock.steady() + HEARTBEAT, self._beat)

    def _offer_again(self) -> None:
        """Report now and then what runs on the machines of a namespace."""
        if self._config.node.kubernetes is not None:
            self._report_offer()
            self._timers.at(clock.steady() + OFFER, self._offer_again)

    def _report_offer(self) -> None:
        """Report what a namespace offers, and its machines, if that has changed."""
        node, has = self._config.node, self._machine.offer()
        report = OfferReport(resources=resources(node, has), gpus=gpus(node, has), machines=self._machine.machines())
        if report != self._offered:
            self._offered = report  # before it is sent: a hello of another thread may come between
            self._reports.offer(report)
