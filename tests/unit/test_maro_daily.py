"""MARO's files and habits: modes, mounts of the share's folders, the order of words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grass.cli.exits import Exit
from grass.cli.main import execute
from grass.errors import InputError, ManifestError
from grass.manifest import parse_job
from grass.manifest.native_writer import job_document
from grass.manifest.settings import parse_settings
from grass.model.job import Mount
from grass.node_config import NodeConfig, NodeHome
from node.runtime.docker import share
from node.runtime.protocol import Launch


def maro(mode: str = "k8s/aks", target: str = "/data") -> dict[str, Any]:
    component = {"image": "i", "num": 2, "command": ["python", "a.py"], "mount": {"target": target}}
    return {"mode": mode, "name": "j", "components": {"actor": component}}


def test_jobs_of_kubernetes_are_read() -> None:
    component = parse_job(maro()).job.components["actor"]
    assert (component.command, component.replicas, component.container.data) == (("python", "a.py"), 2, "/data")


def test_a_mount_with_a_source_is_a_folder_of_the_share() -> None:
    job = parse_job(maro(target="/src:/dst")).job
    assert job.components["actor"].container.mounts == (Mount("/src", "/dst", shared=True),)
    again = parse_job(job_document(job)).job
    assert again.components["actor"].container == job.components["actor"].container
    for wrong in ("/src:/etc", "src:/dst", "/../x:/dst", ":/dst"):
        with pytest.raises(ManifestError, match=r"mount\.target"):
            parse_job(maro(target=wrong))


def test_an_unknown_mode_gives_one_message() -> None:
    for parse, document in (
        (parse_job, {"mode": "grass/mars", "name": "j", "odd": 1, "components": {"a": {"other": 1}}}),
        (parse_settings, {"mode": "k8s/eks", "cloud": {}, "name": "c", "master": {}}),
    ):
        with pytest.raises(ManifestError) as raised:
            parse(document)
        assert [problem.path for problem in raised.value.problems] == ["mode"]


def test_a_folder_of_the_share_is_made_and_never_outside_of_it(tmp_path: Path) -> None:
    config = NodeHome("c", "local", str(tmp_path), "/r", node=NodeConfig())
    (tmp_path / "data").mkdir()
    launch = Launch(["true"], {}, None, 5.0)
    [made] = share.shared(config, launch, "j-1", Mount("/a/b", "/dst", shared=True), "ext4")
    assert (made["Source"], made["Target"]) == (str(tmp_path / "data/a/b"), "/dst")
    assert (tmp_path / "data/a/b").is_dir()
    (tmp_path / "data/link").symlink_to("/etc")
    with pytest.raises(InputError, match="leads out of the share"):
        share.shared(config, launch, "j-1", Mount("/link", "/dst", shared=True), "ext4")


@pytest.mark.parametrize(
    "words",
    [
        "job start lab job.yml",
        "job list lab",
        "job show lab train",
        "schedule start lab nightly.yml",
        "schedule stop lab nightly",
        "data push lab ./a b",
        "data pull lab a ./b",
        "image push lab trainer",
        "clean lab",
        "status lab",
        "node list lab",
    ],
)
def test_a_cluster_before_the_job_or_the_file_gets_a_hint(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRASS_HOME", str(tmp_path))
    (tmp_path / "clusters/lab").mkdir(parents=True)
    assert execute(words.split()) == Exit.BAD_INPUT
    assert ". lab is a cluster: write `--cluster lab`" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["use lab more", "status more --cluster lab", "job start more.yml"])
def test_other_mistakes_get_no_hint(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRASS_HOME", str(tmp_path))
    (tmp_path / "clusters/lab").mkdir(parents=True)
    assert execute(words.split()) == Exit.BAD_INPUT
    assert "is a cluster" not in capsys.readouterr().err
