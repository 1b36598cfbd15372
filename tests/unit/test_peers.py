"""`grass.peers()`, and what `rendezvous: true` makes of a job file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import grass
from grass.errors import ManifestError
from grass.manifest import parse_job
from grass.model.framework import Framework, FrameworkName

LINES = "j.worker.10 h2 5001 web\nj.worker.2 h1 5000 web\nj.worker.2 h1 5002 data\nmy.j.store.0 h1 5003 web\nhalf a li"


@pytest.fixture
def addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "addresses"
    path.write_text(LINES)
    monkeypatch.setenv("GRASS_ADDRESSES", str(path))
    return path


def test_peers_are_in_the_order_of_their_tasks(addresses: Path) -> None:
    assert [(peer.component, peer.index, peer.name, peer.port) for peer in grass.peers()] == [
        ("store", 0, "web", 5003),
        ("worker", 2, "data", 5002),
        ("worker", 2, "web", 5000),
        ("worker", 10, "web", 5001),
    ]
    assert [peer.host for peer in grass.peers("worker", name="web", count=2)] == ["h1", "h2"]
    assert grass.peers("nobody") == []


def test_an_address_of_ipv6_is_one_word_with_brackets_in_front_of_its_port(addresses: Path) -> None:
    addresses.write_text("j.w.0 fd00::7 5000 web\nj.w.1 fe80::1%eth0 5001 web\nj.w.2 10.0.0.1 5002 web\n")
    found = grass.peers("w")
    assert [peer.host for peer in found] == ["fd00::7", "fe80::1%eth0", "10.0.0.1"]
    assert [peer.address for peer in found] == ["[fd00::7]:5000", "[fe80::1%eth0]:5001", "10.0.0.1:5002"]


def test_waiting_for_too_many_peers_ends(addresses: Path) -> None:
    with pytest.raises(TimeoutError, match="2 of 3 peers"):
        grass.peers("worker", name="web", count=3, timeout=0.0)
    addresses.unlink()
    assert grass.peers() == []


def test_outside_of_a_task_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRASS_ADDRESSES", raising=False)
    with pytest.raises(RuntimeError, match="only inside a task"):
        grass.peers()


def parse(job: dict[str, Any] | None = None, **component: Any) -> Any:
    other = {"command": "true"}
    components = {"w": {"command": "true", "replicas": 2, **component}, "one": other}
    return parse_job({"name": "j", "components": components, **(job or {})}).job


def test_a_rendezvous_is_torchs_ranks_a_port_and_a_gang() -> None:
    for job in (parse(rendezvous=True), parse({"rendezvous": True})):
        assert job.components["w"].framework == Framework(FrameworkName.TORCH)
        assert (job.components["w"].ports, job.gang) == (("master",), ("w",))
        assert job.components["one"].framework is None
    assert parse(rendezvous=True, ports=["master", "web"]).components["w"].ports == ("master", "web")
    assert parse({"rendezvous": True}, rendezvous=False).components["w"].framework is None
    assert parse({"rendezvous": True}, framework="openmpi").gang == ()


@pytest.mark.parametrize("component", [{"rendezvous": 1}, {"rendezvous": True, "framework": "horovod"}])
def test_a_rendezvous_that_cannot_be_is_refused(component: dict[str, Any]) -> None:
    with pytest.raises(ManifestError, match=r"components\.w\.rendezvous"):
        parse(**component)
