"""The double of Azure as a server over TLS, with an authority of its own, for the real pipeline and for typed clients.

Used by ``tests/contract/test_azure_arm.py``.
"""

from __future__ import annotations

import importlib.util
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from tests.doubles.azure_arm import TYPES, Azure
from tests.support.certificates import Authority
from tests.support.needs import require

FASTER = 200.0
"""By how much the double's clock is faster than the machine's."""


class Served(NamedTuple):
    azure: Azure
    authority: Path
    """PEM file that clients have to trust."""


class Credential:
    """A login with a fixed token, as azure-core calls it. ``asked``: how often."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.asked = 0

    def get_token(self, *scopes: str, **_: object) -> object:
        from azure.core.credentials import AccessToken

        self.asked += 1
        return AccessToken(self.token, int(time.time()) + 3600)


@contextmanager
def serve(folder: Path, host: str = "127.0.0.1") -> Iterator[Served]:
    """``host``: where it listens; its certificate is for localhost alone."""
    require((TYPES / "validate.py").exists(), "types of Azure", f"they are not in {TYPES}")
    require(importlib.util.find_spec("azure") is not None, "azure-core, azure-identity and azure-mgmt-*")
    authority = Authority(folder, "azure-ca")
    azure, lock = Azure(lambda: time.monotonic() * FASTER, poll="0"), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            scheme, _, token = self.headers.get("Authorization", "").partition(" ")
            with lock:
                answer = azure.handle(
                    self.command,
                    f"{azure.endpoint}{self.path}",
                    json.loads(text) if text else None,
                    token if scheme == "Bearer" else None,
                )
            body = json.dumps(answer.content).encode() if answer.status != 204 else b""
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = _serve

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((host, 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("azure"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    azure.endpoint = f"https://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield Served(azure, authority.path)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
