"""The grammar of names of clusters, jobs, nodes, components, ports and labels. Pure.

The one home of these rules. A name becomes a folder, part of a key in the store, part of a redis user, and a word of a
command line. So it never looks like a path or an option.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_NAME = 63
MAX_TOPOLOGY_LEVELS = 8
"""Most parts of a node's topology path."""

NAME_RULE = "letters, digits and `-` `_` `.`, with a letter or digit at both ends"
COMPONENT_RULE = "letters, digits and `-` `_`, with a letter or digit at both ends"
PORT_RULE = "letters, digits and `-` `_`, starting with a letter"
LABEL_RULE = "letters, digits and `-` `_` `.` `/`, with a letter or digit at both ends"

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_COMPONENT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")
_PORT = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")


def is_name(text: object) -> bool:
    """Check the name of a cluster, job, schedule or node (``NAME_RULE``). The name must not contain ``..``."""
    return _matches(_NAME, text) and ".." not in str(text)


def is_component_name(text: object) -> bool:
    """Check ``COMPONENT_RULE``: no dot, because a task is called ``<component>.<index>``."""
    return _matches(_COMPONENT, text)


def is_port_name(text: object) -> bool:
    """Check the name of a port or custom resource (``PORT_RULE``)."""
    return _matches(_PORT, text)


def is_label_name(text: object) -> bool:
    """Check the name of a node's label (``LABEL_RULE``)."""
    return _matches(_LABEL, text)


def is_topology_path(parts: Sequence[object]) -> bool:
    """Check a topology path, ``("rack1", "switch3")`` from the outside in; empty: the node has no path."""
    return len(parts) <= MAX_TOPOLOGY_LEVELS and all(map(is_name, parts))


def _matches(pattern: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and len(text) <= MAX_NAME and pattern.fullmatch(text) is not None
