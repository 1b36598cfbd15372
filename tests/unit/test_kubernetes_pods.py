"""The pod of an attempt: its whole body, and what is refused because a pod would not have it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from grass.errors import InputError
from grass.kubernetes.objects import POD
from grass.model.job import Container
from grass.model.runtime import RuntimeName
from grass.node_config import KubernetesConfig
from node.runtime.kubernetes.job_files import news, told
from node.runtime.kubernetes.pods import environment, pod
from node.runtime.protocol import Launch, Start

KEY = "train-12345678/actor.3/2"
SETTINGS = KubernetesConfig("lab")
LAUNCH = Launch(["/bin/sh", "-c", "echo hi"], {"EPOCHS": "5"}, None, 10.0, runtime=RuntimeName.KUBERNETES, image="i:1")
START = Start(KEY, "train-12345678/actor", {"GRASS_INDEX": "3"})


def made(
    launch: Launch = LAUNCH, start: Start = START, settings: KubernetesConfig = SETTINGS, **container: Any
) -> dict[str, Any]:
    plan = Container(**container) if container else launch.container
    return pod("home", "n1", start, launch._replace(container=plan), settings)


def task_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return the container that runs the task. The pod may have others."""
    [found] = [each for each in body["spec"]["containers"] if each["name"] == "task"]
    assert isinstance(found, dict)
    return found


def task(**changes: Any) -> dict[str, Any]:
    return task_of(made(**changes))


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"]}


def test_the_body_of_a_rich_launch() -> None:
    launch = Launch(
        argv=["train", "--data", "$(DATA)"],
        env={"EPOCHS": "5", "PRICE": "$(5)"},
        cwd="/app",
        grace=29.5,
        runtime=RuntimeName.KUBERNETES,
        image="registry:5000/team/train:3",
        cpu=2500,
        memory=4 << 30,
        container=Container(entrypoint=("tini", "--"), shm=1 << 30),
        defaults={"OMP_NUM_THREADS": "3"},
        timeout=90.5,
    )
    start = Start(KEY, "train-12345678/actor", {"GRASS_INDEX": "3"}, {"web": 20001, "params": 20002}, (4, 7))
    settings = KubernetesConfig(
        "lab",
        gpu="amd.com/gpu",
        user=2000,
        lost_after=120,
        pull_policy="Always",
        pull_secrets=("registry",),
        service_account="tasks",
        priority_class="low",
        labels={"team": "vision"},
        annotations={"note": "a"},
        tolerations=({"key": "gpu", "operator": "Exists"},),
    )
    amounts = {"cpu": "2500m", "memory": str(4 << 30), "amd.com/gpu": "2"}
    body = pod("home", "n1", start, launch, settings)
    annotations = {
        "note": "a",
        "grass-cluster.org/attempt": KEY,
        "grass-cluster.org/launch": "train-12345678/actor",
    }
    assert body["metadata"].pop("annotations").items() >= annotations.items()
    body["spec"]["containers"] = [task_of(body)]
    assert body == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "g-train-12345678-actor-3-2-yueyqo6fvduajwm6",
            "finalizers": ["grass-cluster.org/outcome"],
            "labels": {
                "team": "vision",
                "app.kubernetes.io/managed-by": "grass",
                "grass-cluster.org/cluster": "j2quawebkb3tzy5k",
                "grass-cluster.org/node": "m5vyxocm44th3vja",
                "grass-cluster.org/job": "lgciut3l3xlzaxrk",
                "grass-cluster.org/component": "actor",
            },
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
                "runAsUser": 2000,
                "runAsGroup": 2000,
                "fsGroup": 2000,
            },
            "imagePullSecrets": [{"name": "registry"}],
            "serviceAccountName": "tasks",
            "priorityClassName": "low",
            "shareProcessNamespace": True,
            "terminationGracePeriodSeconds": 30,
            "activeDeadlineSeconds": 391,
            "tolerations": [
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 120,
                },
                {
                    "key": "node.kubernetes.io/unreachable",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 120,
                },
                {"key": "gpu", "operator": "Exists"},
            ],
            "containers": [
                {
                    "name": "task",
                    "image": "registry:5000/team/train:3",
                    "imagePullPolicy": "Always",
                    "command": ["tini", "--"],
                    "args": ["train", "--data", "$$(DATA)"],
                    "workingDir": "/app",
                    "env": [
                        {"name": "HOME", "value": "/grass/scratch"},
                        {"name": "OMP_NUM_THREADS", "value": "3"},
                        {"name": "EPOCHS", "value": "5"},
                        {"name": "PRICE", "value": "$$(5)"},
                        {"name": "GRASS_INDEX", "value": "3"},
                        {"name": "GRASS_SCRATCH", "value": "/grass/scratch"},
                        {"name": "GRASS_OUTPUT", "value": "/grass/output"},
                        {"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"},
                    ],
                    "ports": [{"containerPort": 20001}, {"containerPort": 20002}],
                    "resources": {"requests": amounts, "limits": amounts},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [
                        {"name": "scratch", "mountPath": "/grass/scratch"},
                        {"name": "output", "mountPath": "/grass/output"},
                        {"name": "shm", "mountPath": "/dev/shm"},
                    ],
                }
            ],
            "volumes": [
                {"name": "scratch", "emptyDir": {}},
                {"name": "output", "emptyDir": {}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(1 << 30)}},
            ],
        },
    }


