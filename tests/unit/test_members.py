"""The memberships that the master-agent publishes."""

from __future__ import annotations

from dataclasses import replace

from grass.cli.job_text import job_page
from grass.model.framework import Framework, FrameworkName
from grass.model.job import Component, Job, Restart, RestartOn
from grass.model.resources import Resources
from grass.model.runtime import RuntimeName
from grass.store.records import Records
from grass.wire.desired import DESIRED_CHANGE
from grass.wire.membership import Member, Membership
from master.api.ranks import have_ranks, with_ranks
from master.api.views import job_view, task_views
from tests.support.said import report
from tests.support.world import World

ONE_CORE = Resources(1000)


def two_racks() -> World:
    world = World()
    world.add_node("n1", cpu=1, path=["rack2", "s1"])
    world.add_node("n2", cpu=1, path=["rack1", "s2"])
    world.add_node("n3", cpu=1, path=["rack1", "s1"])
    return world


def elastic(**more: object) -> Job:
    settings = {"replicas": 3, "resources": ONE_CORE, "framework": Framework(FrameworkName.TORCHRUN), **more}
    return Job("j", {"w": Component("w", "x", **settings)}, ("w",))  # type: ignore[arg-type]


def published(world: World, node: str) -> Membership:
    return world.nodes[node].membership["j-1/w"]


def nodes_of(membership: Membership) -> list[str]:
    return [member.node for member in membership.members]


def test_ranks_follow_the_topology_and_every_node_of_the_job_knows_all_members() -> None:
    world = two_racks()
    world.submit(elastic())
    found = published(world, "n1")
    assert nodes_of(found) == ["n3", "n2", "n1"]
    assert [member.rank for member in found.members] == [0, 1, 2]
    assert found.members[2] == Member(found.members[2].task, 1, "n1", "10.0.0.1", 1, 2, api_port=1)
    assert (found.generation, found.epoch, found.desired, found.min, found.max) == (1, 1, 3, 3, 3)
    assert published(world, "n2") == published(world, "n3") == found


def test_the_ranks_that_the_api_shows_are_those_of_the_membership() -> None:
    world, job = two_racks(), elastic(min=1, max=3)
    world.submit(job)
    records = Records(world.backend, world.keys)
    record, tasks = records.run("j-1"), records.tasks("j-1")
    assert record is not None
    paths = {node.name: node.path for node in records.nodes()}
    shown = list(with_ranks(task_views(record, job, tasks), record, have_ranks(record, job), tasks, paths))
    assert {task.task: task.rank for task in shown} == {each.task: each.rank for each in published(world, "n1").members}
    by_rank = sorted(shown, key=lambda task: task.rank if isinstance(task.rank, int) else -1)
    assert [task.topology for task in by_rank] == [("rack1", "s1"), ("rack1", "s2"), ("rack2", "s1")]
    title, *rows = job_page(job_view(record), by_rank, 3, 0.0, None)[-4:]
    assert title.split()[:6] == ["TASK", "STATE", "ATTEMPT", "NODE", "RANK", "SWITCH"]
    assert [row.split()[3:6] for row in rows] == [
        ["n3", "0", "rack1/s1"],
        ["n2", "1", "rack1/s2"],
        ["n1", "2", "rack2/s1"],
    ]
    assert have_ranks(record, Job("j", {"w": Component("w", "x")}, ("w",))) == []


def test_a_member_that_fails_leaves_and_comes_back_as_another_attempt() -> None:
    world = two_racks()
    world.submit(elastic(restart=Restart(RestartOn.ON_FAILURE, 3, 5.0), min=1, max=3))
    world.end("j-1/w.1/1", code=1)
    left = published(world, "n1")
    assert (left.generation, len(left.members), left.min, left.max) == (2, 2, 1, 3)
    world.advance(6)
    back = published(world, "n1")
    assert back.generation == 3
    assert {(member.task, member.attempt) for member in back.members} == {("w.0", 1), ("w.1", 2), ("w.2", 1)}


def test_a_member_that_succeeded_stays_so_that_the_others_can_finish() -> None:
    world = two_racks()
    world.submit(elastic())
    world.end("j-1/w.0/1")
    assert published(world, "n1").generation == 1
    assert len(published(world, "n1").members) == 3


