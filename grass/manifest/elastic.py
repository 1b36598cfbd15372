"""Reads the sizes of an elastic component (``replicas``, ``min``, ``max``, ``unit``) and its ``framework``.

Used by ``native``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from grass.manifest import framework_options, values
from grass.manifest.fields import Fields
from grass.manifest.matrix import MAX_TASKS, read_replicas
from grass.model.framework import Framework, FrameworkName
from grass.model.job import Component

_KEYS = ("min", "max", "unit")
RENDEZVOUS_PORT = "master"
"""The port on which rank 0 listens, as the renderer of `torch` knows it."""


@dataclass(frozen=True)
class Sizes:
    """The sizes that a component may have.

    ``least``, ``most``: None if the file does not limit the size.
    """

    replicas: int
    least: int | None = None
    most: int | None = None
    unit: int = 1


def read_sizes(fields: Fields, matrix: dict[str, tuple[str, ...]], rows: int) -> Sizes:
    """Read the sizes and check that they fit together: 1 ≤ min ≤ replicas ≤ max, and all are multiples of unit."""
    if matrix or rows:
        for key in _KEYS:
            fields.refuse(key, f"does not go with `{'matrix' if matrix else 'from'}`, which fixes the number of tasks")
        return Sizes(read_replicas(fields, matrix, rows))
    count = values.whole(1, MAX_TASKS)
    least, most = fields.read("min", count, None), fields.read("max", count, None)
    unit = fields.read("unit", count, 1)
    replicas = fields.read("replicas", count, None)
    sizes = Sizes(least or unit if replicas is None else replicas, least, most, unit)
    _check(fields, sizes, named=replicas is not None)
    return sizes


def _check(fields: Fields, sizes: Sizes, named: bool) -> None:
    problems, replicas, unit = fields.problems, sizes.replicas, sizes.unit
    for key, size in (("min", sizes.least), ("replicas", replicas if named else None), ("max", sizes.most)):
        if size is not None and size % unit:
            problems.add(fields.at(key), f"must be a multiple of `unit`, which is {unit}; got {size}")
    if sizes.least is not None and sizes.most is not None and sizes.least > sizes.most:
        problems.add(fields.at("min"), f"must be at most `max`, which is {sizes.most}; got {sizes.least}")
        return
    if sizes.least is not None and replicas < sizes.least:
        problems.add(fields.at("replicas"), f"must be at least `min`, which is {sizes.least}; got {replicas}")
    if sizes.most is not None and replicas > sizes.most:
        at = "replicas" if named else "max"
        problems.add(fields.at(at), f"replicas must be at most `max`, which is {sizes.most}; got {replicas}")


def read_framework(fields: Fields) -> Framework | None:
    """Read ``NAME``, or ``{name: NAME, OPTION: VALUE, …}``."""
    name = values.one_of(FrameworkName)
    if not isinstance(fields.raw("framework"), dict):
        found = fields.read("framework", name, None)
        return None if found is None else Framework(found)
    section = fields.section("framework")
    assert section is not None
    known = ", ".join(each.value for each in FrameworkName)
    chosen = section.require("name", name, FrameworkName.NONE, f"is missing; use one of {known}")
    return Framework(chosen, framework_options.read(section, chosen))


def read_rendezvous(fields: Fields, part: Component, *, of_job: bool) -> Component | None:
    """Return the component with what ``rendezvous: true`` adds: the ranks of `torch`, and a free port for rank 0.

    ``of_job``: the whole job asks for it, which concerns the components with several tasks and no framework. None: its
    tasks do not meet.
    """
    own = fields.read("rendezvous", values.truth, None)
    if own and part.framework is not None and part.framework.name is not FrameworkName.TORCH:
        fields.problems.add(fields.at("rendezvous"), f"cannot be combined with framework {part.framework.name.value}")
    asked = (of_job and part.replicas > 1 and part.framework is None) if own is None else own
    if not asked:
        return None
    ports = part.ports if RENDEZVOUS_PORT in part.ports else (*part.ports, RENDEZVOUS_PORT)
    return replace(part, framework=part.framework or Framework(FrameworkName.TORCH), ports=ports)


def named_together(components: Mapping[str, Component]) -> list[str]:
    """Return the components whose tasks must start together, because ``TF_CONFIG`` names all of them, at the start.

    Nobody if one of them waits for another, or may have several sizes: then it names those that exist by then.
    """
    parts = [part for part in components.values() if part.framework and part.framework.name is FrameworkName.TF]
    names = {part.name for part in parts}
    if sum(part.replicas for part in parts) < 2 or any(part.elastic for part in parts):
        return []
    return [] if names & _awaited(parts, components) else sorted(names)


def _awaited(parts: list[Component], components: Mapping[str, Component]) -> set[str]:
    """Return every component that one of ``parts`` waits for, also through others."""
    found: set[str] = set()
    left = [name for part in parts for name in part.depends_on]
    while left:
        name = left.pop()
        if name not in found and name in components:
            found.add(name)
            left += components[name].depends_on
    return found
