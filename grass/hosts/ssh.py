"""A machine over SSH. The only module that imports paramiko.

One connection carries commands, files, and the channels of an API tunnel. The machine's host key is pinned in
``known_hosts`` (a file of the cluster) at the first connection; every later connection must present the same key. Used
by ``grass.api`` and ``grass.provision.on_premises``.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from grass.hosts.command_line import Secret, command_line, shown
from grass.hosts.errors import AccessRefusedError, CommandTimeoutError, HostKeyError, HostUnreachableError
from grass.hosts.host import Ask, Become, Done, Host, Stdin
from grass.hosts.local import CHUNK, send
from grass.lines import lines_of
from grass.network_address import network_address
from grass.system import clock

if TYPE_CHECKING:
    import paramiko

KNOWN_HOSTS = "known_hosts"
"""File of pinned keys in the ``client/`` folder of a cluster."""
REACH_SECONDS = 5.0
"""Limit for the TCP connection: a reachable machine accepts it in less than a second, all around the world."""
CONNECT_SECONDS = 15.0
"""Limit for each later step: greeting, keys, login, a further channel."""
_ALIVE_SECONDS = 15
"""Seconds between keepalive messages, so that a dead connection is noticed and firewalls keep it open."""
_POLL = 0.5
_PACKET = 1 << 15

logging.getLogger("paramiko").addHandler(logging.NullHandler())
"""Paramiko's errors contain its messages; without a handler it would also print them."""


@dataclass(frozen=True)
class SshAccess:
    """How to log in. ``key``: path of a private key; None: the keys of the SSH agent and in ``~/.ssh``."""

    address: str
    username: str
    port: int = 22
    key: str | None = None
    password: Secret | None = None
    through: SshAccess | None = None
    """Machine from which this one is reached; None: it is reached from here."""

    def __str__(self) -> str:
        return f"{self.username}@" + (self.address if self.port == 22 else network_address(self.address, self.port))


