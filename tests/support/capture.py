"""What crosses a lab host's network interface, as `tcpdump` would record it, and a search for texts in it."""

from __future__ import annotations

import base64
import struct
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scripts.labkit.host import Host
from tests.support.waiting import wait_until

_FILE, _SSH = "/tmp/capture", 22
_RECORD = """
import signal, socket, struct, sys
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
packets.setsockopt(socket.SOL_SOCKET, 33, 128 << 20)  # SO_RCVBUFFORCE
packets.bind(("eth0", 0))
def end(*_):
    lost = struct.unpack("II", packets.getsockopt(263, 6, 8))[1]  # PACKET_STATISTICS
    file.write(struct.pack("!I", 0) + struct.pack("!I", lost))
    file.close()
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
with open(sys.argv[1], "wb", buffering=1 << 20) as file:
    open(sys.argv[1] + ".begun", "w").close()
    while True:
        packet = packets.recv(1 << 17)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        file.write(struct.pack("!I", len(packet)) + packet)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
"""


@dataclass
class Captured:
    """The bytes of each direction of each TCP connection. SSH is left out. ``lost``: packets that were not recorded."""

    streams: dict[tuple[bytes, bytes, int, int], bytearray] = field(default_factory=dict)
    lost: int = 0

    def ports(self) -> dict[int, int]:
        """Return the bytes that were sent to each port."""
        found: dict[int, int] = defaultdict(int)
        for (_, _, _, port), data in self.streams.items():
            found[port] += len(data)
        return dict(found)

    def finds(self, text: str) -> list[tuple[int, int]]:
        """Return both ports of each connection in which the text is readable, as it is or in base64."""
        forms = [text.encode(), *(_in_base64(text.encode(), shift) for shift in range(3))]
        return [
            (source, target)
            for (_, _, source, target), data in self.streams.items()
            if any(form in data for form in forms)
        ]


@contextmanager
def captured(host: Host, folder: Path) -> Iterator[Captured]:
    """Record what crosses the host's interface until the end of the block; then the result is filled in."""
    host.run("rm", "-f", _FILE, f"{_FILE}.begun", f"{_FILE}.pid")
    start = f'setsid python3 - {_FILE} >/dev/null 2>&1 <<"END" & echo $! > {_FILE}.pid\n{_RECORD}\nEND\n'
    host.sh(start)
    wait_until(lambda: host.attempt("test", "-e", f"{_FILE}.begun").code == 0, 10, "the begin of the capture")
    found = Captured()
    try:
        yield found
    finally:
        host.sh(f'pid=$(cat {_FILE}.pid); kill "$pid"; while [ -e "/proc/$pid" ]; do sleep 0.1; done')
        copy = folder / f"{host.name}.capture"
        subprocess.run(["docker", "cp", f"{host.container}:{_FILE}", str(copy)], check=True, capture_output=True)
        host.run("rm", "-f", _FILE, f"{_FILE}.begun", f"{_FILE}.pid")
        _read(copy.read_bytes(), found)


def _read(data: bytes, into: Captured) -> None:
    at, end = 0, len(data) - 8
    while at < end:
        (length,) = struct.unpack_from("!I", data, at)
        _add(data[at + 4 : at + 4 + length], into)
        at += 4 + length
    into.lost = struct.unpack_from("!I", data, len(data) - 4)[0]


def _add(packet: bytes, into: Captured) -> None:
    if packet[12:14] != b"\x08\x00" or packet[23] != 6:
        return  # not TCP over IPv4, the only one that the hosts of a lab speak
    begin = 14 + (packet[14] & 15) * 4
    source, target = struct.unpack_from("!HH", packet, begin)
    if _SSH not in (source, target):
        payload = packet[begin + (packet[begin + 12] >> 4) * 4 : 14 + struct.unpack_from("!H", packet, 16)[0]]
        into.streams.setdefault((packet[26:30], packet[30:34], source, target), bytearray()).extend(payload)


def _in_base64(data: bytes, shift: int) -> bytes:
    """Return the part of the data in base64 that is the same whatever stands before and behind it."""
    text = base64.b64encode(b"\0" * shift + data)
    return text[4 if shift else 0 : len(text) // 4 * 4 - 4]
