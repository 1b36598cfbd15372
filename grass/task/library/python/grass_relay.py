"""Brings the membership API of Grass into a pod: a socket whose connections go through standard input and output.

The node-agent runs it in the task's container, by a command through Kubernetes' API server, and answers at the other
end. No dependencies; Python 3.6 or newer. Everything is sent in pieces: number of the connection and length, 4 bytes
each, then the data. No data: the connection ends. Number 0: a sign of life of the node-agent.
"""

import contextlib
import os
import pathlib
import select
import socket
import struct
import sys
import threading

SILENCE = 20.0
"""Seconds without a sign of life after which this ends. The end of standard input may not arrive."""
PIECE = 1 << 16
HEAD = struct.Struct(">II")


class Relay:
    def __init__(self, given, taken, silence=SILENCE):
        """``given`` and ``taken``: descriptors that are read and written."""
        self._given, self._taken, self._silence = given, taken, silence
        self._lock = threading.Lock()
        self._connections = {}

    def listen(self, path):
        """Accept connections in a thread. An earlier relay gets no more."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        draft = "%s.%d" % (path, os.getpid())
        listener.bind(draft)
        listener.listen(64)
        pathlib.Path(draft).replace(path)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def run(self):
        """Pass on what arrives, until nothing does."""
        while True:
            head = self._read(HEAD.size)
            if head is None:
                return
            number, length = HEAD.unpack(head)
            data = self._read(length)
            if data is None:
                return
            connection = self._connections.get(number)
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.sendall(data) if data else connection.shutdown(socket.SHUT_RDWR)

    def _read(self, size):
        data = b""
        while len(data) < size:
            if not select.select([self._given], [], [], self._silence)[0]:
                return None
            piece = os.read(self._given, size - len(data))
            if not piece:
                return None
            data += piece
        return data

    def _accept(self, listener):
        number = 0
        while True:
            connection, _ = listener.accept()
            number += 1
            self._connections[number] = connection
            threading.Thread(target=self._pass, args=(number, connection), daemon=True).start()

    def _pass(self, number, connection):
        data = b"-"
        while data:
            try:
                data = connection.recv(PIECE)
            except OSError:
                data = b""
            self._send(number, data)
        del self._connections[number]
        connection.close()

    def _send(self, number, data):
        piece = HEAD.pack(number, len(data)) + data
        with self._lock:
            while piece:
                piece = piece[os.write(self._taken, piece) :]


def main():
    relay = Relay(0, 1)
    relay.listen(sys.argv[1])
    relay.run()
    os._exit(0)  # threads wait for connections


if __name__ == "__main__":
    main()
