"""A cluster on the double of Azure, whose machine is a host of the lab: from `grass create` to `grass delete`.

The command line is the real one, with the real azure-identity; what it finds as `az` is a script.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.azure_arm import VM
from tests.support.azure_server import serve
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster

_AZ = """#!/bin/sh
date -d '+1 hour' '+{"accessToken":"good","expiresOn":"%Y-%m-%d %H:%M:%S.000000","expires_on":%s,"tenant":"t"}'
"""


def first_boot(lab: SessionLab, machine: dict[str, Any]) -> str:
    """Do on the lab's master what Azure's first boot does: make the user, who may use sudo, with the key."""
    os_profile = machine["properties"]["osProfile"]
    user, key = os_profile["adminUsername"], os_profile["linuxConfiguration"]["ssh"]["publicKeys"][0]["keyData"]
    home = f"/home/{user}/.ssh"
    lab.hosts["master"].sh(
        f"useradd -m -s /bin/bash {user} && mkdir -p {home} && echo '{key}' >{home}/authorized_keys && "
        f"chown -R {user} {home} && echo '{user} ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/{user}"
    )
    return lab.hosts["master"].address


@pytest.mark.nightly  # tests/contract/test_azure_arm.py::test_a_cluster_is_made_and_removed_over_the_real_pipeline
def test_a_cluster_on_azure_runs_a_job_and_leaves_nothing(
    lab: SessionLab, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.renew("master")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "az").write_text(_AZ)
    (tmp_path / "bin" / "az").chmod(0o755)
    with serve(tmp_path) as served:
        azure = served.azure
        azure.boot = lambda machine: first_boot(lab, machine)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(served.authority))
        monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "AzureCliCredential")
        cloud = {"location": "westeurope", "endpoint": azure.endpoint}
        file = {"mode": "grass/azure", "name": "sky", "cloud": cloud, "ssh": {"from": ["203.0.113.0/24"]}}
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
        deleted = cluster.grass("delete", "sky")
        assert deleted.returncode == 0, deleted.stderr
        assert azure.of(VM) == [] and azure.empty() and not cluster.client.exists()
