"""How a mapping is read key by key: what a part that is absent, or of another type, does to what is read of it."""

from __future__ import annotations

import pytest

from grass.errors import ManifestError
from grass.manifest import values
from grass.manifest.fields import Fields, Problems


def read(content: object) -> tuple[str, bool]:
    problems = Problems()
    with Fields(content, "", problems).within("share") as share:
        path = share.require("path", values.text, "nowhere")
    problems.check()
    return path, share.intact


def test_nothing_is_required_of_a_mapping_that_is_absent() -> None:
    assert read({}) == ("nowhere", False)
    assert read({"share": {"path": "/data"}}) == ("/data", True)


@pytest.mark.parametrize(
    ("share", "problem"),
    [
        ({}, "share.path: is missing"),
        ({"path": "/data", "pats": 1}, "share.pats: unknown key; did you mean `path`?"),
        ([], "share: must be a mapping (KEY: VALUE lines), got a list"),
    ],
)
def test_a_mapping_that_is_there_is_checked(share: object, problem: str) -> None:
    with pytest.raises(ManifestError) as error:
        read({"share": share})
    assert [str(each) for each in error.value.problems] == [problem]


def test_names_that_the_user_chooses_come_with_their_paths() -> None:
    fields = Fields({"labels": {"zone": "a", "rack": 1}}, "nodes[0]", Problems())
    assert list(fields.named("labels")) == [("nodes[0].labels.zone", "zone", "a"), ("nodes[0].labels.rack", "rack", 1)]
    assert list(fields.named("env")) == []
