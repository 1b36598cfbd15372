"""Native job files: what runs a task, and what only containers have."""

from __future__ import annotations

import pytest

from grass.errors import ManifestError
from grass.manifest import ParsedJob, parse_job, read_document
from grass.model.job import Container, Mount


def parsed(text: str) -> ParsedJob:
    return parse_job(read_document(f"{{name: a, components: {{x: {{command: c, {text}}}}}}}"))


def container_of(text: str) -> Container:
    return parsed(f"image: i, container: {{{text}}}").job.components["x"].container


def test_an_image_is_kept_without_a_word() -> None:
    job = parsed("image: 'registry:5000/team/app:1.2'")
    assert job.job.components["x"].image == "registry:5000/team/app:1.2"
    assert job.warnings == ()


def test_everything_that_only_containers_have() -> None:
    container = container_of(
        "entrypoint: [tini, --], user: 1000, shm: 8GiB, network: bridge, data: /mnt/grass/, "
        "ulimits: {nofile: 65536, memlock: unlimited, stack: -1}, "
        "mounts: ['/a:/b', '/c:/d:ro', {source: /e, target: //f, read_only: true}]"
    )
    assert container == Container(
        entrypoint=("tini", "--"),
        user="1000",
        shm=8 << 30,
        network="bridge",
        ulimits={"nofile": 65536, "memlock": -1, "stack": -1},
        mounts=(Mount("/a", "/b"), Mount("/c", "/d", True), Mount("/e", "/f", True)),
        data="/mnt/grass",
    )
    assert container_of("entrypoint: tini").entrypoint == ("tini",)


def test_an_empty_entrypoint_leaves_the_images_out() -> None:
    assert container_of("entrypoint: []").entrypoint == ()
    assert container_of("user: daemon").entrypoint is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mounts: [data]", 'mounts[0]: must be SOURCE:TARGET or SOURCE:TARGET:ro, got "data"'),
        ("mounts: ['/a:/b:rx']", "mounts[0]: must be SOURCE:TARGET or SOURCE:TARGET:ro, got"),
        ("mounts: ['/a:b']", 'mounts[0]: must be an absolute path without `.` or `..`, got "b"'),
        ("mounts: ['/a/../etc:/b']", "mounts[0]: must be an absolute path without `.` or `..`, got"),
        ("mounts: [{source: /a}]", "mounts[0].target: is missing"),
        ("mounts: ['/a:/b', '/c:/b']", "mounts[1]: target /b is already used by components.x.container.mounts[0]"),
        ("data: /etc", "data: must not be /etc, which the container itself needs; use a folder such as /data"),
        ("data: //usr//lib/", "data: must not be /usr/lib, which the container itself needs"),
        ("data: /", "data: must not be /, which"),
        ("data: /proc/1", "data: must not be /proc/1, which"),
        ("mounts: ['/a:/b'], data: /b", "mounts[0]: target /b is already used by components.x.container.data"),
        ("mounts: '/a:/b'", "mounts: must be a list, got"),
        ("mounts: [5]", "mounts[0]: must be a mapping (KEY: VALUE lines), got 5"),
        ("entrypoint: python -u", 'entrypoint: must be a list of arguments or one program, got "python -u"'),
        ("user: a b", "user: must be a user such as 1000, 1000:1000 or daemon, got"),
        ("shm: 0", "shm: must be at least 1MiB, got 0; leave it out for the engine's default"),
        ("network: none", 'network: must be one of host, bridge; got "none"'),
        ("ulimits: {nofiles: 5}", "ulimits.nofiles: unknown key"),
        ("ulimits: {nofile: -2}", "ulimits.nofile: must be at least 0, got -2"),
        ("privileged: true", "privileged: unknown key"),
    ],
)
def test_a_mistake_in_a_container_is_named_with_its_path(text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        container_of(text)
    assert str(caught.value.problems[0]).startswith(f"components.x.container.{problem}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("runtime: podman", 'runtime: must be one of process, docker, kubernetes; got "podman"'),
        ("runtime: docker", "image: is missing; `runtime: docker` needs it"),
        ("container: {user: 1}", "container: requires `image`; without an image there is no container"),
        ("image: 'a b'", 'image: must be the name of a container image such as python:3.12, got "a b"'),
        ("image: --privileged", "image: must be the name of a container image such as python:3.12, got"),
    ],
)
def test_runtime_and_image_go_together(text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parsed(text)
    (found,) = caught.value.problems
    assert str(found).startswith(f"components.x.{problem}")


def test_an_image_beside_the_process_runtime_is_ignored_with_a_warning() -> None:
    assert parsed("image: python, runtime: process").warnings == (
        "components.x.image: ignored; with `runtime: process`, tasks run as processes",
    )
