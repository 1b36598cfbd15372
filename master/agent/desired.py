"""The change of one node's desired state that a round collects, and the values in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from grass.wire.desired import DesiredAttempt, DesiredChange
from grass.wire.keys import LaunchKey
from grass.wire.launch import LaunchTemplate
from grass.wire.task_record import TaskRecord
from master.agent.state import ComponentRun, JobRun


@dataclass
class NodeChange:
    """Mutable until the round is written (``wire``). Keys of attempts are text, as the node gets them."""

    launch: dict[LaunchKey, LaunchTemplate] = field(default_factory=dict)
    set: dict[str, DesiredAttempt] = field(default_factory=dict)
    remove: dict[str, None] = field(default_factory=dict)
    drop: dict[LaunchKey, None] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def put(self, key: str, attempt: DesiredAttempt) -> None:
        self.remove.pop(key, None)
        self.set[key] = attempt

    def take(self, key: str) -> None:
        self.set.pop(key, None)
        self.remove[key] = None

    def drop_launch(self, key: LaunchKey) -> None:
        self.launch.pop(key, None)
        self.drop[key] = None

    def wire(self) -> DesiredChange:
        return DesiredChange(
            {str(key): template for key, template in self.launch.items()},
            self.set,
            tuple(self.remove),
            tuple(map(str, self.drop)),
            self.addresses,
        )

    def __bool__(self) -> bool:
        return bool(self.launch or self.set or self.remove or self.drop or self.addresses)


def desired_attempt(task: TaskRecord, grace: float | None) -> DesiredAttempt:
    """``grace`` set: it is to be stopped."""
    return DesiredAttempt(task.seq, task.ports, task.gpus, grace)


def launch_template(run: JobRun, component: ComponentRun, width: int) -> LaunchTemplate:
    spec = component.spec
    return LaunchTemplate(
        job_id=run.id,
        job=run.name,
        component=spec.name,
        replicas=component.size,
        command=spec.command,
        env=spec.env,
        cwd=spec.cwd,
        base=spec.base,
        ready=spec.ready,
        grace=spec.grace,
        timeout=spec.timeout,
        width=width,
        framework=spec.framework,
        runtime=spec.runtime,
        image=spec.image,
        cpu=spec.resources.cpu,
        memory=spec.resources.memory,
        container=spec.container,
        matrix=spec.matrix,
    )
