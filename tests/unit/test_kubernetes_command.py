"""The exit code of a command in a pod, from what servers and engines say. Messages are those of real ones."""

from __future__ import annotations

import pytest

from grass.kubernetes.command import LOST, exit_code
from grass.kubernetes.objects import Cause, Status, StatusDetails

_OCI = "OCI runtime exec failed: exec failed: "
_CONTAINERD = (
    'error executing command in container: failed to exec in container: failed to start exec "1b2c": '
    "OCI runtime exec failed: exec failed: unable to start container process: "
)


def ended(code: int) -> Status:
    causes = [Cause("ExitCode", str(code))]
    said = f"command terminated with non-zero exit code: Error executing in Docker Container: {code}"
    return Status("Failure", said, "NonZeroExitCode", details=StatusDetails(causes=causes))


def test_a_command_has_the_exit_code_that_it_ended_with() -> None:
    assert exit_code(Status("Success")) == 0
    assert exit_code(ended(3)) == 3 and exit_code(ended(143)) == 143
    assert exit_code(ended(126), b"cannot do it") == 126


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ('exec: "nothing": executable file not found in $PATH: unknown', 127),
        ('exec: "/nothing": stat /nothing: no such file or directory: unknown', 127),
        ('exec: "/etc/passwd": permission denied: unknown', 126),
    ],
)
def test_a_command_that_the_image_lacks_has_the_code_of_a_shell(said: str, code: int) -> None:
    assert exit_code(Status("Failure", _CONTAINERD + said, "InternalError")) == code
    for number in (126, 127, 128):
        assert exit_code(ended(number), f"{_OCI}{said}\r\n".encode()) == code


def test_an_end_that_is_not_known_is_no_success() -> None:
    assert exit_code(Status("Failure", "error dialing backend: EOF", "InternalError")) == LOST
