"""What a task gets for its membership and its framework: environment, files, command. Called by the node-agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from grass.api.task_token import task_token
from grass.config import ClusterConfig
from grass.frameworks import arguments
from grass.frameworks.registry import render
from grass.frameworks.seat import Rendered, Seat, library_folder
from grass.model.framework import FrameworkName
from grass.wire.desired import DesiredAttempt
from grass.wire.keys import AttemptKey
from grass.wire.launch import LaunchTemplate
from grass.wire.membership import Membership
from node.membership.paths import api_socket, job_folder, membership_file
from node.runtime.attempts import Folders

ARGUMENTS = (FrameworkName.MARS,)
"""Frameworks that add arguments to the command."""
PROGRAM_FOLDER = "/usr/local/bin"
"""Where containers find Grass's programs: first on the PATH of nearly every image."""
_JOINED = ("PYTHONPATH",)
"""Variables to which the task's own value is appended."""


class Additions(NamedTuple):
    """What is added to a task's environment and command.

    ``env``: of the attempt. ``programs``: (file on this node, path in a container).
    """

    env: dict[str, str]
    programs: tuple[tuple[str, str], ...] = ()


NOTHING = Additions({})


def command(template: LaunchTemplate) -> str | tuple[str, ...]:
    """Return the command of a component, which takes the arguments of its framework."""
    framework = template.framework
    return arguments.with_arguments(template.command) if framework and framework.name in ARGUMENTS else template.command


def launch_environment(config: ClusterConfig, template: LaunchTemplate) -> dict[str, str]:
    """Return what all attempts of a component get for their membership."""
    if not template.secret:
        return {}
    return {
        "GRASS_API": api_socket(config),
        "GRASS_MEMBERSHIP": membership_file(config, template.job_id, template.component),
    }


def seat(
    config: ClusterConfig,
    key: AttemptKey,
    template: LaunchTemplate,
    entry: DesiredAttempt,
    memberships: Mapping[str, Membership],
    *,
    contained: bool = False,
) -> Seat:
    """Return the attempt as renderers see it. ``template`` has a framework. Files do not depend on ``contained``."""
    assert template.framework is not None
    return Seat(
        job=template.job,
        job_id=template.job_id,
        component=template.component,
        index=key.index,
        attempt=key.attempt,
        address=config.node.address,
        framework=template.framework,
        folder=str(job_folder(config, template.job_id)),
        scratch=Folders(str(config.node_dir / "attempts")).scratch(str(key)),
        memberships=memberships,
        ports=entry.ports,
        gpus=len(entry.gpus),
        cpu=template.cpu,
        memory=template.memory,
        contained=contained,
        own_network=contained and template.container.network != "host",
    )


def additions(
    config: ClusterConfig,
    key: str,
    template: LaunchTemplate,
    entry: DesiredAttempt,
    memberships: Mapping[str, Membership],
    base: Mapping[str, str],
    *,
    host_view: bool,
) -> Additions:
    """Return what the attempt gets besides the plain environment. Raises InputError: its framework cannot render it.

    ``base``: variables of the node-agent that a process inherits. ``host_view``: as of a ``RuntimeKind``.
    """
    if not template.secret:
        return NOTHING
    env = {"GRASS_TOKEN": task_token(template.secret, key)}
    if template.framework is None or template.framework.name is FrameworkName.NONE:
        return Additions(env)
    found = seat(config, AttemptKey.parse(key), template, entry, memberships, contained=not host_view)
    made, own = render(found), {**base, **template.env} if host_view else template.env
    library = library_folder(found.folder)
    env.update({name: value for name, value in made.env.items() if name not in template.env}, GRASS_LIBRARY=library)
    for name in _JOINED:
        if name in made.env:
            env[name] = ":".join(filter(None, (made.env[name], own.get(name, ""))))
    if made.arguments:
        env[arguments.VARIABLE] = arguments.text(made.arguments)
    return Additions(env, ()) if not made.programs else _with_programs(env, made, library, own, host_view)


def _with_programs(
    env: dict[str, str], made: Rendered, library: str, own: Mapping[str, str], host_view: bool
) -> Additions:
    if host_view:
        return Additions({**env, "PATH": ":".join(filter(None, (f"{library}/bin", own.get("PATH", ""))))})
    return Additions(env, tuple((f"{library}/bin/{name}", f"{PROGRAM_FOLDER}/{name}") for name in made.programs))
