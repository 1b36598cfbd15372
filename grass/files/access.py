"""Access to a cluster's share from this machine: as a local folder, or over SSH on the master host.

Used by ``grass.api``, ``grass.cli``, ``grass.provision`` and this package.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar, Protocol, cast

import msgspec

from grass.config import ClusterConfig
from grass.errors import (
    ConflictError,
    GrassError,
    InputError,
    NotAllowedError,
    NotFoundError,
    UndecodableError,
    UnreachableError,
)
from grass.files import rights, serve, share
from grass.files.operations import REPLY, A, AnyOperation, Operation, ReadFile
from grass.lines import lines_of
from grass.mode_file import is_inside
from grass.model.names import is_job_id
from grass.network_address import network_address
from grass.system.atomic_file import replace_file
from grass.system.environment import cluster_home
from grass.wire.codec import Form, encode, indented

PROFILE = "files.json"
"""File in the cluster's ``client/`` folder: the fields of ``FilesAccess``, written by `grass create`."""

_CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
)
"""OpenSSH's default ciphers (ssh_config(5)), in another order.

If both ends have AES in hardware, GCM is a quarter faster than ChaCha20, OpenSSH's first choice. All ciphers are named,
because `^` needs a newer client than some users have.
"""

_PIECE = 256 * 1024
_LONGEST_REPLY = 64 * 1024
"""Bytes of the line before a file's content."""
_PATTERN = frozenset("*?[]\\")
_KINDS = (InputError, NotFoundError, ConflictError, NotAllowedError)
_ERRORS: dict[str, type[GrassError]] = {each.code: each for each in _KINDS}


class ShareAccess(Protocol):
    """Access to a share.

    ``rsync_path(module, path)`` is the argument for rsync, used with ``rsync_options(path)``. ``ask`` carries out one
    operation. ``read`` opens a file and yields its content, piece by piece. ``seen_after``: seconds until all nodes see
    what was changed.
    """

    seen_after: ClassVar[float]

    def rsync_options(self, path: str = "") -> list[str]: ...

    def rsync_path(self, module: str, path: str) -> str: ...

    def ask(self, operation: Operation[A]) -> A: ...

    def read(self, path: str) -> AbstractContextManager[Content]: ...


@dataclass(frozen=True)
class Content:
    """A file that is open. ``size``: bytes, when it was opened."""

    size: int
    pieces: Iterator[bytes]


class FilesAccess(msgspec.Struct, frozen=True):
    """Access data of the share by SSH, with a key that permits nothing else. Paths are those of this machine."""

    host: str
    port: int
    user: str
    key: str
    known_hosts: str

    def save(self, client_dir: Path) -> None:
        replace_file(client_dir / PROFILE, indented(self))


FILES_ACCESS: Form[FilesAccess] = Form(FilesAccess)


@dataclass(frozen=True)
class LocalShare:
    """Share of a cluster on this machine."""

    seen_after: ClassVar[float] = 0.0
    folder: Path

    def rsync_options(self, path: str = "") -> list[str]:
        return []

    def rsync_path(self, module: str, path: str) -> str:
        return f"{self.folder}/{_below(module)}{path}"

    def ask(self, operation: Operation[A]) -> A:
        return cast(A, share.carry_out(self.folder, cast(AnyOperation, operation)))

    @contextmanager
    def read(self, path: str) -> Iterator[Content]:
        with share.open_file(self.folder, path) as file:
            yield Content(os.fstat(file.fileno()).st_size, _pieces(file))


