"""What a job writes to GRASS_OUTPUT: it is there for every job, pulled by name, and stays when the job is deleted.

And what its tasks print, in the files that `output: {file: …}` names.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.api.client import Client
from grass.cli.main import execute
from grass.config import ClusterConfig
from grass.errors import ConflictError
from grass.provision import local
from grass.supervision.supervisor import Supervisor
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


LOUD = """
for i in $(seq 150); do echo "out $GRASS_INDEX $GRASS_ATTEMPT $i"; echo "err $GRASS_ATTEMPT $i" >&2; sleep 0.02; done
echo note > "$GRASS_OUTPUT/note-$GRASS_INDEX"
printf 'no end'
exit $((GRASS_ATTEMPT == 1))
"""


def lines_of(index: int, attempt: int) -> list[str]:
    return [f"out {index} {attempt} {number}" for number in range(1, 151)]


def test_the_output_of_each_task_comes_in_a_file_whole_and_in_order_though_the_node_agent_is_killed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    part = {
        "command": LOUD,
        "replicas": 2,
        "resources": {"cpu": 0.5},
        "restart": {"limit": 1, "backoff": "100ms"},
        "output": {"file": "logs/{job}-{index}.log"},
    }
    with Client("local", home=home) as client:
        job = client.start({"name": "loud", "components": {"t": part}}).id
        wait_until(lambda: "out 0 1 20" in [line.text for line in client.logs(job, "t.0")], what="twenty lines")
        assert execute(["job", "pull", "loud"]) == 0
        file = tmp_path / "loud/logs/loud-0.log"
        assert "out 0 1 20\n" in file.read_text()
        supervisor = Supervisor(ClusterConfig.load(home / "clusters/local/cluster.json"))
        [agent] = [daemon for daemon in supervisor.daemons() if daemon.name == "node-agent"]
        os.kill(agent.pid, signal.SIGKILL)
        assert client.wait(job, timeout=60).state == "SUCCEEDED"
        client.pull_job(job, local=tmp_path / "loud")  # nothing was edited since the pull to the same folder
        for index in range(2):
            text = (tmp_path / f"loud/logs/loud-{index}.log").read_text()
            assert re.findall(r"out .*", text) == [*lines_of(index, 1), *lines_of(index, 2)]
            assert re.findall(r"err .*", text) == [f"err {attempt} {i}" for attempt in (1, 2) for i in range(1, 151)]
            assert text.count("no end") == 2 and text.endswith("no end")
            assert (tmp_path / f"loud/note-{index}").read_text() == "note\n"
        modified = file.stat().st_mtime_ns
        assert client.pull_job(job, "logs/loud-0.log", "one.txt") == file.stat().st_size
        assert (tmp_path / "one.txt").read_bytes() == file.read_bytes()
        assert execute(["job", "pull", "loud"]) == 0
        assert file.stat().st_mtime_ns == modified
        file.write_text("edited\n")
        with pytest.raises(ConflictError, match=r"edited or made here: .*/loud-0\.log"):
            client.pull_job(job, local="loud")
        assert file.read_text() == "edited\n"
        client.pull_job(job, local="loud", force=True)
        assert file.read_bytes() == (tmp_path / "one.txt").read_bytes()


def test_output_does_not_replace_what_a_task_wrote_and_a_rerun_brings_the_output_of_all_tasks(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fails_once = 'echo "run $GRASS_INDEX in $GRASS_OUTPUT"; test "$GRASS_INDEX" = 0 || test -e ../again'
    mixed = {
        "own": {"command": "echo mine > $GRASS_OUTPUT/own.log; echo printed", "output": {"file": "own.log"}},
        "link": {"command": f"ln -s {tmp_path} $GRASS_OUTPUT/out; echo printed", "output": {"file": "out/x.log"}},
        "quiet": {"command": "true", "output": {"file": "{component}.log"}},
    }
    with Client("local", home=home) as client:
        client.start({"name": "mixed", "components": mixed})
        assert client.wait("mixed", timeout=30).state == "SUCCEEDED"
        with pytest.raises(ConflictError, match=r"gives: own\.log, out/x\.log; all else was pulled"):
            client.pull_job("mixed")
        assert (tmp_path / "mixed/own.log").read_text() == "mine\n"
        assert (tmp_path / "mixed/quiet.log").read_text() == ""
        assert not (tmp_path / "x.log").exists()
        (tmp_path / "job").mkdir()
        monkeypatch.chdir(tmp_path / "job")
        again = {
            "command": fails_once,
            "replicas": 2,
            "cwd": str(tmp_path / "job"),
            "output": {"file": "logs/{index}.log"},
        }
        first = client.start({"name": "twice", "components": {"t": again}}).id
        assert client.wait(first, timeout=30).state == "FAILED"
        (tmp_path / "again").touch()
        second = client.rerun("twice", failed=True).id
        assert client.wait(second, timeout=30).state == "SUCCEEDED"
        client.pull_job(second, local="both")
        assert first in (tmp_path / "job/both/logs/0.log").read_text()
        assert second in (tmp_path / "job/both/logs/1.log").read_text()
        for name in ("linked", "elsewhere"):
            (tmp_path / name).mkdir()
        (tmp_path / "linked/logs").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ConflictError, match=r"gives: logs/1\.log, logs/0\.log"):
            client.pull_job(second, local=tmp_path / "linked")
        assert list((tmp_path / "elsewhere").iterdir()) == []
