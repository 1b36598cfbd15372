"""What a process has of the shell that starts it besides variables: its umask and its soft limits. Pure.

The words are those of `ulimit` in every shell. Used by ``grass.process_settings``, ``master.api.submission`` and
``node.agent.environment``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

UMASK = "umask"
UNLIMITED = -1
LIMITS: Mapping[str, tuple[str, int]] = {
    "core": ("-c", 512),
    "cpu": ("-t", 1),
    "data": ("-d", 1024),
    "file": ("-f", 512),
    "memory": ("-v", 1024),
    "memory_lock": ("-l", 1024),
    "open_files": ("-n", 1),
    "stack": ("-s", 1024),
}
"""Limit → option of `ulimit`, and its unit there, in bytes."""
_SET = (
    '[ -z "$1" ] || umask "$1"; shift; while [ "$1" != -- ]; do '
    'ulimit -S "$1" "$2" 2>/dev/null || ulimit -S "$1" "$(ulimit -H "$1")"; shift 2; done; shift; exec "$@"'
)
"""A limit above the hard one of the node becomes that."""


def is_setting(name: str, value: int) -> bool:
    """Return whether a client may send this."""
    return 0 <= value <= 0o777 if name == UMASK else name in LIMITS and UNLIMITED <= value < 1 << 63


def with_settings(argv: Sequence[str], wanted: Mapping[str, int], own: Mapping[str, int]) -> list[str]:
    """Return a command that runs ``argv`` with the settings ``wanted``. ``own``: those that it would have."""
    different = {name: value for name, value in wanted.items() if own.get(name, value) != value}
    if not different:
        return list(argv)
    umask = f"{different[UMASK]:04o}" if UMASK in different else ""
    limits = [
        word
        for name, (option, unit) in LIMITS.items()
        if name in different
        for word in (option, _text(different[name], unit))
    ]
    return ["/bin/sh", "-c", _SET, "sh", umask, *limits, "--", *argv]


def _text(value: int, unit: int) -> str:
    return "unlimited" if value == UNLIMITED else str(value // unit)
