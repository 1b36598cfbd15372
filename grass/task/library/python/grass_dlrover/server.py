"""A small HTTP server in one thread: a request in, an answer out, over epoll. Used by ``__main__``.

DLRover's client opens a connection for each of its 8.5 requests a second: 200 agents open 1,700 a second. The servers
of Python's library start a thread or a task for each. ``answer`` gets path and body; while it runs, others wait.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import time
from hmac import compare_digest

from grass_dlrover.pickles import Refused

MOST_HEAD, MOST_BODY = 16 << 10, 2 << 20
MOST_UNKNOWN = 1 << 16
"""Bytes of a request that are read although the caller does not know the secret: it then gets to see the refusal."""
MOST_CONNECTIONS = 4096
IDLE_SECONDS = 60.0
_AT_ONCE = 64
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,10})[ \t]*\r\n", re.IGNORECASE)
_UID = re.compile(rb"\r\njob_uid:[ \t]*(\S*)[ \t]*\r\n", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)
_REASONS = {
    200: "OK",
    400: "Bad Request",
    406: "Not Acceptable",
    411: "Length Required",
    413: "Too Large",
    405: "Not Allowed",
}


class _Refusal(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class _Connection:
    def __init__(self, peer, now):
        self.peer, self.seen = peer, now
        self.data, self.out = b"", b""
        self.ends = False
        self.events = select.EPOLLIN


class Server:
    """``uid``: the secret of the job, which a client says in the header ``job_uid``. ``say`` prints a line."""

    def __init__(self, listener, uid, answer, say):
        self._listener, self._uid, self._answer, self._say = listener, uid.encode(), answer, say
        self.connections = {}
        self._poll = select.epoll()
        listener.setblocking(False)
        self._poll.register(listener.fileno(), select.EPOLLIN)
        self._swept = 0.0
        self.idle_seconds = IDLE_SECONDS

    def turn(self, seconds):
        """Serve what comes within ``seconds``, once."""
        for descriptor, events in self._poll.poll(seconds):
            if descriptor == self._listener.fileno():
                self._accept()
            else:
                self._serve(descriptor, events)
        now = time.monotonic()
        if now - self._swept > self.idle_seconds / 4:
            self._swept = now
            for descriptor in [
                each for each, found in self.connections.items() if now - found.seen > self.idle_seconds
            ]:
                self._end(descriptor)

    def close(self):
        for descriptor in list(self.connections):
            self._end(descriptor)
        self._poll.close()
        self._listener.close()

    def _accept(self):
        for _ in range(_AT_ONCE):
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            if len(self.connections) >= MOST_CONNECTIONS:
                peer.close()
                continue
            peer.setblocking(False)
            self.connections[peer.fileno()] = _Connection(peer, time.monotonic())
            self._poll.register(peer.fileno(), select.EPOLLIN)

    def _serve(self, descriptor, events):
        connection = self.connections.get(descriptor)
        if connection is None:
            return
        try:
            if events & select.EPOLLIN and not connection.ends:
                data = connection.peer.recv(1 << 16)
                if not data:
                    self._end(descriptor)
                    return
                connection.data += data
                connection.seen = time.monotonic()
                while not connection.ends and self._take(connection):
                    pass
            elif events & (select.EPOLLHUP | select.EPOLLERR):
                self._end(descriptor)
                return
            self._send(descriptor, connection)
        except BlockingIOError:
            return
        except OSError:
            self._end(descriptor)

    def _send(self, descriptor, connection):
        if connection.out:
            with contextlib.suppress(BlockingIOError):
                connection.out = connection.out[connection.peer.send(connection.out) :]
        if connection.ends and not connection.out:
            self._end(descriptor)
            return
        # a connection with an answer that is not taken is not read: its next request waits
        events = select.EPOLLOUT if connection.out else select.EPOLLIN
        if events != connection.events:
            connection.events = events
            self._poll.modify(descriptor, events)

    def _take(self, connection):
        """Answer the next whole request. Return whether there was one."""
        try:
            found = self._parsed(connection)
            if found is None:
                return False
            path, body = found
            status, answer = 200, self._answer(path, body)
        except Refused as refused:
            self._say("refused: %s" % refused)
            status, answer = 400, str(refused).encode()
        except _Refusal as refusal:
            connection.ends = True
            status, answer = refusal.status, str(refusal).encode()
        head = "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n%s\r\n"
        close = "Connection: close\r\n" if connection.ends else ""
        connection.out += (head % (status, _REASONS[status], len(answer), close)).encode() + answer
        return True

    def _parsed(self, connection):
        """Return (path, body) of the next request. None: it is not whole yet."""
        data = connection.data
        end = data.find(b"\r\n\r\n", 0, MOST_HEAD)
        if end < 0:
            if len(data) >= MOST_HEAD:
                raise _Refusal(413, "the head of the request is too long")
            return None
        head = data[: end + 2]
        if not head.startswith(b"POST "):
            raise _Refusal(405, "only POST /get and POST /report")
        length = _LENGTH.search(head)
        if length is None:
            raise _Refusal(411, "the request has no Content-Length")
        size = int(length[1])
        if size > MOST_BODY:
            raise _Refusal(413, "a request of %d bytes; at most %d" % (size, MOST_BODY))
        uid, whole = _UID.search(head), len(data) >= end + 4 + size
        if (uid is None or not compare_digest(uid[1], self._uid)) and (whole or size > MOST_UNKNOWN):
            raise _Refusal(406, "Job uid is invalid")
        if not whole:
            return None
        connection.ends = connection.ends or _CLOSE.search(head) is not None
        connection.data = data[end + 4 + size :]
        return head.split(b" ", 2)[1].decode("latin-1"), data[end + 4 : end + 4 + size]

    def _end(self, descriptor):
        connection = self.connections.pop(descriptor, None)
        if connection is not None:
            self._poll.unregister(descriptor)
            connection.peer.close()


def listen(port, address=""):
    """Return a socket at an address of this machine; on all of them if it has no such address, or none is given."""
    with contextlib.suppress(OSError):
        if address:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            return socket.create_server((address, port), family=family, backlog=1024)
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    return socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=family == socket.AF_INET6)
