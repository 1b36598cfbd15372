"""What Grass expects of an API server: the same tests against a real Kubernetes and against the double."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from grass.errors import GrassError
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.names import FINALIZER, NOTED
from grass.kubernetes.objects import LEASE, POD, POD_EVENT, PODS, Lease, Pod
from grass.wire.codec import Form
from tests.doubles.kubernetes_api import kubernetes_api
from tests.support import kubernetes
from tests.support.engine import IMAGE
from tests.support.waiting import wait_until

ANY: Form[Any] = Form(object)


class Place:
    """A namespace, and the server as a user who may do everything in it."""

    def __init__(self, api: ApiServer, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    def make(self, name: str) -> Pod:
        """Make a pod that no machine takes."""
        metadata = {"name": name, "finalizers": [FINALIZER], "labels": {"app": name}}
        spec = {"containers": [{"name": "task", "image": IMAGE}], "nodeSelector": {"no": "where"}}
        return self.api.post(self.pods, {"metadata": metadata, "spec": spec}, POD)

    def refused(self, request: Any, code: int, reason: str) -> None:
        with pytest.raises(RefusedError) as refused:
            request()
        assert (refused.value.http, refused.value.reason) == (code, reason)

    def delete(self, name: str, uid: str) -> None:
        self.api.delete(f"{self.pods}/{name}", ANY, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})

    def patch(self, name: str, uid: str, metadata: dict[str, Any]) -> None:
        self.api.patch(f"{self.pods}/{name}", {"metadata": {"uid": uid, **metadata}}, ANY)

    def tried(self) -> bool:
        """Return whether pods can be made yet."""
        try:
            trial(self)
        except GrassError:
            return False
        return True

    def is_there(self, name: str) -> bool:
        return kubernetes.exists(self.api, f"{self.pods}/{name}")


def trial(place: Place) -> None:
    spec = {"containers": [{"name": "task", "image": IMAGE}]}
    place.api.post(place.pods, {"metadata": {"generateName": "trial-"}, "spec": spec}, POD, {"dryRun": "All"})


@pytest.fixture(scope="module", params=["double", pytest.param("real", marks=pytest.mark.nightly)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "real":
        with kubernetes.namespace() as (server, name):
            made = Place(server, name)
            wait_until(made.tried, 20, "a token of the namespace's account")
            yield made
    else:
        with kubernetes_api() as double, closing(double.api()) as api:
            yield Place(api, double.namespace)


def test_a_name_is_taken_until_its_finalizer_is_gone(place: Place) -> None:
    uid = place.make("taken").metadata.uid
    place.refused(lambda: place.make("taken"), 409, "AlreadyExists")
    place.delete("taken", uid)
    found = place.api.get(f"{place.pods}/taken", POD)
    assert found.metadata.deletion_timestamp and found.metadata.deletion_grace_period_seconds == 0
    place.refused(lambda: place.make("taken"), 409, "AlreadyExists")
    place.patch("taken", uid, {"$deleteFromPrimitiveList/finalizers": [FINALIZER]})
    wait_until(lambda: not place.is_there("taken"))
    assert place.make("taken").metadata.uid != uid


def test_another_uid_is_a_conflict(place: Place) -> None:
    place.make("other")
    place.refused(lambda: place.delete("other", "not-its-uid"), 409, "Conflict")
    place.refused(lambda: place.delete("none", "x"), 404, "NotFound")


def test_a_patch_of_a_pod_with_another_uid_is_invalid_and_says_which_field(place: Place) -> None:
    place.make("patched")
    with pytest.raises(RefusedError) as refused:
        place.patch("patched", "not-its-uid", {"annotations": {"a": "b"}})
    details = refused.value.status.details
    assert refused.value.http == 422 and details is not None
    assert {each.field for each in details.causes} == {"metadata.uid"}


def test_no_finalizer_can_be_taken_from_a_pod_that_ends_and_has_none(place: Place) -> None:
    spec = {"containers": [{"name": "task", "image": IMAGE}], "nodeName": "nowhere"}
    uid = place.api.post(place.pods, {"metadata": {"name": "ending"}, "spec": spec}, POD).metadata.uid
    place.api.delete(f"{place.pods}/ending", ANY, {"gracePeriodSeconds": 30})
    with pytest.raises(RefusedError) as refused:
        place.patch("ending", uid, {"$deleteFromPrimitiveList/finalizers": [FINALIZER]})
    details = refused.value.status.details
    assert refused.value.http == 422 and details is not None
    assert {each.field for each in details.causes} == {"metadata.finalizers"}


def test_a_patch_adds_an_annotation(place: Place) -> None:
    uid = place.make("noted").metadata.uid
    place.patch("noted", uid, {"annotations": {NOTED: "1"}})
    assert place.api.get(f"{place.pods}/noted", POD).metadata.annotations[NOTED] == "1"


def test_a_watch_goes_on_from_a_list(place: Place) -> None:
    first = place.make("watched-1")
    page = place.api.get(place.pods, PODS, {"labelSelector": "app=watched-1"})
    assert [each.metadata.uid for each in page.items] == [first.metadata.uid]
    query = {"watch": "true", "resourceVersion": page.metadata.resource_version, "timeoutSeconds": 20}
    second = place.make("watched-2")
    stream = place.api.stream(place.pods, {**query, "labelSelector": "app=watched-2"}, 30)
    line = next(stream.lines())
    stream.abort()
    event = POD_EVENT.decode(line)
    assert (event.type, event.object.metadata.uid) == ("ADDED", second.metadata.uid)


def test_a_lease_that_has_changed_is_not_written_over(place: Place) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases"
    made = place.api.post(path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}, LEASE)

    def put(holder: str, version: str) -> Lease:
        metadata = {"name": "l", "resourceVersion": version}
        return place.api.put(f"{path}/l", {"metadata": metadata, "spec": {"holderIdentity": holder}}, LEASE)

    changed = put("b", made.metadata.resource_version)
    place.refused(lambda: put("c", made.metadata.resource_version), 409, "Conflict")
    assert put("c", changed.metadata.resource_version).spec.holder_identity == "c"


def test_a_trial_makes_nothing(place: Place) -> None:
    trial(place)
    assert not [each for each in place.api.get(place.pods, PODS).items if each.metadata.name.startswith("trial-")]
