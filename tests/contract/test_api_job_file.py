"""The file of a job: kept as its user wrote it, shown without secrets, gone with the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grass.api.client import Client
from grass.errors import InputError, NotAllowedError
from grass.manifest import parse_job
from grass.manifest.document import read_document
from grass.wire.job_views import JobFileView
from tests.support.api_world import ApiWorld

TEXT = "# the third trial\nname: trial\ncomponents: {w: {command: 'true', env: {API_TOKEN: hidden}}}\n"


def test_the_file_of_a_job_is_shown_as_it_was_written(world: ApiWorld, tmp_path: Path) -> None:
    path = tmp_path / "trial.yml"
    path.write_text(TEXT)
    client, shown = world.client(), TEXT.replace("hidden", '"[REDACTED]"')
    first = client.start(path).id
    assert client.job_file("trial") == JobFileView("trial.yml", shown, True)
    with pytest.raises(NotAllowedError):
        world.client("bob").job_file(first)
    world.change_job(first, state="FAILED")
    assert client.rerun("trial").id != first
    assert client.job_file("trial").text == shown


def test_a_job_that_was_no_file_gets_one_that_starts_the_same_job(world: ApiWorld) -> None:
    document = {"name": "made", "components": {"w": {"command": "true", "replicas": 3, "env": {"A_TOKEN": "hidden"}}}}
    client = world.client()
    client.start(document)
    file = client.job_file("made")
    assert (file.name, file.original) == ("made.yml", False) and "hidden" not in file.text
    job = parse_job(read_document(file.text)).job
    assert (job.name, job.components["w"].replicas) == ("made", 3)


def test_what_is_no_text_is_refused_and_starts_nothing(world: ApiWorld) -> None:
    body: dict[str, Any] = {"manifest": read_document(TEXT), "file": {"name": "x", "packed": "bm9uc2Vuc2U="}}
    client = world.client()
    with pytest.raises(InputError, match="file: is not text"):
        client._transport.call("POST", "/v1/jobs", body)
    assert client.jobs(all=True) == []


def test_a_viewer_sees_the_names_of_variables_and_not_their_values(world: ApiWorld, tmp_path: Path) -> None:
    path = tmp_path / "plain.yml"
    path.write_text(
        "# DATASET: private-set\nname: plain\ncomponents: {w: {command: 'true', env: {DATASET: private-set}}}\n"
    )
    world.client().start(path)
    for user in ("ann", "root"):
        client = world.client(user)
        shown = str(client.job("plain", specification=True)), client.job_file("plain").text
        assert all("private-set" in each for each in shown), user
    viewer = world.client("eve")
    seen = client_says(viewer)
    assert "private-set" not in seen and "DATASET" in seen
    assert viewer.job_file("plain").original is False


def client_says(client: Client) -> str:
    """All that a client is told of the job: its specification, its file, its tasks and its history."""
    told: list[object] = [client.job("plain", specification=True), client.job_file("plain"), client.jobs(all=True)]
    told += [client.tasks("plain"), client.why("plain"), list(client.events())]
    return str(told)
