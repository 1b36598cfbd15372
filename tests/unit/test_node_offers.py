"""What a machine may offer as a node: no more than it has, as it did when it joined, and once in one command."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grass.errors import ConflictError, InputError
from grass.hosts import LocalHost
from grass.hosts.ssh import SshAccess
from grass.manifest.join_file import Offer
from grass.manifest.on_premises import Login, spelled_host
from grass.model.runtime import RuntimeName
from grass.provision.on_premises import facts, node_design, node_paths, offers
from grass.provision.on_premises.facts import Facts, Python
from grass.provision.on_premises.join_record import Own
from grass.provision.on_premises.node_hosts import check_distinct
from grass.provision.on_premises.record import Made
from grass.wire.codec import encode

FACTS = Facts(
    hostname="box",
    pythons=(Python((3, 11, 2), "/usr/bin/python3"),),
    systemd=True,
    cpus=2,
    memory=8 << 30,
    gpus=0,
)
PATHS = node_paths.of_root("lab", None)
JOINED = Offer(
    "n1", "10.0.0.5", cpu=1000, memory=1 << 30, labels={"disk": "ssd"}, topology=("r1",), mounts=("/a", "/b")
)


@pytest.mark.parametrize(
    ("offer", "told"),
    [
        (Offer(gpu=3000), "--gpu 3: this machine has no GPU;"),
        (Offer(gpu=250), r"--gpu 0\.25: this machine has no GPU;"),
        (Offer(cpu=64_000), "--cpu 64: this machine has 2 cores;"),
        (Offer(memory=900 << 30), "--memory 900GiB: this machine has 8GiB;"),
        (Offer(memory=(8 << 30) + 1), "--memory 8589934593B: this machine has 8589934592B;"),
    ],
)
def test_more_than_the_machine_has_is_refused_with_its_name(offer: Offer, told: str) -> None:
    with pytest.raises(InputError, match=rf"(?s)^box cannot become a node; nothing was changed:.*{told}") as refused:
        node_design.design(FACTS, offer, PATHS, served=False, joined=False)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("offer", [Offer(), Offer(cpu=2000, memory=8 << 30, gpu=0), Offer(cpu=1)])
def test_all_or_less_is_taken(offer: Offer) -> None:
    assert list(offers.beyond(FACTS, offer)) == []


def test_what_the_facts_do_not_know_is_left_to_the_node_agent() -> None:
    unknown = replace(FACTS, cpus=0, memory=0, gpus=None)
    assert list(offers.beyond(unknown, Offer(cpu=64_000, memory=900 << 30, gpu=3000))) == []


def test_a_node_that_the_master_knows_already_goes_on_whatever_was_taken_out_of_it() -> None:
    assert node_design.design(FACTS, Offer(gpu=3000), PATHS, served=False, joined=True, granted=True)


def test_gpus_are_counted_by_whatever_shows_most_of_them() -> None:
    assert facts.parse("@gpus\n0\n2\n1\n@time\n1\n").gpus == 2
    assert facts.parse("@gpus\n0\n0\n0\n").gpus == 0
    assert facts.parse("@gpus\n@time\n1\n").gpus is None
    assert facts.gather(LocalHost("here"), "none").gpus is not None


def recorded(offer: Offer) -> Offer:
    """As a later run finds it."""
    text = encode({"details": Own(offer=offer)})
    found = Own.from_facts(Facts(records={"lab+node": Made.parse(text)}), PATHS).offer
    assert found is not None
    return found


def test_the_same_offer_again_goes_on() -> None:
    again = replace(JOINED, mounts=("/b", "/a"), install=False)
    offers.check_same("n1", recorded(JOINED), again, address_chosen=True)
    offers.check_same("n1", recorded(JOINED), replace(JOINED, address="10.0.0.6"), address_chosen=False)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"cpu": None}, "--cpu: joined with 1, now all"),
        ({"memory": 2 << 30}, "--memory: joined with 1GiB, now 2GiB"),
        ({"gpu": 0}, "--gpu: joined with all, now 0"),
        ({"labels": {}}, "--labels: joined with disk=ssd, now none"),
        ({"topology": ("r1", "s2")}, "--topology: joined with r1, now r1/s2"),
        ({"runtimes": (RuntimeName.PROCESS,)}, "--runtime: joined with what is there, now process"),
        ({"mounts": ()}, "--mount: joined with /a,/b, now none"),
        ({"share": "/nonexistent"}, "--share: joined with the cluster's, now /nonexistent"),
        ({"api_port": 1234}, "--api-port: joined with 51813, now 1234"),
        ({"address": "10.0.0.6"}, r"--address: joined with 10\.0\.0\.5, now 10\.0\.0\.6"),
    ],
)
def test_another_offer_of_a_node_is_refused_with_what_differs_and_what_to_do(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ConflictError, match=told) as refused:
        offers.check_same("n1", recorded(JOINED), replace(JOINED, **change), address_chosen=True)
    assert refused.value.exit_code == 2 and "`grass node remove n1`" in str(refused.value)
    assert str(refused.value).count("joined with") == 1


@pytest.mark.parametrize(
    "hosts",
    [
        ("ops@10.0.0.2", "ops@10.0.0.2"),
        ("root@10.0.0.2", "10.0.0.3", "ops@10.0.0.2:22"),
        ("n1.example", "N1.example"),
        ("[fd00::1]:22", "fd00:0::1"),
    ],
)
def test_a_machine_that_is_named_twice_is_refused(hosts: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=":22 is named twice") as refused:
        check_distinct([spelled_host(host, Login()) for host in hosts])
    assert refused.value.exit_code == 2


def test_an_ipv6_address_with_a_port_is_shown_in_brackets() -> None:
    host = spelled_host("ops@[fd00::1]:2222", Login())
    assert host.endpoint == "[fd00::1]:2222"
    assert str(SshAccess(host.address, host.login.username, host.login.port)) == "ops@[fd00::1]:2222"


def test_two_ports_of_one_address_are_two_machines() -> None:
    check_distinct([spelled_host(host, Login()) for host in ("10.0.0.2", "10.0.0.2:2222", "10.0.0.3")])
