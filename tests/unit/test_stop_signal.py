"""`stop_signal`: what a job file may say, and how it reaches the runtime and other formats."""

from __future__ import annotations

import pytest

from grass.cli.job_spec import component_facts
from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.manifest.export.formats import FORMATS
from grass.manifest.native_writer import component_document
from grass.model.job import Component, Job, StopSignal
from grass.model.namespace import refused


def job_of(text: str) -> Job:
    return parse_job(read_document(f"{{name: a, components: {{x: {{command: c, {text}}}}}}}")).job


def component_of(text: str) -> Component:
    return job_of(text).components["x"]


def test_a_stop_signal_is_written_as_it_is_read_shown_and_refused_of_pods() -> None:
    made, plain = component_of("stop_signal: USR1"), component_of("grace: 1s")
    assert made.stop_signal is StopSignal.USR1 and component_document(made)["stop_signal"] == "USR1"
    assert ("Stopped by", "USR1") in component_facts(made)
    assert refused(made, share=True) == "Kubernetes itself stops pods, and with TERM (`stop_signal`)"
    assert plain.stop_signal is StopSignal.TERM and "stop_signal" not in component_document(plain)
    assert refused(plain, share=True) == ""


def test_a_compose_file_names_the_stop_signal() -> None:
    exported = FORMATS["compose"](job_of("image: i, stop_signal: INT"))
    assert "stop_signal: SIGINT" in exported.text and not exported.missing


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("KILL", "no task can catch KILL; use HUP, INT, QUIT, TERM, USR1, USR2, or `grace: 0` to kill at once"),
        ("STOP", "no task can catch STOP"),
        ("SIGUSR1", "must be one of HUP, INT, QUIT, TERM, USR1, USR2; got"),
        ("10", "must be one of HUP, INT, QUIT, TERM, USR1, USR2; got"),
    ],
)
def test_another_signal_is_refused_with_its_path(text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        component_of(f"stop_signal: {text}")
    assert str(caught.value.problems[0]).startswith(f"components.x.stop_signal: {problem}"), caught.value.problems
