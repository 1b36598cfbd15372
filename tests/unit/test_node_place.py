"""Where a node stands: by its settings, its label, or a command of the lab."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest

from grass.model.resources import Resources
from grass.node_config import NodeConfig, NodeHome
from node.agent.hello import hello
from node.agent.machine import Offer
from node.agent.place import NOWHERE, Place, place_of, place_said
from node.agent.place_command import PlaceCommand, said
from node.agent.this_machine import ThisMachine

ASKED = Place(("r3", "s3"), "from topology_command")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "GRASS_NODE": "n1"}


def script(folder: Path, text: str) -> list[str]:
    path = folder / "where"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return [str(path)]


def test_settings_take_precedence_over_the_label_and_that_over_the_command() -> None:
    labels = {"topology": "r2/s2"}
    assert place_of(NodeConfig(path=("r1",), labels=labels), ASKED) == (("r1",), "from its settings")
    assert place_of(NodeConfig(labels=labels), ASKED) == (("r2", "s2"), "from its label topology")
    assert place_of(NodeConfig(labels={"rack": "r2"}), ASKED) == ASKED
    assert place_of(NodeConfig(), NOWHERE) == NOWHERE == ((), "")


def test_a_label_that_is_no_path_is_said_and_not_replaced_by_the_command() -> None:
    assert place_of(NodeConfig(labels={"topology": "r 1//s"}), ASKED) == (
        (),
        "its label topology must be at most 8 names such as rack1/switch3, got 'r 1//s'",
    )


def test_a_hello_says_the_place_and_where_it_is_from() -> None:
    body = hello(NodeConfig(labels={"topology": "r2/s2"}), Offer(place=ASKED, resources=Resources()))
    assert (body.path, body.path_note) == (("r2", "s2"), "from its label topology")
    body = hello(NodeConfig(), Offer(place=ASKED, resources=Resources()))
    assert (body.path, body.path_note) == (("r3", "s3"), "from topology_command")


@pytest.mark.parametrize(
    ("code", "output", "errors", "note"),
    [
        (None, "r1", "", "topology_command did not end within 5 s"),
        (3, "r1", "trying\nno switch knows n1\n", "topology_command ended with exit code 3: no switch knows n1"),
        (1, "sorry\n", "", "topology_command ended with exit code 1: sorry"),
        (-9, "", "", "topology_command ended with exit code -9"),
        (0, "\n", "careful", "topology_command printed nothing"),
        (0, "r1\nr2\n", "", r"topology_command must print at most 8 names such as rack1/switch3, printed 'r1\nr2'"),
    ],
)
def test_why_a_command_says_no_place(code: int | None, output: str, errors: str, note: str) -> None:
    assert place_said(code, output, errors, 5.0) == ((), note)


def test_a_program_says_the_place(tmp_path: Path) -> None:
    argv = script(tmp_path, 'echo "asking for $GRASS_NODE" >&2; echo rack1/switch-$1')
    assert said([*argv, "7"], ENVIRONMENT) == (("rack1", "switch-7"), "from topology_command")
    assert said(script(tmp_path, 'echo "no $GRASS_NODE" >&2; exit 2'), ENVIRONMENT).note.endswith("code 2: no n1")


@pytest.mark.parametrize(
    "text", ["sleep 60", "sleep 60 & sleep 60", "exec yes", "exec yes >&2", "trap '' TERM; read x </dev/zero"]
)
def test_a_program_that_does_not_end_is_killed_in_time_whatever_it_prints(tmp_path: Path, text: str) -> None:
    begun = time.monotonic()
    assert said(script(tmp_path, text), ENVIRONMENT, 0.3) == ((), "topology_command did not end within 0.3 s")
    assert time.monotonic() - begun < 5


def test_what_a_program_left_running_is_killed(tmp_path: Path) -> None:
    argv = script(tmp_path, f"sleep 60 & echo $! > {tmp_path}/pid; echo r1")
    assert said(argv, ENVIRONMENT, 0.3).path == ("r1",)
    status = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    until = time.monotonic() + 10
    while status.exists() and status.read_text().split()[2] != "Z":
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_program_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert said([f"{tmp_path}/none"], ENVIRONMENT).note.startswith("topology_command cannot start: [Errno 2]")


def test_the_last_good_answer_outlives_a_failure(tmp_path: Path) -> None:
    config = home(tmp_path, topology_command=tuple(script(tmp_path, "echo r1/s1")))
    assert answer(config) == (("r1", "s1"), "from topology_command")
    script(tmp_path, "exit 1")
    assert answer(config) == (("r1", "s1"), "from an earlier start; now topology_command ended with exit code 1")
    (config.node_dir / "topology").write_bytes(b"\xff")
    assert answer(config) == ((), "topology_command ended with exit code 1")


@pytest.mark.parametrize("known", [{"path": ("r9",)}, {"labels": {"topology": "r9"}}])
def test_a_command_whose_answer_would_not_count_does_not_run(tmp_path: Path, known: dict[str, object]) -> None:
    config = home(tmp_path, topology_command=tuple(script(tmp_path, f"touch {tmp_path}/ran; echo r1")), **known)
    assert answer(config) == NOWHERE
    assert not (tmp_path / "ran").exists()


def test_the_machine_offers_what_the_command_says(tmp_path: Path) -> None:
    config = home(tmp_path, topology_command=tuple(script(tmp_path, "echo r1/$GRASS_NODE")))
    machine = ThisMachine(config, {"PATH": "/usr/bin:/bin"}, (), lambda: None, list, lambda sample: None)
    machine.start({})
    try:
        assert hello(config.node, machine.offer()).path == ("r1", "local")
    finally:
        machine.stop()


def home(folder: Path, **node: object) -> NodeHome:
    config = NodeHome("lab", "local", str(folder), str(folder), node=NodeConfig(**node))  # type: ignore[arg-type]
    config.node_dir.mkdir(exist_ok=True)
    return config


def answer(config: NodeHome) -> Place:
    command = PlaceCommand(config, ENVIRONMENT)
    command.start()
    return command.now()