def test_a_plain_task_has_limits_and_no_deadline() -> None:
    body, found = made(), task()
    assert "activeDeadlineSeconds" not in body["spec"]
    amounts = {"cpu": "1000m", "memory": str(2 << 30)}
    assert found["resources"] == {"requests": amounts, "limits": amounts}
    assert {"command", "workingDir", "ports", "imagePullPolicy"}.isdisjoint(found)
    assert found["args"] == ["/bin/sh", "-c", "echo hi"]
    assert body["spec"]["volumes"][-1]["emptyDir"] == {"medium": "Memory", "sizeLimit": str(64 << 20)}


def test_without_the_restricted_level_a_pod_is_as_its_image_says() -> None:
    body = made(settings=KubernetesConfig("lab", restricted=False))
    assert "securityContext" not in body["spec"] and "securityContext" not in task_of(body)
    assert body["spec"]["automountServiceAccountToken"] is False


def test_the_restricted_level_may_leave_the_user_to_the_image() -> None:
    body = made(settings=KubernetesConfig("lab", user=None))
    assert body["spec"]["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@pytest.mark.parametrize(
    ("entrypoint", "shown"),
    [
        (None, {"args": ["a", "$$(b)"]}),
        (("tini", "$(x)"), {"command": ["tini", "$$(x)"], "args": ["a", "$$(b)"]}),
        ((), {"command": ["a", "$$(b)"]}),
    ],
)
def test_the_command_goes_to_the_entrypoint(entrypoint: tuple[str, ...] | None, shown: dict[str, list[str]]) -> None:
    found = task(launch=LAUNCH._replace(argv=["a", "$(b)"]), entrypoint=entrypoint)
    assert {name: found[name] for name in ("command", "args") if name in found} == shown


def expanded(text: str, known: dict[str, str]) -> str:
    """Return what a kubelet makes of a value (k8s.io/kubernetes/third_party/forked/golang/expansion)."""
    return re.sub(r"\$(\$)|\$\(([^)]*)\)", lambda m: m[1] or known.get(m[2], m[0]), text)


def test_kubernetes_replaces_no_variables_in_a_value() -> None:
    text = "$(B) $$(B) $$$(B $D $$ $"
    found = task(launch=LAUNCH._replace(argv=["/bin/sh", "-c", text], env={"A": text, "B": "b"}))
    assert expanded(variables(found)["A"], {"B": "b"}) == expanded(found["args"][2], {"B": "b"}) == text


def test_a_task_without_gpus_sees_none_and_one_with_gpus_its_own() -> None:
    assert variables(task())["NVIDIA_VISIBLE_DEVICES"] == "void" and variables(task())["CUDA_VISIBLE_DEVICES"] == ""
    found = variables(task(start=START._replace(gpus=(5,))))
    assert found["CUDA_VISIBLE_DEVICES"] == "0" and "NVIDIA_VISIBLE_DEVICES" not in found


