"""What the store says in the types of ``grass.wire``, as the plain dicts that the agent works with, and back.

To be removed when the agent works with the types.
"""

from __future__ import annotations

from typing import Any

from grass.model.job import container_to_wire, ready_to_wire
from grass.store.node_store import Desired
from grass.wire.desired import DesiredAttempt, DesiredChange
from grass.wire.launch import LaunchTemplate
from grass.wire.reports import REPORT, Report

Body = dict[str, Any]


def desired_view(desired: Desired) -> Desired:
    entries = {key: _entry(attempt) for key, attempt in desired.entries.items()}
    launch = {key: template_view(template) for key, template in desired.launch.items()}
    return Desired(entries, launch, desired.addresses, desired.cursor)  # type: ignore[arg-type]


def change_view(change: DesiredChange) -> Body:
    return {
        "launch": {key: template_view(template) for key, template in change.launch.items()},
        "set": {key: _entry(attempt) for key, attempt in change.set.items()},
        "remove": list(change.remove),
        "drop": list(change.drop),
        "addresses": change.addresses,
    }


def typed(kind: str, body: Body) -> Report:
    return REPORT.convert({"kind": kind, **body})


def _entry(attempt: DesiredAttempt) -> Body:
    stop = None if attempt.stop_grace is None else {"grace": attempt.stop_grace}
    return {"seq": attempt.seq, "ports": attempt.ports, "gpus": attempt.gpus, "stop": stop}


def template_view(template: LaunchTemplate) -> Body:
    return {
        "job_id": template.job_id,
        "job": template.job,
        "component": template.component,
        "replicas": template.replicas,
        "command": template.command if isinstance(template.command, str) else list(template.command),
        "env": template.env,
        "cwd": template.cwd,
        "base": template.base,
        "ready": None if template.ready is None else ready_to_wire(template.ready),
        "grace": template.grace,
        "timeout": template.timeout,
        "width": template.width,
        "framework": template.framework,
        "runtime": template.runtime,
        "image": template.image,
        "limits": {"cpu": template.cpu, "memory": template.memory},
        "container": container_to_wire(template.container),
        "matrix": {name: list(values) for name, values in template.matrix.items()},
    }
