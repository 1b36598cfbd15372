"""The node-agent as a process that offers containers beside processes; the test plays the master-agent."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from grass.model.job import Container
from grass.store.api_store import ApiStore
from grass.store.embedded import NoRedisError, find_server
from grass.store.signed_images import SignedImage
from grass.wire.codec import builtins
from grass.wire.task_events import Ready, Started, Waiting
from node.runtime.docker.engine import Engine
from tests.integration.test_node_images import Share
from tests.support.engine import IMAGE, cluster_name, remove_containers, require_bridge, require_engine
from tests.support.example_run import free_port
from tests.support.needs import missing
from tests.support.node_run import NodeRun

pytestmark = pytest.mark.timeout(120)

ONE = "j-1/c.0/1"


@pytest.fixture
def node() -> Iterator[NodeRun]:
    require_engine()
    try:
        find_server()
    except NoRedisError as error:
        missing("redis", str(error))
    name = cluster_name()
    run = NodeRun(name=name, runtimes=("process", "docker"))
    run.config.data_dir.mkdir()
    try:
        with run:
            yield run
    finally:
        remove_containers(run.config.name, label=f"grass.node={name}")


def container(image: str | None = IMAGE, **plan: Any) -> dict[str, Any]:
    made = builtins(dataclasses.replace(Container(), **plan))
    return {"image": image, "cpu": 1000, "memory": 64 << 20, "container": made}


def test_a_component_with_an_image_runs_in_a_container_and_one_without_does_not(node: NodeRun) -> None:
    node.change(addresses={"j-1": "j.c.0 127.0.0.1 4000 params\n"})
    node.start("cat $GRASS_ADDRESSES; echo $GRASS_TASK; ls /; exit 3", ONE, **container())
    node.start("echo $HOME", "j-1/d.0/1", launch="j-1/d", **container(image=None))
    ended = node.ended(ONE)
    assert (ended.code, ended.reason) == (3, None)
    text = node.path(ONE, "stdout").read_text()
    assert text.startswith("j.c.0 127.0.0.1 4000 params\nj.c.0\n") and "busybox" not in text and "home" not in text
    assert ended.sizes["stdout"] == len(text)
    assert node.ended("j-1/d.0/1").code == 0
    assert node.hellos[0].runtimes == ("process", "docker")
    assert "python3" in (node.hellos[0].programs or ())
    node.change(remove=[ONE, "j-1/d.0/1"], drop=["j-1/c", "j-1/d"])
    engine = Engine()
    try:
        node.wait(lambda: not engine.containers([f"grass.node={node.config.node.name}"]))
    finally:
        engine.close()


def test_an_image_that_is_nowhere_is_said_to_be_missing(node: NodeRun) -> None:
    node.start("true", ONE, **container(image="no-such-image:9"))
    ended = node.ended(ONE)
    assert ended.reason.code == "cannot-start" and "no-such-image:9" in ended.reason.message


def test_an_image_in_the_share_that_is_not_the_one_in_the_masters_record_is_not_loaded(node: NodeRun) -> None:
    name = Share(node.config.data_dir / "images").push("1")
    ApiStore(node.backend, node.keys).images.write(name, SignedImage("0" * 64, "ann"))
    node.start("true", ONE, **container(image=name))
    ended = node.ended(ONE)
    assert ended.reason.code == "cannot-start" and "is not the one that was pushed" in ended.reason.message


def test_a_readiness_command_runs_in_the_container(node: NodeRun) -> None:
    ready = {"port": None, "command": "ls /tmp/there", "log": None, "timeout": 20.0}
    node.start("sleep 0.3; touch /tmp/there; exec sleep 100", ONE, ready=ready, **container())
    node.event(ONE, Ready)
    node.stop(ONE)
    assert node.ended(ONE).signal == 15


def test_a_container_with_its_own_network_is_ready_once_something_listens_in_it(node: NodeRun) -> None:
    require_bridge()
    port = free_port()
    ready = {"port": "web", "command": None, "log": None, "timeout": 60.0}
    go_on = node.config.data_dir / "go-on"
    script = f"until [ -e $GRASS_DATA/go-on ]; do sleep 0.05; done; while :; do echo hi | nc -l -p {port}; done"
    made = container(network="bridge", data="/share")
    node.start(script, ONE, ready=ready, ports={"web": port}, **made)
    waits = node.event(ONE, Waiting)
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        assert "nothing listens on its port web" in str(waits), "though the engine accepts connections to it"
    go_on.touch()
    node.event(ONE, Ready)


def test_a_killed_agent_leaves_containers_running_and_the_next_one_adopts_them(node: NodeRun) -> None:
    node.start("sleep 1; echo over; exit 9", ONE, **container())
    node.event(ONE, Started)
    node.kill_agent()
    node.start_agent()
    assert node.ended(ONE).code == 9
    assert node.path(ONE, "stdout").read_text() == "over\n"


def test_what_nobody_desires_any_more_is_stopped_and_removed(node: NodeRun) -> None:
    node.start("exec sleep 100", ONE, **container())
    node.event(ONE, Started)
    node.kill_agent()
    node.change(remove=[ONE], drop=["j-1/c"])
    node.start_agent()
    engine = Engine()
    try:
        node.wait(lambda: not engine.containers([f"grass.node={node.config.node.name}"]))
    finally:
        engine.close()


def test_a_runtime_that_the_node_does_not_offer_is_refused() -> None:
    with NodeRun() as node:
        node.start("true", ONE, **{**container(), "runtime": "docker"})
        ended = node.ended(ONE)
        assert ended.reason.code == "cannot-start" and "does not offer the runtime docker" in str(ended.reason)
