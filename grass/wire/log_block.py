"""One block of a task's output, sent by the shipper to the collector and written into the log file.

It has the tag ``grass.<job id>.<component>.<index>`` in the forward protocol, and is one line of JSON in the log file
(``docs/internals/logs.md``).
"""

from __future__ import annotations

import base64 as encoding
from typing import Literal

import msgspec

from grass.errors import UndecodableError
from grass.model.job import DEFAULT_OUTPUT_LIMIT
from grass.wire.codec import Form

Stream = Literal["stdout", "stderr"]


PROBE_JOB = "grass-probe"
"""The job whose one block a joining node sends, to show that the collector takes it (``node/agent/probe.py``)."""
DELETED = ".deleted-"
"""And the id of a job: a folder among the logs, for a while after these were removed. The collector takes no more."""


class LogBlock(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of a task's output, at most 64 KiB.

    It ends at a newline where possible. Exactly one of ``text`` and ``base64`` is set.

    Readers find ``attempt``, ``stream``, ``offset`` and ``time`` at the start of the line: their order is part of the
    format.
    """

    attempt: int
    stream: Stream
    offset: int
    """Offset of its first byte in the stream."""
    time: float
    """When it was read: seconds since the epoch, by the node's clock."""
    text: str | None = None
    base64: str | None = None
    """Set if the block is not UTF-8."""
    limit: int = DEFAULT_OUTPUT_LIMIT
    """Bytes that the log file of the task may take. Sent to the collector only."""

    @classmethod
    def of_data(
        cls, attempt: int, stream: Stream, offset: int, time: float, data: bytes, limit: int = DEFAULT_OUTPUT_LIMIT
    ) -> LogBlock:
        try:
            return cls(attempt, stream, offset, time, text=data.decode(), limit=limit)
        except UnicodeDecodeError:
            return cls(attempt, stream, offset, time, base64=encoding.b64encode(data).decode(), limit=limit)

    def data(self) -> bytes:
        """Return its bytes. Raises UndecodableError."""
        if (self.text is None) == (self.base64 is None):
            raise UndecodableError("", "must have one of text and base64")
        if self.base64 is None:
            assert self.text is not None
            return self.text.encode()
        try:
            return encoding.b64decode(self.base64, validate=True)
        except ValueError as error:
            raise UndecodableError("base64", str(error)) from error


LOG_BLOCK: Form[LogBlock] = Form(LogBlock)
