"""Writes a job as a native document. ``parse_job`` of the document returns an equal job (a property test). Pure.

Used by ``grass apply --dry-run`` and ``grass export``. What has its default is left out. The folder of the file and the
variables of the submitting shell are not a part of a document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grass.manifest.dlrover import without_master
from grass.manifest.document import Document
from grass.model.amounts import SIZES, SPANS, show_whole
from grass.model.autoscale import Autoscale
from grass.model.ending import PLAIN_ENDING, Enough
from grass.model.framework import Framework
from grass.model.job import (
    DEFAULT_GRACE,
    DEFAULT_METRIC,
    DEFAULT_OUTPUT_LIMIT,
    DEFAULT_RESOURCES,
    NO_RESTART,
    NODE_LEVEL,
    PLAIN_CONTAINER,
    After,
    Component,
    Container,
    ExitCodes,
    Job,
    Notice,
    Policy,
    Ready,
    Restart,
    StopSignal,
)
from grass.model.notify import OnHang


def job_document(job: Job) -> Document:
    """Return the document of a job."""
    document: Document = {"name": job.name}
    document |= _given(
        success=_success(job),
        timeout=_time(job.timeout),
        **_ending(job),
        priority=job.priority or None,
        preemptible=job.preemptible or None,
        data="ro" if job.read_only_data else None,
        gang=_gang(job),
        place=_place(job),
        together=_level(job.together),
        after=[_after(each) for each in job.after],
        tags=dict(job.tags),
        on_end=_on_end(job),
        on_hang=None if job.on_hang is OnHang.NOTIFY else job.on_hang.value,
    )
    if job.fail_fast is not (len(job.components) > 1 and job.ending.max_failures is None):
        document["fail_fast"] = job.fail_fast
    document["components"] = {name: component_document(part) for name, part in without_master(job).items()}
    return document


def _after(after: After) -> Document:
    return {"job": after.job, **({"tasks": "same"} if after.same_tasks else {"state": after.state.value})}


def _on_end(job: Job) -> Document | None:
    on_end = job.on_end
    if on_end is None:
        return None
    command = list(on_end.command) if isinstance(on_end.command, tuple) else on_end.command
    states = [state.value for state in on_end.states] or None
    return _given(webhook=on_end.webhook, secret=on_end.secret, command=command, states=states)


def component_document(part: Component) -> Document:
    """Return the part of a document that describes one component."""
    document: Document = {"command": list(part.command) if isinstance(part.command, tuple) else part.command}
    if part.entries or part.columns:
        columns = {name: list(values) for name, values in part.columns.items()}
        document["from"] = _given(entries=list(part.entries), columns=columns)
    elif not part.matrix and part.replicas != 1:
        document["replicas"] = part.replicas
    document |= _given(
        matrix={name: list(values) for name, values in part.matrix.items()},
        min=part.min,
        max=part.max,
        unit=part.unit if part.unit != 1 else None,
        autoscale=_autoscale(part.autoscale),
        parallelism=part.parallelism,
        resources=_resources(part),
        ports=list(part.ports),
        web=part.web,
        depends_on={name: condition.value for name, condition in part.depends_on.items()},
        ready=_ready(part.ready),
        env=dict(part.env),
        cwd=part.cwd,
        restart=_restart(part.restart),
        exit_codes=None if part.exit_codes is ExitCodes.SPECIAL else part.exit_codes.value,
        stop_signal=None if part.stop_signal is StopSignal.TERM else part.stop_signal.value,
        notice=_notice(part.notice),
        check={"before": part.check} if part.check else None if part.check is None else "before",
        replace=None if part.replace is None else part.replace.value,
        keep=None if part.keep is None else part.keep.value,
        timeout=_time(part.timeout),
        where={label: list(values) for label, values in part.where.items()},
        avoid=list(part.avoid),
        spread=_level(part.spread),
        pack=_level(part.pack),
        runtime=None if part.runtime is None else part.runtime.value,
        image=part.image,
        container=_container(part.container),
        framework=_framework(part.framework),
    )
    if part.grace != DEFAULT_GRACE:
        document["grace"] = _time(part.grace)
    limit = None if part.output_limit == DEFAULT_OUTPUT_LIMIT else _size(part.output_limit)
    return document | _given(output=_given(limit=limit, file=part.output_file))


def _given(**fields: Any) -> Document:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None and value != [] and value != {}}


def _size(amount: int | None) -> str | int | None:
    """Return bytes as the reader takes them; None for none."""
    return show_whole(amount or 0, SIZES) or amount or None


def _time(seconds: float | None) -> str | float | None:
    """Return seconds as the reader takes them."""
    return show_whole(seconds or 0, SPANS) or seconds


def _success(job: Job) -> list[str] | Mapping[str, str] | None:
    if job.ending.enough:
        return {name: job.ending.enough.get(name, Enough.ALL).value for name in job.success}
    return None if job.success == tuple(job.components) else list(job.success)


def _ending(job: Job) -> Document:
    ending = job.ending
    restart = (
        {"limit": ending.restart.limit, "backoff": _time(ending.restart.backoff)} if ending.restart.limit else None
    )
    clean = None if ending.clean is PLAIN_ENDING.clean else ending.clean.value
    return {
        "clean": clean,
        "ttl": _time(ending.ttl),
        "deadline": _time(ending.deadline),
        "restart": restart,
        "max_failures": ending.max_failures,
    }


def _gang(job: Job) -> bool | list[str] | None:
    if not job.gang:
        return None
    return True if job.gang == tuple(job.components) else list(job.gang)


def _place(job: Job) -> str | Document | None:
    if job.policy is Policy.BEST_FIT:
        return None
    return {"policy": job.policy.value, "metric": job.metric or DEFAULT_METRIC}


def _level(level: int | None) -> str | int | None:
    return "node" if level == NODE_LEVEL else level


def _resources(part: Component) -> Document | None:
    amounts = part.resources
    if amounts == DEFAULT_RESOURCES and not (part.gpu.model or part.gpu.memory):
        return None
    found: Document = {"cpu": amounts.cpu / 1000}
    gpu: Any = amounts.gpu / 1000 if amounts.gpu % 1000 else amounts.gpu // 1000
    if part.gpu.model or part.gpu.memory:
        gpu = {"count": gpu, **_given(model=part.gpu.model, memory=_size(part.gpu.memory))}
    return found | _given(
        memory=_size(amounts.memory), disk=_size(amounts.disk), gpu=gpu or None, custom=dict(amounts.custom)
    )


def _ready(ready: Ready | None) -> Document | None:
    if ready is None:
        return None
    command = list(ready.command) if isinstance(ready.command, tuple) else ready.command
    return _given(port=ready.port, command=command, log=ready.log, timeout=_time(ready.timeout))


def _autoscale(autoscale: Autoscale | None) -> Document | None:
    if autoscale is None:
        return None
    return {"policy": autoscale.policy.value, "cooldown": _time(autoscale.cooldown), "gain": autoscale.gain}


def _notice(notice: Notice | None) -> Document | None:
    if notice is None:
        return None
    command = list(notice.command) if isinstance(notice.command, tuple) else notice.command
    signal = notice.signal and notice.signal.value
    return {"for": _time(notice.seconds), **_given(signal=signal, command=command)}


def _restart(restart: Restart) -> str | Document | None:
    if restart == NO_RESTART:
        return None
    found: Document = {"policy": restart.policy.value, "limit": _limit(restart), "backoff": _time(restart.backoff)}
    return {**found, **_given(codes=list(restart.codes), memory=_size(restart.memory))}


def _limit(restart: Restart) -> int | str:
    return "unlimited" if restart.limit is None else restart.limit


def _container(container: Container) -> Document | None:
    if container == PLAIN_CONTAINER:
        return None
    found = _given(
        user=container.user,
        shm=_size(container.shm),
        network=None if container.network == PLAIN_CONTAINER.network else container.network,
        ulimits=dict(container.ulimits),
        mounts=[
            {"source": mount.source, "target": mount.target, "read_only": mount.read_only, "shared": mount.shared}
            for mount in container.mounts
        ],
        data=container.data,
    )
    return found if container.entrypoint is None else {"entrypoint": list(container.entrypoint), **found}


def _framework(framework: Framework | None) -> str | Document | None:
    if framework is None:
        return None
    options = {name: list(value) if isinstance(value, tuple) else value for name, value in framework.options.items()}
    return {"name": framework.name.value, **options} if options else framework.name.value
