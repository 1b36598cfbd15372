"""The text of a job file as its user wrote it, kept beside the job: the master-agent and the nodes never read it.

By job id in the hash ``job-files``. The client packs the text, so that a request stays small. Written by the client and
read by the API.
"""

from __future__ import annotations

import zlib

import msgspec

from grass.errors import UndecodableError
from grass.wire.codec import Form

MOST_PACKED = 128 * 1024
"""Compressed bytes. A longer file is not kept."""
MOST_TEXT = 1 << 20
"""Bytes of the text, as of any document."""
LONGEST_NAME = 255


class JobFile(msgspec.Struct, frozen=True):
    """The stored text of a job file.

    ``name``: of the file, without its folder.
    """

    name: str
    packed: bytes
    """UTF-8, compressed by zlib."""


JOB_FILE: Form[JobFile] = Form(JobFile)


def pack(name: str, text: str) -> JobFile | None:
    """Return the file as it is sent and kept; None: too long, or not valid Unicode."""
    try:
        packed = zlib.compress(text.encode())
    except UnicodeEncodeError:
        return None
    return JobFile(name[:LONGEST_NAME], packed) if len(packed) <= MOST_PACKED else None


def unpack(file: JobFile) -> str:
    """Return the text. Raises UndecodableError for what ``pack`` cannot have made."""
    if len(file.packed) > MOST_PACKED or len(file.name) > LONGEST_NAME:
        raise UndecodableError("file", f"must have at most {MOST_PACKED // 1024} KiB compressed, and a name")
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(file.packed, MOST_TEXT)
        if not unpacker.eof:
            raise UndecodableError("file", "is larger than 1 MiB or cut off")
        return content.decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise UndecodableError("file", f"is not text compressed by zlib: {error}") from error
