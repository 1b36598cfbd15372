"""`grass apply --dry-run`, and the checks before anything is applied: no cluster is needed."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grass.cli.apply import Terms, apply_all, checked
from grass.cli.documents import called, sources_of
from grass.cli.main import execute
from grass.cli.output import Output
from grass.errors import ConflictError, InputError
from grass.manifest import parse_job, read_document
from grass.manifest.document import read_documents
from grass.wire.job_views import StartedView

JOB = "name: {name}\ncomponents:\n  a: {{command: 'true'}}\n"
EXAMPLES = Path("examples/foreign")


def test_a_dry_run_prints_a_job_file_of_grass(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["apply", "--dry-run", str(EXAMPLES / "training_job.yml")]) == 0
    shown = capsys.readouterr()
    job = parse_job(read_document(shown.out)).job
    assert (job.name, job.components["worker"].max) == ("elastic-training", 4)
    assert "imagePullPolicy: ignored" in shown.err


def test_every_foreign_job_of_the_examples_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        execute(["apply", "--dry-run", *(str(EXAMPLES / f"{name}.yml") for name in ("training_job", "mars_job"))]) == 0
    )
    training, mars = read_documents(capsys.readouterr().out)
    assert (training["name"], mars["name"]) == ("elastic-training", "mars")
    assert training["components"]["worker"]["resources"]["memory"] == "64MiB"
    assert (mars["ttl"], mars["components"]["worker"]["restart"]["backoff"]) == ("1d", "1s")


def test_documents_come_from_files_and_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "two.yml").write_text("---\n" + JOB.format(name="one") + "---\n\n---\n" + JOB.format(name="two"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(JOB.format(name="three").encode())))
    assert execute(["apply", "--dry-run", "-o", "quiet", str(tmp_path / "two.yml"), "-"]) == 0
    assert capsys.readouterr().out.split() == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "jobs.yml: is empty"),
        ("- a\n", "jobs.yml: document 1 must be a mapping"),
        ("a: 1\n---\n- b\n", "jobs.yml: document 2 must be a mapping"),
        (JOB.format(name="a") + "---\nname: b\n", "jobs.yml: document 2: components: is missing"),
        (JOB.format(name="a") + "---\n" + JOB.format(name="a"), "document 2: another document starts a job a, too"),
        (JOB.format(name="a") + "---\na: [\n", "jobs.yml: line"),
        ("kind: Pod\napiVersion: v1\n", 'kind: unknown kind "Pod"'),
        ("a: &x [1]\n---\nb: *x\n", "the alias *x has no anchor"),
        ("---\na: 1\n" * 1001, "has 1001 documents; the most is 1000"),
    ],
)
def test_nothing_is_applied_if_one_document_is_bad(
    text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs.yml").write_text(text)
    for command in (["apply"], ["job", "start"]):
        assert execute([*command, str(tmp_path / "jobs.yml")]) == 2
        shown = capsys.readouterr()
        assert problem in shown.err
        assert shown.out == ""


def scale(kind: str, spec: str) -> str:
    head = f"---\napiVersion: kai.alibabacloud.com/v1alpha1\nkind: {kind}\nmetadata: {{generateName: s-}}\n"
    return f"{head}spec: {{selector: {{name: elastic-training}}, {spec}}}\n"


OUT, IN = scale("ScaleOut", "toAdd: {count: 1}"), scale("ScaleIn", "toDelete: {count: 1}")
IN_NAMED = scale("ScaleIn", "toDelete: {podNames: [worker.2]}")


@pytest.mark.parametrize(
    ("requests", "problem"),
    [
        (
            scale("ScaleOut", "toAdd: {count: 3}"),
            "document 2: spec.toAdd.count: job elastic-training: worker: the size ",
        ),
        (
            OUT * 3,
            "document 4: spec.toAdd.count: job elastic-training: worker: the size must be at most `max`, which is 4",
        ),
        (IN * 2, "document 3: spec.toDelete.count: job elastic-training: worker: the size must be at least 1, got 0"),
        (IN_NAMED, "document 2: spec.toDelete.podNames: job elastic-training: has no task worker.2"),
        (OUT + IN_NAMED * 2, "document 4: spec.toDelete.podNames: job elastic-training: has no task worker.2"),
        (OUT + IN_NAMED + OUT + IN_NAMED, ""),
        (OUT * 2 + IN + IN_NAMED + OUT, ""),  # which tasks leave with the first ScaleIn, the cluster chooses
    ],
)
def test_a_dry_run_checks_what_is_asked_of_a_job_that_another_document_starts(
    requests: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "set.yml").write_text((EXAMPLES / "training_job.yml").read_text() + requests)
    code = execute(["apply", "--dry-run", str(tmp_path / "set.yml")])
    shown = capsys.readouterr()
    assert (code, problem in shown.err) == (2 if problem else 0, True), shown.err


def test_a_variable_of_the_command_line_does_not_go_into_a_foreign_file(capsys: pytest.CaptureFixture[str]) -> None:
    """The example is checked, and refused before anything asks for a cluster."""
    file = str(EXAMPLES / "training_job.yml")
    assert execute(["job", "start", file, "--env", "A=1"]) == 2
    assert "--env does not go with a file of another system" in capsys.readouterr().err


def test_what_was_started_before_a_failure_is_told(tmp_path: Path) -> None:
    class Cluster:
        def start(self, document: dict[str, Any], **_: Any) -> StartedView:
            if document["name"] == "two":
                raise ConflictError("job two: still active")
            return StartedView(document["name"], f"{document['name']}-1", ())

    path, said = tmp_path / "jobs.yml", io.StringIO()
    path.write_text(JOB.format(name="one") + "---\n" + JOB.format(name="two"))
    shell: Any = SimpleNamespace(output=Output(said, io.StringIO()))
    cluster: Any = Cluster()
    with pytest.raises(ConflictError, match="still active"):
        apply_all(cluster, shell, checked(sources_of(path), {}), Terms())
    assert said.getvalue() == "one  one-1\n"


@pytest.mark.parametrize("file", ["examples/foreign/mars_job.yml", "examples/digits/job.yml", "examples/maro/job.yml"])
def test_a_job_can_have_another_name_than_in_its_file(file: str) -> None:
    [job] = checked(called(sources_of(Path(file)), "again-2"), {})
    assert job.parsed.job.name == "again-2"


def test_arguments_are_for_scripts_and_another_name_for_one_job(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="arguments behind `--` are for scripts"):
        sources_of(Path("examples/digits/job.yml"), ["x"])
    (tmp_path / "two.yml").write_text(f"{JOB.format(name='a')}---\n{JOB.format(name='b')}")
    with pytest.raises(InputError, match="--name: is for one job"):
        called(sources_of(tmp_path / "two.yml"), "c")
