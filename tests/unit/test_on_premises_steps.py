"""Steps: what they find already done, what they do, and how a failure is told."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from grass.hosts import CommandFailedError, LocalHost
from grass.provision.on_premises.steps import Call, Put, Run, Step, StepFailedError, plan_lines, run_steps
from tests.support.needs import require_root

OWNER = f"{pwd.getpwuid(os.getuid()).pw_name}:{grp.getgrgid(os.getgid()).gr_name}"


@pytest.fixture(autouse=True)
def _root() -> None:
    require_root()


def run(*steps: Step) -> list[str]:
    said: list[str] = []
    run_steps(LocalHost("here"), steps, said.append)
    return [line for line in said if not line.endswith(" …")]


def test_files_that_are_in_place_are_left_alone_and_their_commands_are_not_run(tmp_path: Path) -> None:
    target, log = tmp_path / "file", tmp_path / "log"
    step = Step("write it", (Put(str(target), b"text\n", 0o640, OWNER), Run(("sh", "-c", f"echo ran >> {log}"))))
    assert run(step) == ["here: [1/1] write it: done"]
    assert run(step) == ["here: [1/1] write it: unchanged"]
    target.chmod(0o600)
    assert run(step) == ["here: [1/1] write it: done"]
    assert (log.read_text(), oct(target.stat().st_mode)[-3:]) == ("ran\nran\n", "640")


def test_a_check_decides_what_files_do_not(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    step = Step("make the flag", (Run(("touch", str(flag))),), Run(("test", "-e", str(flag))))
    assert run(step, step) == ["here: [1/2] make the flag: done", "here: [2/2] make the flag: unchanged"]


def test_a_link_in_the_place_of_a_file_is_replaced(tmp_path: Path) -> None:
    real, target = tmp_path / "real", tmp_path / "file"
    real.write_bytes(b"text")
    target.symlink_to(real)
    assert run(Step("write it", (Put(str(target), b"text", 0o644, OWNER),)))[0].endswith("done")
    assert not target.is_symlink()


def test_the_first_failure_ends_it_and_says_where_and_why(tmp_path: Path) -> None:
    never = tmp_path / "never"
    steps = [
        Step("fine", (Run(("true",)),)),
        Step("make room", (Run(("sh", "-c", "echo disk is full >&2; exit 28")),), hint="free some space"),
        Step("never", (Run(("touch", str(never))),)),
    ]
    with pytest.raises(StepFailedError) as told:
        run(*steps)
    for words in ("here: [2/3] make room: failed", "disk is full", "code 28", "free some space", "continues here"):
        assert words in str(told.value)
    assert not never.exists()


def test_a_step_that_only_looks_is_no_change() -> None:
    looked: list[str] = []
    step = Step("look", (Call("look", lambda host: looked.append(host.name)),), looks=True)
    outcome = run_steps(LocalHost("here"), [step], lambda _: None)
    assert (looked, outcome.done, outcome.unchanged) == (["here"], 0, 1)


def test_what_a_step_finds_keeps_its_exit_code() -> None:
    def fail(_: object) -> None:
        raise CommandFailedError("no")

    with pytest.raises(StepFailedError) as told:
        run(Step("try", (Call("try", fail),)))
    assert told.value.exit_code == 1


def test_a_plan_shows_commands_and_files_but_no_content() -> None:
    step = Step(
        "set up", (Put("/etc/x", b"secret words", 0o600), Run(("setup", "--now"), stdin=b"password")), Run(("true",))
    )
    lines = "\n".join(plan_lines([step], "master"))
    assert "write /etc/x (mode 600, root:root)" in lines and "run setup --now" in lines and "unless `true`" in lines
    assert "secret" not in lines and "password" not in lines
