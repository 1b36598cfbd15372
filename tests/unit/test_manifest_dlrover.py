"""``framework: dlrover`` in a job file: Grass adds the master, unless the file has it."""

from __future__ import annotations

from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest.job import parse_job
from grass.manifest.native_writer import job_document
from grass.model.framework import DLROVER_MASTER
from grass.model.job import Job, RestartOn


def document(**components: Any) -> dict[str, Any]:
    parts = {name: {"command": "dlrover-run t.py", "framework": "dlrover", **part} for name, part in components.items()}
    return {"name": "train", "components": parts}


def job(**components: Any) -> Job:
    return parse_job(document(**components)).job


def test_the_master_is_added_and_decides_nothing_about_success() -> None:
    found = job(
        worker={
            "image": "train:1",
            "env": {"PATH": "/opt/bin", "A": "1"},
            "resources": {"gpu": 8},
            "where": {"zone": "a"},
        }
    )
    master = found.components[DLROVER_MASTER]
    assert (master.command, master.ports) == (("python3", "-m", "grass_dlrover"), ("dlrover",))
    assert (master.image, master.env) == ("train:1", {"PATH": "/opt/bin"}), "it needs the Python of the workers"
    assert master.where == {"zone": ("a",)}, "so a namespace or a site keeps all of the job"
    assert (master.resources.gpu, master.resources.cpu) == (0, 100)
    assert (master.restart.policy, master.restart.limit) == (RestartOn.ON_FAILURE, None)
    assert found.success == ("worker",)


def test_the_job_is_written_without_the_master_that_grass_adds() -> None:
    found = job(trainer={"replicas": 2})
    assert dict(found.components[DLROVER_MASTER].framework.options) == {"role": DLROVER_MASTER, "worker": "trainer"}  # type: ignore[union-attr]
    written = job_document(found)
    assert list(written["components"]) == ["trainer"]
    assert parse_job(written).job == found


def test_a_file_may_have_the_master_itself() -> None:
    own = {"command": "python3 -m grass_dlrover", "ports": ["dlrover"], "where": {"zone": "a"}}
    found = job(worker={}, **{DLROVER_MASTER: own})
    assert found.components[DLROVER_MASTER].where == {"zone": ("a",)}
    assert parse_job(job_document(found)).job == found


def test_other_jobs_get_no_master() -> None:
    assert list(parse_job({"name": "a", "components": {"w": {"command": "true"}}}).job.components) == ["w"]


@pytest.mark.parametrize(
    ("components", "problem"),
    [
        (
            {"a": {}, "b": {}},
            "components.b.framework: its role `worker` is that of `a`; a job of DLRover has one component of each role",
        ),
        (
            {"worker": {}, DLROVER_MASTER: {}},
            "components.dlrover-master.ports: the role dlrover-master needs a port named",
        ),
        (
            {"worker": {"framework": {"name": "dlrover", "ps": "worker"}}},
            "components.worker.framework.ps: is an option of the role dlrover-master only",
        ),
        (
            {"worker": {"framework": {"name": "dlrover", "role": "boss"}}},
            "components.worker.framework.role: must be one of",
        ),
        (
            {"worker": {}, "m": {"framework": {"name": "dlrover", "role": DLROVER_MASTER}}},
            "components.m.framework: the role dlrover-master needs a component of this name",
        ),
    ],
)
def test_roles_that_cannot_be_are_refused(components: dict[str, Any], problem: str) -> None:
    with pytest.raises(ManifestError) as refused:
        job(**components)
    assert problem in str(refused.value)
