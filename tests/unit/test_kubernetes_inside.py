"""A master inside a namespace: its settings, its objects, what its pod makes of them, and when that has started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from grass.api import keyring
from grass.api.keyring import ClientKeys, Profile
from grass.api.pod_tunnel import PodWay, tunnel_of
from grass.api.transport import Transport
from grass.config import RedisConfig
from grass.errors import ConflictError, InputError, ManifestError, NotAllowedError, NotFoundError
from grass.files.access import access_to
from grass.kubernetes import names, rights
from grass.kubernetes.objects import POD, STATEFUL_SET, Pod, StatefulSet
from grass.manifest import read_document
from grass.manifest.inside import Inside, InsideSettings
from grass.manifest.settings import parse_settings
from grass.mode_file import write_mode
from grass.model.mode import KUBERNETES
from grass.node_config import KubernetesConfig, NodeConfig
from grass.provision import inside_objects, layout
from grass.provision.inside import InsideProvisioner, kept_id, remove_others
from grass.provision.inside_master import settings_of
from grass.provision.inside_objects import Given, Master
from grass.provision.namespaces import join_request
from grass.provision.pod_start import fault_of, is_newest, is_ready, reason_of
from grass.provision.provisioner import CanAddNodes, Session, need
from master.api.enrolment import check_address
from tests.doubles.kubernetes_api import Asked, KubernetesApi, RefusalError, kubernetes_api
from tests.support.needs import missing

ROOT = Path(__file__).parents[2]
VERSIONS = ("1.25", "1.29", "1.37")
LAB = """
mode: k8s
name: lab
master: inside
inside: {image: grass:1}
namespaces: [{namespace: lab, name: pods, kubeconfig: /k, context: c}]
"""
FULL = LAB.replace(
    "{image: grass:1}",
    "{image: grass:1, size: 20GiB, class: fast, resources: {cpu: 2, memory: 3GiB}, pull_secrets: [team], "
    "ingress: {host: grass.example.org, class: nginx}}",
)
KEY = {"kty": "RSA", "n": "abc", "e": "AQAB", "kid": "k"}


def settings(text: str = LAB) -> InsideSettings:
    found = parse_settings(read_document(text))
    assert isinstance(found, InsideSettings)
    return found


def master(text: str = LAB, node: KubernetesConfig | None = None) -> Master:
    found = settings(text)
    given = Given(found.document, "0" * 32, "ann", KEY)
    return Master("lab", given.cluster_id, found.inside, node or KubernetesConfig("lab"), given)


def by_kind(of: Master) -> dict[str, Any]:
    return {each["kind"]: each for each in inside_objects.objects(of)}


# the file


def test_a_file_says_what_the_pod_of_a_master_is_like() -> None:
    assert settings().inside == Inside("grass:1")
    gib = 1 << 30
    assert settings(FULL).inside == Inside(
        "grass:1",
        ("team",),
        20 * gib,
        "fast",
        2000,
        3 * gib,
        "http://grass.example.org:80",
        "grass.example.org",
        "nginx",
    )
    assert settings(LAB.replace("grass:1", "grass:1, address: 'http://lb:8080/'")).inside.address == "http://lb:8080"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("inside: {image: grass:1}\n", "", "inside.image: is missing; it is an image with Grass"),
        ("image: grass:1", "size: 2GiB", "inside.image: is missing"),
        ("grass:1", "grass:1, size: 1MiB", "inside.size: must be at least 1GiB"),
        ("grass:1", "grass:1, resources: {memory: 64MiB}", "inside.resources.memory: must be at least 512MiB"),
        ("grass:1", "grass:1, address: 'https://x'", "inside.address: must be http://HOST[:PORT]"),
        ("grass:1", "grass:1, ingress: {class: x}", "inside.ingress.host: is missing"),
        ("grass:1", "grass:1, port: 5", "inside.port: unknown key"),
        ("master: inside", "master: outside", "inside: is for `master: inside`"),
        ("master: inside", "master: {node_size: x}", "master: must be outside or inside; what is said of"),
        ("name: lab\n", "name: Lab\n", "name: must be at most 40 of a-z"),
        ("name: lab\n", "name: lab\nports: {api: 8090}\n", "ports: the API of a master inside"),
        ("name: lab\n", "name: lab\nredis: {host: h}\n", "redis: a master inside runs its own"),
        ("name: lab\n", "name: lab\nkeep_agent_alive: false\n", "keep_agent_alive: a master inside stays up"),
        ("context: c}", "context: c}, other", "namespaces[1]: a cluster with `master: inside` has one namespace"),
        ("context: c", "context: c, registry: r.org/t", "namespaces[0].registry: is not there with"),
    ],
)
def test_what_a_master_inside_cannot_have_is_said_with_its_path(old: str, new: str, problem: str) -> None:
    assert old in LAB
    with pytest.raises(ManifestError) as caught:
        parse_settings(read_document(LAB.replace(old, new, 1)))
    said = [str(each) for each in caught.value.problems]
    assert any(each.startswith(problem) for each in said), said


# the objects


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("text", [LAB, FULL])
def test_every_version_of_kubernetes_accepts_the_objects_and_the_pod_on_trial(text: str, version: str) -> None:
    try:
        import kubernetes_validate
    except ImportError:
        missing("kubernetes-validate", "pip install '.[dev]'")
    of = master(text)
    for each in [*inside_objects.objects(of), inside_objects.pod(of)]:
        kubernetes_validate.validate(each, version, strict=True)


def test_an_image_is_built_from_what_a_wheel_needs_and_nothing_else() -> None:
    rules = [each for each in (ROOT / ".dockerignore").read_text().split("\n") if each and not each.startswith("#")]
    sent = {each.removeprefix("!") for each in rules if each.startswith("!")}
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    packages = {each for each in setup["options.packages.find"]["include"].split() if "." not in each}
    files = {"setup.py", "setup.cfg", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"}
    assert rules[0] == "*" and sent == packages | files | {"deploy", "examples"}
    assert all((ROOT / each).exists() for each in sent)


def test_all_objects_have_the_labels_by_which_they_are_removed_and_one_name() -> None:
    of = master(FULL)
    assert list(by_kind(of)) == list(reversed(inside_objects.KINDS))
    claim = by_kind(of)["StatefulSet"]["spec"]["volumeClaimTemplates"][0]
    for each in [*by_kind(of).values(), by_kind(of)["StatefulSet"]["spec"]["template"], claim]:
        assert each["metadata"]["labels"].items() >= {names.MASTER: "lab", names.CLUSTER: names.short("0" * 32)}.items()
        assert names.NODE not in each["metadata"]["labels"], "a sweep of the node's pods would end the master"
    assert {each["metadata"]["name"] for each in by_kind(of).values()} == {"grass-lab"}
    assert "Ingress" not in by_kind(master())


def test_the_master_has_the_rights_of_the_agent_and_no_others() -> None:
    node = KubernetesConfig("lab", claim="team")
    assert by_kind(master(node=node))["Role"]["rules"] == rights.objects(node)[0]["rules"]
    asked = {(rule.group, rule.resource) for rule in inside_objects.RIGHTS}
    assert {("apps", "statefulsets"), ("rbac.authorization.k8s.io", "roles"), ("", "secrets")} <= asked


def test_the_pod_is_restricted_and_another_one_if_what_it_is_given_differs() -> None:
    of = master()
    spec = by_kind(of)["StatefulSet"]["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] and spec["containers"][0]["securityContext"]["capabilities"]
    template = by_kind(of)["StatefulSet"]["spec"]["template"]
    assert template == by_kind(master())["StatefulSet"]["spec"]["template"]
    other = replace(of, given=Given({**of.given.settings, "parallel_level": 2}, of.cluster_id, "ann", KEY))
    assert template["metadata"] != by_kind(other)["StatefulSet"]["spec"]["template"]["metadata"]


def test_only_what_may_be_changed_of_an_object_is_sent_to_one_that_exists() -> None:
    for kind, body in by_kind(master(FULL)).items():
        change = inside_objects.change_of(body)
        assert change["metadata"] == {"labels": body["metadata"]["labels"]}
        assert "roleRef" not in change and "type" not in change
        assert kind != "StatefulSet" or set(change["spec"]) == {"replicas", "template"}


def test_what_the_file_does_not_name_any_more_goes_with_the_next_create(api: KubernetesApi) -> None:
    bare = master(FULL.replace("pull_secrets: [team], ", "").replace(", class: nginx", ""))
    change = inside_objects.change_of(by_kind(bare)["StatefulSet"])
    assert change["spec"]["template"]["spec"]["imagePullSecrets"] == []
    assert inside_objects.change_of(by_kind(bare)["Ingress"])["spec"]["ingressClassName"] is None
    for each in inside_objects.objects(master(FULL)):
        api.tell(inside_objects.collection(each), "grass-lab", {"metadata": each["metadata"]})
    removed: list[str] = []
    with closing(api.api()) as server:
        remove_others(server, bare, removed.append)
        assert removed == []
        remove_others(server, master(), removed.append)
    assert removed == ["removed Ingress grass-lab"]
    assert len(api.objects) == len(inside_objects.KINDS), "the quota of the double is there, too"


def test_the_plan_is_yaml_with_all_objects_and_asks_no_server(tmp_path: Path) -> None:
    lines = InsideProvisioner(Session("lab", tmp_path, lambda _: None)).plan(settings(FULL))
    printed = list(yaml.safe_load_all("\n".join(lines)))
    assert [each["kind"] for each in printed] == list(reversed(inside_objects.KINDS))
    assert "#   create get list patch delete statefulsets" in lines
    assert not list(tmp_path.iterdir())


# the pod


def test_the_pod_makes_a_cluster_of_one_machine_with_its_namespace_as_node(tmp_path: Path) -> None:
    made = settings_of(master().given, "/home/kubeconfig")
    assert (made.mode, made.name) == (KUBERNETES, "lab")
    [node] = made.namespaces
    assert (node.name, node.kubeconfig, node.context, node.cluster_id) == ("pods", "/home/kubeconfig", "pod", "0" * 32)
    config = layout.design(made, tmp_path, None)
    assert (config.master.api_host, config.master.api_port) == ("0.0.0.0", inside_objects.API_PORT)
    assert config.master.pod == "/api/v1/namespaces/lab/pods/grass-lab-0"
    asked = join_request(NodeConfig("pods"), "secret", "password", "0" * 32)
    check_address(config, asked)  # of the agent, beside the master
    with pytest.raises(InputError, match="reachable only from the machine itself"):
        check_address(replace(config, redis=RedisConfig(host="10.0.0.1", port=6379)), asked)
    with pytest.raises(InputError, match="not for `master: inside`"):
        settings_of(Given({"mode": "local"}, "0", "ann", KEY), "/k")


def test_invitations_name_the_address_of_a_master_inside_where_it_has_one(tmp_path: Path) -> None:
    text = LAB.replace("{image: grass:1}", "{image: grass:1, address: 'http://grass.example.org:8080'}")
    given = replace(master(), inside=settings(text).inside).given
    made = settings_of(structs.replace(given, settings=read_document(text)), "/home/kubeconfig")
    config = layout.design(made, tmp_path, None)
    assert (config.api_urls, config.master.pod) == (("http://grass.example.org:8080",), "")


def pod(*states: dict[str, Any], **more: Any) -> Pod:
    statuses = [{"name": "master", **each} for each in states]
    labels = {"controller-revision-hash": "r2"}
    wire = {"metadata": {"labels": labels, **more}, "status": {"phase": "Pending", "containerStatuses": statuses}}
    return POD.decode(json.dumps(wire))


def owner_of(generation: int, revision: str) -> StatefulSet:
    status = {"observedGeneration": 3, "updateRevision": revision}
    return STATEFUL_SET.decode(json.dumps({"metadata": {"generation": generation}, "status": status}))


def test_a_pod_counts_once_it_is_the_newest_and_ready() -> None:
    owner = STATEFUL_SET.decode(
        '{"metadata": {"generation": 3}, "status": {"observedGeneration": 3, "updateRevision": "r2"}}'
    )
    stale = STATEFUL_SET.decode(
        '{"metadata": {"generation": 4}, "status": {"observedGeneration": 3, "updateRevision": "r2"}}'
    )
    other = STATEFUL_SET.decode(
        '{"metadata": {"generation": 3}, "status": {"observedGeneration": 3, "updateRevision": "r3"}}'
    )
    assert is_newest(pod(), owner) and not is_newest(pod(), stale) and not is_newest(pod(), other)
    assert not is_newest(pod(deletionTimestamp="2026-11-27T00:00:00Z"), owner)
    assert not is_ready(pod())


FAILED = {"lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}


def waiting(reason: str) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": "no such image"}}}


@pytest.mark.parametrize(
    ("status", "waited", "fault"),
    [
        (waiting("ContainerCreating"), 200, ""),
        (waiting("ImagePullBackOff"), 5, ""),
        (waiting("ImagePullBackOff"), 61, "its image cannot be had (`inside.image`): ImagePullBackOff: no such image"),
        (waiting("InvalidImageName"), 0, "its image cannot be had"),
        ({"lastState": {"terminated": {"exitCode": 2, "message": "why\n"}}}, 0, "ended with exit code 2: why"),
        ({"lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}, "restartCount": 1}, 0, ""),
        (
            {"lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}, "restartCount": 3},
            0,
            "ended with exit code 1: Error",
        ),
    ],
)
def test_what_does_not_mend_itself_ends_the_wait(status: dict[str, Any], waited: float, fault: str) -> None:
    found = fault_of(pod(status), waited)
    assert found.startswith(fault) and bool(found) == bool(fault), found
    assert reason_of(pod(waiting("ErrImagePull"))) == "ErrImagePull: no such image"


# what is looked at first


STATEFUL_SETS = "/apis/apps/v1/namespaces/lab/statefulsets"
CLAIMS = "/api/v1/namespaces/lab/persistentvolumeclaims"


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    with kubernetes_api() as double:
        double.tell("/api/v1/namespaces/lab/resourcequotas", "q", {"status": {"hard": {"cpu": "4", "memory": "8Gi"}}})
        yield double


def no_room(asked: Asked) -> None:
    if asked.query.get("dryRun") and asked.body["spec"]["containers"][0]["name"] == inside_objects.CONTAINER:
        raise RefusalError(403, "Forbidden", "exceeded quota: q")


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        (lambda api: api.denied.add(("create", "statefulsets")), NotAllowedError, "create statefulsets in apps"),
        (lambda api: setattr(api, "refuse", no_room), InputError, "inside.resources: the namespace has no room"),
    ],
)
def test_what_stands_in_the_way_of_a_master_is_seen_before_anything_is_made(
    api: KubernetesApi, tmp_path: Path, spoil: Any, error: type[Exception], said: str
) -> None:
    spoil(api)
    user = {"name": "u", "user": {"token": "x"}}
    kubeconfig = {
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "users": [user],
        "current-context": "c",
    }
    (tmp_path / "k").write_text(yaml.safe_dump(kubeconfig))
    session = Session("lab", tmp_path / "home", lambda _: None)
    with pytest.raises(error, match=said):
        InsideProvisioner(session).create(settings(LAB.replace("/k", str(tmp_path / "k"))))
    assert not session.folder.exists()
    assert [each.path for each in api.asked if each.method == "POST" and "dryRun" not in each.query] == [
        each.path for each in api.asked if "selfsubjectaccessreviews" in each.path
    ]


def test_a_volume_that_was_kept_tells_whose_it_is_and_a_master_of_others_stays(api: KubernetesApi) -> None:
    labels = by_kind(master())["StatefulSet"]["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"]
    claim = f"{CLAIMS}/data-grass-lab-0"
    with closing(api.api()) as server:
        assert kept_id(server, "lab", "lab") == ""
        api.objects[claim] = {"metadata": {"name": "data-grass-lab-0", "labels": labels}}
        assert kept_id(server, "lab", "lab") == "0" * 32
        api.objects[claim] = {"metadata": {"name": "data-grass-lab-0"}}
        with pytest.raises(ConflictError, match="is of somebody else"):
            kept_id(server, "lab", "lab")
        api.tell(STATEFUL_SETS, "grass-lab", {})
        with pytest.raises(ConflictError, match="from another machine or user"):
            kept_id(server, "lab", "lab")


def test_what_is_not_there_says_so(tmp_path: Path) -> None:
    session = Session("lab", tmp_path, lambda _: None)
    inside = InsideProvisioner(session)
    session.folder.mkdir(parents=True)
    write_mode(session.folder, InsideSettings.mode)
    with pytest.raises(NotFoundError, match="its files are in a volume in Kubernetes, which no command reaches"):
        access_to("lab", tmp_path)
    with pytest.raises(InputError, match="its master is in Kubernetes, and its one node is the namespace"):
        need(inside, CanAddNodes)
    assert [each.message for each in inside.findings()] == ["creating it was interrupted"]


# the way to the API


def test_a_profile_with_a_pod_leads_through_the_api_server_and_says_what_is_wrong(tmp_path: Path) -> None:
    way = tunnel_of(PodWay("/api/v1/namespaces/lab/pods/grass-lab-0", str(tmp_path / "none"), "c"))
    key = keyring.create_user_key(tmp_path)
    profile = Profile("lab", f"http://127.0.0.1:{inside_objects.API_PORT}", "ann", str(key["kid"]), way)
    keyring.save_profile(tmp_path, profile, key)
    assert keyring.load_profile(tmp_path) == profile
    transport = Transport(ClientKeys(profile, tmp_path), timeout=0.5)
    with pytest.raises(InputError, match="no such file"):
        transport.call("GET", "/v1/status")
