"""Clients and clusters of different versions of Grass: what works, works; what does not, says which versions differ."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from grass.api.client import Client
from grass.errors import InputError, ManifestError, UndecodableError
from grass.system.clock import steady
from grass.wire.log_views import LOG_PIECE
from grass.wire.version import PROTOCOL, REVISION
from tests.support.api_world import ApiWorld
from tests.support.other_version import earlier, environment, served

WITHOUT_JOB_FILES = "29b8ba5a"
"""Protocol 1: submissions have no field ``file``, and no call returns it."""
WITHOUT_VARIABLES = "b91c34e9"
"""Protocol 1, two days older: submissions have no ``shell``, and views lack fields that clients need now."""
BEFORE_REVISIONS = "5f8d30c6"
"""The last version whose server does not say what it speaks."""
JOB = {"name": "j", "components": {"w": {"command": "true"}}}
CLIENT = rf"Grass 0.1.0, protocol {PROTOCOL}.{REVISION}"
OLDER = rf"the cluster runs an older Grass .*\(cluster: Grass 0.1.0, protocol 1.0; client: {CLIENT}\)"
AN_OLD_CLIENT = """
import json, sys
from contextlib import closing
from pathlib import Path
from grass.api.client import Client

client = Client("local", home=Path(sys.argv[1]))
started = client.start({"name": "old", "components": {"w": {"command": "true"}}})
assert [job["id"] for job in client.jobs()] == [started["id"]] and client.status()["jobs"] == {"QUEUED": 1}
assert len(client.tasks("old")) == 1 and client.why("old")["groups"] and client.nodes() == []
client.stop("old")
client.close()
print(json.dumps(started["id"]))
"""


def client_of(home: Path, user: str) -> Client:
    return Client("local", home=home / f"home-{user}")


@pytest.fixture(scope="module")
def old_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a cluster of an earlier version."""
    folder, home = tmp_path_factory.mktemp("earlier"), tmp_path_factory.mktemp("home")
    with served(earlier(folder, WITHOUT_JOB_FILES), home):
        yield home


@pytest.mark.nightly  # needs the history of the repository
def test_a_job_file_starts_at_an_older_cluster_that_keeps_none_and_the_user_learns_it(old_server: Path) -> None:
    file, notes = old_server / "j.yml", list[str]()
    file.write_text(json.dumps(JOB))
    with client_of(old_server, "ann") as client:
        client.on_away(notes.append)
        started = client.start(file)
        assert client.job("j").id == started.id and [each.id for each in client.jobs()] == [started.id]
        client.stop("j")
    [note] = notes
    assert "runs an older Grass (Grass 0.1.0, protocol 1.0): it keeps no copy of the job file" in note


@pytest.mark.nightly  # needs the history of the repository
def test_an_older_cluster_shows_lines_once_they_have_ended_and_the_user_learns_it(old_server: Path) -> None:
    notes = list[str]()
    with client_of(old_server, "bob") as client:
        client.on_away(notes.append)
        client.start({**JOB, "name": "lines"})
        body = {"follow": True, "unfinished": True}
        with closing(client._transport.stream("POST", "/v1/jobs/lines/logs", body)) as pieces:
            assert LOG_PIECE.convert(next(pieces)).lines == ()
    assert "runs an older Grass (Grass 0.1.0, protocol 1.0): a line is shown once it has ended" in notes[0]


@pytest.mark.nightly  # needs the history of the repository
def test_what_an_older_cluster_does_not_know_is_refused_at_once_by_one_line(old_server: Path) -> None:
    with client_of(old_server, "bob") as client:
        client.start({**JOB, "name": "k"})
        began = steady()
        with pytest.raises(InputError, match=f"does not know this call; {OLDER}"):
            client.job_file("k")
        with pytest.raises(InputError, match=f"unknown query parameter 'step'; {OLDER}"):
            client.job_usage("k")
        with pytest.raises(ManifestError, match=f"(?s)w.output: unknown key.*{OLDER}"):
            client.start({"name": "l", "components": {"w": {"command": "true", "output": "1 MiB"}}})
        assert steady() - began < 4.0, "an old server is no server that is away"


@pytest.mark.nightly  # the same with an older one
def test_an_answer_without_a_field_that_is_needed_says_that_the_cluster_is_older(tmp_path: Path) -> None:
    with (
        served(earlier(tmp_path / "earlier", WITHOUT_VARIABLES), tmp_path),
        client_of(tmp_path, "ann") as client,
        pytest.raises(UndecodableError, match=f"isolation in the cluster's answer; {OLDER}"),
    ):
        client.status()


@pytest.mark.nightly  # the same with a newer one
def test_every_call_works_at_the_last_version_that_said_nothing_of_itself(tmp_path: Path) -> None:
    folder = earlier(tmp_path / "earlier", BEFORE_REVISIONS)
    with served(folder, tmp_path), client_of(tmp_path, "root") as client:
        client.start(JOB)
        assert client.status().revision == 0 and len(client.users()) == 4 and client.schedules() == []
        assert (len(client.jobs()), len(client.tasks("j")), client.job("j").result) == (1, 1, None)
        assert client.job_file("j").original is False and client.nodes() == [] and client.why("j").groups
        assert client.job_usage("j").count == 0 and list(client.events())


@pytest.mark.nightly  # a client of the oldest protocol
def test_an_old_client_works_at_this_server(world: ApiWorld, tmp_path: Path) -> None:
    folder = earlier(tmp_path / "earlier", WITHOUT_VARIABLES)
    command = [sys.executable, "-c", AN_OLD_CLIENT, str(world.home / "home-ann")]
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    with world.client() as client:
        assert client.job("old").id == json.loads(done.stdout)
