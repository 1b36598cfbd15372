"""Why a pod waits, from events as a real 1.20 writes them."""

from __future__ import annotations

import pytest

from grass.kubernetes.objects import Event, Metadata
from grass.model.reasons import ReasonCode
from node.runtime.kubernetes.events import why_waiting


def event(reason: str, message: str = "", at: str = "2026-11-27T05:00:00Z", kind: str = "Warning") -> Event:
    return Event(Metadata(), reason=reason, message=message, type=kind, last_timestamp=at)


@pytest.mark.parametrize(
    ("reason", "said", "told"),
    [
        (
            "FailedMount",
            'MountVolume.SetUp failed for volume "keys" : secret "wandb" not found',
            "waits for the Secret wandb",
        ),
        ("FailedMount", 'MountVolume.SetUp failed for volume "c" : configmap "code" not found', "ConfigMap code"),
        ("FailedScheduling", 'persistentvolumeclaim "data" not found', 'persistentvolumeclaim "data" not found'),
        ("Failed", 'Error: secret "wandb" not found', "waits for the Secret wandb"),
        ("FailedMount", "Unable to attach or mount volumes: timed out", "cannot be mounted (FailedMount): Unable"),
        ("FailedCreatePodSandBox", "Failed to create\n pod sandbox: rpc error", "(FailedCreatePodSandBox): Failed to"),
    ],
)
def test_an_event_says_why_its_pod_waits(reason: str, said: str, told: str) -> None:
    found = why_waiting([event(reason, said)])
    assert found is not None and told in found.reason.message
    expected = ReasonCode.UNSCHEDULABLE if reason == "FailedScheduling" else ReasonCode.NOT_STARTED
    assert found.reason.code is expected


def test_the_latest_trouble_counts_and_what_is_over_does_not() -> None:
    scheduling = event("FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu.", "2026-11-27T05:00:00Z")
    scheduled = event("Scheduled", "Successfully assigned", "2026-11-27T05:00:05Z", "Normal")
    mount = event("FailedMount", 'secret "s" not found', "2026-11-27T05:00:09Z")
    assert why_waiting([scheduling, scheduled]) is None
    found = why_waiting([mount, scheduling, scheduled])
    assert found is not None and "Secret s" in found.reason.message
    assert why_waiting([event("Pulling", "Pulling image", kind="Normal")]) is None
    assert why_waiting([]) is None


def test_a_long_event_is_shortened() -> None:
    found = why_waiting([event("FailedMount", "word " * 1000)])
    assert found is not None and len(found.reason.message) < 400 and found.reason.message.endswith(" …")
