"""How far a transfer is, in a pipe: nothing of its first moments, then a line now and then."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from grass.cli import transfer
from grass.cli.output import Output
from grass.errors import ConflictError
from grass.files import rsync
from grass.files.rsync import Progress
from tests.support.needs import require


def test_a_pipe_gets_a_line_every_five_seconds_from_the_first_byte_on() -> None:
    now = 100.0
    out = io.StringIO()
    show = transfer.shown(Output(out, io.StringIO()), lambda: now)
    now += 60  # the image is read first
    for percent in range(0, 101, 10):
        show(Progress(percent << 20, percent, 2 << 20, "0:00:01"))
        now += 2
    assert [line.split("%")[0].strip() for line in out.getvalue().splitlines()] == ["30", "60", "90"]
    assert "60 %  60MiB  2MiB/s  0:00:01 left" in out.getvalue()


def test_of_many_small_files_the_progress_is_looked_at_now_and_then(tmp_path: Path) -> None:
    require(shutil.which("rsync") is not None, "rsync")
    source, seen = tmp_path / "source", list[Progress]()
    source.mkdir()
    for number in range(500):
        (source / str(number)).write_bytes(b"x" * 100)
    argv = rsync.command("rsync", [], [f"{source}/"], f"{tmp_path}/target")
    assert rsync.transfer(argv, "the push", seen.append) == 50_000
    assert seen[-1].done == 50_000
    assert len(seen) < 250


@pytest.mark.parametrize("code", [12, rsync.OVER_QUOTA])
def test_a_quota_is_the_cause_whatever_rsync_noticed_first(code: int) -> None:
    said = f"echo '{rsync.QUOTA}ann: may keep 8MiB in the share' >&2; exit {code}"
    with pytest.raises(ConflictError, match="the push: quota of user ann: may keep 8MiB"):
        rsync.transfer(["sh", "-c", said], "the push", lambda _: None)
