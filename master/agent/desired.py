"""The change of one node's desired state that a round collects, and the values in it. Pure.

``NodeChange`` is the mutable form; ``grass.wire.desired.DesiredChange`` is what the node reads. Used by this package.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from grass.wire.desired import DesiredAttempt, DesiredChange
from grass.wire.keys import LaunchKey
from grass.wire.launch import LaunchTemplate
from grass.wire.membership import Membership
from grass.wire.task_record import TaskRecord
from master.agent.component_run import ComponentRun
from master.agent.state import JobRun


@dataclass
class NodeChange:
    """Collected during a round; ``wire`` returns the result. Attempt keys are text, as the node reads them."""

    launch: dict[LaunchKey, LaunchTemplate] = field(default_factory=dict)
    set: dict[str, DesiredAttempt] = field(default_factory=dict)
    remove: dict[str, None] = field(default_factory=dict)
    drop: dict[LaunchKey, None] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    membership: dict[LaunchKey, Membership] = field(default_factory=dict)
    let_go: dict[str, None] = field(default_factory=dict)

    def put(self, key: str, attempt: DesiredAttempt) -> None:
        """Add or replace a desired attempt."""
        self.remove.pop(key, None)
        self.set[key] = attempt

    def remove_attempt(self, key: str) -> None:
        """Remove a desired attempt."""
        self.set.pop(key, None)
        self.remove[key] = None

    def put_launch(self, key: LaunchKey, template: LaunchTemplate) -> None:
        """Add or replace a launch template, also one that was dropped in this round."""
        self.drop.pop(key, None)
        self.launch[key] = template

    def drop_launch(self, key: LaunchKey) -> None:
        """Have the node drop a launch template, its membership and its addresses file."""
        self.launch.pop(key, None)
        self.membership.pop(key, None)
        self.drop[key] = None

    def let_go_of(self, key: str) -> None:
        """Have the node keep nothing of the task of an attempt any more."""
        self.let_go[key.rpartition("/")[0]] = None

    def wire(self) -> DesiredChange:
        """Return the change as the node reads it."""
        return DesiredChange(
            launch={str(key): template for key, template in self.launch.items()},
            set=self.set,
            remove=tuple(self.remove),
            drop=tuple(map(str, self.drop)),
            let_go=tuple(self.let_go),
            addresses=self.addresses,
            membership={str(key): membership for key, membership in self.membership.items()},
        )

    def __bool__(self) -> bool:
        return bool(
            self.launch or self.set or self.remove or self.drop or self.let_go or self.addresses or self.membership
        )


def desired_attempt(task: TaskRecord, grace: float | None, notice: str = "") -> DesiredAttempt:
    """Return the task's current attempt. ``grace``: stop it, with this many seconds of grace; None: let it run.
    ``notice``: why it is stopped, if it is told before."""
    return DesiredAttempt(task.seq, task.ports, task.gpus, grace, notice)


def launch_template(
    run: JobRun, component: ComponentRun, width: int, secret: str, gang_tasks: int = 0
) -> LaunchTemplate:
    """Return what a node needs to start tasks of the component, at most ``width`` of them at once. ``secret``: of the
    job's tasks. ``gang_tasks``: how many tasks of its gang are on the node."""
    return LaunchTemplate(
        job_id=run.id,
        job=run.name,
        component=component.spec,
        size=component.size,
        width=width,
        awaited=run.awaited,
        user=run.user,
        read_only_data=run.job.read_only_data,
        secret=secret,
        gang=component.spec.name in run.job.gang,
        gang_tasks=gang_tasks,
        alone=len(run.components) == 1 and component.size == 1 and not component.spec.elastic,
    )
