"""What tasks in pods get for their membership and their framework: files, variables, and what they wait for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grass.errors import InputError
from grass.model.framework import Framework, FrameworkName
from grass.node_config import NodeHome
from grass.wire.desired import DesiredAttempt
from grass.wire.launch import LaunchTemplate
from grass.wire.membership import MEMBERSHIP, Member, Membership
from node.membership.pod_view import MOST_BYTES, additions, files
from tests.support.shepherd_run import cluster_config
from tests.support.templates import template

KEY = "j-1/w.1/1"
TEXT = "j.w.0 10.9.0.1 4000 p\n"


@pytest.fixture
def config(tmp_path: Path) -> NodeHome:
    return cluster_config(tmp_path)


def members(*addresses: str, **more: Any) -> dict[str, Membership]:
    found = tuple(
        Member(f"w.{rank}", 1, "ns", address, 1, rank, {"p": 4000}, node_address="10.0.0.1", **more)
        for rank, address in enumerate(addresses)
    )
    return {"w": Membership(3, 1, len(found), 1, 8, 1, found)}


def of(framework: FrameworkName | None = None, **more: Any) -> LaunchTemplate:
    return template(framework=None if framework is None else Framework(framework), **more)


def test_a_task_that_nobody_needs_to_know_gets_no_files(config: NodeHome) -> None:
    assert files(config, of(), {}, None) == files(config, of(alone=True), {}, TEXT) == {}


def test_a_task_that_others_may_ask_for_by_its_port_gets_the_file_before_it_has_lines(config: NodeHome) -> None:
    assert files(config, of(), {}, "") == {"addresses": ""}


def test_addresses_and_membership_are_files_of_the_job(config: NodeHome) -> None:
    known = members("10.9.0.1", "")
    found = files(config, of(), known, TEXT)
    assert found.keys() == {"addresses", "components/w/membership.json"} and found["addresses"] == TEXT
    assert MEMBERSHIP.decode(found["components/w/membership.json"]) == known["w"]


def test_a_task_waits_for_its_own_address_and_with_torch_for_those_of_all(config: NodeHome) -> None:
    def awaits(made: LaunchTemplate, known: dict[str, Membership], own: str) -> str:
        return additions(config, KEY, made, DesiredAttempt(1), known, own).awaits

    partly, wholly = members("", "10.9.0.2"), members("10.9.0.1", "10.9.0.2")
    assert awaits(of(), partly, "") == awaits(of(FrameworkName.TORCH), wholly, "") == "its pod has no address yet"
    assert awaits(of(), partly, "10.9.0.2") == "" == awaits(of(FrameworkName.TORCH), wholly, "10.9.0.2")
    waiting = "its pod waits for the addresses of w.0"
    assert awaits(of(FrameworkName.TORCH), partly, "10.9.0.2") == waiting == awaits(of(gang=True), partly, "10.9.0.2")


def test_ranks_and_addresses_of_torch_are_variables_that_are_told_late(config: NodeHome) -> None:
    made = additions(
        config, KEY, of(FrameworkName.TORCH), DesiredAttempt(1), members("10.9.0.1", "10.9.0.2"), "10.9.0.2"
    )
    late = {name: made.late[name] for name in ("MASTER_ADDR", "RANK", "WORLD_SIZE")}
    assert late == {"MASTER_ADDR": "10.9.0.1", "RANK": "1", "WORLD_SIZE": "2"}
    assert not made.env.keys() & made.late.keys()


def test_a_variable_that_the_job_sets_stays(config: NodeHome) -> None:
    made = additions(
        config, KEY, of(FrameworkName.TORCH, env={"RANK": "9"}), DesiredAttempt(1), members("10.9.0.1"), "10.9.0.1"
    )
    assert "RANK" not in made.late


def test_files_that_annotations_cannot_hold_are_refused(config: NodeHome) -> None:
    files(config, of(), members("10.9.0.1"), "x" * (MOST_BYTES - 1000))
    with pytest.raises(InputError, match=r"component w: the files .* a pod can have 200,000; ask for fewer tasks"):
        files(config, of(), members("10.9.0.1"), "x" * MOST_BYTES)


def test_256_pods_with_long_names_fit(config: NodeHome) -> None:
    name = "w" * 50
    ports = {"master": 65535}
    found = tuple(
        Member(f"{name}.{rank}", 999, "n" * 40, "255.255.255.255", 8, rank, ports, 65535, "255.255.255.255")
        for rank in range(256)
    )
    made = template(framework=Framework(FrameworkName.TORCH))
    assert files(config, made, {"w": Membership(999, 999, 256, 256, 256, 1, found)}, "")
