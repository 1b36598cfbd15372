"""The double of Azure's Kubernetes keeps the rules that Azure's types do not say, so that the client meets them.

None was ever compared with Azure itself.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from grass.azure.aks import Pool, group, kubernetes, pool, registry, right_to_pull, terms_of, updated
from grass.azure.resources import Site, Wanted
from tests.doubles.azure_aks import BALANCER, PRINCIPAL, REGISTRY
from tests.doubles.azure_arm import IP, SUBSCRIPTION, Answer
from tests.support.aks_world import World, settings
from tests.support.azure_world import ID

SITE = Site(SUBSCRIPTION, "grass-lab", ID)
TERMS = terms_of(settings(), ("203.0.113.7/32",), SUBSCRIPTION)
WHOLE = kubernetes(TERMS, SITE)


class Subscription(World):
    """A subscription with a clock that is set by hand, and requests of one line."""

    def ask(self, method: str, path: str, version: str, body: Any = None) -> Answer:
        return self.azure.handle(method, f"{self.azure.endpoint}{path}?api-version={version}", copy.deepcopy(body))

    def put(self, each: Wanted, body: Any = None) -> str:
        """Return the error code; empty: accepted."""
        return code(self.ask("PUT", each.path, each.kind.version, each.body if body is None else body))

    def act(self, verb: str) -> str:
        return code(self.ask("POST", f"{WHOLE.path}/{verb}", WHOLE.kind.version))

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.azure.empty()  # lets happen what is due

    def shown(self) -> Any:
        return self.ask("GET", WHOLE.path, WHOLE.kind.version).content


def code(answer: Answer) -> str:
    return str(answer.content["error"]["code"]) if answer.status >= 400 else ""


def changed(**keys: Any) -> Any:
    body = copy.deepcopy(WHOLE.body)
    body["properties"] |= keys
    return body


@pytest.fixture
def here(tmp_path: Path) -> Subscription:
    found = Subscription(tmp_path)
    found.azure.registered |= {"Microsoft.ContainerService", "Microsoft.ContainerRegistry"}
    assert found.put(group(TERMS, SITE)) == ""
    return found


@pytest.fixture
def whole(here: Subscription) -> Subscription:
    assert here.put(WHOLE) == ""
    here.later(400)
    return here


def test_what_is_not_registered_is_refused(here: Subscription) -> None:
    here.azure.registered -= {"Microsoft.ContainerService"}
    assert here.put(WHOLE) == "MissingSubscriptionRegistration"


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (changed(dnsPrefix=1), "InvalidRequestContent"),
        (changed(nodeResourceGroup="x" * 81), "NodeResourceGroupAlreadyExists"),
        (changed(kubernetesVersion="1.20"), "K8sVersionNotSupported"),
        ({key: value for key, value in WHOLE.body.items() if key != "identity"}, "InvalidParameter"),
    ],
)
def test_bodies_are_checked_beyond_their_types(here: Subscription, body: Any, refusal: str) -> None:
    assert here.put(WHOLE, body) == refusal


@pytest.mark.parametrize(
    ("keys", "refusal"),
    [
        ({"vmSize": "Standard_D2s_v5"}, "SystemPoolSkuTooLow"),
        ({"vmSize": "Standard_E8s_v5"}, "SkuNotAvailable"),
        ({"count": 0}, "SystemPoolRequired"),
        ({"count": 6}, "ErrCode_InsufficientVCPUQuota"),
        ({"name": "System"}, "InvalidParameter"),
    ],
)
def test_a_system_pool_has_machines_large_enough_and_within_the_quota(
    here: Subscription, keys: dict[str, Any], refusal: str
) -> None:
    [system] = WHOLE.body["properties"]["agentPoolProfiles"]
    assert here.put(WHOLE, changed(agentPoolProfiles=[{**system, **keys}])) == refusal


def test_one_operation_at_a_time_works_on_a_cluster_and_its_pools(here: Subscription) -> None:
    assert here.put(WHOLE) == ""
    one = pool(TERMS, SITE, "d8sv5", Pool("Standard_D8s_v5", 1))
    assert here.put(WHOLE) == here.put(one) == here.act("stop") == "AnotherOperationInProgress"
    here.later(400)
    assert here.put(one) == ""
    assert here.put(pool(TERMS, SITE, "e4sv5", Pool("Standard_E4s_v5", 1))) == "AnotherOperationInProgress"


def test_the_machines_come_and_go_with_the_cluster(whole: Subscription) -> None:
    assert [len(whole.azure.of(type)) for type in (BALANCER, IP)] == [1, 1] and len(whole.azure.groups) == 2
    assert code(whole.ask("DELETE", WHOLE.path, WHOLE.kind.version)) == ""
    assert whole.put(WHOLE) == "AnotherOperationInProgress", "the name is in use while it is deleted"
    whole.later(300)
    assert whole.azure.things == {} and list(whole.azure.groups) == ["grass-lab"] and whole.aks.pools == {}


def test_a_body_for_a_cluster_names_all_its_pools(whole: Subscription) -> None:
    assert whole.put(pool(TERMS, SITE, "d8sv5", Pool("Standard_D8s_v5", 1, "1"))) == ""
    whole.later(200)
    assert whole.put(WHOLE) == "AgentPoolsMissing"
    assert whole.put(WHOLE, updated(whole.shown(), WHOLE.body)) == ""
    assert whole.aks.counts() == {"system": 1, "d8sv5": 1}


def test_what_never_changes(whole: Subscription) -> None:
    for keys in ({"dnsPrefix": "other"}, {"nodeResourceGroup": "other"}):
        body = updated(whole.shown(), changed(**keys))
        assert whole.put(WHOLE, body) == "PropertyChangeNotAllowed"
    assert whole.put(pool(TERMS, SITE, "d8sv5", Pool("Standard_D8s_v5", 0))) == ""
    whole.later(200)
    assert whole.put(pool(TERMS, SITE, "d8sv5", Pool("Standard_E4s_v5", 0))) == "PropertyChangeNotAllowed"


def test_an_empty_pool_uses_no_quota(whole: Subscription) -> None:
    assert whole.azure._used("cores") == 4
    assert whole.put(pool(TERMS, SITE, "d8sv5", Pool("Standard_D8s_v5", 0))) == "" and whole.azure._used("cores") == 4
    whole.later(200)
    assert whole.put(pool(TERMS, SITE, "d8sv5", Pool("Standard_D8s_v5", 3))) == "ErrCode_InsufficientVCPUQuota"


def test_a_stopped_cluster_is_not_changed(whole: Subscription) -> None:
    assert whole.act("start") == "OperationNotAllowedInThisState"
    assert whole.act("stop") == ""
    whole.later(300)
    assert whole.shown()["properties"]["powerState"] == {"code": "Stopped"}
    assert whole.put(WHOLE) == "OperationNotAllowedOnStoppedCluster"
    assert whole.put(pool(TERMS, SITE, "d8sv5", Pool("Standard_D8s_v5", 0))) == "OperationNotAllowedOnStoppedCluster"


def test_a_new_identity_is_known_after_a_while_and_a_right_is_given_once(whole: Subscription) -> None:
    right = right_to_pull(TERMS, SITE, PRINCIPAL)
    assert whole.put(right) == "ResourceNotFound", "there is no registry yet"
    assert whole.put(registry(TERMS, SITE, password=False)) == ""
    whole.aks.known_after = 1000
    assert whole.put(right) == "PrincipalNotFound"
    whole.later(1000)
    assert whole.put(right) == whole.put(right) == "" and len(whole.aks.roles) == 1
    again = Wanted(right.kind, "x", f"{right.path[:-1]}0", right.body)
    assert whole.put(again) == "RoleAssignmentExists"
    assert code(whole.ask("DELETE", registry(TERMS, SITE, password=False).path, right.kind.version)) != ""
    assert code(whole.ask("DELETE", registry(TERMS, SITE, password=False).path, "2025-11-01")) == ""
    whole.later(20)
    assert whole.aks.roles == {} and whole.azure.of(REGISTRY) == []


def test_a_registry_tells_its_password_only_if_it_has_one(here: Subscription) -> None:
    one = registry(TERMS, SITE, password=False)
    assert here.put(one) == ""
    here.later(20)
    assert code(here.ask("POST", f"{one.path}/listCredentials", "2025-11-01")) == "UnAuthorizedForCredentialOperations"
    assert here.put(registry(TERMS, SITE, password=True)) == ""
    answer = here.ask("POST", f"{one.path}/listCredentials", "2025-11-01").content
    assert answer["username"] == one.name and len(answer["passwords"]) == 2


def test_a_version_whose_types_are_not_those_of_the_tests_is_refused(whole: Subscription) -> None:
    for each in (WHOLE, registry(TERMS, SITE, password=False), right_to_pull(TERMS, SITE, PRINCIPAL)):
        assert code(whole.ask("PUT", each.path, "2031-01-01", each.body)) == "InvalidApiVersionParameter"
