"""A websocket to the API server with numbered channels: commands in pods, and ports of pods. Used by ``command``,
``ports`` and ``node.runtime.kubernetes.execution``. The only module that imports ``websocket``.

The protocol is Kubernetes' ``v4.channel.k8s.io`` (each message begins with the number of its channel), or ``v5`` where
the server has it (1.29 and later), which can also close a channel.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from urllib.parse import urlencode, urlsplit

import websocket

from grass.errors import ConflictError, GrassError, NotAllowedError, NotFoundError, UnreachableError
from grass.kubernetes.api import ApiServer
from grass.kubernetes.connection import CONNECT_SECONDS, Endpoint
from grass.network_address import network_address

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"
CLOSE = 255
"""The channel that closes another one, in version 5."""
_PING = 20.0
"""Seconds between signs of life: proxies close a connection that is idle for a minute."""


class Channels:
    """An open websocket. ``receive`` is for one thread, the other methods for any."""

    def __init__(
        self,
        api: ApiServer,
        path: str,
        query: Sequence[tuple[str, str]],
        protocols: Sequence[str],
        silence: float | None = None,
    ) -> None:
        """``silence``: seconds without a message after which ``receive`` ends. Raises NotFoundError, ConflictError,
        NotAllowedError or UnreachableError."""
        to = api.endpoint()
        scheme = "wss" if to.tls is not None else "ws"
        url = f"{scheme}://{network_address(to.host, to.port)}{to.path}{path}?{urlencode(query)}"
        token = to.credentials.token
        header = [f"Authorization: Bearer {token}"] if token else []
        try:
            self._socket = websocket.create_connection(
                url,
                timeout=CONNECT_SECONDS,
                header=header,
                subprotocols=list(protocols),
                sslopt=_tls(to),
                enable_multithread=True,
                **_proxy(to),
            )
        except websocket.WebSocketBadStatusException as error:
            raise _refused(error) from error
        except (websocket.WebSocketException, OSError) as error:
            raise UnreachableError(f"the Kubernetes API server does not answer: {error}") from error
        self._socket.settimeout(silence)
        self.closes = self._socket.subprotocol == V5
        """Whether a channel can be closed by itself."""
        self.silent = False
        """Whether ``receive`` ended because nothing came."""
        self.over = threading.Event()
        """Set once ``receive`` has ended, or ``close`` was called."""
        threading.Thread(target=self._ping, name="websocket-ping", daemon=True).start()

    def receive(self) -> Iterator[tuple[int, bytes]]:
        """Yield (channel, data) until the other side closes the websocket or it breaks."""
        try:
            while True:
                code, data = self._socket.recv_data()
                if code == websocket.ABNF.OPCODE_CLOSE:
                    return
                if data:
                    yield data[0], bytes(data[1:])
        except websocket.WebSocketTimeoutException:
            self.silent = True
        except (websocket.WebSocketException, OSError):
            return
        finally:
            self.over.set()

    def send(self, channel: int, data: bytes) -> None:
        """Raises UnreachableError: the connection is lost."""
        try:
            self._socket.send_binary(bytes([channel]) + data)
        except (websocket.WebSocketException, OSError) as error:
            raise UnreachableError(f"the connection to the Kubernetes API server is lost: {error}") from error

    def close(self) -> None:
        self.over.set()
        with suppress(websocket.WebSocketException, OSError):
            self._socket.close(timeout=0)
        with suppress(OSError):
            self._socket.shutdown()

    def _ping(self) -> None:
        while not self.over.wait(_PING):
            with suppress(websocket.WebSocketException, OSError):
                self._socket.ping()


def _tls(to: Endpoint) -> dict[str, object]:
    if to.tls is None:
        return {}
    options: dict[str, object] = {
        "context": to.tls,
        "check_hostname": to.tls.verify_mode != ssl.CERT_NONE,
    }
    if to.credentials.server_name:
        options["server_hostname"] = to.credentials.server_name
    return options


def _proxy(to: Endpoint) -> dict[str, object]:
    proxy = urlsplit(to.credentials.proxy) if to.credentials.proxy else None
    if proxy is None:
        return {"http_no_proxy": ["*"]}
    found: dict[str, object] = {
        "http_proxy_host": proxy.hostname,
        "http_proxy_port": proxy.port or 8080,
        "proxy_type": "http",
    }
    if proxy.username:
        found["http_proxy_auth"] = (proxy.username, proxy.password or "")
    return found


def _refused(error: websocket.WebSocketBadStatusException) -> GrassError:
    said = (error.resp_body or b"").decode(errors="replace").strip()
    text = said or str(error)
    match error.status_code:
        case 401 | 403:
            return NotAllowedError(f"Kubernetes does not allow it: {text}")
        case 404:
            return NotFoundError(text)
        case 400 | 409:
            return ConflictError(text)
        case _:
            return UnreachableError(f"the Kubernetes API server refuses: {text}")
