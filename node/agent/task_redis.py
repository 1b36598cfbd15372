"""The redis for tasks at ``localhost``, on a node of several hosts: connections are passed on to the master's.

Tasks give no password, as MARO's programs expect; this forwarder logs in for them. It has a thread of its own, so that
neither the node-agent nor the tasks wait for each other, and looks at nothing that it carries. Used by ``__main__``.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import closing, suppress
from dataclasses import dataclass

from grass.errors import UnreachableError
from grass.network_address import host_and_port
from grass.tls import client_context, peer_of
from grass.tls_files import TlsFiles

MOST_CONNECTIONS = 1024
"""Connections of all tasks of this node."""
_AGAIN = 5.0
"""Seconds until a port that is taken is tried again."""
_PATIENCE = 10.0
"""Seconds for the login at the master's redis."""
_PIECE = 1 << 16

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Proof:
    """The certificates for connections to the master's redis.

    ``files``: certificates of this node. ``expected``: the name in that of the server.
    """

    files: TlsFiles
    expected: str


class TaskRedis:
    """The port of this node, in threads of its own.

    ``port``: at localhost. ``server``: ``host:port`` of the master's redis for tasks. ``tls`` None: without TLS.
    """

    def __init__(self, port: int, server: str, password: str, tls: Proof | None = None) -> None:
        self._tls = tls
        self._port = port
        self._server = host_and_port(server)
        self._login = _command("AUTH", password)
        self._open = 0

    def start(self) -> None:
        """Forward until the process ends."""
        threading.Thread(target=lambda: asyncio.run(self._serve()), name="task-redis", daemon=True).start()

    async def _serve(self) -> None:
        logged = False
        while True:
            try:
                server = await asyncio.start_server(self._forward, "127.0.0.1", self._port, limit=_PIECE)
            except OSError as error:
                if not logged:
                    logged = True
                    log.error("task_redis: cannot listen at localhost:%d (%s); trying again", self._port, error)
                await asyncio.sleep(_AGAIN)
                continue
            log.info("task_redis: localhost:%d leads to the redis for tasks at %s:%d", self._port, *self._server)
            async with server:
                await server.serve_forever()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open > MOST_CONNECTIONS:
                writer.write(b"-ERR the tasks of this node have too many connections to the redis for tasks\r\n")
                return
            try:
                far_reader, far_writer = await asyncio.wait_for(self._connect(), _PATIENCE)
            except (OSError, EOFError, asyncio.TimeoutError, UnreachableError) as error:
                writer.write(f"-ERR the redis for tasks does not answer ({type(error).__name__})\r\n".encode())
                return
            with closing(far_writer):
                pumps = {asyncio.create_task(_pump(*each)) for each in ((reader, far_writer), (far_reader, writer))}
                _, left = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                for each in left:
                    each.cancel()
                await asyncio.gather(*left, return_exceptions=True)
        finally:
            self._open -= 1
            with suppress(OSError):
                await writer.drain()
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection that is logged in. Raises OSError, EOFError or UnreachableError."""
        context = client_context(self._tls.files) if self._tls else None  # of the files as they are now
        reader, writer = await asyncio.open_connection(*self._server, limit=_PIECE, ssl=context)
        if self._tls and (found := peer_of(writer.get_extra_info("peercert"))) != self._tls.expected:
            writer.close()
            raise OSError(f"the certificate there is of {found or 'nobody'}, not of {self._tls.expected}")
        writer.write(self._login)
        answer = await reader.readline()
        if answer != b"+OK\r\n":
            writer.close()
            raise OSError(f"it refused this node: {answer!r}")
        return reader, writer


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what arrives until one side closes."""
    with suppress(OSError):
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()


def _command(*words: str) -> bytes:
    """Return a command in redis's protocol (RESP)."""
    parts = [f"*{len(words)}\r\n".encode()]
    parts += [b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()) for word in words]
    return b"".join(parts)
