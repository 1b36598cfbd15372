"""The copy of a list that follows its changes: pages and events in, changes out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grass.errors import UndecodableError
from grass.kubernetes.api import RefusedError
from grass.kubernetes.informer import Change, Copy, GoneError
from grass.kubernetes.objects import POD, POD_EVENT, Pod


def pod(name: str, uid: str, version: str, phase: str = "Running") -> Pod:
    return POD.convert(raw(name, uid, version, phase))


def raw(name: str, uid: str, version: str, phase: str = "Running") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": version}, "status": {"phase": phase}}


def event(kind: str, what: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": what}).encode()


@pytest.fixture
def copy() -> Copy[Pod]:
    made = Copy(POD_EVENT)
    assert made.replace([pod("a", "1", "10"), pod("b", "2", "11")], "12") == [
        Change("1", pod("a", "1", "10")),
        Change("2", pod("b", "2", "11")),
    ]
    return made


def test_an_event_changes_the_object_and_the_version(copy: Copy[Pod]) -> None:
    assert copy.apply_line(event("MODIFIED", raw("a", "1", "13", "Failed"))) == Change(
        "1", pod("a", "1", "13", "Failed")
    )
    assert copy.objects["1"].status.phase == "Failed" and copy.version == "13"


def test_a_bookmark_changes_only_the_version(copy: Copy[Pod]) -> None:
    before = dict(copy.objects)
    assert copy.apply_line(event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "99"}})) is None
    assert copy.version == "99" and copy.objects == before


def test_a_deletion_carries_the_last_state(copy: Copy[Pod]) -> None:
    last = pod("a", "1", "14", "Succeeded")
    assert copy.apply_line(event("DELETED", raw("a", "1", "14", "Succeeded"))) == Change("1", None, last, seen=True)
    assert set(copy.objects) == {"2"}


def test_a_name_that_is_used_again_is_another_object(copy: Copy[Pod]) -> None:
    copy.apply_line(event("DELETED", raw("a", "1", "14")))
    assert copy.apply_line(event("ADDED", raw("a", "9", "15"))) == Change("9", pod("a", "9", "15"))
    assert set(copy.objects) == {"2", "9"}


@pytest.mark.parametrize("more", [{}, {"metadata": {}}, {"metadata": {}, "status": "Failure"}])
def test_a_version_that_was_forgotten_leads_to_a_list_and_its_differences(
    copy: Copy[Pod], more: dict[str, Any]
) -> None:
    with pytest.raises(GoneError):
        copy.apply_line(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", **more}))
    assert copy.version is None
    assert copy.replace([pod("b", "2", "11"), pod("a", "9", "20")], "21") == [
        Change("1", None, pod("a", "1", "10"), seen=False),
        Change("9", pod("a", "9", "20")),
    ]


def test_another_error_of_a_watch_is_raised_and_keeps_the_version(copy: Copy[Pod]) -> None:
    with pytest.raises(RefusedError, match="etcd") as refused:
        copy.apply_line(event("ERROR", {"kind": "Status", "code": 500, "message": "etcd is away"}))
    assert refused.value.http == 500 and copy.version == "12"


def test_a_line_that_is_cut_changes_nothing(copy: Copy[Pod]) -> None:
    with pytest.raises(UndecodableError):
        copy.apply_line(event("MODIFIED", raw("a", "1", "13", "Failed"))[:-5])
    assert copy.version == "12" and copy.objects["1"].status.phase == "Running"
