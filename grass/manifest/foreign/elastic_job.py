"""Reads DLRover's ElasticJob: its workers become one component.

With the strategy all-reduce, a command that starts ``dlrover-run`` stays, with a master of Grass (``framework:
dlrover``). With another strategy, it starts ``torchrun`` here, with Grass as the rendezvous: the options that only
DLRover knows are left out. Parameter servers are read by ``parameter_servers``. Used by ``dialects``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.foreign import parameter_servers
from grass.manifest.foreign.metadata import Metadata
from grass.manifest.foreign.notes import Notes
from grass.manifest.foreign.replica import Replica, RestartPolicy, component_of, read_replica, restart_of
from grass.manifest.native import MAX_REPLICAS, UNKNOWN_COMMAND
from grass.model.framework import DLROVER_MASTER, Framework, FrameworkName
from grass.model.job import Component, Job
from grass.model.program import is_shell

DIALECT = "ElasticJob"
VERSIONS = ("elastic.iml.github.io/v1alpha1",)
COMPONENT = "worker"
NAME = "dlrover-run"
IGNORED: Mapping[str, str] = MappingProxyType(
    {
        "optimizeMode": "ignored; Grass changes no resources by itself; change the size with `grass job scale`",
        "brainService": "ignored; Grass changes no resources by itself; change the size with `grass job scale`",
        "resourceLimits": "ignored; a quota of the user limits what jobs may have",
        "enableElasticScheduling": "ignored; the bounds of the size are those of --nnodes",
        "enableDynamicSharding": "ignored; the master of `framework: dlrover` gives data to whoever asks for it",
    }
)
FLAGS = frozenset(
    {"network-check", "comm-perf-test", "exclude-straggler", "auto-config", "auto-tunning", "save-at-breakpoint"}
    | {"numa-affinity", "standalone"}
)
"""Options without a value that are left out: of ``dlrover-run`` only, or about the rendezvous."""
VALUES = frozenset(
    {"node-unit", "accelerator", "training-port", "membind-policy", "ucp-device-type", "precheck"}
    | {"nnodes", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf"}
)
"""The same with a value."""
_TORCHRUN_FLAGS = frozenset({"no-python", "module", "run-path"})
_PROGRAM = re.compile(r"(?:[\w./-]*/)?dlrover-run(?=\s|$)|\bpython3? -m dlrover\.trainer\.torch\.main(?=\s|$)")
_OPTION = re.compile(r"\s+--([a-z][a-z0-9_-]*)(?:=(\S+))?")
_VALUE = re.compile(r"\s+((?!-)\S+)(?=\s)")
"""The value that follows an option, unless another option follows, or nothing after it that could be the program."""
_SIZES = re.compile(r"([0-9]{1,6})(?::([0-9]{1,6}))?")


class _Strategy(str, Enum):
    NONE = ""
    ALL_REDUCE = "AllreduceStrategy"
    PARAMETER_SERVER = "ParameterServerStrategy"
    CUSTOM = "CustomStrategy"
    LOCAL = "Local"


class _Command(NamedTuple):
    """A command with torchrun in the place of dlrover-run. ``sizes``: what ``--nnodes`` says."""

    words: tuple[str, ...]
    sizes: tuple[int, int] | None
    left_out: tuple[str, ...]


def read_job(spec: Fields, notes: Notes, about: Metadata) -> Job | None:
    strategy = spec.read("distributionStrategy", values.one_of(_Strategy), _Strategy.NONE)
    notes.ignore(spec, IGNORED)
    if strategy is _Strategy.PARAMETER_SERVER:
        return parameter_servers.read_job(spec, notes, about, DIALECT)
    workers = _read_workers(spec, notes)
    spec.done()
    if workers is None:
        return None
    replica, limit = workers
    again = restart_of(replica.policy or RestartPolicy.ON_FAILURE, limit)
    if replica.pod.command is None:
        path = f"{replica.path}.template.spec.containers[0].command"
        spec.problems.add(path, "is missing; it says what the workers run")
    part = component_of(COMPONENT, replica, replica.pod.command or UNKNOWN_COMMAND, again)
    return Job(
        name=about.name,
        components={COMPONENT: _with_framework(part, replica, spec, notes, keep=strategy is _Strategy.ALL_REDUCE)},
        success=(COMPONENT,),
        tags=about.labels,
        dialect=DIALECT,
    )


def _read_workers(spec: Fields, notes: Notes) -> tuple[Replica, int] | None:
    section = spec.section("replicaSpecs")
    if section is None:
        spec.problems.add(spec.at("replicaSpecs"), "is missing; it needs a worker")
        return None
    found: tuple[Replica, int] | None = None
    for role, content in section.entries():
        fields = Fields(content, section.at(role), section.problems, lenient=True)
        if role == DLROVER_MASTER:
            notes.add(section.at(role), parameter_servers.OWN_MASTER)
        elif role == COMPONENT:
            notes.ignore(fields, parameter_servers.IGNORED_IN_ROLE)
            limit = fields.read("restartCount", values.whole(0, 1_000_000), parameter_servers.DEFAULT_RESTARTS)
            found = read_replica(fields, notes), limit
        else:
            section.problems.add(section.at(role), f"unknown role; use {COMPONENT}")
    if found is None and section.intact:
        section.problems.add(section.at(COMPONENT), "is missing; an ElasticJob has workers")
    return found


def _with_framework(part: Component, replica: Replica, spec: Fields, notes: Notes, *, keep: bool) -> Component:
    """Return the component with its framework, if its command starts dlrover-run or torchrun. ``keep``: the former
    stays what it is, and does not become torchrun."""
    words = part.command if isinstance(part.command, tuple) else (part.command,)
    own = _PROGRAM.search(" ".join(words)) is not None
    if not own and not re.search(r"\btorchrun\b", " ".join(words)):
        return part
    command, name = _translated(words), FrameworkName.TORCHRUN
    path = f"{replica.path}.template.spec.containers[0].command"
    if own and keep:
        command, name = command._replace(words=_kept(words)), FrameworkName.DLROVER
        notes.add(path, "starts dlrover-run as it is; it must be of DLRover 0.6.1, and Grass is its master")
    elif command.left_out:
        options = ", ".join(f"--{name}" for name in command.left_out)
        notes.add(path, f"{options}: left out; torchrun starts in place of dlrover-run, and Grass is its rendezvous")
    least, most = command.sizes or (None, None)
    if least is not None and most is not None and not least <= replica.count <= most:
        spec.problems.add(path, f"--nnodes is {least}:{most}, and replicas is {replica.count}; make them fit")
    elastic = least != most
    return replace(
        part,
        command=command.words,
        min=least if elastic else None,
        max=most if elastic else None,
        framework=Framework(name),
    )


def _kept(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command with the plain name of dlrover-run, which tasks find as Grass's."""
    if len(words) >= 3 and is_shell(words[0]) and words[1].startswith("-"):
        return (*words[:2], _PROGRAM.sub(NAME, words[2]), *words[3:])
    return tuple(shlex.split(_PROGRAM.sub(NAME, shlex.join(words), count=1)))


