from __future__ import annotations

import pytest

from grass.errors import InputError
from grass.files import paths
from grass.model.image import full_name


@pytest.mark.parametrize(
    "text, path", [("mnist", "mnist"), ("/mnist//train/", "mnist/train"), ("./a/./b", "a/b"), ("", "")]
)
def test_a_path_is_within_the_share_however_it_is_written(text: str, path: str) -> None:
    assert paths.to_read(text) == path


@pytest.mark.parametrize("text", ["..", "../etc", "a/../../b", "~", "~root/x", "a\nb", "a\x00b", "x" * 2000])
def test_a_path_that_leaves_the_share_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        paths.to_read(text)


@pytest.mark.parametrize("text", ["logs", "logs/job-1", "images/blobs/x", "jobs", "jobs/train-1", "", "."])
def test_nobody_writes_where_grass_does(text: str) -> None:
    with pytest.raises(InputError):
        paths.to_write(text)


def test_what_a_job_wrote_can_be_removed_but_not_the_logs() -> None:
    assert paths.to_remove("jobs/train-1") == "jobs/train-1"
    with pytest.raises(InputError):
        paths.to_remove("logs/train-1")


@pytest.mark.parametrize(
    "text, name",
    [
        ("busybox", "busybox:latest"),
        ("busybox:1", "busybox:1"),
        ("host:5000/team/app", "host:5000/team/app:latest"),
        ("app@sha256:abc", "app@sha256:abc"),
    ],
)
def test_an_image_without_a_tag_is_the_latest(text: str, name: str) -> None:
    assert full_name(text) == name
