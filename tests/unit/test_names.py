"""One grammar of names, whoever reads one: files, the command line, the API, the master-agent."""

from __future__ import annotations

import pytest

from grass.cli.offer import OfferOptions, offered
from grass.errors import InputError, UndecodableError
from grass.manifest import placement, values
from grass.manifest.join_file import Offer
from grass.manifest.values import Wrong
from grass.model.image import is_path
from grass.model.key_text import attempt_parts, attempt_text, is_attempt_key, job_of, task_parts
from grass.model.names import is_name, is_topology_path
from grass.wire.calls import OfferedNode
from grass.wire.keys import AttemptKey, LaunchKey
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
        (_label_of_settings, "/".join(path)),
        (_label_of_command_line, "/".join(path)),
        (_joins_with_label, "/".join(path)),
        (_joins_at, list(path)),
    ):
        if good:
            read(value)
        else:
            with pytest.raises((Wrong, InputError)):
                read(value)


def _label_of_settings(text: str) -> None:
    placement.node_label("topology", text)


def _label_of_command_line(text: str) -> None:
    offered(Offer(), OfferOptions(labels=(f"disk=ssd,topology={text}",)))


def _joins_with_label(text: str) -> None:
    enrolment.check_offer(OfferedNode(labels={"topology": text}))


def _joins_at(path: list[str]) -> None:
    enrolment.check_offer(OfferedNode(path=tuple(path)))


def test_keys_are_taken_apart_alike_with_types_and_without() -> None:
    text = "train.v2-0123abcd/worker.3/12"
    key = AttemptKey.parse(text)
    assert is_attempt_key(text)
    assert job_of(text) == key.job_id
    assert attempt_parts(text) == (key.job_id, str(key.task), str(key.attempt))
    assert attempt_text(key.job_id, str(key.task), key.attempt) == text
    assert task_parts(str(key.task)) == (key.component, key.index) == ("worker", 3)


@pytest.mark.parametrize(
    "text",
    ["../w.0/1", "j/../1", "j/w.0/0", "j/w.0", "j/w/1", "j/w.0/1\n", "/w.0/1", "j/a.b.0/1", ".j/w.0/1", "j/w-.0/1"],
)
def test_a_key_that_could_lead_elsewhere_is_refused(text: str) -> None:
    assert not is_attempt_key(text)
    with pytest.raises(UndecodableError):
        AttemptKey.parse(text)


@pytest.mark.parametrize("text", ["", "j", "j/", "../w", "j/w.0", "j/_w", "_j/w", "j/w/x"])
def test_what_names_no_launch_is_refused(text: str) -> None:
    with pytest.raises(UndecodableError):
        LaunchKey.parse(text)


@pytest.mark.parametrize("text", ["", "worker", "worker.", ".3", "a.b.3", "a/b.3", "worker.x", "worker.٣", "worker.-1"])
def test_what_names_no_task_is_refused(text: str) -> None:
    assert task_parts(text) is None


@pytest.mark.parametrize("text", ["app.tar", "./app", "/srv/App.TGZ", "../app.tar.zst"])
def test_a_path_is_no_name_of_an_image(text: str) -> None:
    assert is_path(text)


@pytest.mark.parametrize("text", ["busybox", "registry.local:5000/a/app:1.tar-2", "app@sha256:00", "tar"])
def test_a_name_of_an_image_is_no_path(text: str) -> None:
    assert not is_path(text)
