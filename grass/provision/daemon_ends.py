"""Ends of daemons that nobody asked for, kept until they are in the cluster's event log.

supervisord writes them (``watchdog``): it can neither block nor reach the store. The API server takes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from grass.atomic_file import replace_file
from grass.errors import UndecodableError
from grass.wire.codec import encode
from grass.wire.daemon_end import DAEMON_END, DaemonEnd

FOLDER = "ends"
MOST = 1000
"""Ends that wait. While the API server is away for longer, further ones are only in supervisord's log."""


def note(home: Path, end: DaemonEnd) -> None:
    """Keep the end. Raises OSError, for example when the cluster's folder was removed."""
    folder = home / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    if sum(1 for _ in folder.iterdir()) < MOST:
        replace_file(folder / f"{end.time:017.6f}-{end.pid}.json", encode(end))


def noted(home: Path) -> Iterator[tuple[Path, DaemonEnd]]:
    """Yield the ends in their order, each with its file, which the caller removes. Unreadable files are removed."""
    for path in sorted((home / FOLDER).glob("*.json")):
        try:
            yield path, DAEMON_END.decode(path.read_bytes())
        except UndecodableError:
            with suppress(OSError):
                path.unlink()
