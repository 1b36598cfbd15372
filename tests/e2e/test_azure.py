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
from grass.system.clock import steady
from scripts.labkit.host import Host
from tests.doubles.azure_arm import VM
from tests.doubles.azure_metadata import Metadata, metadata_service
from tests.support.azure_server import Served, serve
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster
from tests.support.waiting import wait_until

_AZ = """#!/bin/sh
date -d '+1 hour' '+{"accessToken":"good","expiresOn":"%Y-%m-%d %H:%M:%S.000000","expires_on":%s,"tenant":"t"}'
"""

EVERYWHERE = "0.0.0.0"
"""As localhost for `grass` here, and as the gateway for hosts of the lab."""


def host_of(lab: SessionLab, machine: str) -> Host:
    """Return the host of a machine. One that is made from the image of the builder is on the builder's host."""
    return lab.hosts["master" if machine.endswith("-master") else "n1" if machine.endswith("-1") else "n2"]


def first_boot(lab: SessionLab, machine: dict[str, Any]) -> str:
    """Do on a host of the lab what Azure's first boot does: make the user, who may use sudo, with the key."""
    os_profile = machine["properties"]["osProfile"]
    user, keys = os_profile["adminUsername"], os_profile["linuxConfiguration"]["ssh"]["publicKeys"]
    key = "\n".join(each["keyData"] for each in keys)
    home, host = f"/home/{user}/.ssh", host_of(lab, os_profile["computerName"])
    host.sh(
        f"id -u {user} || useradd -m -s /bin/bash {user}; mkdir -p {home} && echo '{key}' >{home}/authorized_keys && "
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


def azure_on_the_master(master: Host, served: Served, metadata: Metadata, gateway: str) -> None:
    """Let the master reach the double as localhost, trust it, and find the double of its metadata service."""
    port = served.azure.endpoint.rpartition(":")[2]
    forward = f"""
import asyncio
async def both(r, w):
    there = await asyncio.open_connection("{gateway}", {port})
    async def copy(a, b):
        while data := await a.read(65536):
            b.write(data); await b.drain()
        b.close()
    await asyncio.gather(copy(r, there[1]), copy(there[0], w), return_exceptions=True)
async def main():
    async with await asyncio.start_server(both, "127.0.0.1", {port}) as s: await s.serve_forever()
asyncio.run(main())
"""
    master.run("tee", "/srv/forward.py", text_in=forward)
    master.sh("systemd-run --unit azure-forward python3 /srv/forward.py && mkdir -p /etc/grass")
    master.run("tee", "/etc/ssl/azure-ca.pem", text_in=served.authority.read_text())
    variables = f"REQUESTS_CA_BUNDLE=/etc/ssl/azure-ca.pem\nAZURE_POD_IDENTITY_AUTHORITY_HOST={metadata.address}\n"
    master.run("tee", "/etc/grass/sky.autoscaler.env", text_in=variables)


@pytest.mark.nightly  # tests/unit/test_azure_identity.py, tests/contract/test_azure_identity.py
def test_the_master_makes_and_stops_machines_by_itself_once_it_has_its_role(
    lab: SessionLab, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.renew("master", "n1")
    master = lab.hosts["master"]
    gateway = master.sh("ip route show default").split()[2]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "az").write_text(_AZ)
    (tmp_path / "bin" / "az").chmod(0o755)
    with serve(tmp_path, EVERYWHERE) as served, metadata_service(gateway) as metadata:
        azure = served.azure
        azure.boot = lambda machine: first_boot(lab, machine)

        def switch(name: str, on: bool) -> None:
            host = host_of(lab, name)
            host.start() if on else host.kill()

        azure.switch = switch
        azure_on_the_master(master, served, metadata, gateway)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(served.authority))
        monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "AzureCliCredential")
        cloud = {"location": "westeurope", "endpoint": azure.endpoint}
        file = {"mode": "grass/azure", "name": "sky", "cloud": cloud, "ssh": {"from": ["203.0.113.0/24"]}}
        file["autoscale"] = {"on_master": True, "sizes": {"Standard_B2s": {"max": 1, "idle": "20s"}}}
        cluster = Cluster(lab, site, tmp_path / "home", file)
        made = cluster.create()
        assert made.returncode == 0 and "az role assignment create" in made.stderr, made.stderr
        wait_until(lambda: "AuthorizationFailed" in cloud_of(cluster)["problem"], seconds=90)
        assert "az role assignment create" in cluster.good("status")
        azure.roles.add("grass-sky")
        file_of_job = cluster.home / "waits.yml"
        file_of_job.write_text(json.dumps({"name": "waits", "components": {"t": {"command": "echo from the sky"}}}))
        cluster.good("job", "start", str(file_of_job))
        cluster.good("job", "wait", "waits", "--timeout", "10m")
        assert "from the sky" in cluster.good("job", "logs", "waits")
        assert cloud_of(cluster)["holder"] == "the master" and not cloud_of(cluster)["problem"]
        refused = cluster.grass("autoscale", str(cluster.file()), "--once")
        assert refused.returncode != 0 and "the master starts and stops nodes by itself" in refused.stderr
        wait_until(lambda: states(cluster) == {"sky-b2s-1": "STOPPED"}, seconds=120, what="it is idle, and stops")
        assert "sky-b2s-1" in cluster.good("cost"), "the user's machine learns of it"
        secrets = master.attempt("grep", "-rlE", "PRIVATE KEY|access_token", "/var/lib/grass-autoscaler")
        assert secrets.stdout == "", "no key of it is on the disk"
        assert master.attempt("runuser", "-u", "nobody", "--", "ls", "/run/grass-autoscaler/sky").code != 0
        cluster.good("delete", "sky")
        assert azure.of(VM) == [] and azure.empty()


