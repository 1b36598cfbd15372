"""Which stock ``dlrover-run`` the one of Grass starts, and what it says of a DLRover that it does not know."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.support.dlrover_pickles import LIBRARY, library

agent = library("agent")
OWN = LIBRARY.parent / "dlrover" / "bin" / "dlrover-run"


def program(folder: Path, first: str) -> str:
    folder.mkdir()
    (folder / "dlrover-run").write_text(f"{first}\n")
    (folder / "dlrover-run").chmod(0o755)
    return str(folder)


def test_the_stock_one_is_the_next_on_path_and_says_its_python(tmp_path: Path) -> None:
    copied = program(tmp_path / "copied", "")
    shutil.copy(OWN, f"{copied}/dlrover-run")
    stock = program(tmp_path / "stock", "#!/opt/venv/bin/python3 -s")
    path = f"{OWN.parent}:/nowhere:{copied}:{stock}"
    command, python = agent.stock_command("dlrover-run", ["--nnodes=2", "t.py"], path, str(OWN))
    assert command == [f"{stock}/dlrover-run", "--nnodes=2", "t.py"]
    assert python == ["/opt/venv/bin/python3", "-s"]


def test_an_image_whose_program_is_hidden_by_that_of_grass_starts_its_module() -> None:
    command, python = agent.stock_command("dlrover-run", ["t.py"], str(OWN.parent), str(OWN))
    assert (command, python) == (["python3", "-m", "dlrover.trainer.torch.main", "t.py"], ["python3"])


def test_another_command_starts_as_it_is() -> None:
    assert agent.stock_command("", ["python3", "t.py"], "/bin", "") == (["python3", "t.py"], None)


def distribution(folder: Path, version: str) -> list[str]:
    """Return a Python that has this version of DLRover."""
    (folder / f"dlrover-{version}.dist-info").mkdir()
    (folder / f"dlrover-{version}.dist-info" / "METADATA").write_text(f"Name: dlrover\nVersion: {version}\n")
    return ["/usr/bin/env", f"PYTHONPATH={folder}", sys.executable]


def test_the_version_whose_messages_are_known_is_accepted(tmp_path: Path) -> None:
    assert agent.wrong_version(distribution(tmp_path, "0.6.1")) is None


def test_another_version_is_refused_for_good_with_its_number(tmp_path: Path) -> None:
    code, why = agent.wrong_version(distribution(tmp_path, "0.7.0"))
    assert code == 64, "no other attempt can change it"
    assert "has DLRover 0.7.0;" in why and why.endswith("install dlrover==0.6.1")


@pytest.mark.parametrize("python", [[sys.executable], ["/nowhere/python3"]])
def test_a_python_without_dlrover_is_named(python: list[str]) -> None:
    code, why = agent.wrong_version(python)
    assert code == 127 and python[0] in why
