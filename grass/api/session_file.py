"""The file ``client/session.json`` (mode 0600), by which processes of a client share a session. Used by ``Transport``.

Each process may replace the whole file. A replaced session stays valid, and a lost one is replaced by one signed
request. So errors are ignored: an unreadable file counts as missing.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path

from grass.api.sealing import Session, decode_key, encode_key
from grass.model.names import is_session_id
from grass.system.atomic_file import replace_file

_NAME = "session.json"


def load_session(client_dir: Path, key_id: str) -> Session | None:
    """Return the session of the key ``key_id``. None: there is none, or others can read the file."""
    try:
        content = json.loads(_read(client_dir))
        if content["key_id"] != key_id or not is_session_id(content["session"]):
            return None
        return Session(content["session"], decode_key(content["key"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def save_session(client_dir: Path, key_id: str, session: Session) -> None:
    """Save the session. Concurrent processes do not mix their content; the last one wins."""
    content = {"session": session.id, "key": encode_key(session.key), "key_id": key_id}
    with suppress(OSError):
        replace_file(client_dir / _NAME, json.dumps(content), several_writers=True)


def forget_session(client_dir: Path, session: Session) -> None:
    """Remove the file if it still holds this session."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        if json.loads(_read(client_dir))["session"] == session.id:
            (client_dir / _NAME).unlink()


def _read(client_dir: Path) -> str:
    """Return the file's text. Raises OSError for anything but a regular file that only this user can read.

    O_NONBLOCK: the open call of a FIFO returns at once instead of waiting for a writer.
    """
    descriptor = os.open(client_dir / _NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor) as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_mode & 0o077 or facts.st_uid != os.geteuid():
            raise PermissionError(f"{_NAME}: not a private file of this user")
        return file.read()
