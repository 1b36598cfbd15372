"""Jobs written as plain objects of Kubernetes: what they are, and that Kubernetes accepts them."""

from __future__ import annotations

import io
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grass.cli.export import export
from grass.cli.invocation import Invocation
from grass.cli.output import Output
from grass.errors import InputError
from grass.manifest import parse_job, read_document, yaml_text
from grass.manifest.document import read_documents
from grass.manifest.export.formats import FORMATS
from grass.manifest.export.losses import Exported
from grass.model.job import Job
from grass.task.peer_file import peers
from tests.support.needs import missing

BOTH = ("kubernetes", "kubernetes-pods")
VERSIONS = ("1.25", "1.29", "1.37")
"""The oldest that kubernetes-validate has, one in the middle, the newest. tests/integration asks a real 1.20."""
EVERYTHING: dict[str, Any] = {
    "server": {
        "command": 'exec serve "$GRASS_PORT_DATA_IN" $(date) $$ $(HOME)',
        "image": "registry.example.org/a/serve:1.2",
        "ports": ["data-in", "web"],
        "ready": {"port": "data-in"},
        "env": {"LR": "1e-3", "FLAG": "y", "PRICE": "$$ $(HOME)", "HF_TOKEN": "[REDACTED]"},
        "cwd": "/srv",
        "grace": "2m",
        "resources": {"cpu": 0.5, "memory": "1GiB", "disk": "2GiB", "gpu": 2},
        "container": {"user": "7:8", "shm": "64MiB", "entrypoint": ["tini", "--"]},
    },
    "sweep": {
        "command": "python t.py\n",
        "image": "python:3.12",
        "matrix": {"lr": [0.1, "it's"], "seed": [1, 2, 3]},
        "restart": {"limit": 2, "codes": [137, 9]},
        "timeout": "90s",
        "parallelism": 4,
        "where": {"zone": ["a", "b"]},
        "spread": "node",
        "ready": {"command": ["test", "-e", "up"]},
    },
    "list": {
        "command": ["python", "l.py"],
        "image": "python:3.12",
        "pack": "node",
        "from": {"entries": ["a b", "$(c) $$"]},
    },
}


def job(components: dict[str, Any], **keys: Any) -> Job:
    return parse_job({"name": "train", "components": components, **keys}).job


def part(**keys: Any) -> dict[str, Any]:
    return {"w": {"command": "x", "image": "i", **keys}}


def documents(exported: Exported) -> dict[str, Any]:
    """Return the objects of a file by kind and name."""
    found = read_documents(exported.text)
    named = {f"{each['kind']}/{each['metadata']['name']}": each for each in found}
    assert len(named) == len(found)
    return named


def container(document: Any) -> Any:
    spec = document["spec"]
    return spec.get("template", {"spec": spec})["spec"]["containers"][0]


def variables(document: Any) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container(document)["env"]}


def validate(document: Any, version: str) -> None:
    try:
        import kubernetes_validate
    except ImportError:
        missing("kubernetes-validate", "pip install '.[dev]'")
    kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("format", BOTH)
def test_every_version_of_kubernetes_accepts_the_objects(format: str, version: str) -> None:
    wanted = job(EVERYTHING, tags={"team": "vision", "a b": "c"}, timeout="1h", deadline="2h", ttl="1d")
    found = documents(FORMATS[format](wanted))
    if version == VERSIONS[0]:
        found.pop("Job/train-sweep", None)  # its restarts need 1.29, and the file says so
    for each in found.values():
        validate(each, version)


@pytest.mark.parametrize("path", sorted(Path("examples").glob("*/*job.yml")), ids=str)
def test_every_example_becomes_objects_that_kubernetes_accepts(path: Path) -> None:
    wanted = parse_job(read_document(path.read_bytes())).job
    for format in BOTH:
        found = documents(FORMATS[format](wanted)).values()
        of_each_component = {(each["kind"], str(each["metadata"]["labels"])): each for each in found}
        for each in of_each_component.values():
            validate(each, VERSIONS[-1])