def test_what_lies_on_the_machine_of_the_agent_is_not_named_in_a_pod() -> None:
    of_machine = {
        "GRASS_API": "/r/api.sock",
        "GRASS_MEMBERSHIP": "/h/m.json",
        "GRASS_ADDRESSES": "/h/addresses",
        "GRASS_DATA": "/h/data",
        "GRASS_OUTPUT": "/h/data/jobs/train-12345678",
        "GRASS_AFTER_PRE_TRAIN_OUTPUT": "/h/data/jobs/pre-train-00000001",
        "GRASS_CLUSTER": "home",
    }
    start = START._replace(env={"GRASS_TOKEN": "t", "GRASS_PORT_WEB": "20001"})
    assert environment(start, LAUNCH._replace(env=of_machine), SETTINGS) == {
        "HOME": "/grass/scratch",
        "GRASS_OUTPUT": "/grass/output",
        "GRASS_SCRATCH": "/grass/scratch",
        "GRASS_CLUSTER": "home",
        "GRASS_PORT_WEB": "20001",
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "void",
    }


def test_a_home_that_the_job_names_stays() -> None:
    assert environment(START, LAUNCH._replace(env={"HOME": "/home/app"}), SETTINGS)["HOME"] == "/home/app"


def test_a_pod_has_at_least_a_second_to_end() -> None:
    assert made(launch=LAUNCH._replace(grace=0.0))["spec"]["terminationGracePeriodSeconds"] == 1


def test_without_any_image_there_is_no_pod() -> None:
    with pytest.raises(InputError, match="image"):
        made(launch=LAUNCH._replace(image=""))


def annotations_of(body: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = body["metadata"]["annotations"]
    return found


def field(annotation: str) -> dict[str, str]:
    return {"fieldPath": f"metadata.annotations['{annotation}']"}


def test_a_task_that_must_know_others_waits_and_is_told_files_and_variables_together() -> None:
    launch = LAUNCH._replace(files={"addresses": "a b 1 p\n", "components/actor/find.sh": "#!/bin/sh\n"})
    start = START._replace(late={"MASTER_ADDR": "10.0.0.1"}, awaits="waits for actor.1")
    body = made(launch, start)
    waiter, between = body["spec"]["initContainers"]
    assert (between["name"], between["image"], between["command"]) == ("variables", "i:1", ["/bin/sh", "-c", ":"])
    assert waiter["image"] == "i:1" and "/grass/job/begin" in waiter["command"][2]
    (volume,) = [each["downwardAPI"] for each in body["spec"]["volumes"] if each["name"] == "job"]
    items = {each["path"]: (each["fieldRef"]["fieldPath"], each["mode"]) for each in volume["items"]}
    assert items.keys() == {"begin", "addresses", "components/actor/find.sh"}
    assert [mode for _, mode in items.values()] == [0o444, 0o444, 0o555]
    mount = {"name": "job", "mountPath": "/grass/job", "readOnly": True}
    assert mount in task_of(body)["volumeMounts"] and mount in waiter["volumeMounts"]
    late = {"name": "MASTER_ADDR", "valueFrom": {"fieldRef": field("env.grass-cluster.org/MASTER_ADDR")}}
    assert late in task_of(body)["env"]
    assert annotations_of(body)["grass-cluster.org/begin"] == "" and not any("env." in n for n in annotations_of(body))
    told = news(launch, start._replace(awaits=""))
    assert told["grass-cluster.org/begin"] and told["env.grass-cluster.org/MASTER_ADDR"] == "10.0.0.1"
    assert field(next(name for name, text in told.items() if text == "a b 1 p\n"))["fieldPath"] == items["addresses"][0]
    assert told_of(body) == {"grass-cluster.org/begin": ""}


def told_of(body: dict[str, Any]) -> dict[str, str] | None:
    return told(POD.convert({"metadata": body["metadata"]}))


def test_a_task_that_need_not_know_others_does_not_wait() -> None:
    body = made()
    assert "initContainers" not in body["spec"] and told_of(body) is None
