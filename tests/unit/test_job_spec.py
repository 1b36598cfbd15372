"""What ran, with what: redaction, the specification in `job show`, and differences between runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grass.cli.job_diff import Difference, comparable, differences, facts, lines
from grass.cli.job_spec import spec_lines
from grass.manifest import parse_job
from grass.model.secrets import REDACTED, is_secret, redacted, shown_parameter
from grass.wire.codec import builtins
from grass.wire.job_details import JobDetails
from grass.wire.job_record import first_record
from grass.wire.keys import TaskKey
from grass.wire.task_record import TaskRecord
from master.api.views import specification, task_views, with_values
from tests.support import sample_views
from tests.support.job_views import job_details, task_view


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "DB_PASSWORD", "PGPASSWORD", "MY_KEY", "apikey"]
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret(name) and redacted({name: "x"}) == {name: REDACTED}


@pytest.mark.parametrize("name", ["PATH", "PWD", "KEYBOARD", "TOKENIZERS", "MONKEY", "EPOCHS", "AUTHOR", "PASSES"])
def test_plain_names_are_shown(name: str) -> None:
    assert is_secret(name) == (name == "TOKENIZERS")  # better one too many than one too few


def test_a_password_inside_an_address_is_redacted() -> None:
    assert redacted({"URL": "redis://me:pw@host:1/0 x"}) == {"URL": f"redis://me:{REDACTED}@host:1/0 x"}
    assert redacted({"URL": "http://host:80/a@b"}) == {"URL": "http://host:80/a@b"}


def document(**component: Any) -> dict[str, Any]:
    return {"name": "j", "components": {"w": {"command": ["echo", "a b"], **component}}}


def test_the_specification_names_command_resources_and_environment() -> None:
    job = parse_job(document(env={"A": 1, "TOKEN": "t"}, resources={"memory": "1GiB"}, matrix={"lr": [0.1, 0.2]})).job
    shown = "\n".join(spec_lines(specification(job, values=True), None))
    for words in ("echo 'a b'", "1 cpu, 1GiB memory", f"A=1, TOKEN={REDACTED}", "lr: 0.1, 0.2"):
        assert words in shown
    assert job.components["w"].env["TOKEN"] == "t"


def test_values_of_the_environment_are_shown_as_they_are_and_long_ones_cut() -> None:
    env = {"NVIDIA_REQUIRE_CUDA": "cuda>=13.0 brand=tesla,driver>=535", "LONG": "x" * 1000}
    shown = "\n".join(spec_lines(specification(parse_job(document(env=env)).job, values=True), None))
    assert "cuda>=13.0 brand=tesla,driver>=535" in shown and "…" in shown and "x" * 300 not in shown


def test_the_specification_names_the_sizes_of_an_elastic_component_and_its_framework() -> None:
    options = {"name": "mars", "spillDirs": ["/a", "/b"], "nodeTimeout": 5, "role": "worker"}
    for component, expected in (
        ({"replicas": 4, "min": 2, "max": 8, "unit": 2}, ["Sizes 4 at the start, min 2, max 8, multiples of 2"]),
        ({"max": 3, "framework": "torchrun"}, ["Sizes 1 at the start, max 3", "Framework torchrun"]),
        ({"framework": options, "ports": ["mars"]}, ["Framework mars (role=worker, spillDirs=/a:/b, nodeTimeout=5)"]),
        ({"replicas": 2}, []),
    ):
        job = parse_job(document(**component)).job
        shown = [" ".join(line.split()) for line in spec_lines(specification(job, values=True), None)]
        assert [line for line in shown if line.startswith(("Sizes", "Framework"))] == expected


def test_the_specification_names_what_grass_does_by_itself() -> None:
    keys: dict[str, Any] = {"resources": {"memory": "1GiB"}, "restart": {"memory": "2GiB"}}
    job = parse_job(document(**keys, keep="shm", check={"before": 1}, replace="slow")).job
    text = "\n".join(spec_lines(job, None))
    for said in ("up to 2GiB, once", "/dev/shm, for the next attempt", "at level 1, before", "tasks that are slow"):
        assert said in text
    grown = replace(job.components["w"], grown_from=1 << 29)
    assert "grown from 512MiB" in "\n".join(spec_lines(replace(job, components={"w": grown}), None))


def test_each_task_of_an_array_has_its_values() -> None:
    for component, expected in (
        ({"matrix": {"a": [1, 2], "b": [3]}}, [{"a": "1", "b": "3"}, {"a": "2", "b": "3"}]),
        ({"from": {"entries": ["x", "y"]}}, [{"entry": "x"}, {"entry": "y"}]),
    ):
        job = parse_job(document(**component)).job
        record = first_record(job, job_id="j-1", user="u", now=1.0)
        tasks = task_views(record, job, {TaskKey("w", 0): TaskRecord()})
        assert [with_values(task, job).values for task in tasks] == expected


def test_a_rerun_does_not_differ_by_files_that_only_a_client_knows() -> None:
    def run(rerun_of: str | None, **files: str) -> JobDetails:
        specification = {"name": "j", "components": {}, "success": [], "files": files}
        return job_details(rerun_of=rerun_of, specification=specification)

    def found(one: JobDetails, other: JobDetails) -> list[Difference]:
        return differences(*(builtins(job) for job in comparable(one, other)))

    sent = run(None, **{"a.py": "1", "$GRASS_DATA/b": "2", "$GRASS_DATA/c": "3"})
    again = run("j-1", **{"$GRASS_DATA/b": "9"})
    for first, second in ((sent, again), (again, sent)):
        paths = {path for path, _, _ in found(first, second)}
        assert paths == {"specification.files.$GRASS_DATA/b", "specification.files.$GRASS_DATA/c", "rerun_of"}
    changed = run(None, **{"a.py": "4"})
    assert ("specification.files.a.py", "1", "4") in found(sent, changed)


def test_differences_are_paths_with_both_values() -> None:
    first = {"specification": {"env": {"A": "1"}, "base": "/a"}, "tasks": {"w.0": {"exit_code": 0}}}
    second = {"specification": {"env": {"A": "2", "B": "3"}, "base": "/b"}, "tasks": {}}
    found = differences(first, second)
    assert found == [
        ("specification.env.A", "1", "2"),
        ("specification.env.B", None, "3"),
        ("tasks.w.0", {"exit_code": 0}, None),
    ]
    assert lines("x-1", "x-2", found)[:3] == ["x-1 → x-2", "job file:", "  env.A  1 → 2"]
    assert lines("x-1", "x-2", []) == ["x-1 and x-2: no difference"]


def test_differences_in_words_are_grouped_by_what_differs() -> None:
    many = [(f"tasks.w.{at}.seconds", 0.5, float(at)) for at in range(9)]
    found = [
        ("specification.components.w.command", "train 1", "train 2"),
        ("specification.components.w.matrix.lr", ["1", "2"], ["1"]),
        ("specification.components.w.shell", [["HOME", "/a"], ["PATH", "/b"]], [["HOME", "/a"], ["PATH", "/c"]]),
        ("specification.files.a.py", "sha256:1", "sha256:2"),
        ("result.exit_code", 0, 3),
        ("seconds", 1.0, None),
        *many,
        *((f"tasks.w.{at}", None, {"state": "FAILED"}) for at in range(9, 17)),
    ]
    assert lines("a", "b", found) == [
        "a → b",
        "job file:",
        "  w.command    train 1 → train 2",
        "  w.matrix.lr  1, 2 → 1",
        "  w.shell      differs in PATH",
        "  files.a.py   the content differs",
        "result:",
        "  exit_code  0 → 3",
        "  seconds    only in a: 1.0",
        "tasks:",
        "  seconds differs in 9 tasks: w.0 0.5 → 0.0, w.1 0.5 → 1.0, w.2 0.5 → 2.0, …",
        "  8 tasks only in b: w.9, w.10, w.11, w.12, w.13, w.14, …",
    ]


def test_nodes_of_a_run_have_the_versions_that_its_tasks_ran_with() -> None:
    job = job_details(state="SUCCEEDED", exit_code=0, started=1.0, ended=2.0)
    software = {"grass": "0.1.0", "kernel": "6.1"}
    runs = [task_view(task=f"w.{at}", node="n1", software=software, started=1.0, ended=2.0) for at in (0, 1)]
    now = sample_views.node("n1", version="0.2.0", labels={"a": "b"})
    before = facts(job, runs, [now]).nodes["n1"]
    assert (before.version, before.kernel, before.labels, before.state) == ("0.1.0", "6.1", {"a": "b"}, None)
    gone = facts(job, runs, []).nodes["n1"]
    assert (gone.version, gone.kernel, gone.state) == ("0.1.0", "6.1", "removed")


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("lr", "0.1", "0.1"),
        ("max_tokens", "512", "512"),
        ("tokenizer", "gpt2", "gpt2"),
        ("hf_token", "abcdefgh", REDACTED),
        ("command", "train --with s3cr3t", f"train --with {REDACTED}"),
        ("url", "redis://u:pw@host", f"redis://u:{REDACTED}@host"),
    ],
)
def test_parameters_that_a_task_says_are_shown_without_secrets(name: str, text: str, shown: str) -> None:
    assert shown_parameter(name, text, {"s3cr3t"}) == shown