def test_an_array_becomes_an_indexed_job() -> None:
    exported = FORMATS["kubernetes"](job(part(replicas=200, parallelism=8), ttl="1h", timeout="10m", deadline="9m"))
    (indexed,) = documents(exported).values()
    spec = indexed["spec"]
    del spec["template"]
    assert spec == {
        "completionMode": "Indexed",
        "completions": 200,
        "parallelism": 8,
        "backoffLimitPerIndex": 0,
        "activeDeadlineSeconds": 540,
        "ttlSecondsAfterFinished": 3600,
    }
    assert "# Job train of Grass, for Kubernetes 1.29 or later" in exported.text
    assert exported.missing == exported.needed == exported.notes == ()


@pytest.mark.parametrize(
    ("keys", "fail_fast", "limits", "version"),
    [
        ({}, False, {"backoffLimit": 0}, "1.24"),
        ({"restart": {"limit": 2}}, False, {"backoffLimit": 2}, "1.24"),
        ({"restart": {"limit": "unlimited"}}, False, {"backoffLimit": 2147483647}, "1.24"),
        ({"replicas": 2}, True, {"backoffLimit": 0}, "1.24"),
        ({"replicas": 2, "restart": {"limit": 2}}, True, {"backoffLimitPerIndex": 2, "maxFailedIndexes": 0}, "1.29"),
        ({"replicas": 2, "restart": {"limit": 2}}, False, {"backoffLimitPerIndex": 2}, "1.29"),
        ({"replicas": 2}, False, {"backoffLimitPerIndex": 0}, "1.29"),
    ],
)
def test_one_task_uses_up_no_restarts_of_another_one(
    keys: dict[str, Any], fail_fast: bool, limits: dict[str, int], version: str
) -> None:
    exported = FORMATS["kubernetes"](job(part(**keys), fail_fast=fail_fast))
    spec = documents(exported)["Job/train-w"]["spec"]
    names = ("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes")
    assert {name: spec[name] for name in names if name in spec} == limits
    assert f"for Kubernetes {version} or later" in exported.text
    validate(documents(exported)["Job/train-w"], max(version, VERSIONS[0]))


@pytest.mark.parametrize(("replicas", "action", "version"), [(1, "FailJob", "1.26"), (2, "FailIndex", "1.29")])
def test_other_exit_codes_restart_nothing_and_kubernetes_own_doing_does_not_count(
    replicas: int, action: str, version: str
) -> None:
    exported = FORMATS["kubernetes"](job(part(replicas=replicas, restart={"codes": [137, 9]})))
    rules = documents(exported)["Job/train-w"]["spec"]["podFailurePolicy"]["rules"]
    codes = {"containerName": "task", "operator": "NotIn", "values": [9, 137]}
    assert rules == [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": action, "onExitCodes": codes, "onPodConditions": []},
    ]
    validate(documents(exported)["Job/train-w"], version)
    assert f"for Kubernetes {version} or later" in exported.text


def test_the_tasks_of_an_indexed_job_know_their_index_from_kubernetes() -> None:
    found = documents(FORMATS["kubernetes"](job(part(replicas=3, ports=["p"]))))
    names = list(variables(found["Job/train-w"]))
    given = variables(found["Job/train-w"])
    path = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    assert given["GRASS_INDEX"] == {"fieldRef": {"fieldPath": path}}
    assert given["GRASS_TASK"] == "train.w.$(GRASS_INDEX)"
    assert names.index("GRASS_INDEX") < names.index("GRASS_TASK")  # otherwise it would not be replaced
    assert {key: given[f"GRASS_{key}"] for key in ("JOB", "COMPONENT", "REPLICAS", "ATTEMPT", "PORT_P")} == {
        "JOB": "train",
        "COMPONENT": "w",
        "REPLICAS": "3",
        "ATTEMPT": "1",
        "PORT_P": "20000",
    }


