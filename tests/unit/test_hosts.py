"""Commands on this machine through the port, and how commands and secrets are shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pytest

from grass.hosts import CommandFailedError, CommandTimeoutError, LocalHost, Secret, command_line, shown
from grass.hosts.host import Done, Stdin

HOST = LocalHost("here")


class CutHost(LocalHost):
    """Its connection ends after five bytes."""

    def _execute(
        self, argv: Sequence[str], stdin: Stdin, before: bytes, timeout: float, output: IO[bytes] | None = None
    ) -> Done:
        assert isinstance(stdin, Path)
        return super()._execute(argv, stdin.read_bytes()[:5], before, timeout, output)


def test_a_command_gets_its_input_and_gives_code_and_both_outputs() -> None:
    done = HOST.run(["sh", "-c", "cat; echo problem >&2; exit 3"], stdin=b"words")
    assert (done.code, done.out, done.err, done.ok) == (3, "words", "problem\n", False)


def test_the_output_of_a_command_may_go_into_a_file(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        done = HOST.run(["sh", "-c", "printf 'a\\000b'; echo why >&2; exit 3"], output=file)
    assert (done.code, done.raw, done.err) == (3, b"", "why\n")
    assert (tmp_path / "out").read_bytes() == b"a\0b"


def test_a_failed_command_is_told_with_host_command_and_output() -> None:
    with pytest.raises(
        CommandFailedError, match=r"(?s)here: `sh -c 'echo no room; exit 4'` ended with code 4:.*no room"
    ):
        HOST.run(["sh", "-c", "echo no room; exit 4"]).check()


def test_a_program_that_is_not_there_ends_as_a_shell_would_say() -> None:
    assert HOST.run(["no-such-program"]).code == 127


def test_a_command_that_does_not_end_is_given_up() -> None:
    with pytest.raises(CommandTimeoutError, match=r"did not end within 0.2 s"):
        HOST.run(["sleep", "60"], timeout=0.2)


def test_large_input_and_output_pass_at_once() -> None:
    content = os.urandom(3_000_000)
    assert HOST.run(["cat"], stdin=content).raw == content


def test_a_command_may_end_without_reading_its_input() -> None:
    assert HOST.run(["true"], stdin=b"x" * 1_000_000).ok


def test_a_file_is_put_whole_with_its_mode_and_got_back(tmp_path: Path) -> None:
    target, source = tmp_path / "it is a file", tmp_path / "source"
    source.write_bytes(b"\0\1\2" * 1000)
    HOST.put(source, str(target), 0o640)
    assert (HOST.get(str(target)), target.stat().st_mode & 0o777) == (b"\0\1\2" * 1000, 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it is a file", "source"]


def test_no_link_beside_a_file_leads_its_new_content_elsewhere(tmp_path: Path) -> None:
    target, other = tmp_path / "file", tmp_path / "other"
    other.write_bytes(b"theirs")
    (tmp_path / "file.grass-new").symlink_to(other)
    target.symlink_to(other)
    HOST.put(b"new", str(target), 0o600)
    assert (target.read_bytes(), target.is_symlink(), other.read_bytes()) == (b"new", False, b"theirs")


def test_a_file_of_which_a_part_arrived_leaves_what_was_there(tmp_path: Path) -> None:
    target, content = tmp_path / "file", tmp_path / "content"
    target.write_bytes(b"old")
    content.write_bytes(b"new and whole")
    with pytest.raises(CommandFailedError, match=r"cannot write .*: the connection was cut"):
        CutHost().put(content, str(target), 0o600)
    assert target.read_bytes() == b"old" and sorted(each.name for each in tmp_path.iterdir()) == ["content", "file"]


def test_a_file_that_cannot_be_written_or_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandFailedError, match="here: cannot write /proc/nothing/here"):
        HOST.put(b"", "/proc/nothing/here", 0o600)
    with pytest.raises(CommandFailedError, match=r"here: cannot read .*absent"):
        HOST.get(str(tmp_path / "absent"))


@pytest.mark.parametrize("word", ["", " ", "a b", "'", '"', "$(id)", "`id`", "*", "a\nb", "-n", ";", "é", "\\"])
def test_every_word_reaches_the_program_as_it_is(word: str) -> None:
    line = command_line(["printf", "%s|", word, "end"])
    assert HOST.run(["sh", "-c", line]).out == f"{word}|end|"


def test_a_secret_is_never_shown_and_never_part_of_a_command_line() -> None:
    secret = Secret("hunter2")
    assert [str(secret), repr(secret), f"{secret}", f"{secret!r:>3}", secret.reveal()] == ["[REDACTED]"] * 4 + [
        "hunter2"
    ]
    with pytest.raises(ValueError, match="secret") as told:
        command_line(["login", secret])
    assert "hunter2" not in str(told.value)


def test_a_script_is_shown_by_its_first_line() -> None:
    assert shown(["sh", "-c", "\nset -e\nrm -rf /\n", "x"]) == "sh -c 'set -e …' x"
