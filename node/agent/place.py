"""Where a node stands in the topology, and how that is known: by its settings, its label, or a command. Pure.

Used by ``hello``, ``machine`` and ``place_command``.
"""

from __future__ import annotations

from typing import NamedTuple

from grass.lines import lines_of
from grass.model.machine_labels import TOPOLOGY
from grass.model.names import MAX_TOPOLOGY_LEVELS, topology_path
from grass.node_config import NodeConfig

_RULE = f"at most {MAX_TOPOLOGY_LEVELS} names such as rack1/switch3"


class Place(NamedTuple):
    """A topology path, from the outside in. ``note``: where it is from, or why there is none."""

    path: tuple[str, ...] = ()
    note: str = ""


NOWHERE = Place()


def place_of(node: NodeConfig, asked: Place) -> Place:
    """Return the place of a node. ``asked``: what the command says; settings and label take precedence, in this
    order."""
    if node.path:
        return Place(tuple(node.path), "from its settings")
    label = node.labels.get(TOPOLOGY)
    if label is None:
        return asked
    path = topology_path(label)
    if path is None:
        return Place(note=f"its label {TOPOLOGY} must be {_RULE}, got {label!r}")
    return Place(path, f"from its label {TOPOLOGY}")


def place_said(code: int | None, output: str, errors: str, seconds: float) -> Place:
    """Return what a command said. ``code`` None: it did not end within ``seconds``."""
    if code is None:
        return Place(note=f"topology_command did not end within {seconds:g} s")
    if code != 0:
        lines = lines_of(errors.strip()) or lines_of(output.strip())
        why = f": {lines[-1].strip()[:200]}" if lines else ""
        return Place(note=f"topology_command ended with exit code {code}{why}")
    if not output.strip():
        return Place(note="topology_command printed nothing")
    path = topology_path(output)
    if path is None:
        return Place(note=f"topology_command must print {_RULE}, printed {output.strip()[:100]!r}")
    return Place(path, "from topology_command")
