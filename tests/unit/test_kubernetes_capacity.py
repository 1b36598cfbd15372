"""What a namespace offers: its smallest quota, and no more than the user says."""

from __future__ import annotations

import pytest

from grass.errors import InputError
from grass.kubernetes.capacity import Most, limited, offered
from grass.kubernetes.connection import endpoint
from grass.kubernetes.credentials import Credentials
from grass.kubernetes.objects import QUOTAS
from grass.model.resources import Resources

GPU = "nvidia.com/gpu"


def offer(most: Most, *hard: dict[str, str], machines: Resources | None = None) -> Resources:
    quotas = QUOTAS.convert(
        {"metadata": {}, "items": [{"metadata": {}, "spec": {"hard": each}} for each in hard]}
    ).items
    return offered(limited(quotas, most, GPU), machines)


QUOTA = {"requests.cpu": "4", "limits.memory": "8Gi", f"requests.{GPU}": "2"}


@pytest.mark.parametrize(
    ("most", "found"),
    [
        (Most(), Resources(cpu=4000, memory=8 << 30, gpu=2000)),
        (Most(cpu=1000, memory=16 << 30), Resources(cpu=1000, memory=8 << 30, gpu=2000)),
        (Most(gpu=0), Resources(cpu=4000, memory=8 << 30, gpu=0)),
    ],
)
def test_the_smaller_of_quota_and_settings_is_offered_and_what_nobody_said_limits_nothing(
    most: Most, found: Resources
) -> None:
    assert offer(most, QUOTA) == found
    assert offer(most, QUOTA, {"cpu": "500m"}) == Resources(cpu=500, memory=found.memory, gpu=found.gpu)


def test_without_a_quota_the_settings_count_and_nothing_said_is_nothing() -> None:
    assert offer(Most(cpu=2000)) == Resources(cpu=2000, memory=0, gpu=0)


def test_what_neither_a_quota_nor_the_user_says_is_what_all_machines_have() -> None:
    machines = Resources(cpu=64_000, memory=256 << 30, gpu=8000)
    assert offer(Most(), machines=machines) == machines
    assert offer(Most(memory=4 << 30), machines=machines) == Resources(cpu=64_000, memory=4 << 30, gpu=8000)
    assert offer(Most(), {"cpu": "2"}, machines=machines) == Resources(cpu=2000, memory=256 << 30, gpu=8000)
    # a cluster may get more machines when pods wait: a quota above what is there now counts
    assert offer(Most(), {"cpu": "100"}, machines=machines).cpu == 100_000


@pytest.mark.parametrize("server", ["https://h:abc", "https://[::1", "ftp://h", "https://", "h:6443", ""])
def test_an_address_that_is_none_is_refused(server: str) -> None:
    with pytest.raises(InputError, match="is not https://HOST"):
        endpoint(Credentials(server))


def test_an_address_of_ipv6_is_taken() -> None:
    found = endpoint(Credentials("http://[fd00::1]:8080/prefix/"))
    assert (found.host, found.port, found.path) == ("fd00::1", 8080, "/prefix")
