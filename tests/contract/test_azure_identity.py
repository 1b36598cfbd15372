"""The identity of the master's machine over HTTP: azure-identity asks a double of the metadata service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.azure.arm import Arm, Clock
from grass.azure.faults import AzureForbiddenError, AzureLoginError
from grass.azure.pipeline import managed_identity, open_pipeline
from grass.azure.resources import COMPUTE
from tests.doubles.azure_arm import SUBSCRIPTION, VM
from tests.doubles.azure_metadata import Metadata, metadata_service
from tests.support.azure_server import FASTER, Served, serve

GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/grass-lab"


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[Metadata]:
    with metadata_service() as server:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", server.address)
        yield server


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with serve(tmp_path) as served:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(served.authority))
        served.azure.add("group", "grass-lab", "grass-lab", {"location": "westeurope"})
        machine = {"location": "westeurope", "identity": {"type": "SystemAssigned"}, "properties": {}}
        served.azure.add(VM, "grass-lab", "lab-master", machine)
        yield served


def arm(served: Served) -> Arm:
    clock = Clock(lambda: time.monotonic() * FASTER, lambda seconds: time.sleep(seconds / FASTER))
    endpoint = served.azure.endpoint
    return Arm(open_pipeline(endpoint, managed_identity()), endpoint, clock, lambda _: None)


def machines(arm: Arm) -> list[str]:
    return [str(each["name"]) for each in arm.list(f"{GROUP}/providers/{VM}", COMPUTE, "machines")]


def test_the_identity_of_the_machine_is_used_and_its_right_is_for_the_group_alone(
    served: Served, metadata: Metadata
) -> None:
    found = arm(served)
    with pytest.raises(AzureForbiddenError, match="AuthorizationFailed"):
        machines(found)
    served.azure.roles.add("grass-lab")
    assert machines(found) == ["lab-master"], "the same token, once the role is there"
    with pytest.raises(AzureForbiddenError):
        found.list(f"/subscriptions/{SUBSCRIPTION}/providers/{VM}", COMPUTE, "machines", "statusOnly=true")
    assert set(metadata.asked) == {served.azure.endpoint}, "tokens for this endpoint alone"
    assert len(metadata.asked) == 1, "a token is kept, in memory"


def test_a_machine_without_an_identity_says_so(served: Served, metadata: Metadata) -> None:
    metadata.has_identity = False
    with pytest.raises(AzureLoginError, match="ManagedIdentityCredential"):
        machines(arm(served))