@pytest.mark.parametrize("format", BOTH)
def test_tasks_find_each_other_by_the_service(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = documents(FORMATS[format](job({**part(replicas=2, ports=["p", "q"]), "v": {"command": "x", "image": "i"}})))
    service = found["Service/train"]["spec"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"] is True
    pods = {name: each for name, each in found.items() if name.startswith(("Pod/", "Job/"))}
    for name, each in pods.items():
        pod = each["spec"].get("template", each)
        assert service["selector"].items() <= pod["metadata"]["labels"].items()
        assert pod["spec"]["subdomain"] == "train"
        assert pod["spec"].get("hostname") == (name.removeprefix("Pod/") if format == "kubernetes-pods" else None)
    file = tmp_path / "addresses"
    file.write_text(found["ConfigMap/train"]["data"]["addresses"])
    monkeypatch.setenv("GRASS_ADDRESSES", str(file))
    assert [(each.index, each.name, each.address) for each in peers("w")] == [
        (0, "p", "train-w-0.train:20000"),
        (0, "q", "train-w-0.train:20001"),
        (1, "p", "train-w-1.train:20000"),
        (1, "q", "train-w-1.train:20001"),
    ]
    assert variables(next(iter(pods.values())))["GRASS_ADDRESSES"] == "/grass/job/addresses"


TORCH = {"framework": "torch", "ports": ["master"], "replicas": 3}


@pytest.mark.parametrize(
    ("format", "name", "rank"),
    [("kubernetes", "Job/train-w", "$(GRASS_INDEX)"), ("kubernetes-pods", "Pod/train-w-2", "2")],
)
def test_torch_finds_rank_0_by_its_name(format: str, name: str, rank: str) -> None:
    exported = FORMATS[format](job(part(**TORCH)))
    given = variables(documents(exported)[name])
    assert given.items() >= {"MASTER_ADDR": "train-w-0.train", "MASTER_PORT": "20000", "WORLD_SIZE": "3"}.items()
    assert (given["RANK"], given["LOCAL_RANK"], exported.missing[1:]) == (rank, "0", ())


def test_a_variable_of_the_job_replaces_that_of_the_framework() -> None:
    given = variables(documents(FORMATS["kubernetes"](job(part(**TORCH, env={"MASTER_PORT": "7"}))))["Job/train-w"])
    assert given["MASTER_PORT"] == "7"


def test_torchrun_meets_at_task_0() -> None:
    keys = {"framework": {"name": "torchrun", "restarts": 5}, "replicas": 2, "resources": {"gpu": 4}}
    exported = FORMATS["kubernetes"](job(part(**keys)))
    given = variables(documents(exported)["Job/train-w"])
    assert {name.removeprefix("PET_"): value for name, value in given.items() if name.startswith("PET_")} == {
        "RDZV_BACKEND": "c10d",
        "RDZV_ENDPOINT": "train-w-0.train:29400",
        "RDZV_ID": "train",
        "NNODES": "2",
        "NPROC_PER_NODE": "4",
        "MAX_RESTARTS": "5",
        "LOG_DIR": "/grass/scratch",
    }
    assert exported.missing == ()


@pytest.mark.parametrize(("format", "name"), [("kubernetes", "Job/train-w"), ("kubernetes-pods", "Pod/train-w-1")])
def test_tensorflow_knows_all_tasks(format: str, name: str) -> None:
    parts = {each: {"command": "x", "image": "i", "framework": "tf", "ports": ["tf"]} for each in ("chief", "w")}
    given = variables(documents(FORMATS[format](job({**parts, "w": {**parts["w"], "replicas": 2}})))[name])
    config = json.loads(given["TF_CONFIG"].replace("$(GRASS_INDEX)", "1"))
    assert config == {
        "cluster": {"chief": ["train-chief-0.train:20000"], "w": ["train-w-0.train:20000", "train-w-1.train:20000"]},
        "task": {"type": "w", "index": 1},
    }


def test_frameworks_that_need_grass_are_named() -> None:
    for framework in ("none", "horovod", "openmpi", "mpich", "deepspeed"):
        exported = FORMATS["kubernetes"](job(part(framework=framework)))
        assert exported.missing == ("components.w.framework",)
    many = FORMATS["kubernetes"](job(part(framework="tf", ports=["tf"], replicas=1001)))
    assert many.missing == ("gang", "components.w.framework")


def test_tasks_that_nobody_asks_for_have_no_service() -> None:
    assert list(documents(FORMATS["kubernetes"](job(part(replicas=2))))) == ["Job/train-w"]


@pytest.mark.parametrize("format", BOTH)
def test_pods_are_what_the_restricted_level_accepts(format: str) -> None:
    for each in documents(FORMATS[format](job(EVERYTHING))).values():
        if each["kind"] in ("Job", "Pod"):
            spec = each["spec"].get("template", each)["spec"]
            context, own = spec["securityContext"], container(each)["securityContext"]
            assert context["runAsNonRoot"] is True and context["runAsUser"] > 0
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}
            assert own == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
            assert spec["automountServiceAccountToken"] is False
            assert all(volume.keys() - {"name"} <= {"emptyDir", "configMap"} for volume in spec["volumes"])


def test_a_pod_is_what_the_component_says() -> None:
    server = documents(FORMATS["kubernetes-pods"](job(EVERYTHING)))["Pod/train-server-0"]
    task, spec = container(server), server["spec"]
    assert task["command"] == ["tini", "--"]
    assert task["args"] == ["/bin/sh", "-c", 'exec serve "$GRASS_PORT_DATA_IN" $$(date) $$$ $$(HOME)']
    amounts = {"cpu": "500m", "memory": "1073741824", "ephemeral-storage": "2147483648", "nvidia.com/gpu": "2"}
    assert task["resources"] == {"requests": amounts, "limits": amounts}
    assert task["workingDir"] == "/srv" and task["readinessProbe"]["tcpSocket"] == {"port": 20000}
    assert spec["terminationGracePeriodSeconds"] == 120 and spec["restartPolicy"] == "Never"
    assert spec["securityContext"].items() >= {"runAsUser": 7, "runAsGroup": 8, "fsGroup": 8}.items()
    given = variables(server)
    assert (given["LR"], given["FLAG"], given["PRICE"]) == ("1e-3", "y", "$$$ $$(HOME)")
    assert "NVIDIA_VISIBLE_DEVICES" not in given
    sweep = documents(FORMATS["kubernetes-pods"](job(EVERYTHING)))["Pod/train-sweep-5"]
    assert sweep["spec"]["activeDeadlineSeconds"] == 90 and sweep["spec"]["restartPolicy"] == "OnFailure"
    assert (
        variables(sweep).items() >= {"lr": "it's", "GRASS_MATRIX_SEED": "3", "NVIDIA_VISIBLE_DEVICES": "void"}.items()
    )
    assert variables(documents(FORMATS["kubernetes-pods"](job(EVERYTHING)))["Pod/train-list-1"])["GRASS_ENTRY"] == (
        "$$(c) $$$"
    )


def test_tasks_are_spread_over_machines_or_kept_together() -> None:
    exported = FORMATS["kubernetes"](job({**part(spread="node"), "v": {"command": "x", "image": "i", "pack": "node"}}))
    found = documents(exported)
    (spread,) = found["Job/train-w"]["spec"]["template"]["spec"]["topologySpreadConstraints"]
    own = {"app.kubernetes.io/instance": "train", "app.kubernetes.io/component": "w"}
    assert spread["topologyKey"] == "kubernetes.io/hostname" and spread["whenUnsatisfiable"] == "ScheduleAnyway"
    assert spread["labelSelector"] == {"matchLabels": own}
    assert beside(found["Job/train-v"]) == [{**own, "app.kubernetes.io/component": "v"}]
    together = documents(FORMATS["kubernetes-pods"](job(part(replicas=2), together="node")))
    assert beside(together["Pod/train-w-1"]) == [{"app.kubernetes.io/instance": "train"}]
    assert exported.missing == ("fail_fast (other components go on)",)


def beside(document: Any) -> list[dict[str, str]]:
    pod = document["spec"].get("template", document)
    (terms,) = pod["spec"]["affinity"]["podAffinity"].values()
    return [term["labelSelector"]["matchLabels"] for term in terms]


def test_a_secret_is_a_reference_that_the_user_is_told_about() -> None:
    exported = FORMATS["kubernetes"](job(part(env={"HF_TOKEN": "[REDACTED]", "URL": "https://u:[REDACTED]@h"})))
    given = variables(documents(exported)["Job/train-w"])
    assert given["HF_TOKEN"] == {"secretKeyRef": {"name": "train-w", "key": "HF_TOKEN"}}
    assert given["URL"] == {"secretKeyRef": {"name": "train-w", "key": "URL"}}
    create = "kubectl create secret generic train-w --from-literal=HF_TOKEN=VALUE --from-literal=URL=VALUE"
    assert "[REDACTED]" not in exported.text
    assert [create in text for text in (exported.text, *exported.notes)] == [True, True]


@pytest.mark.parametrize("index", range(6))
def test_a_task_of_an_indexed_job_gets_its_combination(index: int, tmp_path: Path) -> None:
    assert combination(EVERYTHING["sweep"] | {"command": 'echo "$lr,$GRASS_MATRIX_SEED"'}, index, tmp_path) == (
        f"{('0.1', chr(105) + 't' + chr(39) + 's')[index // 3]},{index % 3 + 1}\n"
    )


@pytest.mark.parametrize(("index", "entry"), list(enumerate(["a b", "$(c) $$"])))
def test_a_command_that_is_a_list_gets_its_entry(index: int, entry: str, tmp_path: Path) -> None:
    command = ["sh", "-c", 'echo "$GRASS_ENTRY $0 $1"', "x y", "*"]
    assert combination(EVERYTHING["list"] | {"command": command}, index, tmp_path) == f"{entry} x y *\n"


def combination(component: dict[str, Any], index: int, folder: Path) -> str:
    """Return what a task of an Indexed Job prints. Runs its words here, with the files of its ConfigMap."""
    found = documents(FORMATS["kubernetes"](job({"w": component})))
    (folder / "w.sh").write_text(found["ConfigMap/train"]["data"]["w.sh"])
    words = [
        word.replace("$$", "$").replace("/grass/job/", f"{folder}/") for word in container(found["Job/train-w"])["args"]
    ]
    env = {"GRASS_INDEX": str(index), "PATH": "/usr/bin:/bin"}
    return subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout


def test_what_pods_cannot_have_is_named() -> None:
    mounts = [{"source": "/in", "target": "/in"}]
    parts = {
        "a": {
            "command": "x",
            "image": "i",
            "replicas": 2,
            "ports": ["p"],
            "ready": {"port": "p", "timeout": "1m"},
            "cwd": "src",
            "restart": {"policy": "always", "backoff": "9s"},
            "container": {"user": "root", "mounts": mounts, "ulimits": {"nofile": 9}, "data": "/d"},
            "where": {"zone": "no value!"},
            "resources": {"gpu": 0.5, "licences": 1},
            "spread": 1,
        },
        "b": {"command": "x", "depends_on": {"a": "ready"}, "runtime": "process"},
    }
    exported = FORMATS["kubernetes"](job(parts, success=["b"], after="other", tags={"a b": "c"}))
    named = {key.partition(" (")[0] for key in exported.missing}
    of_a = "ready.timeout cwd restart restart.policy restart.backoff container.user container.mounts container.ulimits"
    assert named == {
        *(
            f"components.a.{key}"
            for key in f"{of_a} container.data where resources.gpu resources.custom spread".split()
        ),
        *("components.b.depends_on", "components.b.runtime", "success", "after", 'tags."a b"', "fail_fast"),
    }
    assert exported.needed == ("components.b.image",)
    assert all(f"# Not in this file: {key}\n" in exported.text for key in exported.missing)


def test_no_text_of_a_job_leaves_a_comment() -> None:
    wanted = job(part(), tags={"a\nkind: Pod": "x"})
    exported = FORMATS["kubernetes"](replace(wanted, files={"a\nkind: Pod": "0" * 64}))
    assert list(documents(exported)) == ["Job/train-w"] and "kind: Pod" in exported.text


def test_files_that_a_command_names_are_no_part_of_the_export() -> None:
    files = {"train.py": "0" * 64, "$GRASS_DATA/set.csv": "1" * 64}
    exported = FORMATS["kubernetes"](replace(job(part()), files=files))
    assert [note.partition(";")[0] for note in exported.notes] == [
        "train.py: is not in the file",
        "$GRASS_DATA/set.csv: is in the share of Grass, which these pods do not see",
    ]
    assert all(f"# {note}\n" in exported.text for note in exported.notes)


def test_what_only_an_indexed_job_has_is_named_for_pods() -> None:
    keys = {"replicas": 2, "parallelism": 1, "timeout": "1m", "restart": {"limit": 2, "codes": [9]}}
    exported = FORMATS["kubernetes-pods"](job(part(**keys), fail_fast=True, ttl="1h", timeout="30s"))
    pod = documents(exported)["Pod/train-w-1"]
    assert pod["spec"]["activeDeadlineSeconds"] == 30
    keys_of_w = ("parallelism", "restart.limit", "restart.codes", "timeout", "restart")
    assert {key.partition(" ")[0] for key in exported.missing} == {
        "ttl",
        "fail_fast",
        *(f"components.w.{key}" for key in keys_of_w),
    }


def test_an_array_that_is_too_large_for_pods_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"job train: has 1001 tasks; a file may have 1000 pods; use `--to kubernetes`"
    ):
        FORMATS["kubernetes-pods"](job(part(replicas=1001)))


