"""The process `grass`: usage errors, formats, exit codes, what it imports. No cluster is needed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from grass import errors
from grass.cli import templates
from grass.cli.exits import Exit
from grass.cli.main import _COMMANDS, _ELSEWHERE, wanted_format
from grass.cli.main import grass as program
from grass.cli.output import Format


def grass(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GRASS_")}
    return subprocess.run(
        [sys.executable, "-c", "from grass.cli.main import main; main()", *arguments],
        env={**kept, "GRASS_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=30,
    )


def test_the_errors_of_grass_and_the_exit_codes_agree() -> None:
    assert (
        errors.InputError.exit_code
        == errors.ConflictError.exit_code
        == errors.NotFoundError.exit_code
        == Exit.BAD_INPUT
    )
    assert errors.CommandNotFoundError.exit_code == Exit.COMMAND_NOT_FOUND
    assert errors.CommandNotExecutableError.exit_code == Exit.NOT_EXECUTABLE
    assert errors.NotAllowedError.exit_code == Exit.NOT_ALLOWED
    assert errors.UnreachableError.exit_code == Exit.UNREACHABLE
    assert errors.WaitTimeoutError.exit_code == Exit.TIMED_OUT
    assert errors.GrassError.exit_code == Exit.JOB_FAILED


def test_the_format_is_known_before_the_line_is_parsed() -> None:
    for words in (["-o", "json"], ["-ojson"], ["--output=json"], ["job", "nonsense", "--output", "json"]):
        assert wanted_format(words) is Format.JSON
    for words in ([], ["-o"], ["-o", "xml"], ["run", "--", "ls", "-o", "json"]):
        assert wanted_format(words) is Format.TABLE


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kubernetes", "lab", "--key", __file__], "--key: only for machines; leave it out with --kubernetes"),
        (
            ["--kubernetes", "lab", "--topology", "rack1"],
            "--topology: only for machines; leave it out with --kubernetes",
        ),
        (["--kubernetes", "lab", "ops@gpu1"], "give machines or --kubernetes, not both"),
        (["ops@gpu1", "--image", "python:3.12"], "--image: only with --kubernetes"),
    ],
)
def test_an_option_of_node_add_that_would_be_ignored_is_refused(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    done = grass("node", "add", *arguments, home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (Exit.BAD_INPUT, "", f"error: {said}\n")


@pytest.mark.parametrize("arguments", [["dashboard", "--no-browser"], ["top"], ["top", "--once"]])
def test_a_view_of_a_cluster_that_does_not_exist_is_refused(arguments: list[str], tmp_path: Path) -> None:
    done = grass(*arguments, home=tmp_path)
    assert done.returncode == Exit.BAD_INPUT and done.stdout == ""
    assert done.stderr == "error: no cluster exists; `grass create` makes one on this machine\n"


def test_version_and_help_succeed(tmp_path: Path) -> None:
    assert grass("--version", home=tmp_path).stdout.startswith("grass ")
    done = grass("--help", home=tmp_path)
    assert done.returncode == 0
    assert all(f"\n  {name} " in done.stdout for name in _COMMANDS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["frob"],
        ["job", "frob"],
        ["job", "show"],
        ["job", "list", "--frob"],
        ["job", "list", "-o", "xml"],
        ["job", "wait", "x", "--timeout", "long"],
        ["job", "logs", "x", "worker.y"],
        ["job", "logs", "x", "--grep", "("],
        ["job", "logs", "x", "--grep", "a{99999999999}"],
        ["job", "logs", "x", "--grep", "(" * 2000 + ")" * 2000],
        ["job", "show", "x", "--tasks", "some"],
        ["run", "--cpu", "-1", "--", "true"],
        ["run"],
        ["use", "../etc"],
        ["template", "nonsense"],
        ["job", "list"],
        ["job", "list", "--cluster", "nowhere"],
    ],
)
def test_bad_usage_exits_with_2_and_a_message_in_either_format(arguments: list[str], tmp_path: Path) -> None:
    plain = grass(*arguments, home=tmp_path)
    assert (plain.returncode, plain.stdout) == (2, "")
    assert plain.stderr.startswith("error: ")
    assert "Traceback" not in plain.stderr
    words = [word for word in arguments if word not in ("-o", "xml")]
    if words == arguments:
        told = grass("-o", "json", *arguments, home=tmp_path)
        assert told.returncode == 2
        error = json.loads(told.stderr)["error"]
        assert set(error) == {"code", "message", "problems"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["jobs"], "no such command 'jobs'; did you mean `grass job list`?\nsee `grass --help`"),
        (["rm", "x"], "no such command 'rm'; did you mean `grass job delete NAME`?\nsee `grass --help`"),
        (["scontrol"], "no such command 'scontrol'; did you mean `grass job set NAME`?\nsee `grass --help`"),
        (["job", "strat"], "no such command 'strat'; did you mean `grass job start`?\nsee `grass job --help`"),
        (["scale", "x"], "no such command 'scale'; did you mean `grass job scale`?"),
        (["frob"], "no such command 'frob'\nsee `grass --help`"),
        (["job", "logs", "x", "--tail", "many"], "'--tail': must be a whole number from 0 to 1000000000, got 'many'"),
        (["dashboard", "--port", "99999"], "'--port': must be a whole number from 0 to 65535, got '99999'"),
        (["events", "--kind", "job-faild"], "'--kind': unknown kind 'job-faild'; did you mean `job-failed`?"),
        (["events", "--kind", "pod*"], "'--kind': unknown kind 'pod*'; use some of job-submitted, "),
        (["job", "set", "x", "--priority", "-1"], "'--priority': must be a whole number from 0 to 1000, got '-1'"),
    ],
)
def test_a_mistyped_command_or_number_is_told_what_would_be_right(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    done = grass(*arguments, home=tmp_path)
    assert done.returncode == Exit.BAD_INPUT and said in done.stderr


def test_a_tail_longer_than_any_log_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    done = grass("job", "logs", "x", "--tail", "99999999999999999999", home=tmp_path)
    assert done.returncode == 2
    assert "'--tail'" in done.stderr


@pytest.mark.parametrize("arguments", [["delete", ""], ["use", ""], ["job", "list", "--cluster", ""]])
def test_an_empty_name_does_not_mean_the_current_cluster(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "clusters" / "local").mkdir(parents=True)
    (tmp_path / "clusters" / "other").mkdir()
    (tmp_path / "current").write_text("local\n")
    done = grass(*arguments, home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "must be the name of a cluster, and is empty" in done.stderr
    assert (tmp_path / "clusters" / "local").is_dir()


def test_a_variable_that_names_no_cluster_leaves_it_at_the_current_one(tmp_path: Path) -> None:
    (tmp_path / "clusters" / "local").mkdir(parents=True)
    assert grass("use", "local", home=tmp_path).returncode == 0
    done = grass("job", "list", home=tmp_path, GRASS_CLUSTER="")
    assert "local" in done.stderr


def test_templates_are_listed_printed_and_written_once(tmp_path: Path) -> None:
    listed = grass("template", home=tmp_path)
    assert listed.stdout.split() == list(templates.names())
    assert json.loads(grass("template", "--output", "json", home=tmp_path).stdout) == list(templates.names())
    assert grass("template", "job", home=tmp_path).stdout == templates.text("job")
    file = tmp_path / "job.yml"
    assert grass("template", "job", "--to", str(file), home=tmp_path).returncode == 0
    assert file.read_text() == templates.text("job")
    again = grass("template", "job", "--to", str(file), home=tmp_path)
    assert again.returncode == 2
    assert "exists already" in again.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_grass(shell: str, tmp_path: Path) -> None:
    done = grass("completion", shell, home=tmp_path)
    assert done.returncode == 0
    assert "_GRASS_COMPLETE" in done.stdout


def test_the_shell_completes_subcommands(tmp_path: Path) -> None:
    done = grass(home=tmp_path, _GRASS_COMPLETE="bash_complete", COMP_WORDS="grass job l", COMP_CWORD="2")
    assert done.stdout.split() == ["plain,list", "plain,logs"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("grass use l", ["lab", "local"]),
        ("grass delete la", ["lab"]),
        ("grass job list --cluster lo", ["local"]),
        ("grass template maro", ["maro-job", "maro-schedule"]),
        ("grass schedule show n", []),
    ],
)
def test_the_shell_completes_what_it_can_know(tmp_path: Path, words: str, names: list[str]) -> None:
    for cluster in ("lab", "local"):
        (tmp_path / "clusters" / cluster).mkdir(parents=True)
    last = str(len(words.split()) - 1)
    done = grass(home=tmp_path, _GRASS_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=last)
    assert done.stdout.split() == [f"plain,{name}" for name in names]
    assert done.stderr == ""


def test_an_unusable_home_is_told_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    done = grass("use", "local", home=file)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_a_closed_pipe_is_no_error_to_tell(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", "from grass.cli.main import main; main()", "template", "job"]
    with os.fdopen(write, "w") as gone:
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, timeout=30)
    assert (done.returncode, done.stderr) == (Exit.PIPE_CLOSED, b"")


def test_a_defect_is_one_line_and_its_traceback_is_saved(tmp_path: Path) -> None:
    broken = "import grass.cli.template as t; t._write_new = None; from grass.cli.main import main; main()"
    command = [sys.executable, "-c", broken, "template", "job", "--to", str(tmp_path / "x")]
    environment = {**os.environ, "GRASS_HOME": str(tmp_path / "home")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == Exit.DEFECT
    [line] = done.stderr.splitlines()
    [saved] = (tmp_path / "home" / "errors").iterdir()
    assert str(saved) in line
    assert "Traceback" in saved.read_text()
    shown = subprocess.run([*command, "--debug"], env=environment, capture_output=True, text=True, timeout=30)
    assert "Traceback" in shown.stderr


@pytest.mark.parametrize("module", ["grass.cli.main", "click", "grass.cli.output"])
def test_ctrl_c_while_it_is_still_starting_is_one_line(module: str) -> None:
    program = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background of a shell ignores it
class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupter())
from grass.cli.entry import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program, "--version"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (Exit.INTERRUPTED, "", "error: interrupted\n")


def test_who_was_told_to_ignore_ctrl_c_still_does() -> None:
    program = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nfrom grass.cli.entry import main; main()"
    done = subprocess.run([sys.executable, "-c", program, "--version"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0
    assert done.stdout.startswith("grass ")


def test_listing_jobs_imports_nothing_heavy(tmp_path: Path) -> None:
    program = (
        "import sys, grass.cli.main as m; m.execute(['job', 'list', '--help']); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    loaded = set(done.stderr.split())
    heavy = {
        "rich",
        "yaml",
        "flask",
        "redis",
        "joserfc",
        "cryptography",
        "psutil",
        "supervisor",
        "asyncio",
        "grass.manifest",
        "grass.cli.attempt_text",
        "grass.cli.colours",
        "grass.api.foreign_phase",
        "grass.cli.wait",
    }
    assert not loaded & heavy


def test_the_client_of_every_call_imports_nothing_heavy() -> None:
    program = "import sys, grass.api.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    loaded = set(done.stdout.split())
    assert not loaded & {"yaml", "joserfc", "redis", "psutil", "asyncio", "numpy", "grass.manifest", "grass.files"}


def test_words_of_other_systems_are_answered_with_the_command_here(tmp_path: Path) -> None:
    done = grass("scancel", "7", home=tmp_path)
    assert done.returncode == Exit.BAD_INPUT and "did you mean `grass job stop NAME`?" in done.stderr
    context = click.Context(program)
    for word, meant in _ELSEWHERE.items():
        command: click.Command | None = program
        assert program.get_command(context, word) is None, word
        for each in meant.split():
            if each.startswith("-") or not isinstance(command, click.Group):
                break
            command = command.get_command(context, each)
            assert command is not None, meant


def test_use_without_a_name_lists_the_clusters(tmp_path: Path) -> None:
    assert grass("use", home=tmp_path).stdout == "no cluster; `grass create` creates one\n"
    for name in ("a", "b"):
        (tmp_path / "clusters" / name).mkdir(parents=True)
    assert grass("use", home=tmp_path).stdout == "a\nb\n"
    assert grass("use", home=tmp_path, GRASS_CLUSTER="b").stdout == "a\nb  (current)\n"


def test_a_job_is_not_taken_for_a_cluster_to_stop_or_start(tmp_path: Path) -> None:
    for verb in ("stop", "start"):
        done = grass(verb, "train", home=tmp_path)
        assert done.returncode == Exit.BAD_INPUT and f"`grass job {verb} train` is for jobs" in done.stderr