def _translated(words: tuple[str, ...]) -> _Command:
    if len(words) >= 3 and is_shell(words[0]) and words[1].startswith("-"):
        script, sizes, left_out = _of_script(words[2])
        return _Command((*words[:2], script, *words[3:]), sizes, left_out)
    script, sizes, left_out = _of_script(shlex.join(words))
    return _Command(tuple(shlex.split(script)), sizes, left_out)


def _of_script(script: str) -> tuple[str, tuple[int, int] | None, tuple[str, ...]]:
    """Return a script that starts torchrun. Options up to the program of the user are looked at, not its own."""
    found = re.search(rf"{_PROGRAM.pattern}|\btorchrun(?=\s|$)", script)
    if found is None:
        return script, None, ()
    head, rest = script[: found.start()] + "torchrun", script[found.end() :]
    kept: list[str] = []
    left_out: list[str] = []
    sizes: tuple[int, int] | None = None
    while (option := _OPTION.match(rest)) is not None:
        name, value, end = option[1].replace("_", "-"), option[2], option.end()
        if (
            value is None
            and name not in FLAGS | _TORCHRUN_FLAGS
            and (following := _VALUE.match(rest[end:])) is not None
        ):
            value, end = following[1], end + following.end()
        if name in FLAGS | VALUES:
            left_out.append(name)
        else:
            kept.append(rest[:end])
        if name == "nnodes":
            sizes = _sizes(value or "")
        rest = rest[end:]
    return head + "".join(kept) + rest, sizes, tuple(dict.fromkeys(left_out))


def _sizes(text: str) -> tuple[int, int] | None:
    """Return the bounds that ``2`` or ``2:4`` gives; None: a variable, which only DLRover sets."""
    found = _SIZES.fullmatch(text.strip("\"'"))
    if found is None:
        return None
    least, most = int(found[1]), int(found[2] or found[1])
    return (least, most) if 1 <= least <= most <= MAX_REPLICAS else None
