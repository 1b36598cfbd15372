"""The machines behind a namespace: what they have, for whom, what `where` means there, and what a pod asks for."""

from __future__ import annotations

from typing import Any

import pytest

from grass.cli.node_text import node_page
from grass.kubernetes.machines import MOST_MACHINES, devices, machines_of, shown, total
from grass.kubernetes.objects import NODES
from grass.model.job import Component, GpuNeed, Job
from grass.model.machine_labels import with_own
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources
from grass.node_config import KubernetesConfig, NodeConfig
from grass.wire.gpu import GpuDevice
from grass.wire.machines import Machines
from grass.wire.offer_report import OfferReport
from master.api.views import node_view
from node.agent.environment import beyond
from node.agent.hello import gpus, resources
from node.agent.machine import Offer
from node.runtime.kubernetes.affinity import affinity, needs_machines
from node.runtime.protocol import ANY_GPU, Launch
from tests.support.world import SimulatedNode, World

GPU = "nvidia.com/gpu"
A100 = "NVIDIA-A100-SXM4-80GB"
AMOUNTS = {"cpu": "7910m", "memory": "32Gi"}
PLAIN = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "disk": "ssd"}


def machine(
    name: str, labels: dict[str, str] = PLAIN, amounts: dict[str, str] = AMOUNTS, **spec: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {**labels, "kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def with_gpus(name: str, model: str = A100, count: str = "4", memory: str = "81920") -> dict[str, Any]:
    labels = {**PLAIN, "nvidia.com/gpu.product": model, "nvidia.com/gpu.memory": memory}
    return machine(name, labels, {**AMOUNTS, GPU: count})


def see(*nodes: dict[str, Any], tolerations: tuple[dict[str, str], ...] = ()) -> Machines:
    return machines_of(NODES.convert({"metadata": {}, "items": list(nodes)}).items, GPU, tolerations)


def launch(where: dict[str, tuple[str, ...]] | None = None, gpu: GpuNeed = ANY_GPU) -> Launch:
    return Launch(["true"], {}, None, 1.0, where=where or {}, gpu=gpu)


def asked(body: Any) -> dict[str, list[str]]:
    [term] = body["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert all(each["operator"] == "In" for each in term["matchExpressions"])
    return {each["key"]: each["values"] for each in term["matchExpressions"]}


def test_a_machine_has_what_kubernetes_offers_to_pods() -> None:
    [b, a] = see(with_gpus("z"), machine("a")).machines[::-1]
    assert (a.name, a.cpu, a.memory, a.gpu, a.gpu_model) == ("a", 7910, 32 << 30, 0, "")
    assert (b.name, b.gpu, b.gpu_model, b.gpu_memory) == ("z", 4000, A100, 80 << 30)


@pytest.mark.parametrize(
    ("spec", "closed"),
    [
        ({}, ""),
        ({"unschedulable": True}, "cordoned in Kubernetes"),
        ({"taints": [{"key": "master", "effect": "NoSchedule"}]}, "taint master:NoSchedule"),
        ({"taints": [{"key": "team", "value": "b", "effect": "NoExecute"}]}, "taint team=b:NoExecute"),
        ({"taints": [{"key": "team", "value": "a", "effect": "NoExecute"}]}, ""),
        ({"taints": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]}, ""),
        ({"taints": [{"key": "slow", "effect": "PreferNoSchedule"}]}, ""),
    ],
)
def test_machines_on_which_our_pods_cannot_run_do_not_count(spec: dict[str, Any], closed: str) -> None:
    ours = ({"key": "team", "value": "a"}, {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"})
    seen = see(machine("a", **spec), tolerations=ours)
    assert seen.machines[0].closed == closed
    assert total(seen) == (Resources() if closed else Resources(cpu=7910, memory=32 << 30))


def test_a_machine_that_is_not_ready_does_not_count() -> None:
    away = machine("a")
    away["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert total(see(away, machine("b"))) == Resources(cpu=7910, memory=32 << 30)


def test_machines_share_their_labels_and_all_count_though_not_all_are_reported() -> None:
    seen = see(*(machine(f"m{number:04}") for number in range(MOST_MACHINES + 5)))
    assert seen.labels == (PLAIN,)
    report = shown(seen, {"m0001": ["j/w.1/1", "j/w.0/1"]})
    assert (len(report.machines), report.left_out) == (MOST_MACHINES, 5)
    assert (report.machines[1].tasks, report.machines[1].running) == (("j/w.0/1", "j/w.1/1"), 2)
    assert total(seen).cpu == (MOST_MACHINES + 5) * 7910


def test_a_host_name_that_is_not_the_name_is_kept() -> None:
    odd = machine("a")
    odd["metadata"]["labels"]["kubernetes.io/hostname"] = "other"
    [(found, labels)] = see(odd).labelled()
    assert with_own(labels, found.name)["kubernetes.io/hostname"] == "other"


def test_devices_are_those_of_the_machines_and_no_fewer_than_the_quota_says() -> None:
    seen = see(with_gpus("a", count="2"), with_gpus("b", "Tesla-T4", "1", "15360"), machine("c"))
    models = [A100, A100, "Tesla-T4"]
    assert [each.name for each in devices(seen, 2, "lab")] == models
    assert [each.name for each in devices(seen, 4, "lab")] == [*models, ""]
    assert devices(None, 1, "lab") == (GpuDevice(0, "lab/0"),)


def test_a_namespace_offers_all_devices_and_uses_as_many_as_its_limit() -> None:
    node = NodeConfig(gpu=1000, kubernetes=KubernetesConfig("lab"))
    has = Offer(Resources(cpu=1000, memory=1, gpu=1000), devices(see(with_gpus("a")), 1, "lab"))
    assert len(gpus(node, has)) == 4 and resources(node, has).gpu == 1000


@pytest.mark.parametrize(
    ("wanted", "product", "fits"),
    [
        ("A100", A100, True),
        ("a100-sxm4", A100, True),
        ("RTX 3090", "NVIDIA-GeForce-RTX-3090", True),
        ("H100", A100, False),
    ],
)
def test_a_model_is_found_in_what_kubernetes_makes_of_its_name(wanted: str, product: str, fits: bool) -> None:
    assert GpuNeed(wanted).matches(product, 1) == fits


def test_where_sees_labels_of_kubernetes_and_those_of_grass_that_follow() -> None:
    [(found, labels)] = see(with_gpus("m1")).labelled()
    seen = with_own(labels, found.name)
    own = {name: seen[name] for name in ("arch", "os", "gpu_model", "disk", "kubernetes.io/hostname")}
    assert own == {
        "arch": "x86_64",
        "os": "linux",
        "gpu_model": "A100",
        "disk": "ssd",
        "kubernetes.io/hostname": "m1",
    }


def test_labels_of_the_node_itself_are_no_matter_of_machines() -> None:
    where = {"kubernetes": ("lab",), "share": ("team",), "site": ("b",), "disk": ("ssd",)}
    node = NodeConfig(labels={"site": "b"}, kubernetes=KubernetesConfig("lab", claim="team"))
    assert beyond(where, node) == {"disk": ("ssd",)}


def test_labels_become_affinity_in_the_words_of_kubernetes() -> None:
    where = {"arch": ("x86_64", "aarch64"), "disk": ("ssd", "nvme")}
    assert not needs_machines(launch(where), 0)
    assert asked(affinity(launch(where), 0, None)) == {
        "kubernetes.io/arch": ["amd64", "arm64"],
        "disk": ["nvme", "ssd"],
    }
    assert affinity(launch(), 0, None) == {}


def test_a_model_of_gpus_becomes_all_products_that_match() -> None:
    seen = see(with_gpus("a"), with_gpus("b", "NVIDIA-A100-PCIE-40GB", memory="40960"), with_gpus("c", "Tesla-T4"))
    product = "nvidia.com/gpu.product"
    for each in (launch(gpu=GpuNeed("A100")), launch({"gpu_model": ("A100",)})):
        assert needs_machines(each, 1)
        assert asked(affinity(each, 1, seen)) == {product: ["NVIDIA-A100-PCIE-40GB", A100]}
    assert asked(affinity(launch(gpu=GpuNeed("A100", 60 << 30)), 1, seen)) == {product: [A100]}
    assert affinity(launch(gpu=GpuNeed("A100")), 0, seen) == {}  # it gets no GPU


@pytest.mark.parametrize("seen", [None, Machines(), see(machine("a"))])
def test_without_a_machine_of_that_model_a_pod_is_not_made(seen: Machines | None) -> None:
    for each in (launch(gpu=GpuNeed("A100")), launch({"gpu_model": ("A100",)})):
        found = affinity(each, 1, seen)
        assert isinstance(found, Reason) and found.code is ReasonCode.UNSCHEDULABLE
        assert "A100" in found.message


def machines_report(world: World, node: SimulatedNode, *nodes: dict[str, Any], gpu: int = 0) -> None:
    seen = see(*nodes)
    found = OfferReport(
        resources=Resources(cpu=4000, memory=4 << 30, gpu=gpu),
        gpus=devices(seen, 0, "ns"),
        machines=shown(seen, {"a": ["j-1/t.0/1"]}),
    )
    node.store.report([found])
    world.run()


@pytest.mark.parametrize("takeover", [False, True])
def test_the_master_places_by_labels_and_models_of_the_machines_that_it_was_told(takeover: bool) -> None:
    world = World()
    ns = world.add_node("ns", runtimes=["kubernetes"], default_image="i", labels={"kubernetes": "lab"})
    picky = {"where": {"disk": ("ssd",)}, "resources": Resources(cpu=100, gpu=1000), "gpu": GpuNeed("A100")}
    world.submit(Job("j", {"t": Component("t", "x", **picky)}, ("t",)))
    assert not world.running()
    machines_report(world, ns, with_gpus("a"))
    assert not world.running()  # the quota has no GPUs
    machines_report(world, ns, with_gpus("a", "Tesla-T4"), with_gpus("b"), gpu=1000)
    assert world.running() == ["j-1/t.0/1"]
    if takeover:
        world.takeover()
    world.end("j-1/t.0/1")
    world.submit(Job("k", {"t": Component("t", "x", **picky)}, ("t",)))
    assert world.running() == ["k-1/t.0/1"]
    world.end("k-1/t.0/1")
    ns.hello()  # a new agent, which may not see them
    world.run()
    assert world.node_views()[0]["machines"] is None


def test_a_view_names_tasks_of_jobs_that_the_caller_may_see_and_only_if_it_asks() -> None:
    world = World()
    ns = world.add_node("ns", runtimes=["kubernetes"])
    machines_report(world, ns, machine("a"))
    [record] = world.api.nodes()
    for seen, tasks in ((None, ()), (set(), ()), ({"j-1"}, ("j-1/t.0/1",))):
        machines = node_view(record, seen).machines
        assert machines is not None
        assert (machines.machines[0].tasks, machines.machines[0].running) == (tasks, 1)
        assert bool(machines.labels) is (seen is not None)
    page = "\n".join(node_page(node_view(record, {"j-1"}), 0.0, None))
    assert "Machine a" in page and "7.91 cpu, 32GiB, 1 task: j-1/t.0" in page
