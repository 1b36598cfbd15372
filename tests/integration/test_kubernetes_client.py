"""The client of Kubernetes, on a real API server and through faults of networks."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from grass.errors import GrassError, InputError, NotAllowedError, UnreachableError
from grass.kubernetes import rights
from grass.kubernetes.api import ApiServer, BusyError, RefusedError
from grass.kubernetes.credentials import Credential, Credentials, Login
from grass.kubernetes.informer import Change, Informer
from grass.kubernetes.objects import Fields, ListOf, Metadata, WatchEvent
from grass.node_config import KubernetesConfig
from grass.wire.codec import Form
from tests.support import kubernetes
from tests.support.api_gateway import Asked, Fault, Gateway
from tests.support.kubernetes_bodies import all_bodies
from tests.support.waiting import wait_until

ETCD = "http://127.0.0.1:16444"
pytestmark = pytest.mark.nightly
ANY: Form[Any] = Form(object)
Place = tuple[ApiServer, str]
"""A server as an administrator, and the path of the objects of a namespace."""


class ConfigMap(Fields, frozen=True, rename="camel"):
    metadata: Metadata
    data: dict[str, str] | None = None


ONE: Form[ConfigMap] = Form(ConfigMap)
EVENT: Form[WatchEvent[ConfigMap]] = Form(WatchEvent[ConfigMap])
PAGE: Form[ListOf[ConfigMap]] = Form(ListOf[ConfigMap])


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with kubernetes.namespace() as (server, name):
        yield server, f"/api/v1/namespaces/{name}/configmaps"


@pytest.fixture
def gateway(place: Place) -> Iterator[Gateway]:
    made = kubernetes.gateway()
    yield made
    made.close()


@pytest.fixture
def client(gateway: Gateway) -> Iterator[ApiServer]:
    """A client that goes through the gateway."""
    made = ApiServer(Credential(lambda: gateway.credentials))
    yield made
    made.close()


def watches(asked: Asked) -> bool:
    return "watch=true" in asked.path


class Seen:
    """What an informer tells: ``objects`` is what its consumer would know."""

    def __init__(self, api: ApiServer, path: str, selector: str) -> None:
        self.objects: dict[str, str] = {}
        self.batches = 0
        self.gone: list[Change[ConfigMap]] = []
        self.troubles: list[GrassError | None] = []
        self.informer = Informer(api, path, PAGE, EVENT, self.take, self.troubles.append, selector=selector)

    def __enter__(self) -> Seen:
        self.informer.start()
        wait_until(lambda: self.batches > 0)
        return self

    def __exit__(self, *_: object) -> None:
        self.informer.stop()

    def take(self, changes: list[Change[ConfigMap]]) -> None:
        for change in changes:
            if change.now is None:
                del self.objects[change.uid]
                self.gone.append(change)
            else:
                self.objects[change.uid] = (change.now.data or {}).get("value", "")
        self.batches += 1

    def values(self) -> list[str]:
        return sorted(self.objects.values())


def put(place: Place, name: str, value: str, label: str) -> ConfigMap:
    server, path = place
    body = {"metadata": {"name": name, "labels": {"test": label}}, "data": {"value": value}}
    try:
        return server.post(path, body, ONE)
    except RefusedError as error:
        assert error.reason == "AlreadyExists"
        return server.put(f"{path}/{name}", body, ONE)


def test_refusals_carry_the_server_s_words(place: Place) -> None:
    server, path = place
    with pytest.raises(RefusedError, match="not found") as refused:
        server.get(f"{path}/none", ANY)
    assert (refused.value.http, refused.value.reason) == (404, "NotFound")
    with pytest.raises(RefusedError) as invalid:
        server.post(path, {"metadata": {"name": "Not A Name"}}, ANY)
    details = invalid.value.status.details
    assert invalid.value.http == 422 and details is not None and details.causes[0].field == "metadata.name"


def test_a_connection_that_was_idle_too_long_is_replaced(place: Place, gateway: Gateway, client: ApiServer) -> None:
    client.get(place[1], ANY)
    gateway.cut()
    client.get(place[1], ANY)


def test_a_server_that_is_away_or_busy_is_told_apart(place: Place, gateway: Gateway, client: ApiServer) -> None:
    gateway.faults = [
        Fault(lambda asked: True, status=429, retry_after=7, message="slow down"),
        Fault(lambda asked: True, status=500, carried_out=True, message="etcd timed out"),
    ]
    with pytest.raises(BusyError, match="slow down") as busy:
        client.get(place[1], ANY)
    assert busy.value.retry_after == 7
    body = {"metadata": {"name": "written"}}
    with pytest.raises(BusyError, match="etcd timed out"):
        client.post(place[1], body, ANY)
    with pytest.raises(RefusedError, match="already exists"):  # it was carried out
        client.post(place[1], body, ANY)
    gateway.shut = True
    gateway.cut()
    with pytest.raises(UnreachableError, match="does not answer"):
        client.get(place[1], ANY)


def test_an_answer_that_is_cut_is_no_answer(place: Place, gateway: Gateway, client: ApiServer) -> None:
    gateway.faults = [Fault(lambda asked: True, after_bytes=20)]
    with pytest.raises(UnreachableError, match="broke off"):
        client.get(place[1], ANY)


def test_an_informer_follows_changes(place: Place) -> None:
    put(place, "a", "1", "follow")
    with Seen(place[0], place[1], "test=follow") as seen:
        assert seen.values() == ["1"]
        put(place, "b", "2", "follow")
        put(place, "a", "3", "follow")
        wait_until(lambda: seen.values() == ["2", "3"])
        place[0].delete(f"{place[1]}/a", ANY)
        wait_until(lambda: seen.values() == ["2"])
        assert [each.seen for each in seen.gone] == [True]


def test_an_informer_learns_what_happened_while_it_was_cut(place: Place, gateway: Gateway, client: ApiServer) -> None:
    put(place, "cut-1", "1", "cut")
    with Seen(client, place[1], "test=cut") as seen:
        gateway.shut = True
        gateway.cut()
        put(place, "cut-2", "2", "cut")
        place[0].delete(f"{place[1]}/cut-1", ANY)
        wait_until(lambda: seen.troubles and seen.troubles[0] is not None)
        gateway.shut = False
        wait_until(lambda: seen.values() == ["2"])
        wait_until(lambda: seen.troubles[-1] is None)


def test_half_a_line_of_a_watch_loses_no_change(place: Place, gateway: Gateway, client: ApiServer) -> None:
    gateway.faults = [Fault(watches, times=3, after_bytes=900)]
    with Seen(client, place[1], "test=half") as seen:
        for number in range(12):
            put(place, f"half-{number}", str(number), "half")
        wait_until(lambda: len(seen.objects) == 12)
    assert not gateway.faults


def test_after_a_compaction_the_list_shows_what_is_gone(place: Place, gateway: Gateway, client: ApiServer) -> None:
    put(place, "old", "1", "compact")
    put(place, "kept", "2", "compact")
    with Seen(client, place[1], "test=compact") as seen:
        gateway.shut = True
        gateway.cut()
        place[0].delete(f"{place[1]}/old", ANY)
        last = put(place, "kept", "3", "compact")
        for number in range(3):  # the server keeps the newest versions itself
            last = put(place, "kept", str(number + 4), "compact")
        body = json.dumps({"revision": last.metadata.resource_version}).encode()
        urllib.request.urlopen(f"{ETCD}/v3/kv/compaction", data=body).close()
        gateway.faults = [Fault(watches, status=410, reason="Expired", message="too old")]
        gateway.shut = False
        wait_until(lambda: seen.values() == ["6"])
        assert [(each.seen, each.last is not None) for each in seen.gone] == [(False, True)]
        lists = [asked for asked in gateway.asked if "watch" not in asked.path and "limit=" in asked.path]
        assert len(lists) == 2


def test_a_list_of_several_pages_is_one_list(place: Place) -> None:
    names = {f"page-{number}" for number in range(7)}
    for name in names:
        put(place, name, name, "pages")
    with Seen(place[0], place[1], "test=pages") as seen:
        assert set(seen.values()) == names


def test_a_missing_right_is_named_and_asked_for_later(place: Place, gateway: Gateway, client: ApiServer) -> None:
    said = "cannot list configmaps"
    gateway.faults = [Fault(lambda asked: True, times=99, status=403, reason="Forbidden", message=said)]
    seen = Seen(client, place[1], "test=none")
    seen.informer.start()
    wait_until(lambda: bool(seen.troubles))
    time.sleep(1.0)
    asked = len(gateway.asked)
    seen.informer.stop()
    assert asked == 1 and said in str(seen.troubles[0])


def test_credentials_that_ended_are_fetched_anew_once(place: Place, gateway: Gateway) -> None:
    fetched: list[int] = []

    def read() -> Credentials:
        fetched.append(1)
        return Credentials(gateway.credentials.server, token=f"token {len(fetched)}")

    gateway.faults = [Fault(lambda asked: True, status=401, message="Unauthorized")]
    with closing(ApiServer(Credential(read))) as api:
        api.get(place[1], ANY)
        assert len(fetched) == 2
        gateway.faults = [Fault(lambda asked: True, times=2, status=401)]
        with pytest.raises(NotAllowedError, match="does not accept the credentials"):
            api.get(place[1], ANY)


def test_a_user_without_rights_learns_each_one_that_is_missing(place: Place) -> None:
    server, path = place
    namespace = path.split("/")[4]
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    server.post(account, {"metadata": {"name": "lab"}}, ANY)
    token = server.post(f"{account}/lab/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}, ANY)
    admin = Login(str(kubernetes.KUBECONFIG)).read()
    mine = Credentials(admin.server, ca=admin.ca, token=token["status"]["token"])
    with closing(ApiServer(Credential(lambda: mine))) as api:
        found = [str(each) for each in rights.missing(api, KubernetesConfig(namespace))]
        assert len(found) == sum(len(rule.verbs) for rule in rights.RULES)
        assert "create pods (for tasks)" in found and "get pods/log (for the output of tasks)" in found
        base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
        server.post(f"{base}/roles", rights.objects(KubernetesConfig(namespace))[0], ANY)
        binding = {
            "metadata": {"name": "grass"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "grass"},
            "subjects": [{"kind": "ServiceAccount", "name": "lab", "namespace": namespace}],
        }
        server.post(f"{base}/rolebindings", binding, ANY)
        wait_until(lambda: rights.missing(api, KubernetesConfig(namespace)) == [])
        with pytest.raises(RefusedError, match="forbidden"):
            api.get("/api/v1/nodes", ANY)


def test_what_kubectl_would_use_is_found(tmp_path: Path) -> None:
    kubernetes.require_kubernetes()
    found = Login(str(kubernetes.KUBECONFIG), "c").read()
    assert found.server.startswith("https://127.0.0.1:") and found.certificate and found.ca and found.verify
    with pytest.raises(InputError, match="nowhere"):
        Login(str(kubernetes.KUBECONFIG), "nowhere").read()
    with pytest.raises(InputError, match="no such file"):
        Login(str(tmp_path / "none")).read()
    broken = tmp_path / "broken"
    broken.write_text("apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [")
    with pytest.raises(InputError, match="broken"):
        Login(str(broken)).read()


def test_a_plugin_that_fails_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config"
    run = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "/bin/false"}
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "x",
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "x", "user": {"exec": run}}],
            }
        )
    )
    with pytest.raises(InputError, match="plugin"):
        Login(str(config)).read()


def test_requests_of_many_threads_share_connections(place: Place, gateway: Gateway, client: ApiServer) -> None:
    failures: list[GrassError] = []

    def work() -> None:
        for _ in range(20):
            try:
                client.get(place[1], ANY)
            except GrassError as error:
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures and len(gateway.asked) == 120


PLACES = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "SelfSubjectAccessReview": "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "Event": "/api/v1/namespaces/{}/events",
    "Ingress": "/apis/networking.k8s.io/v1/namespaces/{}/ingresses",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Service": "/api/v1/namespaces/{}/services",
}


def dropped(sent: Any, back: Any, path: str = "") -> list[str]:
    """Return the paths of what was sent and did not come back: a server drops fields that it does not know."""
    if isinstance(sent, dict) and isinstance(back, dict):
        pairs = [(f"{path}.{name}", each, back.get(name)) for name, each in sent.items() if each not in ({}, [], "")]
        return [one for where, mine, its in pairs for one in dropped(mine, its, where)]
    if isinstance(sent, list) and isinstance(back, list) and len(sent) <= len(back):
        return [one for number, each in enumerate(sent) for one in dropped(each, back[number], f"{path}[{number}]")]
    return [] if back is not None and type(sent) is type(back) else [path]


def test_a_server_of_1_20_takes_each_kind_of_object_and_keeps_its_fields(place: Place) -> None:
    server, namespace = place[0], place[1].split("/")[-2]
    server.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "tasks"}}, ANY)
    with suppress(RefusedError):  # it stays, and other tests may have made it
        low = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}, "value": -1}
        server.post("/apis/scheduling.k8s.io/v1/priorityclasses", low, ANY)
    for each in all_bodies():
        body = {**each, "metadata": {**each.get("metadata", {})}}
        for own in body["metadata"].keys() & {"namespace", "uid"}:
            del body["metadata"][own]
        if each["kind"] == "Event":
            body["involvedObject"] = {**each["involvedObject"], "namespace": namespace}
        if each["kind"] == "CustomResourceDefinition":
            continue  # tests of the operator install them
        back = server.post(PLACES[each["kind"]].format(namespace), body, ANY, {"dryRun": "All"})
        assert dropped(body, back) == [], each["kind"]
