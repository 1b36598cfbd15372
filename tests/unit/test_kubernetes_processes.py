"""The scripts that find processes of a pod, in the shells that images have."""

from __future__ import annotations

import socket
import subprocess

import pytest

from node.runtime.kubernetes.processes import listens, marked, signal_first, signal_marked

SHELLS = pytest.mark.parametrize("shell", [["sh"], ["busybox", "sh"]], ids=["sh", "busybox"])


def run(shell: list[str], argv: list[str]) -> int:
    return subprocess.run([*shell, *argv[1:]], check=False, capture_output=True).returncode


@SHELLS
def test_a_marked_command_is_found_with_what_it_has_started_and_nothing_else(shell: list[str]) -> None:
    tree = ["/bin/sh", "-c", "sleep 50 & echo $!; wait"]
    with (
        subprocess.Popen([*shell, *marked(tree, "m1")[1:]], stdout=subprocess.PIPE, text=True) as one,
        subprocess.Popen([*shell, *marked(["sleep", "50"], "m2")[1:]]) as other,
    ):
        assert one.stdout is not None and one.stdout.readline().strip().isdigit()
        run(shell, signal_marked("m1", "KILL"))
        assert one.wait(5) == -9 and one.stdout.read() == ""  # its child had this end of the pipe, too
        assert other.poll() is None
        other.kill()


@SHELLS
@pytest.mark.parametrize(("argv", "code"), [(["no-such-program"], 127), (["/etc"], 126), (["sh", "-c", "exit 5"], 5)])
def test_a_marked_command_has_its_own_exit_code(shell: list[str], argv: list[str], code: int) -> None:
    assert run(shell, marked(argv, "m")) == code


@SHELLS
def test_a_signal_for_a_container_that_is_gone_is_an_error(shell: list[str]) -> None:
    assert run(shell, signal_first("no-such-container-0123456789", "TERM")) == 1


@SHELLS
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_port_answers_while_a_program_listens_on_it(shell: list[str], family: socket.AddressFamily) -> None:
    with socket.socket(family) as listener:
        listener.bind(("", 0))
        port = listener.getsockname()[1]
        assert run(shell, listens(port)) == 1
        listener.listen()
        assert run(shell, listens(port)) == 0
    assert run(shell, listens(port)) == 1
