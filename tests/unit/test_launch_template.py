"""What the master-agent tells a node of a component, and what the node makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grass.config import UidRange
from grass.errors import UndecodableError
from grass.model.framework import Framework, FrameworkName
from grass.model.job import After, AfterState, Component, Container, Job, Mount, Ready
from grass.model.resources import Resources
from grass.model.runtime import RuntimeName
from grass.node_config import NodeConfig, NodeHome
from grass.wire.codec import encode
from grass.wire.launch import LAUNCH_TEMPLATE, LaunchTemplate
from master.agent.step import Limits
from node.agent.environment import launch
from tests.support.templates import template
from tests.support.world import World

ONE_CORE = Resources(1000)
ISOLATED = NodeHome("lab", "grass/on-premises", "/h", "/r", node=NodeConfig(isolate=UidRange(1, 9)))

OF_PROTOCOL_1 = (
    '{"job_id":"j-1","job":"j","component":"w","replicas":3,"min":1,"max":4,"command":["python","x.py"],"env":{"A":"b"},'
    '"cwd":"c","base":"/b","shell":[["PATH","/bin"]],"process":[["umask",18]],"ready":{"port":"p","command":null,'
    '"log":null,"timeout":5.0},"grace":7.0,"timeout":60.0,"output_limit":2097152,"width":2,"framework":{"name":'
    '"torchrun","options":{"slots":2}},"runtime":"docker","image":"i:1","cpu":2000,"memory":1073741824,"container":'
    '{"entrypoint":null,"user":"7","shm":null,"network":"host","ulimits":{},"mounts":[{"source":"/a","target":"/b",'
    '"read_only":true,"shared":false}],"data":null},"matrix":{"lr":["1","2","3"]},"awaited":{"a":"a-1"},"user":"ann",'
    '"read_only_data":true,"secret":"s"}'
)


def test_a_node_gets_the_component_and_all_that_its_run_adds() -> None:
    world = World(Limits(secret="of the cluster"))
    node = world.add_node("n1", cpu=2)
    first = world.submit(Job("first", {"t": Component("t", "x", resources=ONE_CORE)}, ("t",)))
    part = Component("w", "x", replicas=2, resources=ONE_CORE, env={"A": "b"})
    job = Job("j", {"w": part}, ("w",), after=(After("first", AfterState.ENDED),), read_only_data=True)
    world.submit(job, user="bob")
    world.end(f"{first}/t.0/1")
    assert node.launch["j-1/w"] == LaunchTemplate(
        job_id="j-1",
        job="j",
        component=part,
        size=2,
        width=2,
        awaited={"first": first},
        user="bob",
        read_only_data=True,
        secret=node.launch["j-1/w"].secret,
    )
    assert node.launch["j-1/w"].secret not in ("", node.launch["first-1/t"].secret)
    assert not node.launch["first-1/t"].read_only_data


def test_the_template_has_the_present_size_of_its_component() -> None:
    world = World()
    node = world.add_node("n1", cpu=3)
    world.submit(Job("j", {"w": Component("w", "x", replicas=2, resources=ONE_CORE, min=1, max=3)}, ("w",)))
    world.ticket("scale", job_id="j-1", id="o1", component="w", size=3)
    assert (node.launch["j-1/w"].size, node.launch["j-1/w"].component.replicas) == (3, 2)


@pytest.mark.parametrize(("of_job", "of_node"), [(False, False), (True, False), (False, True)])
def test_an_isolated_task_may_only_read_if_its_job_or_its_node_says_so(of_job: bool, of_node: bool) -> None:
    config = replace(ISOLATED, node=replace(ISOLATED.node, read_only_data=of_node))
    made = launch(config, template(read_only_data=of_job, user="ann", cpu=500, memory=9), {})
    assert (made.read_only_data, made.user, made.cpu, made.memory) == (of_job or of_node, "ann", 500, 9)


def test_a_template_that_a_master_of_protocol_1_left_in_redis_is_read() -> None:
    part = Component(
        "w",
        ("python", "x.py"),
        replicas=3,
        min=1,
        max=4,
        env={"A": "b"},
        cwd="c",
        base="/b",
        shell=(("PATH", "/bin"),),
        process=(("umask", 18),),
        ready=Ready(port="p", timeout=5.0),
        grace=7.0,
        timeout=60.0,
        output_limit=2097152,
        framework=Framework(FrameworkName.TORCHRUN, {"slots": 2}),
        runtime=RuntimeName.DOCKER,
        image="i:1",
        resources=Resources(2000, 1 << 30),
        container=Container(user="7", mounts=(Mount("/a", "/b", True),)),
        matrix={"lr": ("1", "2", "3")},
    )
    found = LAUNCH_TEMPLATE.decode(OF_PROTOCOL_1)
    assert found == LaunchTemplate(
        job_id="j-1",
        job="j",
        component=part,
        size=3,
        width=2,
        awaited={"a": "a-1"},
        user="ann",
        read_only_data=True,
        secret="s",
    )
    assert LAUNCH_TEMPLATE.decode(encode(found)) == found


def test_a_new_master_and_a_new_node_go_on_with_tasks_that_an_earlier_version_started() -> None:
    world = World()
    node = world.add_node("n1", cpu=2)
    world.submit(Job("j", {"w": Component("w", "x", replicas=3, resources=ONE_CORE, grace=3.0)}, ("w",)))
    before = world.cluster.nodes["n1"].free
    old = '{"job_id":"j-1","job":"j","component":"w","replicas":3,"command":"x","grace":3.0,"cpu":1000,"width":2}'
    world.backend.apply([("HSET", world.keys.launch("n1"), "j-1/w", old)])
    world.takeover()
    assert (world.cluster.nodes["n1"].free, world.cluster.jobs["j-1"].components["w"].slots) == (before, 2)
    node.hello()
    world.run()
    found = node.store.desired().launch["j-1/w"]
    assert (found.width, found.size, found.component.grace, found.component.resources) == (2, 3, 3.0, ONE_CORE)
    for index in range(3):
        world.end(f"j-1/w.{index}/1")
    assert world.job("j")["state"] == "SUCCEEDED"


@pytest.mark.parametrize("text", ['{"component":"w"}', '{"component":{"name":"w"}}', "[]", "{"])
def test_a_template_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UndecodableError):
        LAUNCH_TEMPLATE.decode(text)
