"""Programs of frameworks that are missing are named: before the start on this machine, otherwise at exit code 127."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grass.errors import ManifestError
from grass.frameworks.registry import FRAMEWORKS, LAUNCHERS
from grass.model.framework import Framework, FrameworkName
from grass.model.job import Component, Job
from grass.model.program import first_program
from grass.model.resources import Resources
from master.api.preflight import check_programs
from tests.support.world import World


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("torchrun train.py", "torchrun"),
        ("OMP_NUM_THREADS=1 A='b c' exec torchrun train.py", "torchrun"),
        (("mpirun", "-np", "2"), "mpirun"),
        ("./run.sh && other", "./run.sh"),
        ("$LAUNCHER train.py", ""),
        ("(cd x; torchrun)", ""),
        ('echo "open', ""),
        ("# nothing", ""),
        ("", ""),
    ],
)
def test_the_first_program_of_a_command(command: str | tuple[str, ...], program: str) -> None:
    assert first_program(command) == program


def job(command: str, path: Path, **more: Any) -> Job:
    settings: dict[str, Any] = {"framework": Framework(FrameworkName.TORCHRUN), "shell": (("PATH", str(path)),), **more}
    return Job("j", {"w": Component("w", command, resources=Resources(1000), **settings)}, ("w",))


def test_a_program_that_the_task_would_not_find_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as refused:
        check_programs([job("torchrun train.py", tmp_path)] * 2)
    [problem] = refused.value.problems
    assert problem.path == "components.w.command"
    assert problem.message == (
        "torchrun is not installed: the task would not find it on its PATH; framework torchrun needs it"
    )


def test_the_path_of_the_component_counts_before_that_of_the_shell(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "torchrun"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    check_programs([job("torchrun train.py", tmp_path, env={"PATH": str(program.parent)})])
    with pytest.raises(ManifestError):
        check_programs([job("torchrun train.py", program.parent, env={"PATH": str(tmp_path)})])


def test_what_cannot_be_known_is_not_refused(tmp_path: Path) -> None:
    check_programs(
        [
            job("torchrun train.py", tmp_path, image="torch:2"),
            job("torchrun train.py", tmp_path, shell=()),
            job("torchrun train.py", tmp_path, framework=None),
            job("./own-launcher torchrun", tmp_path),
            job("cd x && torchrun train.py", tmp_path),
        ]
    )


def test_every_launcher_belongs_to_a_framework() -> None:
    assert LAUNCHERS.keys() <= FRAMEWORKS.keys()


def test_exit_code_127_names_the_program_and_where_it_is_missing(tmp_path: Path) -> None:
    world = World()
    world.add_node("n1", cpu=1, runtimes=["process", "docker"])
    world.submit(job("torchrun train.py", tmp_path))
    world.end("j-1/w.0/1", code=127)
    reason = world.tasks("j-1")["w.0"]["reason"]
    assert reason["message"] == (
        "ended with exit code 127: a program was not found; "
        "its command starts torchrun, which must be on the PATH of node n1"
    )
    assert reason["message"] in world.job("j")["reason"]["message"]
    world.submit(job("torchrun train.py", tmp_path, image="torch:2"), run=2)
    world.end("j-2/w.0/1", code=127)
    assert world.tasks("j-2")["w.0"]["reason"]["message"].endswith("on the PATH in image torch:2")
