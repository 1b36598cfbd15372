"""A cluster that an earlier version made, with a job that runs, gets this version by the same `grass create`."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from grass import __version__
from grass.api.client import Client
from tests.support.lab import SessionLab
from tests.support.needs import require
from tests.support.on_premises import Cluster, settings
from tests.support.three_nodes import assert_complete, attempts, counting, finish, places, started
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
WITH_TLS = "26d4a02"
BEFORE_FORMAT_2 = "a87c8e05"
"""The master has its policy for nodes, such as the isolation of users, in the part ``node`` of its ``cluster.json``."""
BEFORE_TLS = "af8e578"
"""Hosts speak in plain text, and users are not isolated: each node joins again, for its certificate."""
OWN_END = 7
BEFORE = "0.0.9"
_WHEEL = """
import sys
from grass.provision.on_premises.own_wheel import write_wheel
name, content = write_wheel()
open(f"{sys.argv[1]}/{name}", "wb").write(content)
print(name)
"""


def versions(client: Client) -> dict[str, str]:
    return {each.name: each.version for each in client.nodes()}


def pids(lab: SessionLab, node: str) -> list[str]:
    """Return the process ids of the shepherd, and of the tasks of job "before" on this node, in and out of a container.

    A container also has the engine's init."""
    shepherd = lab.ssh(node, "systemctl show --value --property MainPID grass-shepherd@upgraded.service").stdout.split()
    tasks = lab.ssh(node, f"pgrep -f '[G]RASS_SCRATCH/enough.*exit {OWN_END}'").stdout.split()
    assert len(shepherd) == 1 and shepherd != ["0"] and len(tasks) >= 2, (shepherd, tasks)
    return shepherd + tasks


def earlier_site(folder: Path, commit: str) -> Path:
    """Install the earlier version from the repository's history, with the number of a release before."""
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=False)
    require(packed.returncode == 0, f"commit {commit} in the history of the repository", packed.stderr.decode())
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder / "source", filter="data")
    named = folder / "source" / "grass" / "release.py"
    named = named if named.exists() else named.with_name("__init__.py")
    assert f'"{__version__}"' in named.read_text()
    named.write_text(named.read_text().replace(f'"{__version__}"', f'"{BEFORE}"'))
    made = subprocess.run(
        [sys.executable, "-c", _WHEEL, str(folder)], cwd=folder / "source", capture_output=True, text=True, check=True
    )
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    wheel = folder / made.stdout.strip()
    subprocess.run([*command, str(folder / "site"), str(wheel)], check=True, timeout=60)
    return folder / "site"


@pytest.mark.parametrize("commit", [BEFORE_FORMAT_2, WITH_TLS, BEFORE_TLS])
def test_a_cluster_of_an_earlier_version_is_upgraded_in_place_and_its_jobs_go_on(
    lab: SessionLab, site: Path, tmp_path: Path, commit: str
) -> None:
    old = earlier_site(tmp_path, commit)
    for host in ("master", "n1", "n2"):
        if lab.hosts[host].attempt("test", "-e", "/opt/grass").code == 0:
            lab.reset(host)
    nodes = [{"address": lab.hosts[name].address, "name": name} for name in ("n1", "n2")]
    isolation = "none" if commit == WITH_TLS else None  # before, there was no such setting
    cluster = Cluster(lab, old, tmp_path / "home", settings(lab, isolation, name="upgraded", nodes=nodes))
    try:
        cluster.created()
        pushed = cluster.grass("image", "push", "--file", str(lab.busybox_image_tar))
        assert pushed.returncode == 0, pushed.stderr
        with Client(cluster.name, home=cluster.home) as client:
            job = tmp_path / "before.yml"
            before = counting("before", 2, 2, clean="none")  # also once one has failed, the others go on
            for component in before["components"].values():
                component["command"] += f"; exit {OWN_END}"
            job.write_text(yaml.safe_dump(before))
            begun = cluster.grass("job", "start", str(job))  # the client here is of this version
            assert begun.returncode == 0, begun.stderr
            wait_until(lambda: len(places(client, "before")) == 4, 90, "the start of the job", 0.2)
            where, tried = places(client, "before"), attempts(client, "before")
            running = {node: pids(lab, node) for node in ("n1", "n2")}
            assert versions(client) == {"n1": BEFORE, "n2": BEFORE}
        cluster.site = site
        cluster.settings["nodes"] = nodes[:1]  # as if n2 had been added by `grass node add`
        planned = cluster.create("--plan")
        assert planned.returncode == 0, planned.stderr
        for node in ("n1", "n2"):
            assert f"node {node}: joined before, as {node}; it runs an earlier Grass" in planned.stdout
        done = cluster.create()
        assert done.returncode == 0, done.stderr
        with Client(cluster.name, home=cluster.home) as client:
            wait_until(lambda: {each.state for each in client.nodes()} == {"READY"}, 60, "both nodes READY", 0.2)
            wait_until(lambda: versions(client) == dict.fromkeys(("n1", "n2"), __version__), 20, "their upgrade", 0.2)
            assert (places(client, "before"), attempts(client, "before")) == (where, tried), client.tasks("before")
            assert {node: pids(lab, node) for node in ("n1", "n2")} == running
            assert [each.name for each in client.users()] == [client.status().user]
            done = cluster.create()
            assert done.returncode == 0 and "n1:" not in done.stderr and "n2:" not in done.stderr, done.stderr
            started(client, counting("after", 2, 2))
            for job, state in (("before", "FAILED"), ("after", "SUCCEEDED")):
                assert finish(client, job).state == state
                assert_complete(client, job)
            assert [task.exit_code for task in client.tasks("before")] == [OWN_END] * 4
            assert attempts(client, "before") == tried
        assert cluster.grass("delete", "--yes", cluster.name).returncode == 0
    finally:
        lab.make_whole()
        for host in ("master", "n1", "n2"):
            lab.reset(host)
