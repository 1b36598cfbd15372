"""MARO's files and habits: modes, mounts of the share's folders, the order of words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grass.cli.main import _with_hint
from grass.config import ClusterConfig
from grass.errors import ManifestError, NotFoundError
from grass.manifest import parse_job, parse_settings
from grass.manifest.native_writer import job_document
from grass.model.job import Mount
from node.runtime.docker import share
from node.runtime.protocol import Launch
from node.runtime.spawn import CannotStartError


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
        (parse_settings, {"mode": "k8s/aks", "cloud": {}, "name": "c", "master": {}}),
    ):
        with pytest.raises(ManifestError) as raised:
            parse(document)
        assert [problem.path for problem in raised.value.problems] == ["mode"]


def test_a_folder_of_the_share_is_made_and_never_outside_of_it(tmp_path: Path) -> None:
    config = ClusterConfig("c", "local", str(tmp_path), "/r")
    (tmp_path / "data").mkdir()
    launch = Launch(["true"], {}, None, 5.0)
    [made] = share.shared(config, launch, "j-1", Mount("/a/b", "/dst", shared=True))
    assert (made["Source"], made["Target"]) == (str(tmp_path / "data/a/b"), "/dst")
    assert (tmp_path / "data/a/b").is_dir()
    (tmp_path / "data/link").symlink_to("/etc")
    with pytest.raises(CannotStartError, match="leads out of the share"):
        share.shared(config, launch, "j-1", Mount("/link", "/dst", shared=True))


def test_a_cluster_in_the_place_of_a_job_gets_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRASS_HOME", str(tmp_path))
    (tmp_path / "clusters/lab").mkdir(parents=True)
    missing = NotFoundError("job lab: not found")
    assert "write `--cluster lab`" in str(_with_hint(missing, ["job", "logs", "lab", "train"]))
    assert _with_hint(NotFoundError("job x: not found"), ["job", "logs", "x", "lab"]).args == ("job x: not found",)
