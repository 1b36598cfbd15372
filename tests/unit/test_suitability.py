"""What is said at submission about what no node of the cluster is."""

from __future__ import annotations

import time
from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.model.job import Job
from grass.wire.node_record import NODE_RECORD, NodeRecord
from master.api.dependency_check import check_after, find_cycle
from master.api.suitability import asks_about_nodes, unsuited

NODES: list[dict[str, Any]] = [
    {
        "name": "n1",
        "state": "READY",
        "resources": {"cpu": 4000, "memory": 8 << 30, "gpu": 1000, "custom": {"seats": 2}},
        "labels": {"arch": "x86_64", "zone": "a"},
        "runtimes": ["process"],
        "gpus": [{"id": 0, "name": "NVIDIA A100-SXM4-40GB", "memory": 40 << 30}],
        "path": ["rack1"],
    },
    {
        "name": "n2",
        "state": "DRAINING",
        "resources": {"cpu": 2000, "memory": 8 << 30, "gpu": 0},
        "labels": {"arch": "arm64", "zone": "b"},
        "runtimes": ["process"],
        "gpus": [],
    },
]


def job_of(component: str, job: str = "priority: 0") -> Job:
    return parse_job(read_document(f"{{name: a, {job}, components: {{x: {{command: c, {component}}}}}}}")).job


def node_of(wire: dict[str, Any]) -> NodeRecord:
    amounts = {**wire["resources"], "custom": sorted(wire["resources"].get("custom", {}).items())}
    return NODE_RECORD.convert({**wire, "resources": amounts})


def said(component: str, job: str = "priority: 0", nodes: list[dict[str, Any]] = NODES) -> list[str]:
    return [str(problem) for problem in unsuited(job_of(component, job), [node_of(node) for node in nodes])]


@pytest.mark.parametrize(
    ("container", "ignored"),
    [
        ("{mounts: ['/data:/d'], shm: 1GiB}", ["shm, mounts"]),
        ("{entrypoint: [tini]}", ["entrypoint"]),
        ("{entrypoint: []}", []),
        ("{network: host}", []),
    ],
)
def test_settings_of_containers_are_named_if_no_node_has_an_engine(container: str, ignored: list[str]) -> None:
    found = said(f"image: i, container: {container}")
    why = "components.x.container: ignored, because its tasks run as processes: "
    assert found[1:] == [why + each for each in ignored]
    assert len(said(f"image: i, runtime: docker, container: {container}")) == 1


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ("where: {arch: riscv}", "components.x.where.arch: no node has arch: riscv; nodes have arm64, x86_64"),
        ("where: {rack: 1}", "components.x.where.rack: no node has this label; nodes have arch, zone"),
        ("where: {arch: arm64, zone: a}", "components.x.where: no single node has all of these labels"),
        ("avoid: [n1, n9]", "components.x.avoid[1]: unknown node 'n9'; the cluster has n1, n2"),
        ("avoid: [n1, n2]", "components.x.avoid: excludes every node; the cluster has n1, n2"),
        ("spread: 2", "components.x.spread: no node has a topology path with level 2; set `topology` in the"),
        ("image: i", "components.x.image: no node has a container engine; its tasks run as processes"),
        (
            "image: i, runtime: docker",
            "components.x.image: no node has a container engine; its tasks wait until a node has one",
        ),
        (
            "resources: {gpu: {model: H100}}",
            "components.x.resources.gpu: no node has a GPU of this model or memory; "
            "the cluster has NVIDIA A100-SXM4-40GB (40GiB)",
        ),
        ("resources: {gpu: 2}", "components.x.resources: needs 2 gpu per task; the largest node has 1"),
        ("resources: {seats: 3}", "components.x.resources: needs 3 seats per task; the largest node has 2"),
        ("resources: {disk: 1GiB}", "components.x.resources: needs 1GiB disk per task; the largest node has 0B"),
        (
            "resources: {cpu: 3, gpu: 0, memory: 9GiB}",
            "components.x.resources: needs 9GiB memory per task; the largest",
        ),
    ],
)
def test_what_no_node_is_is_named_with_its_path(component: str, message: str) -> None:
    (found,) = said(component)
    assert found.startswith(message)


@pytest.mark.parametrize(
    "component",
    [
        "where: {arch: [riscv, arm64]}",
        "where: {arch: x86_64, zone: a}",
        "avoid: n1",
        "spread: node, pack: 1",
        "spread: node",
        "image: i, runtime: process",
        "resources: {gpu: {model: a100, memory: 40GiB}}",
        "resources: {gpu: 0.5, seats: 2}",
    ],
)
def test_nothing_is_said_about_what_some_node_is(component: str) -> None:
    assert said(component) == []


NAMESPACE: dict[str, Any] = {
    "name": "ns",
    "state": "READY",
    "resources": {"cpu": 64_000, "memory": 64 << 30, "gpu": 2000},
    "runtimes": ["kubernetes"],
    "gpus": [{"id": 0}, {"id": 1}],
}
WAITS = "its tasks wait for another node"
TOGETHER = "its tasks work together, and machines do not reach pods; `runtime: kubernetes` says that all are pods"


