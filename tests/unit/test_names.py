"""One grammar of names, whoever reads one: files, the command line, the API, the master-agent."""

from __future__ import annotations

import pytest

from grass.errors import InputError
from grass.manifest import placement, values
from grass.manifest.values import Wrong
from grass.model.names import is_name, is_topology_path
from master.api import enrolment
from master.api.joins import check_name
from tests.support.world import World

GOOD = ("n1", "N", "0", "a.b-c_d", "a" * 63)
BAD = ("", "a.", "-a", ".a", "a..b", "a b", "a/b", "a" * 64, "é", "a\n", "*")


@pytest.mark.parametrize("name", [*GOOD, *BAD])
def test_every_reader_takes_the_same_names_for_a_node(name: str) -> None:
    good = name in GOOD
    assert is_name(name) is good
    world = World()
    world.ticket("node-join", name=name, digest="a" * 64)
    world.run()
    assert (name in world.accounts.digests) is good
    for read, refusal in ((values.name, Wrong), (check_name, InputError)):
        if good:
            read(name)
        else:
            with pytest.raises(refusal):
                read(name)


@pytest.mark.parametrize(
    "path", [("r1",), ("r1", "s2"), tuple("abcdefgh"), tuple("abcdefghi"), ("",), ("a", ""), ("a b",), ("a", "..")]
)
def test_every_reader_takes_the_same_topology_paths(path: tuple[str, ...]) -> None:
    good = is_topology_path(path)
    assert good is (path in (("r1",), ("r1", "s2"), tuple("abcdefgh")))
    for read, value in (
        (placement.topology, "/".join(path)),
        (placement.topology, list(path)),
        (_joins_at, list(path)),
    ):
        if good:
            read(value)
        else:
            with pytest.raises((Wrong, InputError)):
                read(value)


def _joins_at(path: list[str]) -> None:
    facts = {"api_port": 1, "address": "10.0.0.1", "version": "1"}
    body = {"facts": facts, "node": {"path": path}, "join_id": "0" * 16, "secret": "s", "password": "p", "name": "n1"}
    enrolment.parse(body)
