"""What is wrong with a namespace is said before anything is changed: on a double of the API server.

The exit codes are those of `grass node add --kubernetes`, which looks first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grass.cli.exits import Exit
from grass.errors import GrassError, InputError
from grass.kubernetes.capacity import Most
from grass.kubernetes.credentials import Credentials
from grass.kubernetes.rights import RULES
from grass.node_config import KubernetesConfig
from grass.provision.namespaces import NamespaceRequest, check_node_name, look, namespace_of, node_config
from grass.wire.codec import encode
from tests.doubles.kubernetes_api import Asked, KubernetesApi, RefusalError, kubernetes_api

NAMESPACE = "/api/v1/namespaces/lab"
CLAIM: dict[str, Any] = {"spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}}
SECRET = {"type": "kubernetes.io/dockerconfigjson"}
MOST = Most(cpu=4000, memory=8 << 30)


@pytest.fixture
def server() -> Iterator[KubernetesApi]:
    with kubernetes_api() as made:
        made.tell(f"{NAMESPACE}/persistentvolumeclaims", "data", CLAIM)
        made.tell(f"{NAMESPACE}/secrets", "registry", SECRET)
        yield made


class Look:
    """Looks as `node add` does, and checks that nothing was changed."""

    def __init__(self, server: KubernetesApi, folder: Path) -> None:
        self.server = server
        file = folder / "credentials.json"
        file.write_text(encode(Credentials(server.url, token="t")))
        settings = KubernetesConfig("lab", claim="data", pull_secrets=("registry",), credentials=str(file))
        self.request = NamespaceRequest("pods", settings, MOST)

    def settings(self, **more: Any) -> Look:
        self.request = replace(self.request, settings=replace(self.request.settings, **more))
        return self

    def refused(self, code: int) -> str:
        before = dict(self.server.objects)
        with pytest.raises(GrassError) as refused:
            look(self.request)
        assert refused.value.exit_code == code, refused.value
        assert self.server.objects == before
        return str(refused.value)


@pytest.fixture
def looks(server: KubernetesApi, tmp_path: Path) -> Look:
    return Look(server, tmp_path)


def test_a_namespace_with_all_that_pods_need_is_accepted_and_not_changed(looks: Look) -> None:
    before = dict(looks.server.objects)
    look(looks.request)
    assert looks.server.objects == before


def test_the_node_keeps_whose_queue_was_found(looks: Look) -> None:
    looks.server.groups.append("scheduling.volcano.sh")
    found = look(looks.settings(queue="team").request)
    node = node_config(found, found.settings, address="", api_port=1)
    assert node.kubernetes is not None and node.kubernetes.queue_kind == "volcano"


def test_credentials_that_have_ended_are_not_accepted(looks: Look) -> None:
    def refuse(asked: Asked) -> None:
        raise RefusalError(401, "Unauthorized", "Unauthorized")

    looks.server.refuse = refuse
    assert "does not accept the credentials; they may have ended" in looks.refused(Exit.NOT_ALLOWED)


@pytest.mark.parametrize("minor", ["19", "9+"])
def test_a_server_that_is_too_old_is_named_with_its_version(looks: Look, minor: str) -> None:
    looks.server.version = {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.7"}
    assert f"has version v1.{minor}.7; Grass needs 1.20" in looks.refused(Exit.BAD_INPUT)


@pytest.mark.parametrize(("verb", "resource"), [(verb, rule.resource) for rule in RULES for verb in rule.verbs])
def test_each_right_that_is_missing_is_named(looks: Look, verb: str, resource: str) -> None:
    looks.server.denied = {(verb, resource)}
    said = looks.refused(Exit.NOT_ALLOWED)
    assert f"\n  {verb} {resource} " in said and said.count("\n  ") == 1 and "--plan" in said


@pytest.mark.parametrize("resource", ["persistentvolumeclaims", "secrets"])
def test_a_right_on_one_object_is_named_with_it(looks: Look, resource: str) -> None:
    looks.server.denied = {("get", resource)}
    name = {"persistentvolumeclaims": "data", "secrets": "registry"}[resource]
    assert f"get {resource} {name}" in looks.refused(Exit.NOT_ALLOWED)


def test_a_namespace_that_does_not_exist_is_said(looks: Look) -> None:
    looks.settings(namespace="gone", claim=None, pull_secrets=())
    assert 'namespaces "gone" not found' in looks.refused(Exit.BAD_INPUT)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"spec": {"accessModes": ["ReadWriteOnce"]}}, "its access modes are ReadWriteOnce"),
        ({"spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Pending"}}, "it has no volume (Pending)"),
    ],
)
def test_a_claim_that_pods_on_several_machines_cannot_have_is_refused(
    looks: Look, content: dict[str, Any], said: str
) -> None:
    looks.server.tell(f"{NAMESPACE}/persistentvolumeclaims", "other", content)
    assert said in looks.settings(claim="other").refused(Exit.BAD_INPUT)


def test_a_claim_or_a_secret_that_does_not_exist_is_refused(looks: Look) -> None:
    assert "claim none in namespace lab: not found" in looks.settings(claim="none").refused(Exit.BAD_INPUT)
    looks.settings(claim=None, pull_secrets=("none",))
    assert "Secret none in namespace lab: not found" in looks.refused(Exit.BAD_INPUT)


@pytest.mark.parametrize(
    "message",
    [
        # recorded: PodSecurity of 1.29, a LimitRange of 1.20, a webhook of Kyverno
        'pods "grass-trial-x" is forbidden: violates PodSecurity "restricted:latest": runAsUser=0',
        'pods "grass-trial-x" is forbidden: maximum memory usage per Container is 8Mi, but limit is 16Mi',
        'admission webhook "validate.kyverno.svc-fail" denied the request: images must come from registry.example',
    ],
)
def test_the_servers_words_say_why_it_would_refuse_a_pod(looks: Look, message: str) -> None:
    def refuse(asked: Asked) -> None:
        if asked.method == "POST" and asked.path.endswith("/pods"):
            raise RefusalError(403, "Forbidden", message)

    looks.server.refuse = refuse
    assert f"a pod of Grass is refused: {message}" in looks.refused(Exit.BAD_INPUT)


def test_without_a_quota_the_user_has_to_say_how_large_the_namespace_is(looks: Look) -> None:
    looks.request = replace(looks.request, most=Most(memory=1 << 30))
    assert "no quota says how much cpu it has" in looks.refused(Exit.BAD_INPUT)
    looks.server.tell(f"{NAMESPACE}/resourcequotas", "team", {"spec": {"hard": {"limits.cpu": "4"}}})
    look(looks.request)


def test_a_server_that_goes_away_is_said_at_each_request(looks: Look) -> None:
    look(looks.request)
    asked = len(looks.server.asked)
    for last in range(asked):
        looks.server.asked.clear()

        def refuse(_: Asked, last: int = last) -> None:
            if len(looks.server.asked) > last:
                raise RefusalError(0, "")

        looks.server.refuse = refuse
        assert looks.refused(Exit.UNREACHABLE)


@pytest.mark.parametrize(
    ("http", "code"),
    [(403, Exit.NOT_ALLOWED), (401, Exit.NOT_ALLOWED), (500, Exit.UNREACHABLE), (429, Exit.UNREACHABLE), (422, 2)],
)
def test_each_request_that_is_refused_has_one_of_three_exit_codes(looks: Look, http: int, code: int) -> None:
    look(looks.request)
    for path in sorted({each.path for each in looks.server.asked}):

        def refuse(asked: Asked, path: str = path) -> None:
            if asked.path == path:
                raise RefusalError(http, "Because", "the proxy says no")

        looks.server.refuse = refuse
        said = looks.refused(Exit.BAD_INPUT if path.endswith("/pods") and http == 403 else code)
        assert "the proxy says no" in said or http == 401


def test_names_beyond_63_characters_are_refused() -> None:
    with pytest.raises(InputError, match="is not the name of a namespace"):
        namespace_of("n" * 64)
    assert namespace_of(f"c/{'n' * 63}") == ("c", "n" * 63)
    with pytest.raises(InputError, match="must be at most 63"):
        check_node_name("n" * 64)
    check_node_name("n" * 63)