@dataclass(frozen=True)
class SshShare:
    """Share of a cluster whose master is reached by SSH."""

    seen_after: ClassVar[float] = 2.0
    """A mount through FUSE keeps the list of a folder for 1 s, and the kernel what it learned from it for 1 s more."""
    access: FilesAccess

    def rsync_options(self, path: str = "") -> list[str]:
        """Return rsync's options for a transfer. One of a job's folder names the job when it logs in."""
        job = rights.job_of(path)
        return ["-e", shlex.join(self._ssh()), *([f"--rsync-path={serve.rsync_of(job)}"] if is_job_id(job) else [])]

    def rsync_path(self, module: str, path: str) -> str:
        """Return rsync's argument for a path.

        Raises InputError: rsync's daemon would treat the path as a pattern, and read or overwrite every match.
        """
        if marks := sorted(_PATTERN.intersection(path)):
            raise InputError(
                f"{path!r}: rsync on the master takes {' '.join(marks)} for a pattern; choose another name there, or "
                "name the folder in which it lies"
            )
        host = f"[{self.access.host}]" if ":" in self.access.host else self.access.host
        return f"{self.access.user}@{host}::{module}/./{path}"  # so that a path that begins with - is not an option

    def ask(self, operation: Operation[A]) -> A:
        command = [*self._ssh(), f"{self.access.user}@{self.access.host}", serve.COMMAND]
        done = subprocess.run(command, input=encode(operation), capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return cast(A, operation.answer.decode(_answer(done.stdout)))
        raise self._failed(done.stderr)

    @contextmanager
    def read(self, path: str) -> Iterator[Content]:
        command = [*self._ssh(), f"{self.access.user}@{self.access.host}", serve.COMMAND]
        with tempfile.TemporaryFile() as request, tempfile.TemporaryFile() as errors:
            request.write(encode(ReadFile(path)).encode())
            request.seek(0)
            process = subprocess.Popen(command, stdin=request, stdout=subprocess.PIPE, stderr=errors)
            output = cast(IO[bytes], process.stdout)
            try:
                head = output.readline(_LONGEST_REPLY)
                if not head.endswith(b"\n"):
                    process.wait()
                    errors.seek(0)
                    raise self._failed(errors.read().decode(errors="replace"))
                size = ReadFile.answer.decode(_answer(head.decode(errors="replace"))).size
                yield Content(size, _pieces(output))
            finally:
                process.terminate()  # it has ended, unless the reader has had enough
                output.close()
                process.wait()

    def _failed(self, said: str) -> UnreachableError:
        where = f"{self.access.user}@{network_address(self.access.host, self.access.port)}"
        return UnreachableError(f"ssh to {where} for the files of the cluster failed: {_last_line(said)}")

    def _ssh(self) -> list[str]:
        access = self.access
        options = {
            "BatchMode": "yes",
            "IdentitiesOnly": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": access.known_hosts,
            "GlobalKnownHostsFile": "/dev/null",
            "ConnectTimeout": "10",
            "ServerAliveInterval": "15",
            "Compression": "no",
            "Ciphers": ",".join(_CIPHERS),
        }
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return [_program("ssh", "openssh-client"), "-F", "none", "-T", "-i", access.key, "-p", str(access.port), *words]


def access_to(cluster: str, home: Path | None = None) -> ShareAccess:
    """Return the access to the share of a cluster, by its name. Raises NotFoundError, as ``access_in``."""
    return access_in(cluster_home(cluster, home))


def access_in(folder: Path) -> ShareAccess:
    """Return the access to the share of the cluster in ``folder``. Raises NotFoundError: this machine has none."""
    try:
        return SshShare(FILES_ACCESS.decode((folder / "client" / PROFILE).read_bytes()))
    except FileNotFoundError:
        pass
    except UndecodableError as error:
        raise InputError(f"{folder}/client/{PROFILE} is damaged: {error}") from error
    if is_inside(folder):
        raise NotFoundError(
            f"cluster {folder.name}: its files are in a volume in Kubernetes, which no command reaches; with a `claim` "
            "in its settings, `grass data pull --node` reaches the files of its namespace"
        )
    try:
        return LocalShare(ClusterConfig.load(folder / "cluster.json").data_dir)
    except FileNotFoundError:
        raise NotFoundError(
            f"cluster {folder.name}: this machine has no access to its files; use the machine that created it, or, "
            "if the cluster is on several hosts, `grass login` (`grass login --rotate` adds the key for files)"
        ) from None


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(_PIECE), b"")


def rsync_program() -> str:
    return _program("rsync", "rsync")


def _program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise InputError(f"{name} is not installed on this machine; install it (`apt-get install {package}`)")
    return found


def _below(module: str) -> str:
    folder = serve.MODULES[module]
    return f"{folder}/" if folder else ""


def _answer(text: str) -> bytes:
    """Return the answer in a reply, as JSON."""
    try:
        reply = REPLY.decode(text)
    except UndecodableError as error:
        raise GrassError(f"the master host answered {text[:200]!r} instead of what was asked for") from error
    if reply.error is not None:
        raise _ERRORS.get(reply.error.code, GrassError)(reply.error.message)
    return bytes(reply.answer)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in lines_of(text) if line.strip()]
    return lines[-1] if lines else "it said nothing"
