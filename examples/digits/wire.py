"""Messages between worker and server: a dict of numpy arrays, as a length and an .npz archive.

Not pickle: whoever can reach the port could then run code in the server. An .npz read with ``allow_pickle=False``
holds numbers and text and nothing else, and a length beyond ``LARGEST`` is refused before it is read.
"""

import io
import os
import socket
import struct
import time
from pathlib import Path

import numpy as np

LARGEST = 16 * 1024 * 1024


def send(connection, **arrays):
    archive = io.BytesIO()
    np.savez(archive, **arrays)
    connection.sendall(struct.pack("!I", archive.tell()) + archive.getvalue())


def receive(connection):
    """The next message; ConnectionError when the other side is gone."""
    (length,) = struct.unpack("!I", _read(connection, 4))
    if length > LARGEST:
        raise ConnectionError(f"refused a message of {length} bytes")
    with np.load(io.BytesIO(_read(connection, length)), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _read(connection, length):
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(length - len(parts))
        if not part:
            raise ConnectionError("the other side closed the connection")
        parts += part
    return bytes(parts)


def find(component, port, patience=30.0):
    """Where replica 0 of ``component`` listens, from the lines `task host port name` that Grass keeps in a file.

    The file is replaced as tasks come and go, so it is read again until the line is there.
    """
    task = f"{os.environ['GRASS_JOB']}.{component}.0"
    until = time.monotonic() + patience
    while time.monotonic() < until:
        with Path(os.environ["GRASS_ADDRESSES"]).open() as file:
            for line in file:
                fields = line.split()
                if len(fields) == 4 and fields[0] == task and fields[3] == port:
                    return fields[1], int(fields[2])
        time.sleep(0.05)
    raise SystemExit(f"{task} has not published port {port!r} for {patience:.0f} s")


def connect(component, port, patience=30.0):
    """A connection to it. A server that restarts is away for a moment, and may come back elsewhere."""
    until = time.monotonic() + patience
    while True:
        try:
            connection = socket.create_connection(find(component, port, patience), timeout=60)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