@pytest.mark.parametrize(
    ("component", "key", "why"),
    [
        ("cwd: sub", "cwd", "a relative `cwd` is in the share, which pods there do not have"),
        ("container: {user: '1'}", "container.user", "the settings of a namespace say which user pods have"),
        ("container: {ulimits: {nofile: 9}}", "container.ulimits", "pods have the limits of their machine"),
        ("container: {mounts: ['/a:/a']}", "container.mounts", "pods mount no folders of machines"),
        ("container: {data: /data}", "container.data", "it names the share, which pods there do not have"),
        ("resources: {gpu: 0.5}", "resources.gpu", "pods have whole GPUs only"),
        ("framework: torch", "framework", TOGETHER),
        ("min: 1", "min", TOGETHER),
        ("max: 3", "max", TOGETHER),
    ],
)
def test_what_pods_cannot_have_is_named_if_only_namespaces_could_run_it(component: str, key: str, why: str) -> None:
    asked = f"image: i, {component}"
    assert asks_about_nodes(job_of(component if not component.startswith("container") else asked))
    (found,) = said(asked, nodes=[NAMESPACE])
    assert found.startswith(f"components.x.{key}: no node but Kubernetes namespaces could run it, and {why}")
    assert found.endswith(WAITS)
    engine = {**NODES[0], "runtimes": ["process", "docker"]}
    assert said(asked, nodes=[NAMESPACE, engine]) == []
    with_share = said(asked, nodes=[{**NAMESPACE, "labels": {"share": "team-data"}}])
    assert bool(with_share) is ("which pods there do not have" not in why)


@pytest.mark.parametrize(
    "component",
    ["cwd: /sub", "framework: none", "container: {shm: 1GiB, entrypoint: [tini]}", "resources: {gpu: 2}", "ports: [p]"],
)
def test_what_pods_can_have_is_no_matter(component: str) -> None:
    assert said(f"image: i, {component}", nodes=[NAMESPACE]) == []
    assert said(f"image: i, runtime: kubernetes, {component}", nodes=[NAMESPACE, *NODES]) == []


def test_an_image_is_ignored_if_pods_cannot_run_the_rest_and_no_other_node_has_an_engine() -> None:
    runs = "no node has a container engine; its tasks run as processes"
    assert said("image: i, cwd: sub", nodes=[NAMESPACE, NODES[0]]) == [f"components.x.image: {runs}"]
    assert said("image: i", nodes=[NAMESPACE, NODES[0]]) == []


def test_a_component_without_an_image_is_told_that_only_nodes_that_need_one_are_there() -> None:
    says = "components.x.image: no node runs tasks without an image; its tasks wait until a node does"
    assert said("where: {}", nodes=[NAMESPACE]) == [says]
    assert said("where: {}", nodes=[NAMESPACE, NODES[0]]) == []
    assert said("where: {}", nodes=[{**NAMESPACE, "default_image": "python:3.12"}]) == []


def test_a_runtime_that_no_node_has_is_named() -> None:
    waits = "its tasks wait until a node does"
    assert said("runtime: process", nodes=[NAMESPACE]) == [f"components.x.runtime: no node runs processes; {waits}"]
    assert said("runtime: kubernetes, image: i") == [
        f"components.x.runtime: no node is a Kubernetes namespace; {waits}"
    ]


def test_gpus_of_a_namespace_have_no_model() -> None:
    (found,) = said("image: i, resources: {gpu: {model: A100}}", nodes=[NAMESPACE])
    assert found.endswith("no node has a GPU of this model or memory; the cluster has GPUs of unknown model")


def test_a_program_of_a_framework_that_no_node_has_is_named() -> None:
    def of(programs: list[str] | None) -> list[str]:
        job = parse_job({"name": "a", "components": {"x": {"command": "mpirun ./a", "framework": "openmpi"}}}).job
        assert asks_about_nodes(job)
        return [str(each) for each in unsuited(job, [node_of({**node, "programs": programs}) for node in NODES])]

    assert of(["python3", "mpirun"]) == of(None) == []
    what = "its tasks wait until a node has one"
    assert of(["python3"]) == [f"components.x.command: nodes have no mpirun (framework openmpi) on their PATH; {what}"]


def test_a_level_that_no_node_has_is_named_for_the_job_too() -> None:
    assert said("replicas: 2", "together: 3")[0].startswith("together: no node has a topology path with level 3")


def test_nothing_is_said_while_no_node_is_known() -> None:
    nothing = {"name": "n", "state": "JOINING", "resources": {"cpu": 0, "memory": 0, "gpu": 0}}
    assert said("where: {arch: riscv}", nodes=[]) == said("where: {arch: riscv}", nodes=[nothing]) == []
    assert said("where: {arch: riscv}", nodes=[{**NODES[0], "state": "LEFT"}]) == []


