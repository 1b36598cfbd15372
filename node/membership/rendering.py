"""What a task gets for its membership and its framework: environment, files, command. Called by the node-agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from grass.api.task_token import task_token
from grass.frameworks import arguments
from grass.frameworks.registry import render
from grass.frameworks.seat import Rendered, Seat, library_folder
from grass.model.framework import FrameworkName
from grass.model.job import runtime_of
from grass.node_config import NodeHome
from grass.wire.desired import DesiredAttempt
from grass.wire.keys import AttemptKey
from grass.wire.launch import LaunchTemplate
from grass.wire.membership import Membership
from node.membership.paths import api_socket, events_file, job_folder, membership_file
from node.runtime.attempts import Folders

PROGRAM_FOLDER = "/usr/local/bin"
"""Where containers find Grass's programs: first on the PATH of nearly every image."""
JOINED = ("PYTHONPATH",)
"""Variables to which the task's own value is appended."""


class Additions(NamedTuple):
    """What is added to a task's environment and command.

    ``env``: of the attempt. ``programs``: (file on this node, path in a container). ``late`` and ``awaits``: as those
    of a ``Start``.
    """

    env: dict[str, str]
    programs: tuple[tuple[str, str], ...] = ()
    late: Mapping[str, str] = {}
    awaits: str = ""


NOTHING = Additions({})


def command(template: LaunchTemplate) -> str | tuple[str, ...]:
    """Return the command of a component, which takes the arguments of its framework."""
    framework, plain = template.component.framework, template.component.command
    return arguments.with_arguments(plain) if framework and framework.kind.arguments else plain


def launch_environment(config: NodeHome, template: LaunchTemplate) -> dict[str, str]:
    """Return what all attempts of a component get for their membership."""
    if not template.secret:
        return {}
    return {
        "GRASS_API": api_socket(config),
        "GRASS_MEMBERSHIP": membership_file(config, template.job_id, template.component.name),
    }


def seat(
    config: NodeHome,
    key: AttemptKey,
    template: LaunchTemplate,
    entry: DesiredAttempt,
    memberships: Mapping[str, Membership],
    *,
    contained: bool = False,
) -> Seat:
    """Return the attempt as renderers see it. Its component has a framework. Files do not depend on ``contained``."""
    component = template.component
    assert component.framework is not None
    return Seat(
        job=template.job,
        job_id=template.job_id,
        component=component.name,
        index=key.index,
        attempt=key.attempt,
        address=config.node.address,
        framework=component.framework,
        folder=str(job_folder(config, template.job_id)),
        scratch=Folders(str(config.node_dir / "attempts")).scratch(str(key)),
        memberships=memberships,
        ports=entry.ports,
        gpus=len(entry.gpus),
        cpu=component.resources.cpu,
        memory=component.resources.memory,
        contained=contained,
        own_network=contained and component.container.network != "host",
    )


def additions(
    config: NodeHome,
    key: str,
    template: LaunchTemplate,
    entry: DesiredAttempt,
    memberships: Mapping[str, Membership],
    base: Mapping[str, str],
) -> Additions:
    """Return what the attempt gets besides the plain environment. Raises InputError: its framework cannot render it.

    ``base``: variables of the node-agent that a process inherits.
    """
    if not template.secret:
        return NOTHING
    env = {"GRASS_TOKEN": task_token(template.secret, key)}
    component = template.component
    if component.notice is not None:
        env["GRASS_EVENTS"] = events_file(config, AttemptKey.parse(key))
    if component.framework is None or component.framework.name is FrameworkName.NONE:
        return Additions(env)
    contained = runtime_of(component, config.node.runtimes).contained
    found = seat(config, AttemptKey.parse(key), template, entry, memberships, contained=contained)
    made, own = render(found), component.env if contained else {**base, **component.env}
    library = library_folder(found.folder)
    env.update({name: value for name, value in made.env.items() if name not in component.env}, GRASS_LIBRARY=library)
    for name in JOINED:
        if name in made.env:
            env[name] = ":".join(filter(None, (made.env[name], own.get(name, ""))))
    if made.arguments:
        env[arguments.VARIABLE] = arguments.text(made.arguments)
    return Additions(env, ()) if not made.programs else _with_programs(env, made, library, own, contained)


def _with_programs(
    env: dict[str, str], made: Rendered, library: str, own: Mapping[str, str], contained: bool
) -> Additions:
    folder = f"{library}/{made.program_folder}"
    if not contained:
        return Additions({**env, "PATH": ":".join(filter(None, (folder, own.get("PATH", ""))))})
    return Additions(env, tuple((f"{folder}/{name}", f"{PROGRAM_FOLDER}/{name}") for name in made.programs))
