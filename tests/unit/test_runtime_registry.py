"""The registry of runtimes: what it names, and which runtime a component gets."""

from __future__ import annotations

import subprocess
import sys

import pytest

from grass.errors import InputError, NotFoundError, UnreachableError
from grass.model.job import Component, runtime_of
from grass.model.runtime import RUNTIMES, RuntimeName
from grass.node_config import NodeConfig, NodeHome
from node.runtime.composite import CompositeRuntime
from node.runtime.process.client import ProcessRuntime
from node.runtime.registry import execute, kind, open_runtimes


def config(folder: str, *runtimes: str) -> NodeHome:
    node = NodeConfig(runtimes=runtimes)
    return NodeHome(name="x", mode="local", home=folder, runtime_dir=folder, node=node)


@pytest.mark.parametrize(
    ("asked", "image", "offered", "runtime"),
    [
        (None, None, ("process", "docker"), "process"),
        (None, "busybox:1", ("process", "docker"), "docker"),
        (None, "busybox:1", ("process",), "process"),
        (None, None, ("docker",), "process"),
        (None, "busybox:1", ("podman", "docker"), "docker"),
        (None, "busybox:1", ("podman",), "process"),
        ("docker", None, ("process",), "docker"),
        (None, None, ("kubernetes",), "kubernetes"),
        (None, None, ("process", "kubernetes"), "process"),
        (None, "busybox:1", ("kubernetes",), "kubernetes"),
        ("process", None, ("kubernetes",), "process"),
        ("process", "busybox:1", ("process", "docker"), "process"),
    ],
)
def test_a_component_gets_what_it_asks_for_or_what_suits_it(
    asked: str | None, image: str | None, offered: tuple[str, ...], runtime: str
) -> None:
    component = Component("w", "x", image=image, runtime=None if asked is None else RuntimeName(asked))
    assert runtime_of(component, offered) is RuntimeName(runtime)


def test_each_runtime_that_a_file_may_name_exists() -> None:
    assert len({type(kind(name)) for name in RUNTIMES}) == len(RUNTIMES)


def test_an_unknown_runtime_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match="unknown runtime 'podman'; use process or docker"):
        kind("podman")
    with pytest.raises(InputError, match="podman"):
        open_runtimes(config("/tmp", "process", "podman"), lambda: True)


def test_one_runtime_is_opened_as_it_is_and_several_as_one() -> None:
    alone = open_runtimes(config("/nowhere", "process"), lambda: True)
    assert isinstance(alone, ProcessRuntime)
    alone.close()
    together = open_runtimes(config("/nowhere", "process", "docker"), lambda: True)
    assert isinstance(together, CompositeRuntime)
    together.close()


def test_a_command_for_an_attempt_that_may_be_in_a_runtime_that_is_away_is_to_be_asked_again(tmp_path: object) -> None:
    with pytest.raises(UnreachableError, match="the shepherd does not answer"):
        execute(config(str(tmp_path), "process"), "j-1/c.0/1", ["true"], None)
    with pytest.raises(NotFoundError, match="no attempt"):
        execute(config(str(tmp_path)), "j-1/c.0/1", ["true"], None)


def test_a_node_of_processes_never_imports_what_containers_need() -> None:
    program = (
        "import sys; import node.agent.__main__, node.api.app, node.agent.probe;"
        "from node.runtime.registry import kind;"
        "kind('process'); print('docker' in sys.modules, 'node.runtime.docker.streams' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