class SshHost(Host):
    """A machine over SSH.

    ``known_hosts``: the file of pinned keys; its folder is created with the first key.
    """

    def __init__(
        self,
        access: SshAccess,
        known_hosts: Path,
        *,
        name: str | None = None,
        become: Become = Become.NONE,
        password: Secret | None = None,
        ask: Ask | None = None,
    ) -> None:
        super().__init__(name or access.address, become=become, password=password, ask=ask)
        self.access = access
        self._known_hosts = known_hosts
        self._client: paramiko.SSHClient | None = None
        through = access.through
        self._through = None if through is None else SshHost(through, known_hosts, name=through.address)
        self._lock = threading.Lock()

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
        if self._through is not None:
            self._through.close()

    def connect(self) -> None:
        """Connect now instead of with the first command. Raises HostUnreachableError, AccessRefusedError."""
        self._transport()

    def server_address(self) -> str:
        """Return the machine's address as this connection uses it."""
        if self.access.through is not None:
            return self.access.address  # the connection's own end is the machine between
        peer: tuple[str, int] = self._transport().getpeername()
        return peer[0]

    def server_key(self) -> str:
        """Return the machine's pinned public key, as ``TYPE BASE64``."""
        key = self._transport().get_remote_server_key()
        return f"{key.get_name()} {key.get_base64()}"

    def open_channel(self, host: str, port: int) -> paramiko.Channel:
        """Open a stream to ``host:port`` as seen from the machine. Raises HostUnreachableError if nothing listens
        there."""
        import paramiko

        try:
            return self._transport().open_channel(
                "direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=CONNECT_SECONDS
            )
        except (paramiko.SSHException, EOFError, OSError) as error:
            to = network_address(host, port)
            raise HostUnreachableError(f"{self.name}: no tunnel over SSH to {to} ({error})") from error

    def _execute(
        self, argv: Sequence[str], stdin: Stdin, before: bytes, timeout: float, output: IO[bytes] | None = None
    ) -> Done:
        import paramiko

        try:
            channel = self._open_session()
            channel.exec_command(command_line(argv).encode())
            return self._talk(channel, argv, stdin, before, timeout, output)
        except (paramiko.SSHException, EOFError, ConnectionError) as error:
            self.close()
            raise HostUnreachableError(f"{self.name}: the connection broke during `{shown(argv)}` ({error})") from error

    def _open_session(self) -> paramiko.Channel:
        """Open a channel for one command; connect again if the connection broke since the last one. Nothing was sent
        yet, so this repeats nothing."""
        import paramiko

        try:
            return self._transport().open_session(timeout=CONNECT_SECONDS)
        except (paramiko.SSHException, EOFError, ConnectionError):
            self.close()
            return self._transport().open_session(timeout=CONNECT_SECONDS)

    def _talk(
        self,
        channel: paramiko.Channel,
        argv: Sequence[str],
        stdin: Stdin,
        before: bytes,
        timeout: float,
        output: IO[bytes] | None,
    ) -> Done:
        feeder = threading.Thread(target=_feed, args=(channel, before, stdin), daemon=True)
        errors: list[bytes] = []
        listener = threading.Thread(target=_read, args=(channel.recv_stderr, errors), daemon=True)
        until = clock.steady() + timeout
        channel.settimeout(_POLL)
        feeder.start()
        listener.start()
        pieces: list[bytes] = []
        take: Callable[[bytes], object] = output.write if output is not None else pieces.append
        try:
            while piece := self._piece(channel, until, argv, timeout):
                take(piece)
            if not channel.status_event.wait(max(0.0, until - clock.steady())):
                raise CommandTimeoutError(f"{self.name}: `{shown(argv)}` did not end within {timeout:g} s")
            listener.join(10)
            code = channel.recv_exit_status()
        finally:
            channel.close()
            feeder.join(5)
        if code < 0 and not self._alive():
            raise EOFError("the connection was lost before the command ended")
        out, err = b"".join(pieces), b"".join(errors)
        code = code if code >= 0 else 255
        return Done(tuple(argv), code, out.decode(errors="replace"), err.decode(errors="replace"), out, self.name)

    def _piece(self, channel: paramiko.Channel, until: float, argv: Sequence[str], timeout: float) -> bytes:
        while True:
            try:
                return channel.recv(CHUNK)
            except TimeoutError:
                if clock.steady() > until:
                    raise CommandTimeoutError(
                        f"{self.name}: `{shown(argv)}` did not end within {timeout:g} s"
                    ) from None

    def _alive(self) -> bool:
        transport = self._client.get_transport() if self._client else None
        return transport is not None and transport.is_active()

    def _transport(self) -> paramiko.Transport:
        with self._lock:
            if not self._alive():
                self.close()
                self._client = self._connected()
            assert self._client is not None
            transport = self._client.get_transport()
            assert transport is not None
            return transport

    def _connected(self) -> paramiko.SSHClient:
        import paramiko

        access, client = self.access, paramiko.SSHClient()
        where = network_address(access.address, access.port)
        pinned = self._pinned(client)
        try:
            client.connect(
                access.address,
                access.port,
                access.username,
                password=access.password.reveal() if access.password else None,
                key_filename=str(Path(access.key).expanduser()) if access.key else None,
                allow_agent=access.key is None,
                look_for_keys=access.key is None,
                sock=self._stream(),
                timeout=CONNECT_SECONDS,
                banner_timeout=CONNECT_SECONDS,
                auth_timeout=CONNECT_SECONDS,
            )
        except paramiko.BadHostKeyException as error:
            client.close()
            raise HostKeyError(self._changed(error)) from error
        except (paramiko.AuthenticationException, paramiko.PasswordRequiredException) as error:
            client.close()
            raise AccessRefusedError(f"{self.name}: {where} refuses {self._offered()} ({error})") from error
        except FileNotFoundError as error:
            client.close()
            raise AccessRefusedError(f"{self.name}: the key {error.filename} does not exist") from error
        except socket.gaierror as error:
            raise HostUnreachableError(
                f"{self.name}: the address {access.address!r} is unknown ({error.strerror})"
            ) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            client.close()
            said = str(error) or type(error).__name__
            raise HostUnreachableError(
                f"{self.name}: no SSH at {where} ({said}); is the machine up, and is this the port of its sshd?"
            ) from error
        self._pin(client, pinned)
        transport = client.get_transport()
        assert transport is not None
        transport.set_keepalive(_ALIVE_SECONDS)
        return client

    def _stream(self) -> socket.socket | paramiko.Channel:
        """Open the stream that carries the connection. Raises what ``open_channel`` does, OSError."""
        if self._through is not None:
            return self._through.open_channel(self.access.address, self.access.port)
        return socket.create_connection((self.access.address, self.access.port), REACH_SECONDS)

    def _offered(self) -> str:
        with_what = [f"the key {self.access.key}"] if self.access.key else ["the keys of the agent and of ~/.ssh"]
        if self.access.password:
            with_what.append("the password")
        return f"the user {self.access.username} with {' and '.join(with_what)}"

    def _host_id(self) -> str:
        return host_id(self.access.address, self.access.port)

    def _pinned(self, client: paramiko.SSHClient) -> bool:
        import paramiko

        client.set_missing_host_key_policy(paramiko.AutoAddPolicy())  # in memory; `_pin` writes the file
        if not self._known_hosts.exists():
            return False
        try:
            client.load_host_keys(str(self._known_hosts))
        except (paramiko.hostkeys.InvalidHostKey, UnicodeError) as error:
            raise HostKeyError(self._damaged()) from error
        client._host_keys_filename = None  # type: ignore[attr-defined] # it would be rewritten without a lock
        pinned = client.get_host_keys().lookup(self._host_id()) is not None
        text = self._known_hosts.read_text()
        named = any(self._host_id() in line.partition(" ")[0].split(",") for line in lines_of(text))
        if (named and not pinned) or (text and not text.endswith("\n")):
            raise HostKeyError(self._damaged())  # paramiko skips what it cannot read: any key would be pinned then
        return pinned

    def _pin(self, client: paramiko.SSHClient, pinned: bool) -> None:
        """Pin the key after the login succeeded, not before."""
        if pinned:
            return
        transport = client.get_transport()
        assert transport is not None
        key = transport.get_remote_server_key()
        self._known_hosts.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._known_hosts.open("a") as file:
            file.write(f"{self._host_id()} {key.get_name()} {key.get_base64()}\n")
            file.flush()
            os.fsync(file.fileno())

    def _damaged(self) -> str:
        return (
            f"{self.name}: {self._known_hosts} is damaged, and the pinned key of {self._host_id()} with it; nothing "
            f"was sent to it. Put its line in order: `ssh-keyscan {self.access.address}` prints it, to be compared "
            "with `ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` on its console"
        )

    def _changed(self, error: paramiko.BadHostKeyException) -> str:
        return (
            f"{self.name}: the host key of {self._host_id()} is {fingerprint(error.key)}, but "
            f"{fingerprint(error.expected_key)} was pinned when the cluster first spoke to it. Either the machine was "
            f"reinstalled, or another machine answers instead; nothing was sent to it. If it is the right one "
            f"(compare `ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` on its console), remove its line from "
            f"{self._known_hosts}"
        )


