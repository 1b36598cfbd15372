"""A cluster on the double of Azure, whose machine is a host of the lab: from `grass create` to `grass delete`.

The command line is the real one, with the real azure-identity; what it finds as `az` is a script.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from grass.azure.machine_events import PATH, program
from scripts.labkit.host import Host
from tests.doubles.azure_arm import VM
from tests.support.azure_server import serve
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster
from tests.support.waiting import wait_until

_AZ = """#!/bin/sh
date -d '+1 hour' '+{"accessToken":"good","expiresOn":"%Y-%m-%d %H:%M:%S.000000","expires_on":%s,"tenant":"t"}'
"""


def host_of(lab: SessionLab, machine: str) -> Host:
    return lab.hosts["master" if machine.endswith("-master") else "n1"]


def first_boot(lab: SessionLab, machine: dict[str, Any]) -> str:
    """Do on a host of the lab what Azure's first boot does: make the user, who may use sudo, with the key."""
    os_profile = machine["properties"]["osProfile"]
    user, key = os_profile["adminUsername"], os_profile["linuxConfiguration"]["ssh"]["publicKeys"][0]["keyData"]
    home, host = f"/home/{user}/.ssh", host_of(lab, os_profile["computerName"])
    host.sh(
        f"useradd -m -s /bin/bash {user} && mkdir -p {home} && echo '{key}' >{home}/authorized_keys && "
        f"chown -R {user} {home} && echo '{user} ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/{user}"
    )
    return host.address


def a_waiting_job_starts_a_machine(cluster: Cluster) -> None:
    cluster.good("node", "stop", "sky-b2s-1")
    cluster.good("node", "cordon", "master")
    file = cluster.home / "waits.yml"
    file.write_text(json.dumps({"name": "waits", "components": {"t": {"command": "true"}}}))
    cluster.good("job", "start", str(file))
    wait_until(lambda: json.loads(cluster.good("job", "show", "waits", "-o", "json"))["reason"]["code"] == "no-nodes")
    done = cluster.grass("autoscale", str(cluster.file()), "--once")
    assert done.returncode == 0 and "sky-b2s-1: starts, as t of job waits waits" in done.stderr, done.stderr
    cluster.good("job", "wait", "waits")
    cluster.good("node", "uncordon", "master")


def an_eviction_moves_a_task(cluster: Cluster, host: Host) -> None:
    """Announce to the node's machine what Azure announces for Spot: the task there goes to the master, uncharged."""
    events = "/srv/azure/metadata/scheduledevents"
    host.sh(f"ip address add 169.254.169.254/32 dev lo; mkdir -p {events.rpartition('/')[0]}; echo '{{}}' >{events}")
    served = "python3 -m http.server 80 --bind 169.254.169.254 --directory /srv/azure"
    host.sh(f"systemd-run --unit azure-metadata {served}")
    host.run("tee", PATH, text_in=program())
    host.sh(f"systemd-run --unit grass-machine-events python3 -I {PATH}")
    cluster.good("node", "cordon", "master")
    file = cluster.home / "spot.yml"
    command = "trap 'echo saved; exit 1' TERM; while :; do sleep 0.1; done"
    file.write_text(
        json.dumps({"name": "spot", "components": {"t": {"command": command, "restart": {"policy": "never"}}}})
    )
    cluster.good("job", "start", str(file))
    wait_until(lambda: task_of(cluster) == ("RUNNING", "sky-b2s-1", 1), what="the task runs on the node")
    cluster.good("node", "uncordon", "master")
    preempt = {"EventType": "Preempt", "Resources": [host.sh("hostname").strip()], "EventStatus": "Scheduled"}
    host.run("tee", events, text_in=json.dumps({"Events": [preempt]}))
    wait_until(lambda: task_of(cluster) == ("RUNNING", "master", 2), what="the task runs elsewhere")
    assert states(cluster)["sky-b2s-1"] == "QUARANTINED"
    assert "saved" in cluster.good("job", "logs", "spot")
    host.run("tee", events, text_in="{}")
    wait_until(lambda: states(cluster)["sky-b2s-1"] == "READY", what="the machine stays after all")
    cluster.good("job", "stop", "spot")


def task_of(cluster: Cluster) -> tuple[str, str, int]:
    [task] = json.loads(cluster.good("job", "show", "spot", "-o", "json"))["tasks"]
    return task["state"], task["node"], task["attempt"]


def states(cluster: Cluster) -> dict[str, str]:
    return {node["name"]: node["state"] for node in json.loads(cluster.good("node", "list", "-o", "json"))}


@pytest.mark.nightly  # tests/contract/test_azure_arm.py::test_a_cluster_is_made_and_removed_over_the_real_pipeline
def test_a_cluster_on_azure_runs_a_job_and_leaves_nothing(
    lab: SessionLab, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.renew("master", "n1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "az").write_text(_AZ)
    (tmp_path / "bin" / "az").chmod(0o755)
    with serve(tmp_path) as served:
        azure = served.azure
        azure.boot = lambda machine: first_boot(lab, machine)

        def switch(name: str, on: bool) -> None:
            host = host_of(lab, name)
            host.start() if on else host.kill()

        azure.switch = switch
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(served.authority))
        monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "AzureCliCredential")
        cloud = {"location": "westeurope", "endpoint": azure.endpoint}
        file = {"mode": "grass/azure", "name": "sky", "cloud": cloud, "ssh": {"from": ["203.0.113.0/24"]}}
        file["autoscale"] = {"sizes": {"Standard_B2s": {"max": 1}}}
        cluster = Cluster(lab, site, tmp_path / "home", {**file, "isolation": "none"})
        assert cluster.created()["mode"] == "grass/azure"
        asked = len(azure.asked)
        assert cluster.created()["steps"]["done"] == 0
        assert {each.method for each in azure.asked[asked:]} == {"GET"}
        key = cluster.client / "azure_key"
        added = cluster.grass("node", "add", f"azureuser@{lab.hosts['master'].address}", "--key", str(key))
        assert added.returncode == 0, added.stderr
        ran = cluster.grass("run", "--", "echo", "from the sky")
        assert (ran.returncode, ran.stdout) == (0, "from the sky\n"), ran.stderr
        cluster.good("node", "scale", "Standard_B2s", "1")
        assert states(cluster)["sky-b2s-1"] == "READY"
        assert "sky-b2s-1 is stopped; its disk is still paid" in cluster.good("node", "stop", "sky-b2s-1")
        assert lab.hosts["n1"].state() == "exited"
        assert states(cluster)["sky-b2s-1"] == "STOPPED"
        assert "deallocated" in cluster.good("cost")
        cluster.good("node", "start", "sky-b2s-1")
        assert states(cluster)["sky-b2s-1"] == "READY"
        a_waiting_job_starts_a_machine(cluster)
        an_eviction_moves_a_task(cluster, lab.hosts["n1"])
        deleted = cluster.grass("delete", "sky")
        assert deleted.returncode == 0, deleted.stderr
        assert azure.of(VM) == [] and azure.empty() and not cluster.client.exists()
