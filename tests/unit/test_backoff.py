"""Growing waits, files replaced whole, and ``host:port``: each has one home."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grass.backoff import Backoff, wait_after
from grass.network_address import host_and_port, network_address
from grass.system.atomic_file import replace_file


def test_waits_double_up_to_the_longest_and_begin_again_after_a_success() -> None:
    backoff = Backoff(0.5, 3.0)
    assert backoff.fresh
    assert [backoff.next() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert not backoff.fresh
    backoff.reset()
    assert backoff.fresh and backoff.next() == 0.5


def test_the_wait_after_a_failure_needs_only_its_number_and_stays_finite() -> None:
    assert [wait_after(number, 0.5, 3.0) for number in (1, 2, 3, 4, 10**9)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert wait_after(10**9, 0.0, 3.0) == 0.0


def test_a_replaced_file_has_its_mode_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "probe.json"
    before = os.umask(0o777)
    try:
        replace_file(path, "old", mode=0o644)
        replace_file(path, b"new", mode=0o644, sync=True)
    finally:
        os.umask(before)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o644)
    assert os.listdir(tmp_path) == ["probe.json"]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "config"
    replace_file(path, "old")
    (tmp_path / "config.new").mkdir()
    with pytest.raises(OSError):
        replace_file(path, "new")
    assert path.read_text() == "old"


@pytest.mark.parametrize(
    ("text", "host", "port"), [("10.0.0.1:24224", "10.0.0.1", 24224), ("[fd00::1]:1", "fd00::1", 1), (":9", "", 9)]
)
def test_an_address_survives_the_way_to_text_and_back(text: str, host: str, port: int) -> None:
    assert host_and_port(text) == (host, port)
    assert network_address(host, port) == text


def test_an_address_without_a_port_is_refused() -> None:
    with pytest.raises(ValueError):
        host_and_port("10.0.0.1")
