"""The bench of isolated starts makes two clusters of its own, so it has the hosts to itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.bench_run import figures
from tests.support.lab import SessionLab

HOSTS = ("master", "n1")


@pytest.fixture
def hosts(running_lab: SessionLab) -> Iterator[SessionLab]:
    for host in HOSTS:
        running_lab.reset(host)
    yield running_lab
    for host in HOSTS:
        running_lab.reset(host)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_bench_of_isolated_starts_prints_its_figures(hosts: SessionLab) -> None:
    found = figures("isolated_job", "--rounds", "1", seconds=280, GRASS_LAB=hosts.name)
    units = {figure["name"]: figure["unit"] for figure in found}
    assert units == {"isolation: user": "ms", "isolation: none": "ms", "isolation: user / isolation: none": "×"}
