"""Which tests go to the same worker of pytest-xdist, and which begin first. Called by ``tests/conftest.py`` only.

A module is split only where that is said: its tests share fixtures, and may look at what only one may change. Some
modules share more than that: a lab, the machine's one container engine. What has to be alone on the machine to mean
something (marker ``alone``) is not for workers at all: ``scripts/test`` runs it afterwards, in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from xdist.scheduler import LoadScopeScheduling

SHARED = {
    # Two labs at a time: more would only wait for the processor, on which time-outs of clusters depend.
    "a lab": (
        "tests/e2e/test_host_faults.py",
        "tests/e2e/test_work.py",
        "tests/e2e/test_fluentd_container.py",
        "tests/e2e/test_lab.py",
    ),
    "another lab": (
        "tests/e2e/test_create.py",
        "tests/e2e/test_join.py",
        "tests/e2e/test_interrupted.py",
        "tests/e2e/test_benches.py",
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
"""Groups, or beginnings of their names, in the order in which they begin: those that take longest first, else one of
them would be left running alone at the end."""

SPLIT = (
    "tests/integration/test_benches.py",
    "tests/integration/test_local_cluster.py",
)
"""Modules that share nothing between their tests, each of which takes seconds: every test is a group."""

_GROUP_OF = {module: group for group, modules in SHARED.items() for module in modules}


def group_of(nodeid: str) -> str:
    """The group of a test: its module, or what that shares with others."""
    module = nodeid.partition("::")[0]
    return nodeid if module in SPLIT else _GROUP_OF.get(module, module)


def turn_of(nodeid: str) -> int:
    """The place of a test's group among those of ``FIRST``; groups of the same place keep their order."""
    group = group_of(nodeid)
    return next((turn for turn, start in enumerate(FIRST) if group.startswith(start)), len(FIRST))


def in_turn(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    return sorted(items, key=lambda item: turn_of(item.nodeid))


class ByGroup(LoadScopeScheduling):
    """Gives whole groups to workers, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