def cloud_of(cluster: Cluster) -> dict[str, Any]:
    found = json.loads(cluster.good("status", "-o", "json"))["cloud"]
    return found or {"holder": "", "problem": ""}


@pytest.mark.nightly  # tests/unit/test_azure_image.py
def test_a_node_from_an_image_of_grass_installs_nothing_and_joins_sooner(
    lab: SessionLab, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.renew("master", "n1", "n2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "az").write_text(_AZ)
    (tmp_path / "bin" / "az").chmod(0o755)
    builder = lab.hosts["n2"]
    try:
        with serve(tmp_path) as served:
            azure = served.azure
            azure.limits |= {"cores": 20, "standardBSFamily": 20}
            azure.boot = lambda machine: first_boot(lab, machine)
            monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
            monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(served.authority))
            monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "AzureCliCredential")
            cloud = {"location": "westeurope", "endpoint": azure.endpoint}
            file = {"mode": "grass/azure", "name": "sky", "cloud": cloud, "ssh": {"from": ["203.0.113.0/24"]}}
            cluster = Cluster(lab, site, tmp_path / "home", file)
            cluster.created()
            begin = steady()
            cluster.good("node", "scale", "Standard_B2s", "1")
            plain = steady() - begin
            assert "lab-node" not in cluster.good("image-node", "list")
            assert "image sky-node-1 is ready" in cluster.good("image-node", "build")
            assert [each.name for each in azure.of(VM)] == ["sky-master", "sky-b2s-1"]
            assert builder.sh("cat /etc/machine-id; ls /etc/ssh/ssh_host_* 2>/dev/null | wc -l").split() == ["0"]
            assert builder.attempt("test", "-e", "/home/azureuser/.ssh/authorized_keys").code != 0
            before = builder.sh("stat -c %Y /opt/grass/venv/bundle")
            builder.sh("systemd-machine-id-setup && ssh-keygen -A && systemctl restart ssh")
            cluster.settings["sizes"] = {"Standard_B2s": {"image": "sky-node-1"}}
            cluster.created()
            begin = steady()
            cluster.good("node", "scale", "Standard_B2s", "2")
            prepared = steady() - begin
            print(f"seconds until READY: {plain:.1f} without the image, {prepared:.1f} with it")
            assert states(cluster) == {"sky-b2s-1": "READY", "sky-b2s-2": "READY"}
            assert builder.sh("stat -c %Y /opt/grass/venv/bundle") == before, "Grass was installed already"
            assert prepared < plain
            assert "sky-node-1" in cluster.good("image-node", "list")
            refused = cluster.grass("image-node", "remove", "sky-node-1")
            assert refused.returncode != 0 and "new nodes of" in refused.stderr
            cluster.good("delete", "sky")
            assert azure.empty()
    finally:
        lab.reset("n2")
