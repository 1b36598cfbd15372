"""How many cores and how much memory programs may use: those of the machine, or a control group's limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grass.system.usable_resources import machine_memory, usable_cpu, usable_memory

MIB = 1 << 20
MACHINE = usable_memory(Path("/nowhere"), Path("/nowhere"))


def made(folder: Path, own: str, files: dict[str, str]) -> int:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")
    (folder / "own").write_text(own)
    return usable_memory(folder, folder / "own")


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {"memory.max": str(512 * MIB)}, 512 * MIB),
        ("0::/\n", {"memory.max": "max"}, MACHINE),
        ("0::/a/b\n", {"memory.max": "max", "a/memory.max": str(64 * MIB), "a/b/memory.max": str(96 * MIB)}, 64 * MIB),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": str(256 * MIB)}, 256 * MIB),
        ("4:memory:/docker/x\n0::/\n", {"memory/memory.limit_in_bytes": str(256 * MIB)}, 256 * MIB),
        ("4:memory:/a\n", {"memory/memory.limit_in_bytes": str(2**63 - 4096)}, MACHINE),
        ("4:memory:/a\n", {"memory/a/memory.limit_in_bytes": str(32 * MIB)}, 32 * MIB),
        ("0::/\n", {}, MACHINE),
    ],
)
def test_the_smallest_limit_counts(tmp_path: Path, own: str, files: dict[str, str], expected: int) -> None:
    assert made(tmp_path, own, files) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, MACHINE),
        ({"memory.max": "max"}, MACHINE),
        ({"memory.max": str(300 * MIB)}, 300 * MIB),
        ({"memory/memory.limit_in_bytes": str(300 * MIB)}, 300 * MIB),
        ({"system.slice/a.service/memory.max": str(100 * MIB)}, MACHINE),
    ],
)
def test_the_limit_of_a_container_bounds_what_its_node_offers(
    tmp_path: Path, files: dict[str, str], expected: int
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert machine_memory(tmp_path) == expected


@pytest.mark.parametrize(("quota", "expected"), [("50000 100000", 500), ("max 100000", None), (None, None)])
def test_the_quota_of_a_container_bounds_its_cores(tmp_path: Path, quota: str | None, expected: int | None) -> None:
    if quota is not None:
        (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert usable_cpu(tmp_path) == (expected or 1000 * len(os.sched_getaffinity(0)))