def test_entries_that_are_too_large_for_a_config_map_are_refused() -> None:
    with pytest.raises(InputError, match=r"job train: what differs between its tasks .* needs more than 900000 bytes"):
        FORMATS["kubernetes"](job(part(**{"from": {"entries": ["x" * 1000] * 1000}})))


def test_addresses_that_are_too_many_are_named() -> None:
    exported = FORMATS["kubernetes"](job(part(replicas=50_000, ports=["p"])))
    assert list(documents(exported)) == ["Service/train", "Job/train-w"]
    assert exported.missing == ("components.w.ports (there are too many for GRASS_ADDRESSES)",)
    assert "GRASS_ADDRESSES" not in variables(documents(exported)["Job/train-w"])


@pytest.mark.parametrize("name", ["My.job_1", "3d-sim", "x" * 63, "a.b"])
def test_names_are_those_of_kubernetes_and_different_ones_stay_different(name: str) -> None:
    parts = {each: {"command": "x", "image": "i", "ports": ["p"], "replicas": 10_000} for each in ("a_b", "a-b", "A-b")}
    found = documents(FORMATS["kubernetes"](parse_job({"name": name, "components": parts}).job))
    names = [each.partition("/")[2] for each in found if each.startswith("Job/")]
    assert len(set(names)) == 3
    for each in (*names, *(key.partition("/")[2] for key in found)):
        assert len(f"{each}-99999") <= 63 and each.replace("-", "").isalnum() and each == each.lower()
        assert each[0].isalpha() and each[-1].isalnum()


