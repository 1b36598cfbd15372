"""The numbers that named ports of tasks are drawn from."""

from __future__ import annotations

PORTS = range(20_000, 32_000)
"""Below the kernel's own range for outgoing connections (from 32768), so that only a listener can hold one."""


def free_ports(taken: int) -> int:
    """How many more ports a node has. A tenth is left free: ports are drawn by chance."""
    return max(0, len(PORTS) * 9 // 10 - taken)
