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
from grass.api.client import ApiClient
from tests.support.lab import SessionLab
from tests.support.needs import require
from tests.support.on_premises import Cluster, settings
from tests.support.three_nodes import assert_complete, attempts, counting, finish, places, started
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
EARLIER = "26d4a02"
"""With TLS between hosts. An upgrade from before ends tasks once, as docs/security.md says."""
BEFORE = "0.0.9"
_WHEEL = """
import sys
from grass.provision.on_premises.own_wheel import write_wheel
name, content = write_wheel()
open(f"{sys.argv[1]}/{name}", "wb").write(content)
print(name)
"""


def versions(client: ApiClient) -> dict[str, str]:
    return {each["name"]: each["version"] for each in client.nodes()}


def earlier_site(folder: Path) -> Path:
    """Install the earlier version from the repository's history, with the number of a release before."""
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", EARLIER], capture_output=True, check=False)
    require(packed.returncode == 0, f"commit {EARLIER} in the history of the repository", packed.stderr.decode())
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder / "source", filter="data")
    named = folder / "source" / "grass" / "__init__.py"
    assert f'"{__version__}"' in named.read_text()
    named.write_text(named.read_text().replace(f'"{__version__}"', f'"{BEFORE}"'))
    made = subprocess.run(
        [sys.executable, "-c", _WHEEL, str(folder)], cwd=folder / "source", capture_output=True, text=True, check=True
    )
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    wheel = folder / made.stdout.strip()
    subprocess.run([*command, str(folder / "site"), str(wheel)], check=True, timeout=60)
    return folder / "site"


def test_a_cluster_of_an_earlier_version_is_upgraded_in_place_and_its_jobs_go_on(
    lab: SessionLab, site: Path, tmp_path: Path
) -> None:
    old = earlier_site(tmp_path)
    for host in ("master", "n1", "n2"):
        if lab.hosts[host].attempt("test", "-e", "/opt/grass").code == 0:
            lab.reset(host)
    nodes = [{"address": lab.hosts[name].address, "name": name} for name in ("n1", "n2")]
    cluster = Cluster(lab, old, tmp_path / "home", settings(lab, name="upgraded", nodes=nodes))
    try:
        cluster.created()
        with ApiClient(cluster.name, home=cluster.home) as client:
            job = tmp_path / "before.yml"
            job.write_text(yaml.safe_dump(counting("before", 2, 0)))
            begun = cluster.grass("job", "start", str(job))  # the client here is of this version
            assert begun.returncode == 0, begun.stderr
            wait_until(lambda: len(places(client, "before")) == 2, 90, "the start of the job", 0.2)
            where, tried = places(client, "before"), attempts(client, "before")
            assert versions(client) == {"n1": BEFORE, "n2": BEFORE}
        cluster.site = site
        cluster.settings["nodes"] = nodes[:1]  # as if n2 had been added by `grass node add`
        planned = cluster.create("--plan")
        assert planned.returncode == 0, planned.stderr
        for node in ("n1", "n2"):
            assert f"node {node}: joined before, as {node}; it runs an earlier Grass" in planned.stdout
        done = cluster.create()
        assert done.returncode == 0, done.stderr
        with ApiClient(cluster.name, home=cluster.home) as client:
            wait_until(lambda: {each["state"] for each in client.nodes()} == {"READY"}, 60, "both nodes READY", 0.2)
            wait_until(lambda: versions(client) == dict.fromkeys(("n1", "n2"), __version__), 20, "their upgrade", 0.2)
            assert (places(client, "before"), attempts(client, "before")) == (where, tried), client.tasks("before")
            assert [each["name"] for each in client.users()] == [client.status()["user"]]
            done = cluster.create()
            assert done.returncode == 0 and "n1:" not in done.stderr and "n2:" not in done.stderr, done.stderr
            started(client, counting("after", 2, 0))
            for job in ("before", "after"):
                assert finish(client, job)["state"] == "SUCCEEDED"
                assert_complete(client, job)
        assert cluster.grass("delete", "--yes", cluster.name).returncode == 0
    finally:
        lab.make_whole()
        for host in ("master", "n1", "n2"):
            lab.reset(host)
