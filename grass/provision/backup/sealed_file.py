"""A file that only who knows its passphrase can read, and in which no byte can be changed, moved or missing unseen.

A line that names the format, a line with the header (``BackupHeader``), 32 bytes that prove passphrase and header,
then chunks of 64 KiB, each sealed with AES-256-GCM. The nonce of a chunk is its number and whether it is the last; the
digest of the header is its associated data (the STREAM construction). scrypt makes the keys. Used by ``archive``.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from grass.errors import InputError, NotAllowedError, UndecodableError
from grass.wire.backup import BACKUP_HEADER, BackupHeader
from grass.wire.codec import encode

COST = 17
"""Binary logarithm of scrypt's N: 128 MiB and half a second for each passphrase that is tried."""
_MOST_COST = 20
_FORMAT = b"grass-backup 1\n"
_HEADER_MOST = 1 << 16
_CHUNK = 1 << 16
_TAG = 16
_PROOF = 32


class NotABackupError(InputError):
    """The file is no backup of Grass, or of a newer one."""


class AlteredError(InputError):
    """The file is not as it was written: cut off, changed, or put together from parts."""


class PassphraseError(NotAllowedError):
    """The passphrase is another one, or the beginning of the file was changed."""


class Writer:
    """Seals what is written into ``file``. Without ``finish`` the file cannot be opened."""

    def __init__(self, file: BinaryIO, header: BackupHeader, passphrase: str) -> None:
        self._file = file
        self._seals = _Seals(header, passphrase)
        self._pending = bytearray()
        file.write(_first_lines(header) + self._seals.proof)

    def write(self, data: bytes) -> int:
        self._pending += data
        while len(self._pending) > _CHUNK:  # one chunk stays: the last is sealed as such
            self._file.write(self._seals.seal(bytes(self._pending[:_CHUNK])))
            del self._pending[:_CHUNK]
        return len(data)

    def flush(self) -> None:
        """Do nothing: only whole chunks are written."""

    def finish(self) -> None:
        self._file.write(self._seals.seal(bytes(self._pending), last=True))


class Reader:
    """Returns what was sealed. What it returns is as it was written; ``finish`` proves that nothing is missing.

    Raises PassphraseError at once, AlteredError from ``read`` and ``finish``.
    """

    def __init__(self, path: Path, file: BinaryIO, header: BackupHeader, passphrase: str) -> None:
        self._path = path
        self._file = file
        self._seals = _Seals(header, passphrase)
        if not hmac.compare_digest(file.read(_PROOF), self._seals.proof):
            raise PassphraseError(f"{path}: the passphrase is wrong, or the beginning of the file was altered")
        self._next = file.read(_CHUNK + _TAG)
        self._opened = b""
        self._ended = False

    def read(self, size: int) -> bytes:
        while len(self._opened) < size and not self._ended:
            self._opened += self._chunk()
        data, self._opened = self._opened[:size], self._opened[size:]
        return data

    def finish(self) -> None:
        """Read to the end, and throw away what comes."""
        while not self._ended:
            self._chunk()

    def _chunk(self) -> bytes:
        sealed, self._next = self._next, self._file.read(_CHUNK + _TAG)
        self._ended = not self._next
        try:
            return self._seals.open(sealed, last=self._ended)
        except InvalidTag:
            raise AlteredError(
                f"{self._path}: is altered or cut off at byte {self._file.tell() - len(self._next)} or before; "
                "nothing of it is used; take another backup"
            ) from None


@contextmanager
def opened(path: Path) -> Iterator[tuple[BackupHeader, BinaryIO]]:
    """Yield the header, which nothing proves yet, and the file behind it. Raises NotABackupError."""
    with path.open("rb") as file:
        if file.read(len(_FORMAT)) != _FORMAT:
            raise NotABackupError(f"{path}: is no backup that this version of Grass can read")
        line = file.readline(_HEADER_MOST)
        try:
            header = BACKUP_HEADER.decode(line)
            salt = bytes.fromhex(header.salt)
        except (UndecodableError, ValueError) as error:
            raise NotABackupError(f"{path}: its header cannot be read ({error})") from error
        if line != _line(header) or len(salt) != 16 or not 1 <= header.cost <= _MOST_COST:
            raise NotABackupError(f"{path}: its header is damaged; take another backup")
        yield header, file


class _Seals:
    """The keys of one file, and the number of the next chunk."""

    def __init__(self, header: BackupHeader, passphrase: str) -> None:
        made = Scrypt(salt=bytes.fromhex(header.salt), length=64, n=1 << header.cost, r=8, p=1)
        keys = made.derive(passphrase.encode())
        self._header = hashlib.sha256(_first_lines(header)).digest()
        self.proof = hmac.digest(keys[32:], self._header, "sha256")
        self._key = AESGCM(keys[:32])
        self._number = 0

    def seal(self, data: bytes, *, last: bool = False) -> bytes:
        return self._key.encrypt(self._nonce(last), data, self._header)

    def open(self, sealed: bytes, *, last: bool) -> bytes:
        """Raises InvalidTag."""
        return self._key.decrypt(self._nonce(last), sealed, self._header)

    def _nonce(self, last: bool) -> bytes:
        self._number += 1
        return self._number.to_bytes(11, "big") + bytes([last])


def _first_lines(header: BackupHeader) -> bytes:
    return _FORMAT + _line(header)


def _line(header: BackupHeader) -> bytes:
    return encode(header).encode() + b"\n"
