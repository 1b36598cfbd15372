"""Unexpected ends of daemons, kept in files until they are in the cluster's event log.

On a local cluster supervisord writes them (``watchdog``): it can neither block nor reach the store. On hosts systemd
does (``ExecStopPost`` in ``deploy/systemd``). The API server takes those of its machine, a node-agent those of its
node. Used by ``watchdog``, ``master.api.daemon_ends`` and ``node.agent.redis_threads``.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from grass.errors import UndecodableError
from grass.system.atomic_file import replace_file
from grass.wire.codec import encode
from grass.wire.daemon_end import DAEMON_END, DaemonEnd

FOLDER = "ends"
_OF_SUPERVISORD, _OF_SYSTEMD = ".json", ".end"
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
    yield from _read(
        path for path in sorted((home / FOLDER).glob("*")) if path.suffix in (_OF_SUPERVISORD, _OF_SYSTEMD)
    )


def noted_by_systemd(home: Path) -> Iterator[tuple[Path, DaemonEnd]]:
    """Yield those that systemd noted. On a local cluster, where supervisord notes them, there are none."""
    yield from _read(sorted((home / FOLDER).glob(f"*{_OF_SYSTEMD}")))


def _read(paths: Iterable[Path]) -> Iterator[tuple[Path, DaemonEnd]]:
    for path in paths:
        try:
            data = path.read_bytes()
            yield path, DAEMON_END.decode(data) if path.suffix == _OF_SUPERVISORD else _of_systemd(data.decode())
        except (UndecodableError, ValueError, KeyError):
            with suppress(OSError):
                path.unlink()
        except OSError:
            continue  # gone, or unreadable, now or forever: the reader must go on with the others


def _of_systemd(text: str) -> DaemonEnd:
    """Read ``<daemon> <time> $SERVICE_RESULT $EXIT_STATUS`` (systemd.exec(5)). Raises ValueError."""
    daemon, time, result, status = text.split()
    code = int(status) if status.isdecimal() else -signal.Signals[f"SIG{status.removeprefix('SIG')}"]
    hung, out_of_memory = result == "watchdog", result == "oom-kill"
    return DaemonEnd(daemon=daemon, time=float(time), code=code, hung=hung, out_of_memory=out_of_memory)
