"""What a user asks for: a job, its components and their policies. Frozen; made by ``grass.manifest``.

``to_wire``/``from_wire`` are the form in redis and in API requests (plain JSON values).
Durations are seconds, sizes bytes, cpu thousandths of a core.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from grass.model.resources import Resources

EXIT_DO_NOT_RESTART = 64
EXIT_STOP_JOB = 65
DEFAULT_GRACE = 10.0
DEFAULT_TASK_CPU = 1000
DEFAULT_RESOURCES = Resources(cpu=DEFAULT_TASK_CPU)
"""A task that says nothing takes one core and no particular memory: a laptop is then never overrun by default."""


class Condition(str, Enum):
    """How far a component must be before one that depends on it may start."""

    RUNNING = "running"
    READY = "ready"
    SUCCEEDED = "succeeded"


class RestartOn(str, Enum):
    NEVER = "never"
    ON_FAILURE = "on-failure"
    ALWAYS = "always"


@dataclass(frozen=True)
class Restart:
    """``limit`` restarts per task (None: no limit); the wait before them doubles from ``backoff``, up to one minute."""

    policy: RestartOn = RestartOn.NEVER
    limit: int | None = 3
    backoff: float = 1.0


NO_RESTART = Restart()


@dataclass(frozen=True)
class Ready:
    """One readiness check; exactly one of the three is set. ``timeout`` in seconds from the start of the attempt."""

    port: str | None = None
    command: tuple[str, ...] | str | None = None
    log: str | None = None
    timeout: float | None = None


@dataclass(frozen=True)
class Component:
    """``command``: a string is run by /bin/sh, a tuple is an argv. ``parallelism``: most tasks at once (None: all)."""

    name: str
    command: str | tuple[str, ...]
    replicas: int = 1
    resources: Resources = DEFAULT_RESOURCES
    ports: tuple[str, ...] = ()
    depends_on: dict[str, Condition] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    restart: Restart = NO_RESTART
    ready: Ready | None = None
    grace: float = DEFAULT_GRACE
    timeout: float | None = None
    parallelism: int | None = None
    image: str | None = None
    framework: str | None = None


@dataclass(frozen=True)
class Job:
    """``success``: the components that must succeed; the others are stopped once those have.

    ``fail_fast``: the first task that fails for good ends the job; otherwise the rest goes on and the job fails when
    it is done.
    """

    name: str
    components: dict[str, Component]
    success: tuple[str, ...]
    timeout: float | None = None
    fail_fast: bool = True
    priority: int = 0
    tags: dict[str, str] = field(default_factory=dict)
    dialect: str = "native"

    @property
    def task_count(self) -> int:
        return sum(component.replicas for component in self.components.values())

    def to_wire(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "components": {name: _component_to_wire(component) for name, component in self.components.items()},
            "success": list(self.success),
            "timeout": self.timeout,
            "fail_fast": self.fail_fast,
            "priority": self.priority,
            "tags": self.tags,
            "dialect": self.dialect,
        }

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> Job:
        return cls(
            name=wire["name"],
            components={name: _component_from_wire(name, part) for name, part in wire["components"].items()},
            success=tuple(wire["success"]),
            timeout=wire["timeout"],
            fail_fast=wire["fail_fast"],
            priority=wire["priority"],
            tags=wire["tags"],
            dialect=wire["dialect"],
        )


def _component_to_wire(component: Component) -> dict[str, Any]:
    ready = component.ready
    return {
        "command": _command_to_wire(component.command),
        "replicas": component.replicas,
        "resources": component.resources.to_wire(),
        "ports": list(component.ports),
        "depends_on": {name: condition.value for name, condition in component.depends_on.items()},
        "env": component.env,
        "cwd": component.cwd,
        "restart": {
            "policy": component.restart.policy.value,
            "limit": component.restart.limit,
            "backoff": component.restart.backoff,
        },
        "ready": None if ready is None else ready_to_wire(ready),
        "grace": component.grace,
        "timeout": component.timeout,
        "parallelism": component.parallelism,
        "image": component.image,
        "framework": component.framework,
    }


def ready_to_wire(ready: Ready) -> dict[str, Any]:
    command = None if ready.command is None else _command_to_wire(ready.command)
    return {"port": ready.port, "command": command, "log": ready.log, "timeout": ready.timeout}


def ready_from_wire(wire: dict[str, Any]) -> Ready:
    command = None if wire["command"] is None else _command_from_wire(wire["command"])
    return Ready(wire["port"], command, wire["log"], wire["timeout"])


def _component_from_wire(name: str, wire: dict[str, Any]) -> Component:
    restart = wire["restart"]
    return Component(
        name=name,
        command=_command_from_wire(wire["command"]),
        replicas=wire["replicas"],
        resources=Resources.from_wire(wire["resources"]),
        ports=tuple(wire["ports"]),
        depends_on={other: Condition(value) for other, value in wire["depends_on"].items()},
        env=wire["env"],
        cwd=wire["cwd"],
        restart=Restart(RestartOn(restart["policy"]), restart["limit"], restart["backoff"]),
        ready=None if wire["ready"] is None else ready_from_wire(wire["ready"]),
        grace=wire["grace"],
        timeout=wire["timeout"],
        parallelism=wire["parallelism"],
        image=wire["image"],
        framework=wire["framework"],
    )


def _command_to_wire(command: str | tuple[str, ...]) -> str | list[str]:
    return command if isinstance(command, str) else list(command)


def _command_from_wire(wire: str | list[str]) -> str | tuple[str, ...]:
    return wire if isinstance(wire, str) else tuple(wire)
