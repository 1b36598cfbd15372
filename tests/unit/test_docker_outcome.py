from __future__ import annotations

from typing import Any

from node.runtime.docker.outcome import Past, outcome, wall

DONE = {"ExitCode": 0, "OOMKilled": False, "FinishedAt": "2026-11-21T07:46:43.310989612Z"}
AT = 1795247203.310989612


def state(**changes: Any) -> dict[str, Any]:
    return {**DONE, **changes}


def test_a_code_is_a_code_and_one_of_a_shell_is_a_signal() -> None:
    assert outcome(state(ExitCode=3), Past())[:3] == (3, None, None)
    assert outcome(state(ExitCode=255), Past())[:3] == (255, None, None)
    assert outcome(state(ExitCode=143), Past())[:3] == (None, 15, None)
    assert outcome(state(ExitCode=137), Past())[:3] == (None, 9, None)
    assert abs((outcome(state(), Past()).ended or 0) - AT) < 0.001


def test_who_was_killed_for_memory_is_told_its_limit() -> None:
    seen = outcome(state(ExitCode=137, OOMKilled=True), Past(memory=64 << 20))
    assert seen.signal == 9 and "limit of 64MiB" in str(seen.reason) and "by the kernel" in str(seen.reason)
    guessed = outcome(state(ExitCode=137), Past(memory=64 << 20))
    assert "probably" in str(guessed.reason)
    assert outcome(state(ExitCode=137), Past(memory=64 << 20, signalled=True)).reason is None


def test_what_ran_when_the_machine_went_down_has_no_code() -> None:
    found_dead = outcome(state(ExitCode=255), Past(same_boot=False, booted=AT - 10))
    assert found_dead.code is None and found_dead.reason and found_dead.reason.code.value == "node-rebooted"
    before = outcome(state(ExitCode=4), Past(same_boot=False, booted=AT + 10))
    assert before[:3] == (4, None, None)


def test_what_a_shutdown_of_the_machine_ended_has_no_code_whatever_its_program_made_of_the_signal() -> None:
    for code in (0, 1, 143):
        ended = outcome(state(ExitCode=code), Past(same_boot=False, booted=AT + 10, left=AT - 3))
        assert ended.code is None and ended.reason and ended.reason.code.value == "node-rebooted", code
    earlier = outcome(state(ExitCode=0), Past(same_boot=False, booted=AT + 10, left=AT + 3))
    assert earlier[:3] == (0, None, None), "it was over before"
    nobody_noted = outcome(state(ExitCode=143), Past(same_boot=False, booted=AT + 10))
    assert nobody_noted.reason and nobody_noted.reason.code.value == "node-rebooted"


def test_what_ended_with_its_engine_has_no_code() -> None:
    ended = outcome(state(ExitCode=0), Past(with_engine=True))
    assert ended.code is None and ended.reason and ended.reason.code.value == "node-stopped"


def test_a_command_that_the_init_cannot_run_could_not_start() -> None:
    said = b"[FATAL tini (7)] exec nosuch failed: No such file or directory\n"
    result = outcome(state(ExitCode=127), Past(stderr=said))
    assert result.code == 127 and result.reason and result.reason.code.value == "cannot-start"
    assert "exec nosuch failed: No such file or directory" in result.reason.message
    assert outcome(state(ExitCode=127), Past(stderr=b"sh: nosuch: not found\n")).reason is None


def test_the_engines_times() -> None:
    assert wall("0001-01-01T00:00:00Z") is None
    assert wall("1970-01-01T00:00:01Z") == 1.0
    assert abs((wall("2026-11-21T07:46:43.310989612Z") or 0) - AT) < 0.001
