"""Programs of frameworks that are missing are named: before the start on this machine, otherwise at exit code 127."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from grass.errors import ManifestError
from grass.model.framework import Framework, FrameworkName
from grass.model.job import Component, Container, Job, Mount
from grass.model.program import first_program, starts_several
from grass.model.resources import Resources
from grass.store.signed_images import SignedImage
from grass.wire.node_record import NodeRecord
from master.api.preflight import ProgramSources, check_programs
from node.agent.programs import Programs
from tests.support.waiting import wait_until
from tests.support.world import World


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("torchrun train.py", "torchrun"),
        ("OMP_NUM_THREADS=1 A='b c' exec torchrun train.py", "torchrun"),
        (("mpirun", "-np", "2"), "mpirun"),
        (("sh", "-c", "A=1 exec horovodrun -np 2 x", "sh"), "horovodrun"),
        ("exec /bin/bash -ec 'mpirun -np 2 ./solve'", "mpirun"),
        (("bash", "-lc", "mpirun"), "bash"),
        (("sh", "-c", "cd /x && mpirun"), "cd"),
        (("sh", "-c"), "sh"),
        (("sh", "run.sh", "mpirun"), "sh"),
        ("./run.sh && other", "./run.sh"),
        ("$LAUNCHER train.py", ""),
        (("sh", "-c", "PATH=/opt/mpi/bin:$PATH mpirun ./solve"), ""),
        ("(cd x; torchrun)", ""),
        ('echo "open', ""),
        ("# nothing", ""),
        ("", ""),
    ],
)
def test_the_first_program_of_a_command(command: str | tuple[str, ...], program: str) -> None:
    assert first_program(command) == program


@pytest.mark.parametrize(
    ("command", "several"),
    [
        ("exec torchrun train.py --name $NAME\n", False),
        (("echo", "a;b"), False),
        (("sh", "-c", "exec ./solve"), False),
        (("bash", "-c", "echo begin; ./solve"), True),
        ("./prepare && ./solve", True),
        ("./solve $(nproc)", True),
        ("./prepare\n./solve", True),
    ],
)
def test_whether_a_command_starts_several_programs(command: str | tuple[str, ...], several: bool) -> None:
    assert starts_several(command) is several


def job(command: str | tuple[str, ...], path: Path, **more: Any) -> Job:
    settings: dict[str, Any] = {"framework": Framework(FrameworkName.TORCHRUN), "shell": (("PATH", str(path)),), **more}
    return Job("j", {"w": Component("w", command, resources=Resources(1000), **settings)}, ("w",))


NO_IMAGES: dict[str, SignedImage] = {}


def check_here(*jobs: Job) -> None:
    check_programs(jobs, ProgramSources(NO_IMAGES.get, nodes_with(["process", "docker"]), on_client=True))


def nodes_with(runtimes: list[str]) -> Callable[[], list[NodeRecord]]:
    """Return what reads the records of a cluster with one such node."""
    world = World()
    world.add_node("n1", cpu=1, runtimes=runtimes)
    return world.api.nodes


def test_an_image_counts_only_where_a_node_has_a_container_engine(tmp_path: Path) -> None:
    wanted = job("torchrun train.py", tmp_path, image="torch:2", container=Container(entrypoint=()))
    check_here(wanted)
    # no framework runs in a namespace of Kubernetes
    for runtimes in (["process"], ["process", "kubernetes"]):
        with pytest.raises(ManifestError, match="torchrun is not installed"):
            check_programs([wanted], ProgramSources(NO_IMAGES.get, nodes_with(runtimes), on_client=True))


def test_a_program_that_the_task_would_not_find_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as refused:
        check_here(job("torchrun train.py", tmp_path), job("torchrun train.py", tmp_path))
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
    check_here(job("torchrun train.py", tmp_path, env={"PATH": str(program.parent)}))
    with pytest.raises(ManifestError):
        check_here(job("torchrun train.py", program.parent, env={"PATH": str(tmp_path)}))


def test_what_cannot_be_known_is_not_refused(tmp_path: Path) -> None:
    check_here(
        job("torchrun train.py", tmp_path, image="torch:2"),
        job("torchrun train.py", tmp_path, shell=()),
        job("torchrun train.py", tmp_path, framework=None),
        job("./own-launcher torchrun", tmp_path),
        job("cd x && torchrun train.py", tmp_path),
    )


OPENMPI = Framework(FrameworkName.OPENMPI)
WITHOUT = SignedImage("0" * 64, "ann", ("python3", "torchrun"))


@pytest.mark.parametrize(
    ("command", "more", "lacks"),
    [
        ("mpirun -np 2 ./solve", {"framework": OPENMPI}, "mpirun (framework openmpi)"),
        (("sh", "-c", "mpirun -np 2 ./solve"), {"framework": OPENMPI}, "mpirun (framework openmpi)"),
        ("torchrun train.py", {}, ""),
        ("sleep infinity", {"framework": OPENMPI}, ""),
        ("mpirun ./solve", {"framework": OPENMPI, "env": {"PATH": "/opt/mpi/bin"}}, ""),
        ("mpirun ./solve", {"framework": OPENMPI, "container": Container(entrypoint=("/init",))}, ""),
        ("mpirun ./solve", {"framework": OPENMPI, "container": Container(mounts=(Mount("/opt", "/opt"),))}, ""),
        ("mpirun ./solve", {"framework": OPENMPI, "image": "never-pushed"}, ""),
        ("mpirun ./solve", {"framework": OPENMPI, "image": "old"}, ""),
    ],
)
def test_a_program_that_a_pushed_image_lacks_is_named_on_every_cluster(
    tmp_path: Path, command: str | tuple[str, ...], more: dict[str, Any], lacks: str
) -> None:
    images = {"net:latest": WITHOUT, "old:latest": SignedImage("0" * 64, "ann")}
    wanted = job(command, tmp_path, **{"image": "net", "shell": (), **more})
    if not lacks:
        return check_programs([wanted], ProgramSources(images.get, list, on_client=False))
    with pytest.raises(ManifestError) as refused:
        check_programs([wanted], ProgramSources(images.get, list, on_client=False))
    advice = "install it in the image and push it again"
    assert [str(each) for each in refused.value.problems] == [
        f"components.w.command: image net has no {lacks} on its PATH; {advice}"
    ]


def test_a_launcher_over_ssh_needs_python_in_its_image(tmp_path: Path) -> None:
    images = {"net:latest": SignedImage("0" * 64, "ann", ("mpirun",))}
    with pytest.raises(ManifestError, match=r"no python3 \(framework openmpi\)"):
        check_programs(
            [job("mpirun ./solve", tmp_path, image="net", framework=OPENMPI)],
            ProgramSources(images.get, list, on_client=False),
        )


@pytest.mark.parametrize(
    ("found", "lacks"), [(("python3", "mpirun"), ""), (("python3",), "mpirun"), (("mpirun",), "python3"), (None, "")]
)
def test_an_image_that_only_the_engine_of_this_machine_has_is_looked_at(
    tmp_path: Path, found: tuple[str, ...] | None, lacks: str
) -> None:
    asked: list[str] = []

    def in_engine(image: str, wanted: Sequence[str]) -> Sequence[str] | None:
        asked.append(image)
        return None if found is None else [each for each in wanted if each in found]

    sources = ProgramSources(NO_IMAGES.get, nodes_with(["process", "docker"]), True, in_engine)
    wanted = job("mpirun ./solve", tmp_path, image="own", framework=OPENMPI)
    if lacks:
        with pytest.raises(
            ManifestError, match=rf"no {lacks} \(framework openmpi\) on its PATH; install it in the image$"
        ):
            check_programs([wanted], sources)
    else:
        check_programs([wanted], sources)
    assert asked == ["own:latest"]


def test_a_job_waits_for_a_node_that_has_the_program_and_starts_once_it_is_installed(tmp_path: Path) -> None:
    world = World()
    bare = world.add_node("n1", cpu=1, programs=["python3"])
    world.submit(job("torchrun train.py", tmp_path, shell=()))
    reason = world.job("j")["reason"]
    assert reason["code"] == "constraints" and "no torchrun (framework torchrun)" in reason["message"]
    bare.about["programs"] = ["python3", "torchrun"]
    bare.beat()
    world.run()
    assert world.tasks("j-1")["w.0"]["state"] == "RUNNING"


def test_a_node_of_an_older_version_is_not_known_to_lack_anything(tmp_path: Path) -> None:
    world = World()
    world.add_node("n1", cpu=1)
    world.submit(job("torchrun train.py", tmp_path, shell=()))
    assert world.tasks("j-1")["w.0"]["state"] == "RUNNING"


def test_the_programs_of_a_node_are_known_again_after_a_restart_of_the_master(tmp_path: Path) -> None:
    world = World()
    world.add_node("n1", cpu=1, programs=[])
    world.takeover()
    world.submit(job("torchrun train.py", tmp_path, shell=()))
    assert "no torchrun" in world.job("j")["reason"]["message"]


def test_a_node_names_a_program_soon_after_it_was_installed(tmp_path: Path) -> None:
    programs = Programs(str(tmp_path), every=0.01)
    programs.start()
    try:
        assert programs.now() == ()
        (tmp_path / "mpirun").write_text("#!/bin/sh\n")
        (tmp_path / "mpirun").chmod(0o755)
        wait_until(lambda: programs.now() == ("mpirun",))
    finally:
        programs.stop()


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
    world.submit(job("cd /x; torchrun train.py", tmp_path), run=3)
    world.end("j-3/w.0/1", code=127)
    said = world.tasks("j-3")["w.0"]["reason"]["message"]
    assert said == "ended with exit code 127: a program was not found; the task's log names it"
    plain = World()  # whose node has no container engine
    plain.add_node("n1", cpu=1, runtimes=["process"])
    plain.submit(job("torchrun train.py", tmp_path, image="torch:2"))
    plain.end("j-1/w.0/1", code=127)
    assert plain.tasks("j-1")["w.0"]["reason"]["message"].endswith("on the PATH of node n1")
