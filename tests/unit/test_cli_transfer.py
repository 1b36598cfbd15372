"""How far a transfer is, in a pipe: nothing of its first moments, then a line now and then."""

from __future__ import annotations

import io

from grass.cli import transfer
from grass.cli.output import Output
from grass.files.rsync import Progress


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
