"""One round of decisions: tickets, reports and timers in; a changed memory and a list of changes out. No I/O, no clock.

``react`` is one round: take all messages, run due timers, end jobs, and place tasks. The loop calls it. After a round
that failed, the loop calls its parts (``apply_messages``, ``decide``, ``answer``) separately. Used by ``loop``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from grass.model.event_kind import EventKind
from grass.model.exhaustive import assert_never
from grass.store.agent_store import Message
from grass.wire.daemon_end import DaemonEnds
from grass.wire.envelope import Undecodable
from grass.wire.finding import Cause, Finding, FindingState
from grass.wire.heartbeat import Heartbeat
from grass.wire.hello import Hello
from grass.wire.offer_report import OfferReport
from grass.wire.reports import Report
from grass.wire.task_events import TaskEvents
from grass.wire.tickets import (
    CancelOperation,
    CordonNode,
    DeleteJob,
    DeleteSchedule,
    DrainNode,
    HoldJob,
    JobTicket,
    JoinNode,
    KeptFiles,
    MonitorTicket,
    NodeChecked,
    NodeTicket,
    NoteFinding,
    OperationTicket,
    PauseSchedule,
    PlanJob,
    ReleaseJob,
    ReleaseNode,
    RemoveNode,
    ReplaceTask,
    RestartJob,
    ResumeJob,
    ResumeSchedule,
    RunSchedule,
    ScaleJob,
    ScheduleTicket,
    SetJob,
    StartJob,
    StartSchedule,
    StepSpeeds,
    StopJob,
    StopNode,
    StopSchedule,
    StopTasks,
    SuspectNode,
    SuspendJob,
    Ticket,
    UncordonNode,
)
from master.agent import (
    checks_before,
    fairness,
    job_end,
    job_restart,
    job_set,
    jobs,
    limit_notices,
    node_checks,
    node_speeds,
    node_tickets,
    nodes,
    operations,
    preview,
    queued_jobs,
    schedule_changes,
    schedules,
    setbacks,
    stopped_tasks,
    tasks,
)
from master.agent.addresses import send_addresses
from master.agent.agenda import Item
from master.agent.fault_containment import retry_set_aside
from master.agent.members import send_memberships
from master.agent.node_run import NodeRun
from master.agent.node_time import on_master_clock
from master.agent.placement import place, refill
from master.agent.set_aside import Work
from master.agent.state import JobRun
from master.agent.step import Step


def react(step: Step, messages: list[Message], due: list[Item]) -> None:
    """Run one round."""
    apply_messages(step, messages)
    run_due(step, due)
    decide(step)
    answer(step, messages)


def apply_messages(step: Step, messages: Iterable[Message]) -> None:
    """Apply the messages to the memory. Nothing is decided here, so no job can make a message of another job fail."""
    for message in messages:
        match message.body:
            case Undecodable() as body if message.node:
                _report(step, message, body)
            case Undecodable(envelope=envelope, problem=problem):
                step.event(EventKind.TICKET_REFUSED, f"ticket {envelope.kind or 'without a kind'}: refused; {problem}")
            case Hello() | Heartbeat() | TaskEvents() | DaemonEnds() | OfferReport() as body:
                _report(step, message, body)
            case body:  # a ticket: ``_ticket`` lists all kinds of them
                _ticket(step, message.entry_id, body)


def run_due(step: Step, due: Iterable[Item]) -> None:
    """Run each due timer once. A timer that failed before is put off until it may be tried again."""
    for item in due:
        work = Work("due", item[1], item[0])
        if (left := step.cluster.set_aside.get(work)) is not None:
            if left.until > step.now:
                step.agenda.add(left.until, *item)
                continue
            step.cluster.set_aside.readmit(work)
        step.work = work
        _due(step, item)
    step.work = None


def decide(step: Step) -> None:
    """End jobs, then place tasks, and send what changed.

    What asks for a plan after this round's plan, such as an operation that ended, gets it in a round that follows at
    once.
    """
    _settle(step)
    if step.changes.plan:
        step.cluster.set_aside.epoch += 1
        step.changes.plan = False
        place(step)
        _settle(step)
    else:
        refill(step)
    if step.cluster.leaving and node_tickets.settle(step):
        _settle(step)  # jobs that had tasks on a node that left
    if step.changes.plan:
        step.agenda.add(step.now, "plan")
    if step.cluster.cache.refilling:
        step.agenda.add(step.now, "refill")
    send_addresses(step)
    send_memberships(step)


def answer(step: Step, messages: Iterable[Message]) -> None:
    """Answer questions (``grass job plan``), after everything that changes the cluster."""
    for message in messages:
        if isinstance(message.body, PlanJob):
            preview.answer(step, message.body)


def _settle(step: Step) -> None:
    """Settle every changed job until nothing changes: a run that ends may make its schedule start another. Jobs that
    waited for it are settled again, because they may have been settled before it."""
    cluster, settled = step.cluster, set[str]()
    while ids := [*cluster.unsettled, *(job_id for job_id in step.changes.jobs if job_id not in settled)]:
        cluster.unsettled.clear()
        for job_id in dict.fromkeys(ids):
            settled.add(job_id)
            if (run := step.changes.jobs.get(job_id) or cluster.jobs.get(job_id)) is not None:
                _settle_one(step, run)


def _settle_one(step: Step, run: JobRun) -> None:
    work = Work("settle", run.id)
    if work in step.cluster.set_aside:
        return
    step.work = work
    operations.settle(step, run)
    jobs.settle(step, run)
    checks_before.settle(step, run)
    if run.outcome is not None or run.state.ended:
        operations.settle(step, run)
    if run.schedule and run.state.ended:
        schedules.after_run(step, run.schedule)
    step.work = None


def _ticket(step: Step, entry_id: str, ticket: Ticket) -> None:
    if not isinstance(ticket, (StartJob, PlanJob, SuspectNode, MonitorTicket)):
        step.asked = {ticket.user: ticket.address}
    _take_ticket(step, entry_id, ticket)
    step.asked = {}


def _take_ticket(step: Step, entry_id: str, ticket: Ticket) -> None:
    cluster = step.cluster
    match ticket:
        case StartJob(job=job, record=record):
            jobs.admit(step, cluster.jobs.get(record.id) or JobRun.new(job, record))
        case StopJob() | StopTasks() | DeleteJob() | SetJob() | HoldJob() | ReleaseJob():
            if (run := cluster.jobs.get(ticket.id)) is not None:
                _job_ticket(step, run, ticket)
        case ScaleJob() | SuspendJob() | ResumeJob() | RestartJob() | ReplaceTask() | CancelOperation():
            _operation_ticket(step, ticket)
        case PlanJob():
            pass  # see ``answer``
        case StartSchedule() | StopSchedule() | PauseSchedule() | ResumeSchedule() | RunSchedule() | DeleteSchedule():
            _schedule_ticket(step, entry_id, ticket)
        case JoinNode():
            node_tickets.join(step, ticket)
        case (
            CordonNode()
            | UncordonNode()
            | NodeChecked()
            | ReleaseNode()
            | DrainNode()
            | StopNode()
            | RemoveNode()
            | SuspectNode()
        ):
            _node_ticket(step, ticket)
        case KeptFiles() | NoteFinding() | StepSpeeds():
            _monitor_ticket(step, ticket)
        case _:
            assert_never(ticket)


def _monitor_ticket(step: Step, ticket: MonitorTicket) -> None:
    match ticket:
        case KeptFiles(users):
            step.cluster.kept_files = users
            step.changes.kept_files = step.changes.plan = True
        case NoteFinding(finding):
            _note_finding(step, finding)
        case StepSpeeds(measured):
            node_speeds.take_steps(step, measured)
        case _:
            assert_never(ticket)


_EVENT_OF = {Cause.SLOW_MEMBER: EventKind.TASK_SLOW, Cause.NODE_CHECK: EventKind.NODE_CHECKED}


def _note_finding(step: Step, finding: Finding) -> None:
    run = step.cluster.jobs.get(finding.job_id)
    if run is None or run.summarised:
        return
    kind, text = _EVENT_OF.get(finding.cause, EventKind.HANG), finding.text
    if finding.state is FindingState.SUSPECTED:
        kind = EventKind.HANG_SUSPECTED
    elif finding.state is FindingState.RESOLVED:
        kind, text = EventKind.HANG_ENDED, f"{finding.component} goes on, or has other members"
    task = finding.tasks[0] if len(finding.tasks) == 1 else ""
    step.event(kind, f"job {run.name}: {text}", job=run.name, run=run.id, task=task)


def _operation_ticket(step: Step, ticket: OperationTicket | CancelOperation) -> None:
    run = step.cluster.jobs.get(ticket.job_id)
    if run is None or run.summarised:
        message = f"operation {ticket.id}: refused; job {ticket.job_id} has ended"
        name = run.name if run is not None else ""
        step.event(EventKind.TICKET_REFUSED, message, ticket.user, job=name, run=ticket.job_id)
    elif isinstance(ticket, CancelOperation):
        operations.cancel(step, run, ticket)
    else:
        operations.file(step, run, ticket)


def _schedule_ticket(step: Step, entry_id: str, ticket: ScheduleTicket) -> None:
    match ticket:
        case StartSchedule():
            schedules.start(step, ticket, entry_id)
        case StopSchedule(name=name, user=user):
            schedules.stop(step, name, user)
        case PauseSchedule() | ResumeSchedule() | RunSchedule() | DeleteSchedule():
            schedule_changes.change(step, ticket, entry_id)
        case _:
            assert_never(ticket)


def _job_ticket(step: Step, run: JobRun, ticket: JobTicket) -> None:
    match ticket:
        case StopJob(user=user, grace=grace):
            jobs.stop(step, run, user, grace)
        case StopTasks():
            stopped_tasks.stop(step, run, ticket)
        case SetJob():
            job_set.change(step, run, ticket)
        case HoldJob() | ReleaseJob():
            queued_jobs.change(step, run, ticket)
        case DeleteJob(user=user):
            jobs.remove(step, run)
            jobs.stop(step, run, user, None)
        case _:
            assert_never(ticket)


def _node_ticket(step: Step, ticket: NodeTicket) -> None:
    node, user = step.cluster.nodes.get(ticket.node), ticket.user
    if node is None:
        kind = ticket.__struct_config__.tag
        step.event(EventKind.TICKET_REFUSED, f"ticket {kind}: refused; there is no node {ticket.node}", user)
        return
    match ticket:
        case CordonNode():
            node_tickets.cordon(step, node, user)
        case UncordonNode():
            node_tickets.uncordon(step, node, user)
        case NodeChecked(check=check):
            node_checks.take(step, node, check)
        case ReleaseNode():
            node_checks.release(step, node, user)
        case DrainNode(deadline=deadline):
            node_tickets.drain(step, node, user, deadline)
        case StopNode(why=why):
            node_tickets.stop(step, node, user, why)
        case RemoveNode(force=force):
            node_tickets.remove(step, node, user, force)
        case SuspectNode(problem=problem):
            nodes.cut_off(step, node, problem)
        case _:
            assert_never(ticket)


def _report(step: Step, message: Message, report: Report | Undecodable) -> None:
    node = step.cluster.nodes.get(message.node)
    if message.node in step.cluster.left:
        return
    if node is None:
        node = step.cluster.nodes[message.node] = NodeRun(message.node)
    match report:
        case Hello():
            nodes.on_hello(step, node, report)
        case Heartbeat():
            nodes.on_heartbeat(step, node, report)
        case TaskEvents(events=events):
            nodes.note_contact(step, node)
            for problem in tasks.on_events(step, node, on_master_clock(events, message.ahead)):
                nodes.refuse_report(step, node, "tasks", problem)
        case OfferReport():
            nodes.on_offer(step, node, report)
        case DaemonEnds(ends=ends):
            nodes.on_daemon_ends(step, node, ends)
        case Undecodable():
            nodes.on_undecodable(step, node, report)
        case _:
            assert_never(report)


def _due(step: Step, item: Item) -> None:
    kind, name, component, index = item
    run = step.cluster.jobs.get(name)
    match kind:
        case "restart" | "again" | "begin" | "deadline" | "ahead" | "operation" | "setback":
            if run is not None and not run.state.ended:
                _job_due(step, kind, run, component, index)
        case "schedule":
            schedules.due(step, name)
        case "drain" | "checked":
            _node_due(step, kind, name)
        case "plan" | "reword":
            if kind == "reword":
                step.cluster.cache.reword(False)
            step.changes.plan = True
        case "refill":
            pass  # every round refills
        case "retry":
            retry_set_aside(step)
        case "nodes" | "housekeeping" | "usage":
            _periodic(step, kind)
        case _:
            assert_never(kind)


def _node_due(step: Step, kind: Literal["drain", "checked"], node: str) -> None:
    if kind == "drain":
        node_tickets.deadline(step, node)
    else:
        checks_before.unheard(step, node)


def _job_due(
    step: Step,
    kind: Literal["restart", "again", "begin", "deadline", "ahead", "operation", "setback"],
    run: JobRun,
    component: str,
    index: int,
) -> None:
    match kind:
        case "restart":
            tasks.restart_due(step, run, run.components[component], index)
        case "setback":
            setbacks.due(step, run, run.components[component])
            checks_before.due(step, run, run.components[component])
        case "operation":
            operations.due(step, run, component)
        case "again":
            job_restart.due(step, run)
        case "begin":
            queued_jobs.await_begin(step, run)
        case "ahead":
            limit_notices.due(step, run, run.components[component])
        case "deadline":
            if (reason := job_end.exceeded(step, run)) is not None:
                jobs.out_of_time(step, run, reason)
        case _:
            assert_never(kind)


def _periodic(step: Step, kind: Literal["nodes", "housekeeping", "usage"]) -> None:
    match kind:
        case "nodes":
            nodes.check_silence(step)
            step.agenda.add(step.now + 1.0, kind)
        case "housekeeping":
            _expire(step)
            step.agenda.add(step.now + step.limits.check_interval, kind)
        case "usage":
            node_speeds.tick(step)
            fairness.tick(step)
            step.agenda.add(step.now + fairness.INTERVAL, kind)
        case _:
            assert_never(kind)


def _expire(step: Step) -> None:
    """Remove ended jobs beyond the newest ``keep_jobs``, and those older than ``keep_days`` or than their ``ttl``.
    Remove ended schedules likewise."""
    job_end.drop_logs(step)
    schedules.expire(step)
    ended = [run for run in step.cluster.jobs.values() if run.state.ended]
    surplus = len(ended) - step.limits.keep_jobs
    oldest_first = sorted(ended, key=lambda run: run.ended or 0.0)
    for position, run in enumerate(oldest_first):
        old = step.wall - (run.ended or step.wall) > step.limits.keep_days * 86400
        if position < surplus or old:
            jobs.remove(step, run)
    for run in [run for run in step.cluster.jobs.values() if job_end.expired(step, run)]:
        jobs.out_of_keeping(step, run)
    active = {run.id for run in step.cluster.jobs.values() if not run.state.ended}
    step.agenda.sweep(active.__contains__)
