"""`grass create` is killed at one of its steps and run again: it goes on, ends well, and `grass delete` finds all.

At every step, with ``pytest tests/e2e/test_interrupted.py --long``: 23 creates, half an hour on a machine that others
use. An ordinary run has the one of ``test_create.py``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster, holds, settings

MASTER = 12
NODE = 11
"""How many steps each has."""
EVERY = [*(("master", step) for step in range(1, MASTER + 1)), *(("node", step) for step in range(1, NODE + 1))]
HOSTS = {"master": "master", "node": "n1"}


@pytest.mark.nightly
@pytest.mark.parametrize(("role", "step"), EVERY)
def test_a_create_that_was_killed_at_this_step_is_finished_by_the_next_and_removed_whole(
    role: str, step: int, lab: SessionLab, site: Path, tmp_path: Path
) -> None:
    for host in HOSTS.values():
        lab.reset(host)
    before = {host: of_grass(holds(lab, host)) for host in HOSTS.values()}
    nodes = [{"address": lab.hosts["n1"].address, "name": "n1"}]
    cluster = Cluster(lab, site, tmp_path / "home", settings(lab, name="broken", nodes=nodes))
    killed_at(cluster, HOSTS[role], step)
    done = cluster.create()
    assert done.returncode == 0, done.stderr
    [node] = json.loads(cluster.grass("node", "list", "-o", "json").stdout)
    assert (node["name"], node["state"]) == ("n1", "READY")
    ran = cluster.grass("run", "--", "hostname")
    assert (ran.returncode, ran.stdout.strip()) == (0, "n1"), ran.stderr
    gone = cluster.grass("delete", "broken")
    assert gone.returncode == 0, gone.stderr
    for host, held in before.items():
        assert of_grass(holds(lab, host)) == held, host


def of_grass(held: list[str]) -> list[str]:
    """Without what an engine keeps for itself once a container has run."""
    return [line for line in held if not line.startswith("/var/lib/containerd/")]


def killed_at(cluster: Cluster, host: str, step: int) -> None:
    """As soon as it says that this step of this host begins, or was not needed."""
    process = cluster.start("create", str(cluster.file()))
    assert process.stderr is not None
    begins = re.compile(rf"{host}: \[{step}/\d+\]")
    seen = any(begins.match(line) for line in process.stderr)
    process.kill()
    process.communicate()
    assert seen, f"there is no step {step} of {host}"
