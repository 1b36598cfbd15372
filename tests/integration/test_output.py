"""What a job writes to GRASS_OUTPUT: it is there for every job, pulled by name, and stays when the job is deleted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.api.client import Client
from grass.cli.main import execute
from grass.provision import local
from tests.integration.test_files import archive
from tests.support.needs import require
from tests.support.waiting import wait_until


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    require(shutil.which("rsync") is not None, "rsync")
    home = tmp_path / "home"
    monkeypatch.setenv("GRASS_HOME", str(home))
    local.create(None, home=home, progress=lambda _: None)
    yield home
    local.delete("local", home=home, progress=lambda _: None)


def test_what_a_job_wrote_can_be_fetched_and_outlives_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "numbers").write_text("1 2 3\n")
    assert execute(["data", "push", "set", "sets/one"]) == 0
    with Client("local", home=home) as client:
        client.start(
            {
                "name": "sum",
                "components": {"t": {"command": "wc -w < $GRASS_DATA/sets/one/numbers > $GRASS_OUTPUT/words"}},
            }
        )
        assert client.wait("sum", timeout=30).state == "SUCCEEDED"
        client.start({"name": "idle", "components": {"t": {"command": "test -d $GRASS_OUTPUT"}}})
        assert client.wait("idle", timeout=30).state == "SUCCEEDED"
        written, empty = (home / "clusters/local/data/jobs" / client.job(name).id for name in ("sum", "idle"))
        assert execute(["job", "pull", "sum"]) == 0
        assert (tmp_path / "sum" / "words").read_text().strip() == "3"
        assert (tmp_path / "sum").stat().st_mode & 0o022 == 0  # nobody else may write there, as in the share
        assert execute(["job", "pull", "sum", "words", "--to", "here"]) == 0
        assert (tmp_path / "here").read_text().strip() == "3"
        for name in ("sum", "idle"):
            client.delete(name)
        assert (written / "words").exists()
        wait_until(lambda: not empty.exists(), what="the removal of the empty folder")
        capsys.readouterr()
        assert execute(["data", "pull", "sets/one", "back"]) == 0
        assert (tmp_path / "back" / "numbers").read_text() == "1 2 3\n"
        archive(tmp_path / "image.tar", [b"layer"], "team/a:1")
        assert execute(["image", "push", "--file", "image.tar"]) == 0
        capsys.readouterr()
        assert execute(["image", "list"]) == 0
        assert "team/a:1" in capsys.readouterr().out
        assert execute(["image", "remove", "team/a:1"]) == 0
        capsys.readouterr()
        assert execute(["image", "list", "-o", "quiet"]) == 0
        assert "team/a:1" not in capsys.readouterr().out
        assert execute(["image", "remove", "team/a:1"]) == 2
    assert execute(["job", "pull", "nobody"]) == 2
    assert execute(["data", "push", "set", "../outside"]) == 2
    assert execute(["data", "remove", "sets"]) == 2
    assert execute(["data", "remove", "-r", "sets"]) == 0
    assert not (home / "clusters/local/data/sets").exists()
