"""What each answer to the creation of a pod means. Messages are those of a real 1.20."""

from __future__ import annotations

import pytest

from grass.errors import GrassError, InputError, NotAllowedError, UnreachableError
from grass.kubernetes.api import BusyError, RefusedError
from grass.kubernetes.names import ATTEMPT, CLUSTER, NODE, pod_name, short
from grass.kubernetes.objects import Cause, Pod, Status, StatusDetails
from grass.model.reasons import ReasonCode
from grass.wire.codec import Form
from node.runtime.kubernetes.creation import Decision, Step, after_refusal, belongs
from node.runtime.kubernetes.lease import NotHeldError

POD: Form[Pod] = Form(Pod)


def refused(http: int, message: str = "", reason: str = "", kind: str = "pods", **fields: str) -> RefusedError:
    causes = [Cause(field=field, message=said) for field, said in fields.items()]
    return RefusedError(
        http, Status(message=message, reason=reason, code=http, details=StatusDetails(kind=kind, causes=causes))
    )


def decided(error: GrassError) -> Decision:
    return after_refusal(error, "g-1")


@pytest.mark.parametrize(
    "error",
    [
        UnreachableError("timed out"),
        BusyError(500, Status(message="etcdserver: request timed out"), 0.0),
        BusyError(504, Status(), 0.0),
        refused(409, 'pods "g-1" already exists', "AlreadyExists"),
        refused(409, 'object is being deleted: pods "g-1" already exists', "AlreadyExists"),
    ],
)
def test_it_looks_where_the_pod_may_exist(error: GrassError) -> None:
    assert decided(error).step is Step.LOOK


def test_it_waits_as_long_as_a_busy_server_asks_for() -> None:
    assert decided(BusyError(429, Status(), 7.0))[:3] == (Step.AGAIN, None, 7.0)
    assert decided(BusyError(429, Status(), 0.0)).pause > 0


def test_a_conflict_of_quotas_is_tried_again_at_once() -> None:
    found = decided(refused(409, "Operation cannot be fulfilled on resourcequotas", "Conflict", "resourcequotas"))
    assert found.step is Step.AGAIN and found.reason is None and found.pause < 5


def test_a_full_quota_is_named_with_what_it_has() -> None:
    amounts = "requested: limits.cpu=2, used: limits.cpu=3, limited: limits.cpu=4"
    said = f'pods "g-1" is forbidden: exceeded quota: team-a, {amounts}'
    found = decided(refused(403, said, "Forbidden"))
    assert found.step is Step.AGAIN and found.quota and found.reason is not None
    assert found.reason.code is ReasonCode.NAMESPACE_QUOTA
    assert found.reason.message == (
        "quota team-a of its namespace is used up: it asks for limits.cpu=2; used limits.cpu=3 of limits.cpu=4"
    )


def test_a_quota_that_wants_more_to_be_said_is_named() -> None:
    found = decided(
        refused(403, 'pods "g-1" is forbidden: failed quota: q: must specify limits.nvidia.com/gpu', "Forbidden")
    )
    assert found.step is Step.FAIL and found.reason is not None
    assert "quota q" in found.reason.message and "limits.nvidia.com/gpu" in found.reason.message


@pytest.mark.parametrize(
    "said",
    [
        "maximum cpu usage per Container is 1, but limit is 2",
        'violates PodSecurity "restricted:latest": runAsNonRoot != true',
    ],
)
def test_other_refusals_end_the_attempt_with_kubernetes_words(said: str) -> None:
    found = decided(refused(403, f'pods "g-1" is forbidden: {said}', "Forbidden"))
    assert found.step is Step.FAIL and found.reason is not None and found.reason.code is ReasonCode.CANNOT_START
    assert found.reason.message == f"Kubernetes refuses its pod: {said}"


def test_a_wrong_field_is_named_with_its_path() -> None:
    found = decided(refused(422, "Pod is invalid", "Invalid", **{"spec.containers[0].image": "Required value"}))
    assert found.step is Step.FAIL and found.reason is not None
    assert "spec.containers[0].image: Required value" in found.reason.message


@pytest.mark.parametrize(
    "error",
    [
        refused(403, 'pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "n"'),
        NotAllowedError("credentials"),
        InputError("no kubeconfig"),
    ],
)
def test_without_a_right_or_credentials_nothing_is_judged(error: GrassError) -> None:
    found = decided(error)
    assert found.step is Step.AWAY and found.reason is not None and found.reason.code is ReasonCode.RUNTIME


@pytest.mark.parametrize(
    "error",
    [
        refused(404, 'namespaces "n" not found', "NotFound"),
        refused(
            403, 'pods "g-1" is forbidden: unable to create new content in namespace n because it is being terminated'
        ),
    ],
)
def test_a_namespace_that_is_deleted_is_gone(error: GrassError) -> None:
    found = decided(error)
    assert found.step is Step.GONE and found.reason is not None and "namespace" in found.reason.message


def test_an_agent_without_its_lease_tries_again_and_looks_for_nothing() -> None:
    found = decided(NotHeldError("another agent acts for node n1"))
    assert found.step is Step.AGAIN and found.pause > 0
    assert found.reason is not None and found.reason.code is ReasonCode.RUNTIME


def existing(deleted: bool = False, **changed: str) -> Pod:
    labels = {CLUSTER: changed.get("cluster", short("c")), NODE: changed.get("node", short("n"))}
    metadata = {"name": "g", "labels": labels, "annotations": {ATTEMPT: changed.get("key", "j/w.0/1")}}
    return POD.convert({"metadata": {**metadata, **({"deletionTimestamp": "2026-11-27T00:00:00Z"} if deleted else {})}})


def test_a_pod_is_adopted_only_if_all_names_agree() -> None:
    assert belongs(existing(), "c", "n", "j/w.0/1")
    assert belongs(existing(deleted=True), "c", "n", "j/w.0/1")
    for changed in ({"cluster": "x"}, {"node": "x"}, {"key": "j/w.0/2"}):
        assert not belongs(existing(**changed), "c", "n", "j/w.0/1")


def test_names_are_dns_labels_and_differ() -> None:
    keys = ["j-1/w.0/1", "j-1/w.0/2", "J_1.x/w.0/1", f"{'long-' * 20}/worker.1000/12", "---/___.0/1"]
    made = {pod_name(cluster, key) for cluster in ("a", "b") for key in keys}
    assert len(made) == 2 * len(keys)
    assert all(len(name) <= 63 and name == name.lower() and name.replace("-", "").isalnum() for name in made)
    assert all(name[0].isalpha() and name[-1].isalnum() for name in made)
