"""Tickets, reports and times in; a changed memory and a list of changes out. No I/O, no clock.

``react`` is one round: take everything that came together, see which jobs came to an end, place what can be placed.
"""

from __future__ import annotations

from typing import Any

from grass.model.job import Job
from grass.model.lifecycle import JobState
from grass.model.reasons import Reason, ReasonCode
from grass.store.agent_store import Message
from master.agent import fairness, jobs, membership, nodes, preview, schedules, tasks
from master.agent.addresses import send_addresses
from master.agent.agenda import Item, Kind
from master.agent.node_time import timely
from master.agent.placing import place, refill
from master.agent.recover import new_run
from master.agent.state import JobRun, NodeRun
from master.agent.step import Step


def react(step: Step, messages: list[Message], due: list[Item]) -> None:
    for message in messages:
        if message.node:
            _report(step, message)
        elif message.kind != "plan":
            _ticket(step, message)
    for item in due:
        _due(step, item)
    _settle(step)
    if step.changes.plan:
        place(step)
        _settle(step)
    else:
        refill(step)
    if step.cluster.leaving:
        _settle_leaving(step)
    if step.cluster.board.refilling:
        step.agenda.add(step.now, "refill")
    send_addresses(step)
    for message in messages:
        if message.kind == "plan" and not message.node:
            preview.answer(step, message.body)  # when all else is settled


def _settle_leaving(step: Step) -> None:
    """A node that has left gives its tasks back to the queue, in the same round."""
    left = len(step.changes.left)
    membership.settle(step)
    if len(step.changes.left) > left:
        _settle(step)
        place(step)


def _settle(step: Step) -> None:
    """Ended runs of a schedule may start another, so look until nothing more follows."""
    looked: set[str] = set()
    while ids := [job_id for job_id in step.changes.jobs if job_id not in looked]:
        for job_id in ids:
            looked.add(job_id)
            run = step.changes.jobs[job_id]
            jobs.settle(step, run)
            schedule = run.view.get("schedule")
            if schedule and run.state.ended:
                schedules.ended(step, schedule)


def _ticket(step: Step, message: Message) -> None:
    body = message.body
    run = step.cluster.jobs.get(body.get("id", ""))
    match message.kind:
        case "start":
            if run is None:
                jobs.admit(step, new_run(Job.from_wire(body["spec"]), body["view"]))
        case "stop":
            if run is not None:
                jobs.stop(step, run, body["user"], body.get("grace"))
        case "delete":
            if run is not None:
                jobs.remove(step, run)
                jobs.stop(step, run, body["user"], body.get("grace"))
        case "schedule-start":
            schedules.start(step, body["schedule"], body["user"], message.entry_id)
        case "schedule-stop":
            schedules.stop(step, body["name"], body["user"])
        case kind if kind.startswith("node-"):
            _node_ticket(step, kind, body)
        case unknown:
            step.event("ticket-refused", f"unknown kind of ticket: {unknown}")


def _node_ticket(step: Step, kind: str, body: dict[str, Any]) -> None:
    if kind == "node-join":
        membership.join(step, body)
        return
    node, user = step.cluster.nodes.get(body["node"]), body["user"]
    if node is None:
        step.event("ticket-refused", f"{kind}: there is no node {body['node']}", user)
        return
    match kind:
        case "node-cordon":
            membership.cordon(step, node, user)
        case "node-uncordon":
            membership.uncordon(step, node, user)
        case "node-drain":
            membership.drain(step, node, user, body.get("deadline"))
        case "node-remove":
            membership.remove(step, node, user, bool(body.get("force")))


def _report(step: Step, message: Message) -> None:
    node = step.cluster.nodes.get(message.node)
    if message.node in step.cluster.left:
        return
    if node is None:
        node = step.cluster.nodes[message.node] = NodeRun(message.node)
    match message.kind:
        case "hello":
            nodes.on_hello(step, node, message.body)
        case "heartbeat":
            nodes.on_heartbeat(step, node, message.body)
        case "tasks":
            nodes.heard(step, node)
            tasks.on_events(step, node, timely(message.body["events"], message.ahead))


def _due(step: Step, item: Item) -> None:
    kind, name, component, index = item
    run = step.cluster.jobs.get(name)
    match kind:
        case "restart":
            if run is not None and not run.state.ended:
                tasks.restart_due(step, run, run.components[component], index)
        case "deadline":
            if run is not None and run.deadline is not None:
                _deadline(step, run)
        case "schedule":
            schedules.due(step, name)
        case "drain":
            if name in step.cluster.nodes:
                membership.deadline(step, step.cluster.nodes[name])
        case "plan":
            step.changes.plan = True
        case "reword":
            step.cluster.board.afterthought = False
            step.changes.plan = True
        case _:
            _regularly(step, kind)


def _regularly(step: Step, kind: Kind) -> None:
    match kind:
        case "refill":
            pass  # every round does
        case "nodes":
            nodes.watch(step)
            step.agenda.add(step.now + 1.0, kind)
        case "housekeeping":
            _expire(step)
            step.agenda.add(step.now + step.limits.check_interval, kind)
        case "usage":
            fairness.tick(step)
            step.agenda.add(step.now + fairness.INTERVAL, kind)


def _deadline(step: Step, run: JobRun) -> None:
    message = f"its time limit of {run.job.timeout:g} s is over"
    jobs.finish(step, run, JobState.FAILED, Reason(ReasonCode.TIMEOUT, message), 124)


def _expire(step: Step) -> None:
    """Retention: the newest ``keep_jobs`` ended jobs, for ``keep_days`` each."""
    ended = [run for run in step.cluster.jobs.values() if run.state.ended]
    surplus = len(ended) - step.limits.keep_jobs
    oldest_first = sorted(ended, key=lambda run: run.view["ended"] or 0.0)
    for position, run in enumerate(oldest_first):
        if position < surplus or step.wall - (run.view["ended"] or step.wall) > step.limits.keep_days * 86400:
            jobs.remove(step, run)