def host_id(address: str, port: int) -> str:
    """Return the name of a machine in ``known_hosts``."""
    return address if port == 22 else f"[{address}]:{port}"


def fingerprint(key: paramiko.PKey) -> str:
    """Return the fingerprint in the format of `ssh-keygen -l`."""
    import base64
    import hashlib

    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"SHA256:{digest} ({key.get_name()})"


def _feed(channel: paramiko.Channel, before: bytes, stdin: Stdin) -> None:
    """Write the input. A command need not read all of it, so errors are ignored."""
    with suppress(OSError, EOFError):
        send(lambda piece: _send_all(channel, piece), before, stdin)
    with suppress(OSError, EOFError):
        channel.shutdown_write()


def _send_all(channel: paramiko.Channel, piece: bytes) -> None:
    """Send a piece. ``sendall`` would give up at the channel's timeout; this continues while the channel is open."""
    sent = 0
    while sent < len(piece):
        try:
            sent += channel.send(piece[sent : sent + _PACKET])
        except TimeoutError:
            if channel.closed:
                raise


def _read(receive: Callable[[int], bytes], pieces: list[bytes]) -> None:
    while True:
        try:
            piece = receive(CHUNK)
        except TimeoutError:
            continue
        except (OSError, EOFError):
            return
        if not piece:
            return
        pieces.append(piece)
