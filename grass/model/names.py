"""The grammar of names of clusters, jobs, users, nodes, components, ports and labels, and of digests and ids. Pure.

The one home of these rules, used by all packages. A name becomes a folder, part of a key in the store, part of a redis
user, and a word of a command line. So it never looks like a path or an option.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_NAME = 63
MAX_JOB_ID = MAX_NAME + 9
"""A job id is the name of the job, a dash and 8 hexadecimal digits."""
MAX_TOPOLOGY_LEVELS = 8
"""Most parts of a node's topology path."""

NAME_RULE = "letters, digits and `-` `_` `.`, with a letter or digit at both ends"
COMPONENT_RULE = "letters, digits and `-` `_`, with a letter or digit at both ends"
PORT_RULE = "letters, digits and `-` `_`, starting with a letter"
LABEL_RULE = "letters, digits and `-` `_` `.` `/`, with a letter or digit at both ends"
REQUEST_ID = "[0-9a-f]{16,64}"
"""Pattern of the ids by which a request is known when it is repeated."""
JOB_ID = "[A-Za-z0-9][A-Za-z0-9._-]*"
USER = "[A-Za-z0-9_][A-Za-z0-9_.-]*"
COMPONENT = "[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?"
"""Pattern of the name of a component, as ``JOB_ID`` is of the id of a job. Neither bounds the length."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_COMPONENT = re.compile(COMPONENT)
_PORT = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")
_USER = re.compile(USER)
_JOB_ID = re.compile(JOB_ID)
_IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._/:@-]{0,254}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SHORT_ID = re.compile(r"[0-9a-f]{8}")
_SESSION_ID = re.compile(r"[0-9a-f]{32}")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OBJECT = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_LONGEST_OBJECT = 253
_HOST = re.compile(r"[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]{1,5})?")
_REGISTRY = re.compile(rf"(?P<host>{_HOST.pattern})(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")


def is_name(text: object) -> bool:
    """Check the name of a cluster, job, schedule or node (``NAME_RULE``). The name must not contain ``..``."""
    return _matches(_NAME, text) and ".." not in str(text)


def is_user_name(text: object) -> bool:
    """Check the name of a user, which begins with neither a dot nor a dash."""
    return _matches(_USER, text)


def is_job_id(text: str) -> bool:
    """Check that a job id is one part of a path and leads nowhere else. Its length is not checked."""
    return _JOB_ID.fullmatch(text) is not None


def is_digest(text: object) -> bool:
    """Check a SHA-256 digest: 64 hexadecimal digits."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def is_image_name(text: str) -> bool:
    """Check a container image reference that Grass writes into files and commands: ``registry:5000/team/app:1.2``."""
    return _IMAGE.fullmatch(text) is not None


def is_namespace_name(text: str) -> bool:
    """Check the name of a namespace of Kubernetes."""
    return _NAMESPACE.fullmatch(text) is not None


def is_object_name(text: str) -> bool:
    """Check the name of an object of Kubernetes, which becomes a part of paths."""
    return len(text) <= _LONGEST_OBJECT and _OBJECT.fullmatch(text) is not None


def registry_host(text: str) -> str:
    """Return the host of a registry, ``HOST[:PORT][/PATH]``; empty: it is none."""
    match = _REGISTRY.fullmatch(text)
    return match["host"] if match and is_registry_host(match["host"]) else ""


def is_registry_host(part: str) -> bool:
    """Check that the first part of an image's name is a host, as docker tells them from folders."""
    return part == "localhost" or (_HOST.fullmatch(part) is not None and ("." in part or ":" in part))


def is_short_id(text: str) -> bool:
    """Check the id of an operation, or the end of a job id: 8 hexadecimal digits, as ``entropy`` makes them."""
    return _SHORT_ID.fullmatch(text) is not None


def is_run_of(job_id: str, name: str) -> bool:
    """Check that ``job_id`` is the id of a run of the job ``name``: ``<name>-<8 hexadecimal digits>``."""
    return job_id.startswith(f"{name}-") and is_short_id(job_id[len(name) + 1 :])


def is_request_id(text: str) -> bool:
    return re.fullmatch(REQUEST_ID, text) is not None


def is_session_id(text: str) -> bool:
    """Check the id of an encryption session: 32 hexadecimal digits."""
    return _SESSION_ID.fullmatch(text) is not None


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


def topology_path(text: str) -> tuple[str, ...] | None:
    """Return the path that ``rack1/switch3`` says. None: the text is no path."""
    parts = tuple(text.strip().split("/"))
    return parts if is_topology_path(parts) else None


def _matches(pattern: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and len(text) <= MAX_NAME and pattern.fullmatch(text) is not None
