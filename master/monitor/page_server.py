"""Answers the API server on the unix socket ``monitor.sock``: with the text of ``/metrics``, or what users keep in the
share. Used by the monitor.

One question is one connection: a line of JSON (``api_figures.QUESTION``), then the answer, then the end. The socket is
readable by the cluster's user only. The API server decides who may see the answer.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from grass.errors import UndecodableError, UnreachableError
from grass.model.exhaustive import assert_never
from grass.wire.api_figures import QUESTION, ApiFigures, KeptAnswer, KeptQuestion
from grass.wire.codec import encode

_MOST_QUESTION = 1 << 20
_PATIENCE = 5.0
_AGAIN = 0.5
"""Seconds until connections are accepted again, if none could be: for example, no file descriptor was free."""

log = logging.getLogger("grass.monitor")


class PageServer:
    """The server of ``monitor.sock``.

    ``page`` makes the text, and ``kept`` says what users keep. They are called in the server's thread, for one question
    at a time.
    """

    def __init__(self, path: Path, page: Callable[[ApiFigures], bytes], kept: Callable[[], KeptAnswer]) -> None:
        self._path = path
        self._page = page
        self._kept = kept
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        path.chmod(0o600)
        self._listener.listen(16)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(_PATIENCE)
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                self._stopped.wait(_AGAIN)
                continue
            with closing(connection):
                connection.settimeout(_PATIENCE)
                try:
                    self._answer(connection)
                except OSError:
                    continue  # the peer is gone
                except Exception:  # a node may report figures that the page cannot show
                    log.exception("a page of metrics failed; the next request makes a new one")

    def _answer(self, connection: socket.socket) -> None:
        question = b""
        while not question.endswith(b"\n") and len(question) < _MOST_QUESTION:
            part = connection.recv(1 << 16)
            if not part:
                return
            question += part
        try:
            match QUESTION.decode(question):
                case ApiFigures() as figures:
                    answer = self._page(figures)
                case KeptQuestion():
                    answer = encode(self._kept()).encode()
                case other:
                    assert_never(other)
            connection.sendall(answer)
        except (UndecodableError, UnreachableError) as error:
            log.warning("no answer for the API server: %s", error)
