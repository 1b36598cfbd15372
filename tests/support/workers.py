"""Assigns tests to workers of pytest-xdist, and orders them. Called by ``tests/conftest.py`` only.

Tests of a module share fixtures, and may check what only one test may change, so a module is split only if it is listed
here. Some modules share more: a lab, or the machine's one container engine. A test that must be alone on the machine
(marker ``alone``) does not run on workers: ``scripts/test`` runs it afterwards, in a separate process.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from xdist.scheduler import LoadScopeScheduling

SHARED = {
    # Two labs at a time: more labs would wait for the processor, and clusters would reach time-outs.
    "a lab": (
        "tests/e2e/test_host_faults.py",
        "tests/e2e/test_work.py",
        "tests/e2e/test_fluentd_container.py",
        "tests/e2e/test_lab.py",
        "tests/e2e/test_elastic_torch.py",
        "tests/e2e/test_isolation.py",
        "tests/e2e/test_benches.py",
    ),
    "another lab": (
        "tests/e2e/test_create.py",
        "tests/e2e/test_join.py",
        "tests/e2e/test_interrupted.py",
        "tests/e2e/test_systems.py",
    ),
    "engine": (
        "tests/contract/test_runtime.py",
        "tests/integration/test_docker_runtime.py",
        "tests/integration/test_local_containers.py",
        "tests/integration/test_node_containers.py",
        "tests/integration/test_node_exec.py",
        "tests/integration/test_node_images.py",
        "tests/integration/test_node_probe.py",
    ),
}
"""Group → the modules in it. Every other module is a group of its own."""

FIRST = (
    "a lab",
    "another lab",
    "tests/e2e/",
    "tests/integration/test_readme_commands.py",
    "engine",
    "tests/integration/test_faults.py",
    "tests/integration/",
    "tests/property/",
)
"""Groups, or beginnings of their names, in starting order: the longest groups first; otherwise one of them would run
alone at the end.
"""

SPLIT = (
    "tests/integration/test_benches.py",
    "tests/integration/test_local_cluster.py",
)
"""Modules whose tests share nothing and each take seconds: every test is a group."""

_GROUP_OF = {module: group for group, modules in SHARED.items() for module in modules}


def group_of(nodeid: str) -> str:
    """Return the group of a test: its module, or the group of modules that share something."""
    module = nodeid.partition("::")[0]
    return nodeid if module in SPLIT else _GROUP_OF.get(module, module)


def turn_of(nodeid: str) -> int:
    """Return the list index of a test's group in ``FIRST``; groups with the same index keep their order."""
    group = group_of(nodeid)
    return next((turn for turn, start in enumerate(FIRST) if group.startswith(start)), len(FIRST))


def in_turn(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    return sorted(items, key=lambda item: turn_of(item.nodeid))


class ByGroup(LoadScopeScheduling):
    """Gives whole groups to workers, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
