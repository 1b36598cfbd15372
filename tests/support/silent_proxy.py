"""A proxy before an API that passes one request on and keeps its answer back. Used by tests of interrupted commands."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit


class SilentProxy:
    """Listens on a port of its own. ``request``: the begin of the request whose answer it keeps back, once it has come
    (``passed``). ``api``: the URL of the API."""

    def __init__(self, api: str, request: str) -> None:
        address = urlsplit(api)
        self._api = (address.hostname or "", address.port or 0)
        self._request = request.encode()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.passed = threading.Event()
        self._silent = False

    def __enter__(self) -> SilentProxy:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def answer_again(self) -> None:
        """Pass the answers to later requests on. The client repeats the one that got none."""
        self._silent, self._request = False, b"-"
        for each in self._sockets[1:]:
            each.shutdown(socket.SHUT_RDWR)

    def _start(self, run: object, *arguments: socket.socket) -> None:
        threading.Thread(target=run, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        try:
            while True:
                client, _ = self._listener.accept()
                api = socket.create_connection(self._api)
                self._sockets += [client, api]
                self._start(self._pass_requests, client, api)
                self._start(self._pass_answers, api, client)
        except OSError:
            return

    def _pass_requests(self, client: socket.socket, api: socket.socket) -> None:
        try:
            while data := client.recv(65536):
                if data.startswith(self._request):
                    self._silent = True
                api.sendall(data)
                if self._silent:
                    self.passed.set()
        except OSError:
            return

    def _pass_answers(self, api: socket.socket, client: socket.socket) -> None:
        try:
            while data := api.recv(65536):
                if not self._silent:
                    client.sendall(data)
        except OSError:
            return
