"""Makes events of daemons that ended without being told to. A thread of the API server.

supervisord, or on hosts systemd, notes such ends in files, because it must not wait for the store. Each file is removed
once its event is in the log, so an end is recorded also if it was the API server's, or the store's. An event may be
recorded twice, after a crash. Started by ``server``.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from pathlib import Path

from grass.errors import UnreachableError
from grass.model.event_kind import EventKind
from grass.store.api_store import ApiStore
from grass.supervision.daemon_ends import noted
from grass.wire.daemon_end import sentence

EVERY = 1.0
"""Seconds between two looks into the folder."""

log = logging.getLogger("grass.master-api-server")


def watch_daemon_ends(home: Path, store: ApiStore) -> None:
    """Look now and every second, in a thread, until the process ends."""
    threading.Thread(target=_watch, args=(home, store), name="daemon-ends", daemon=True).start()


def _watch(home: Path, store: ApiStore) -> None:
    never = threading.Event()
    while not never.wait(EVERY):
        try:
            record_ends(home, store)
        except UnreachableError:
            continue  # the files stay
        except Exception:  # this thread must not end: later ends would not be recorded
            log.exception("an end of a daemon cannot be written into the event log")


def record_ends(home: Path, store: ApiStore) -> None:
    """Write one event for each end that waits. Raises UnreachableError; the ends that were not written stay."""
    for path, end in noted(home):
        store.log_event(EventKind.DAEMON_ENDED, "", sentence(end), at=end.time)
        with suppress(FileNotFoundError):
            path.unlink()
