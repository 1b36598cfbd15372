"""The port numbers from which named ports of tasks are drawn. Used by ``placement`` and ``planner_snapshot``."""

from __future__ import annotations

PORTS = range(20_000, 32_000)
"""Below the kernel's range for outgoing connections (from 32768), so that only a listener can occupy one."""


def free_ports(taken: int) -> int:
    """Return how many more ports a node has. A tenth is never used, so that random draws find a free port quickly."""
    return max(0, len(PORTS) * 9 // 10 - taken)
