"""The records of jobs and nodes, made from the memory whenever they are written. The only code that makes them."""

from __future__ import annotations

from grass.model.lifecycle import TaskState
from grass.wire.job_record import ComponentRecord, CurrentOperation, JobRecord
from grass.wire.node_record import DrainRecord, NodeRecord
from master.agent.node_run import NodeRun
from master.agent.state import JobRun


def job_record(run: JobRun) -> JobRecord:
    """Return the record of a job. Must not be called for a summarised job, whose stored record says more."""
    totals: dict[TaskState, int] = {}
    components: dict[str, ComponentRecord] = {}
    for name, component in run.components.items():
        counts = {state: count for state, count in component.counts.items() if count}
        for state, count in counts.items():
            totals[state] = totals.get(state, 0) + count
        components[name] = ComponentRecord(
            component.size,
            counts,
            component.reason,
            component.generation,
            tuple(sorted(component.holes)),
            tuple(sorted(component.joining)),
            component.slots,
            component.ran,
            component.typical,
            component.placed,
        )
    return JobRecord(
        id=run.id,
        name=run.name,
        user=run.user,
        state=run.state,
        reason=run.reason,
        submitted=run.submitted,
        started=run.started,
        ended=run.ended,
        exit_code=run.exit_code,
        counts=totals,
        components=components,
        restarts=run.restarts,
        schedule=run.schedule,
        warnings=run.warnings,
        outcome=run.outcome,
        deadline=run.deadline,
        usage=run.usage,
        met=tuple(sorted(run.met)),
        dialect=run.job.dialect,
        tries=run.tries,
        not_before=run.not_before,
        last_deadline=run.last_deadline,
        expires=run.expires,
        logs_until=run.logs_until,
        awaited=run.awaited,
        priority=run.job.priority,
        held=run.held,
        starts=run.starts,
        rerun_of=run.rerun_of,
        delete=run.delete,
        whole=run.whole,
        undone=run.undone,
        tags=run.job.tags,
        operations=run.filed,
        operation=_current(run),
    )


def _current(run: JobRun) -> CurrentOperation | None:
    for each in run.operations.values() if run.operations else ():
        if each.unfinished and not each.repairs:
            return CurrentOperation(each.id, each.kind, each.component, each.state, each.message)
    return None


def node_record(node: NodeRun) -> NodeRecord:
    """Return the record of a node."""
    drain = node.drain
    return NodeRecord(
        name=node.name,
        state=node.state,
        reason=node.reason,
        address=node.address,
        resources=node.total,
        free=node.free,
        tasks=node.live,
        usage=node.usage,
        version=node.version,
        api_port=node.api_port,
        gpus=node.gpus,
        boot=node.boot,
        seen=node.seen_wall,
        labels=node.labels,
        path=node.path,
        path_note=node.path_note,
        runtimes=node.runtimes,
        default_image=node.default_image,
        programs=node.programs,
        versions=node.versions,
        machines=node.machines,
        digest=node.digest,
        cordoned=node.cordoned,
        unfit=node.unfit,
        conditions=node.conditions,
        forgiven=node.forgiven,
        quarantine={number: device.quarantine for number, device in sorted(node.devices.items()) if device.quarantine},
        check=node.check,
        condemned=node.condemned,
        bad_devices=node.bad_devices,
        speed=node.speed,
        drain=None if drain is None else DrainRecord(drain.user, drain.deadline, drain.remove, drain.address),
    )