def test_text_that_other_readers_of_yaml_take_for_something_else_has_quotes() -> None:
    for text in ("1e-3", "y", "N", "1.5e3", "0o17", "1_000", "12:30", "2026-11-27", "+1", ".5e1"):
        assert yaml_text.write({"a": text}) == f"a: '{text}'\n"
    for text in ("python:3.12", "yes-man", "exec x", "-v"):
        assert yaml_text.write({"a": text}) == f"a: {text}\n"
    assert yaml_text.write({"a": "x\n y\n"}) == "a: |\n  x\n   y\n"


def test_the_command_says_what_is_missing_and_what_to_do() -> None:
    wanted = parse_job({"name": "j", "components": part(env={"A_TOKEN": "[REDACTED]"}, avoid="n1")}).job
    cluster: Any = SimpleNamespace(job=lambda name: SimpleNamespace(specification=wanted))
    out, err = io.StringIO(), io.StringIO()
    export.main(["j", "--to", "kubernetes"], obj=Invocation(Output(out, err), _client=cluster), standalone_mode=False)
    assert "kind: Job\n" in out.getvalue()
    assert "components.w.avoid: has no counterpart in kubernetes" in err.getvalue()
    assert "kubectl create secret generic j-w --from-literal=A_TOKEN=VALUE" in err.getvalue()
