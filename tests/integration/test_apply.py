"""`grass apply` on a real local cluster: the examples of other systems run, scale, and refuse what does not exist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grass.manifest import parse_job, read_document
from grass.model.lifecycle import TaskState
from tests.support.frameworks import torch_folder
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

GRASS = Path(sys.executable).parent / "grass"
EXAMPLES = Path("examples/foreign")


@pytest.fixture(scope="module", autouse=True)
def _room(cluster: LocalCluster) -> None:
    cluster.stop_jobs()


def grass(
    cluster: LocalCluster, *words: str, given: str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GRASS_HOME": str(cluster.home), **variables}
    return subprocess.run(
        [str(GRASS), *words], env=environment, capture_output=True, text=True, check=False, input=given
    )


def scale(kind: str, spec: str) -> str:
    head = f"apiVersion: kai.alibabacloud.com/v1alpha1\nkind: {kind}\nmetadata: {{generateName: s-}}\n"
    return f"{head}spec: {{selector: {{name: elastic-training}}, {spec}}}\n"


def test_a_training_job_starts_scales_out_and_in_and_is_shown_in_its_own_words(cluster: LocalCluster) -> None:
    started = grass(cluster, "apply", str(EXAMPLES / "training_job.yml"))
    assert started.returncode == 0, started.stderr
    with cluster.client() as client:
        job_id = client.job("elastic-training").id
        wait_until(lambda: client.job(job_id).components["launcher"].counts.get(TaskState.RUNNING) == 1, seconds=30)
        assert "Phase      TrainingJob: Running" in " ".join(grass(cluster, "job", "show", job_id).stdout.split("\n"))

        wrong = (
            (
                "ScaleIn",
                "toDelete: {podNames: [worker.9]}",
                "document 1: spec.toDelete.podNames: job elastic-training: has no",
            ),
            (
                "ScaleOut",
                "toAdd: {count: 3}",
                "document 2: spec.toAdd.count: job elastic-training: worker: the size must",
            ),
            (
                "ScaleIn",
                "toDelete: {count: 2}",
                "document 3: spec.toDelete.count: job elastic-training: worker: the size",
            ),
        )
        for options in ([], ["--dry-run"]):
            refused = grass(cluster, "apply", *options, "-", given="---\n".join(scale(*each) for *each, _ in wrong))
            assert refused.returncode == 2, refused.stdout
            assert all(problem in refused.stderr for *_, problem in wrong), refused.stderr
        dry = grass(cluster, "apply", "--dry-run", "-", given=scale("ScaleOut", "toAdd: {count: 1}"))
        assert (dry.returncode, dry.stdout) == (0, "# scale worker of job elastic-training by +1 within 60 s\n")
        assert client.operations(job_id) == []

        for file, size in (("scale_out.yml", 3), ("scale_in.yml", 1)):
            quickly = (EXAMPLES / file).read_text().replace("  toDelete:", "  timeout: 1\n  toDelete:")
            filed = grass(cluster, "apply", "-", "-o", "quiet", given=quickly)
            assert filed.returncode == 0, filed.stderr
            for operation in filed.stdout.split():
                assert client.wait_for_operation(job_id, operation, timeout=40).outcome == "DONE"
            assert client.job(job_id).components["worker"].replicas == size
        below = grass(cluster, "apply", "-", given=scale("ScaleIn", "toDelete: {count: 1}"))
        assert below.returncode == 2
        client.stop(job_id, grace=0)
        client.wait(job_id, timeout=30)
    gone = grass(cluster, "apply", "--dry-run", "-", given=scale("ScaleOut", "toAdd: {count: 1}"))
    assert gone.returncode == 2
    assert "spec.selector.name: job elastic-training: already STOPPED" in gone.stderr


def test_the_ranks_of_a_pytorch_job_meet(cluster: LocalCluster) -> None:
    """The program is torch itself, with its group of processes."""
    path = {"PATH": f"{torch_folder()}/bin:/usr/bin:/bin"}
    started = grass(cluster, "apply", str(EXAMPLES / "pytorch_job.yml"), **path)
    assert started.returncode == 0, started.stderr
    with cluster.client() as client:
        assert client.wait("pytorch-simple", timeout=50).state == "SUCCEEDED"
        said = sorted(line.text for line in client.logs("pytorch-simple") if line.text.startswith("rank"))
    assert said == ["rank 0 of 2", "rank 1 of 2"]
    assert "PyTorchJob: Succeeded" in grass(cluster, "job", "show", "pytorch-simple").stdout


def test_a_set_with_one_bad_document_starts_nothing(cluster: LocalCluster) -> None:
    good = "name: good\ncomponents: {a: {command: 'true'}}\n"
    other = scale("ScaleIn", "toDelete: {count: 1}").replace("elastic-training", "nobody")
    refused = grass(cluster, "apply", "-", given=good + "---\n" + other)
    assert refused.returncode == 2
    assert "document 2: spec.selector.name: job nobody: not found" in refused.stderr
    with cluster.client() as client:
        assert "good" not in {job.name for job in client.jobs(all=True)}


def test_an_exported_job_is_the_job_that_was_applied(cluster: LocalCluster) -> None:
    file = (EXAMPLES / "training_job.yml").read_text().replace("elastic-training", "short").replace("sleep 120", "true")
    assert grass(cluster, "apply", "-", given=file).returncode == 0
    exported = grass(cluster, "export", "short", "--to", "TrainingJob")
    assert (exported.returncode, exported.stderr) == (0, "")
    applied, again = (parse_job(read_document(text)).job for text in (file, exported.stdout))
    assert again == applied
    refused = grass(cluster, "export", "short", "--to", "MarsJob")
    assert refused.returncode == 2
    assert "has no component supervisor; a MarsJob needs one" in refused.stderr
