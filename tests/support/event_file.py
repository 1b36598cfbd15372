"""Writes event files of TensorBoard, as its writers do. Run as a program, it is a task that writes one.

Its first value is the task's ``RATE``.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from pathlib import Path


def _crc(content: bytes) -> int:
    """Return the masked CRC-32C, bit by bit."""
    found = 0xFFFFFFFF
    for byte in content:
        found ^= byte
        for _ in range(8):
            found = (found >> 1) ^ (0x82F63B78 if found & 1 else 0)
    found ^= 0xFFFFFFFF
    return (((found >> 15) | (found << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def record(message: bytes) -> bytes:
    head = struct.pack("<Q", len(message))
    return head + struct.pack("<I", _crc(head)) + message + struct.pack("<I", _crc(message))


def varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def part(number: int, content: bytes) -> bytes:
    """Return a field that has bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(value: bytes, step: int, at: float = 1e9) -> bytes:
    return b"\x09" + struct.pack("<d", at) + b"\x10" + varint(step) + part(5, part(1, value))


def scalar(tag: str, value: float, step: int, at: float = 1e9) -> bytes:
    """Return the record of a scalar."""
    return record(event(part(1, tag.encode()) + b"\x15" + struct.pack("<f", value), step, at))


def name(created: float, host: str = "", pid: int = 0) -> str:
    return f"events.out.tfevents.{int(created)}.{host or socket.gethostname()}.{pid}.0"


def main(folder: str, tag: str, values: list[str]) -> None:
    """Write values, and close the file."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with (Path(folder) / name(time.time(), pid=os.getpid())).open("ab") as file:
        file.write(record(b"\x09" + struct.pack("<d", 1.0) + part(3, b"brain.Event:2")))
        for step, value in enumerate(values):
            file.write(scalar(tag, float(value), step, time.time()))


if __name__ == "__main__":
    main(f"{os.environ['GRASS_OUTPUT']}/{sys.argv[1]}", sys.argv[2], [os.environ["RATE"], *sys.argv[3:]])