def test_a_new_master_agent_sends_the_same_generation_and_a_larger_epoch() -> None:
    world = two_racks()
    world.submit(elastic(restart=Restart(RestartOn.ON_FAILURE, 3, 0.0)))
    world.takeover()
    assert world.cluster.jobs["j-1"].components["w"].generation == 1
    world.end("j-1/w.1/1", code=1)
    found = published(world, "n1")
    assert (found.epoch, found.members[0].rank) == (2, 0)
    assert found.generation == world.job("j")["components"]["w"]["generation"] > 1


def test_slots_are_the_gpus_of_a_task_or_what_its_framework_says() -> None:
    world = World()
    world.add_node("n1", cpu=4, gpu=4)
    gpus = Component("a", "x", resources=Resources(1000, 0, 2000), framework=Framework(FrameworkName.HOROVOD))
    told = Component("b", "x", resources=ONE_CORE, framework=Framework(FrameworkName.HOROVOD, {"slots": 3}))
    one = replace(gpus, name="c", framework=Framework(FrameworkName.HOROVOD, {"slots": 1}))
    world.submit(Job("j", {"a": gpus, "b": told, "c": one}, ("a",)))
    found = world.nodes["n1"].membership
    assert [found[f"j-1/{name}"].members[0].slots for name in ("a", "b", "c")] == [2, 3, 1]


def test_an_array_has_no_membership_and_an_ended_job_leaves_none() -> None:
    world = World()
    world.add_node("n1", cpu=4)
    world.submit(Job("array", {"t": Component("t", "x", replicas=3, resources=ONE_CORE)}, ("t",)))
    assert not world.nodes["n1"].membership
    world.ticket("stop", id="array-1")
    world.submit(elastic())
    assert world.backend.hgetall(world.keys.membership("n1"))
    world.ticket("stop", id="j-1")
    assert not world.backend.hgetall(world.keys.membership("n1"))


def test_the_stream_of_changes_names_memberships_and_does_not_repeat_them() -> None:
    world = World()
    names = [f"n{number}" for number in range(1, 10)]
    for name in names:
        world.add_node(name)
    world.submit(Job("j", {"w": Component("w", "x", replicas=9, framework=Framework(FrameworkName.NONE))}, ("w",)))
    assert len(world.nodes["n1"].membership["j-1/w"].members) == 9
    entries = world.backend.stream(world.keys.changes("n1"), "0", 100)
    told = [DESIRED_CHANGE.decode(fields["body"]) for _, fields in entries]
    assert ("j-1/w",) in [each.memberships for each in told]
    assert not any(each.membership for each in told)


def located(world: World, key: str, address: str) -> None:
    world.nodes["n1"].store.report(
        [report("tasks", {"events": [{"key": key, "event": "located", "address": address}]})]
    )
    world.run()


def test_a_pod_is_a_member_before_it_has_an_address_and_others_learn_it_at_once() -> None:
    world = World()
    world.add_node("n1", cpu=9, runtimes=["kubernetes"])
    job = elastic(replicas=2, image="i", runtime=RuntimeName.KUBERNETES, ports=("p",), min=1, max=3)
    world.submit(job)
    first, second = published(world, "n1").members
    assert (first.address, first.node_address) == (second.address, second.node_address) == ("", "10.0.0.1")
    assert world.nodes["n1"].addresses["j-1"] == ""
    located(world, "j-1/w.1/1", "10.9.0.7")
    found = published(world, "n1")
    assert found.generation == 2 and [member.address for member in found.members] == ["", "10.9.0.7"]
    assert world.nodes["n1"].addresses["j-1"] == f"j.w.1 10.9.0.7 {second.ports['p']} p\n"
    world.takeover()
    assert published(world, "n1") == found
    located(world, "j-1/w.1/1", "10.9.0.7")
    assert published(world, "n1").generation == 2


def test_the_next_pod_of_a_task_has_no_address_until_it_says_so() -> None:
    world = World()
    world.add_node("n1", cpu=9, runtimes=["kubernetes"])
    again = Restart(RestartOn.ON_FAILURE, 3, 0.0)
    world.submit(elastic(replicas=1, image="i", runtime=RuntimeName.KUBERNETES, restart=again))
    located(world, "j-1/w.0/1", "10.9.0.7")
    world.end("j-1/w.0/1", code=1)
    world.advance(2)
    (member,) = published(world, "n1").members
    assert (member.attempt, member.address) == (2, "")
    located(world, "j-1/w.0/1", "10.9.0.7")
    assert published(world, "n1").members == (member,)
