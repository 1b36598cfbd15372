"""A double of Azure's metadata service: it gives tokens of a machine's identity, over HTTP.

Used by ``tests/contract/test_azure_identity.py`` and ``tests/e2e/test_azure.py``. azure-identity finds it by
``AZURE_POD_IDENTITY_AUTHORITY_HOST``.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.doubles.azure_arm import IDENTITY_TOKEN


class Metadata(ThreadingHTTPServer):
    """The metadata service of a machine. ``asked``: resources for which a token was wanted."""

    def __init__(self, host: str) -> None:
        super().__init__((host, 0), _Handler)
        self.address = f"http://{host}:{self.server_address[1]}"
        self.asked: list[str] = []
        self.has_identity = True


class _Handler(BaseHTTPRequestHandler):
    server: Metadata

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        resource = parse_qs(parts.query).get("resource", [""])[0]
        token = parts.path == "/metadata/identity/oauth2/token" and self.headers.get("Metadata") == "true"
        good = token and self.server.has_identity
        self.server.asked.append(resource)
        until = {"expires_in": "86399", "expires_on": str(int(time.time()) + 86_399)}
        answer = {"access_token": IDENTITY_TOKEN, **until, "resource": resource, "token_type": "Bearer"}
        body = json.dumps(answer if good else {"error": "invalid_request", "error_description": "Identity not found"})
        self.send_response(200 if good else 400)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def metadata_service(host: str = "127.0.0.1") -> Iterator[Metadata]:
    with Metadata(host) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
