"""Assigns tests to workers of pytest-xdist, and orders them. Called by ``tests/conftest.py`` only.

Tests of a module share fixtures, and may check what only one test may change, so a module is split only if it is listed
here. Some modules share more: the machine's one container engine. A test that must be alone on the machine
(marker ``alone``) does not run on workers: ``scripts/test`` runs it afterwards, in a separate process.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

SHARED = {
    "engine": (
        "tests/contract/test_runtime.py",
        "tests/integration/test_container_findings.py",
        "tests/integration/test_docker_runtime.py",
        "tests/integration/test_isolated_tasks.py",
        "tests/integration/test_local_containers.py",
        "tests/integration/test_namespace_images.py",
        "tests/integration/test_node_containers.py",
        "tests/integration/test_node_exec.py",
        "tests/integration/test_node_images.py",
        "tests/integration/test_node_probe.py",
    ),
}
"""Group → the modules in it. Every other module is a group of its own."""

LAB = "tests/e2e/"
"""Beginning of the groups that start hosts: one lab for each worker that runs any of them, until the worker ends."""

MOST_LABS = 2
"""More labs would wait for the processor, and clusters would reach time-outs."""

FIRST = (
    "tests/e2e/test_join.py",
    "tests/e2e/test_work.py",
    "tests/e2e/test_create.py",
    "tests/e2e/test_host_faults.py",
    LAB,
    "tests/integration/test_readme_commands.py",
    "tests/integration/test_kubernetes_node.py",
    "tests/integration/test_mars.py",
    "tests/integration/test_dashboard.py",
    "engine",
    "tests/integration/test_files.py",
    "tests/integration/test_docs.py",
    "tests/integration/test_node_agent.py",
    "tests/integration/test_api_server.py",
    "tests/integration/test_cli.py",
    "tests/integration/test_logs.py",
    "tests/integration/test_store_trouble.py",
    "tests/integration/test_cli_daily.py",
    "tests/integration/test_hung_daemons.py",
    "tests/integration/test_users_files.py",
    "tests/faults/",
    "tests/integration/test_supervision.py",
    "tests/long/",
    "tests/integration/",
    "tests/contract/test_client.py",
    "tests/property/",
    "tests/contract/",
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


def is_lab(group: str) -> bool:
    return group.startswith(LAB)


def next_group(waiting: Iterable[str], has_lab: bool, labs: int) -> str | None:
    """Return the group that a worker takes next; None: there is none for it, now or later.

    ``waiting``: groups in their order. ``has_lab``: the worker has run tests of hosts. ``labs``: workers that have.
    """
    may = has_lab or labs < MOST_LABS
    return next((group for group in waiting if may or not is_lab(group)), None)


class ByGroup(LoadScopeScheduling):
    """Gives whole groups to workers, in the order of the tests; those with hosts to two workers only."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        if self.workqueue and not node.shutting_down and self._next(node) is None:
            node.shutdown()  # after the tests that it has
        else:
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        group = self._next(node)
        if group is not None:
            self.workqueue.move_to_end(group, last=False)
            super()._assign_work_unit(node)

    def _next(self, node: WorkerController) -> str | None:
        with_labs = [one for one, groups in self.assigned_work.items() if any(map(is_lab, groups))]
        return next_group(self.workqueue, node in with_labs, len(with_labs))