@pytest.mark.parametrize(
    ("component", "job", "held"),
    [
        ("replicas: 7, resources: {cpu: 1}", "gang: true", 6),
        ("replicas: 6, resources: {cpu: 1}", "gang: true", None),
        ("replicas: 7, resources: {cpu: 1}", "gang: false", None),
        ("replicas: 3, resources: {cpu: 1, seats: 1}", "gang: true", 2),
        ("replicas: 3, min: 3, max: 5, resources: {cpu: 2, memory: 5GiB}", "priority: 0", 2),
        ("replicas: 3, min: 2, max: 5, resources: {cpu: 2, memory: 5GiB}", "priority: 0", None),
    ],
)
def test_tasks_that_start_together_and_never_fit_together_are_said_at_once(
    component: str, job: str, held: int | None
) -> None:
    found = said(component, job)
    assert found == [] if held is None else [each for each in found if f"holds only {held} of them when empty" in each]


def test_only_special_wishes_are_worth_a_look_at_the_nodes() -> None:
    assert not asks_about_nodes(job_of("resources: {cpu: 1, memory: 1GiB}"))
    for amounts in ("gpu: 1", "cpu: 2", "memory: 3GiB", "disk: 1GiB", "seats: 1"):
        assert asks_about_nodes(job_of(f"resources: {{{amounts}}}"))
    assert asks_about_nodes(job_of("replicas: 2", "gang: true"))
    assert asks_about_nodes(job_of("replicas: 2", "together: node"))


def job_after(name: str, *after: str) -> Job:
    text = f"{{name: {name}, after: [{', '.join(after)}], components: {{x: {{command: c}}}}}}"
    return parse_job(read_document(text)).job


def test_a_circle_of_jobs_is_refused_with_its_way() -> None:
    known = {"b": (job_after("b", "c"), False), "c": (job_after("c", "a"), False)}
    with pytest.raises(ManifestError, match="after: jobs wait for each other in a cycle: a → b → c → a"):
        check_after(job_after("a", "b"), known.get)


def test_a_job_that_has_ended_closes_no_circle() -> None:
    known = {"b": (job_after("b", "a"), True)}
    assert find_cycle(job_after("a", "b"), known.get) == []
    assert check_after(job_after("a", "b"), known.get) == []


def test_a_circle_elsewhere_is_walked_once() -> None:
    known = {"b": (job_after("b", "c"), False), "c": (job_after("c", "b"), False)}
    assert find_cycle(job_after("a", "b"), known.get) == []


def test_a_job_that_is_not_there_yet_is_a_warning() -> None:
    assert check_after(job_after("a", "b"), lambda name: None) == [
        "after: job b does not exist yet; this job waits for it"
    ]


def array(name: str, size: int, more: str = "") -> Job:
    return parse_job(read_document(f"{{name: {name}, {more} components: {{x: {{command: c, replicas: {size}}}}}}}")).job


def test_arrays_of_different_sizes_do_not_follow_each_other_task_by_task() -> None:
    follower = array("a", 3, "after: {job: b, tasks: same},")
    assert check_after(follower, {"b": (array("b", 3), False)}.get) == []
    with pytest.raises(ManifestError, match=r"after\.tasks: both jobs must have as many tasks: b has 4, this one 3"):
        check_after(follower, {"b": (array("b", 4), True)}.get)
    several = parse_job(read_document("{name: b, components: {x: {command: c}, y: {command: c}}}")).job
    second = array("a", 3, "after: [c, {job: b, tasks: same}],")
    with pytest.raises(ManifestError, match=r"after\[1\].tasks: job b has 2 components"):
        check_after(second, {"b": (several, False)}.get)


def test_a_thousand_components_are_compared_with_a_thousand_nodes_at_once() -> None:
    common = {f"l{number}": "v" for number in range(40)}
    nodes = [
        node_of(
            {"name": f"n{at}", "state": "READY", "resources": {"cpu": 4000 + at, "memory": 1 << 30, "gpu": 0}}
            | {"labels": {**common, "hostname": f"n{at}"}}
        )
        for at in range(1000)
    ]
    where = [{**common, "hostname": f"n{at}"} for at in range(1000)]
    parts = {f"c{at}": {"command": "c", "where": where[at], "resources": {"cpu": 4.9}} for at in range(1000)}
    job = parse_job({"name": "a", "components": parts}).job
    begun = time.process_time()
    assert unsuited(job, nodes) == []
    assert time.process_time() - begun < 2.0, "without an index of the labels it took 10 s"
    parts = {name: {**part, "avoid": ["n1001"]} for name, part in parts.items()}
    found = unsuited(parse_job({"name": "a", "components": parts}).job, nodes)
    assert len(found) == 51 and found[-1].message == "stopped after 50 problems; there may be more"


@pytest.mark.parametrize("component", ["framework: torch", "replicas: 2, min: 1, max: 3", "framework: tf, ports: [tf]"])
def test_tasks_that_work_together_go_to_pods_if_all_are_pods(component: str) -> None:
    assert said(f"image: i, runtime: kubernetes, {component}", nodes=[NAMESPACE]) == []


def test_so_many_pods_that_their_list_may_be_too_long_are_refused() -> None:
    (found,) = said("image: i, runtime: kubernetes, framework: torch, replicas: 257", nodes=[NAMESPACE])
    assert found.startswith("components.x.replicas: ") and "at most 256 pods can know each other" in found
