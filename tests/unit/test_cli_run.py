"""`grass run`: the job it makes, the code it ends with, and Ctrl-C."""

from __future__ import annotations

import io
import os
import shlex
import signal
import socket
import threading
from pathlib import Path

import click
import pytest

from grass.cli.main import execute
from grass.cli.output import Output
from grass.cli.run import Interrupts, exit_of, notes_on, warn_of_input
from grass.cli.run_options import JobOptions, as_options, document_of, parsed
from grass.errors import ManifestError
from grass.manifest import parse_job
from grass.model.framework import Framework, FrameworkName
from grass.model.job import Restart, RestartOn
from tests.support.job_views import job_view, task_view


def ended(state: str, *, code: int | None = None, killed_by: int | None = None) -> int:
    return exit_of(job_view(state=state), [task_view(exit_code=code, signal=killed_by)])


def test_the_command_becomes_a_job_that_the_manifest_accepts() -> None:
    options = JobOptions(cpu="0.5", memory="512MiB")
    job = parse_job(document_of("try", ["python", "-c", "print(1)"], options)).job
    component = job.components["main"]
    assert component.command == ("python", "-c", "print(1)")
    assert (component.resources.cpu, component.resources.memory, component.resources.gpu) == (500, 512 << 20, 0)


def test_options_of_restarts_ranks_and_sizes_reach_the_component() -> None:
    words = "--restart-limit 5 --grace 30s --gang --framework torchrun --replicas 2 --min 1 --max 4"
    job = parse_job(document_of("try", ["true"], parsed(words.split(), "here").options)).job
    part = job.components["main"]
    assert (part.restart, part.grace) == (Restart(RestartOn.ON_FAILURE, limit=5), 30.0)
    assert (part.min, part.replicas, part.max) == (1, 2, 4)
    assert job.gang == ("main",) and part.framework == Framework(FrameworkName.TORCHRUN)
    always = parsed(["--restart", "always", "--restart-limit", "1"], "here").options
    assert parse_job(document_of("x", ["true"], always)).job.components["main"].restart == Restart(RestartOn.ALWAYS, 1)
    ranks = parse_job(document_of("x", ["true"], parsed(["--rendezvous", "--replicas", "2"], "here").options)).job
    assert ranks.gang == ("main",) and ranks.components["main"].framework == Framework(FrameworkName.TORCH)
    plain = document_of("x", ["true"], JobOptions())
    assert plain == {"name": "x", "components": {"main": {"command": ["true"], "resources": {}}}}


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("--array 5-1", "--array"),
        ("--port 80", "--port"),
        ("--framework pytorch", "--framework"),
        ("--min 3 --max 2", "--min"),
        ("--name 'a b'", "--name"),
        ("--set grace=soon", "components.main.grace"),
        ("--set ready.port=web", "components.main.ready.port"),
    ],
)
def test_an_error_names_the_option_that_caused_it(words: str, path: str) -> None:
    options = parsed(shlex.split(words), "here").options
    with pytest.raises(ManifestError) as refused:
        parse_job(document_of(options.name or "try", ["true"], options))
    assert [problem.path for problem in as_options(refused.value, options).problems] == [path]


def test_any_other_key_of_a_job_file_can_be_set() -> None:
    words = "--port web --set ready.port=web --set 'restart={policy: always, backoff: 2s}' --set job.preemptible=true"
    job = parse_job(document_of("try", ["true"], parsed(shlex.split(words), "here").options)).job
    part = job.components["main"]
    assert part.ready is not None and part.ready.port == "web" and job.preemptible
    assert part.restart.policy is RestartOn.ALWAYS and part.restart.backoff == 2.0
    with pytest.raises(ManifestError, match=r"components\.main\.nose: unknown key"):
        parse_job(document_of("try", ["true"], JobOptions(settings=("nose=1",))))
    for wrong in ("spread", "=1", "a..b=1", "command=x", "command.x=1", "job.name=y"):
        with pytest.raises(click.BadParameter):
            document_of("try", ["true"], JobOptions(settings=(wrong,)))
    with pytest.raises(ManifestError, match="--set spread"):
        document_of("try", ["true"], JobOptions(settings=("spread=[",)))


def test_the_exit_code_is_the_commands() -> None:
    assert ended("SUCCEEDED", code=0) == 0
    assert ended("FAILED", code=3) == 3
    assert ended("FAILED", killed_by=9) == 137


@pytest.mark.parametrize("option", ["--each-line", "--each-json"])
def test_standard_input_is_read_for_one_purpose_only(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", "--stdin", option, "-", "--", "cat"]) == 2
    assert "all read standard input; use one" in capsys.readouterr().err


def warned(descriptor: int) -> str:
    out, err = io.StringIO(), io.StringIO()
    warn_of_input(Output(out, err), descriptor)
    return err.getvalue()


def test_what_is_piped_in_is_said_to_be_lost() -> None:
    reader, writer = os.pipe()
    assert warned(reader) == ""  # open and silent, as under many a service
    os.write(writer, b"x")
    assert "not forwarded" in warned(reader)
    os.read(reader, 1)
    os.close(writer)
    assert warned(reader) == ""
    os.close(reader)


def test_so_is_the_rest_of_a_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "input").write_text("text")
    for path, told in ((tmp_path / "input", True), (Path("/dev/null"), False)):
        with path.open("rb") as file:
            assert ("not forwarded" in warned(file.fileno())) is told
            file.read()
            assert warned(file.fileno()) == ""
    with socket.socket() as unconnected:
        assert warned(unconnected.fileno()) == ""
    assert warned(10_000) == ""


@pytest.mark.parametrize("state", ["FAILED", "STOPPED"])
def test_a_job_that_did_not_succeed_never_exits_with_0(state: str) -> None:
    assert ended(state, code=0) == 1
    assert ended(state) == 1
    assert exit_of(job_view(state=state), []) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_interrupt_calls_and_the_second_raises(number: signal.Signals) -> None:
    called = threading.Event()
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN), signal.getsignal(signal.SIGINT)
    try:
        with Interrupts(called.set):
            os.kill(os.getpid(), number)
            assert called.wait(5)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == (signal.SIG_IGN, before[1])
    finally:
        signal.signal(signal.SIGTERM, before[0])


def test_a_command_in_quotes_and_options_after_a_command_get_a_note() -> None:
    [quoted] = notes_on(["echo hi"], frozenset())
    assert "`grass run -- echo …` runs echo" in quoted
    assert notes_on(["echo", "hi there"], frozenset({"--cpu"})) == [] == notes_on(["echo", "--cpu"], frozenset())
    [late] = notes_on(["python", "x.py", "--cpu=1", "--cpu", "--other"], frozenset({"--cpu"}))
    assert late.startswith("note: --cpu goes to python; write options of `grass run` before the command")
