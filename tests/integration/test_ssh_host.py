"""A host over SSH, against a real sshd of this test's own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from grass.api.keyring import Profile
from grass.api.tunnel import Tunnel
from grass.hosts import (
    AccessRefusedError,
    Become,
    CommandTimeoutError,
    HostKeyError,
    HostUnreachableError,
    Secret,
)
from grass.hosts.ssh import SshAccess, SshHost
from grass.manifest.on_premises import HostSettings, Jump, Login
from grass.provision.layout import user_name
from grass.provision.on_premises.machines import open_host, ssh_words
from tests.support.example_run import free_port
from tests.support.needs import missing
from tests.support.waiting import wait_until


def make_key(path: Path) -> str:
    key = Ed25519PrivateKey.generate()
    path.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()))
    path.chmod(0o600)
    return key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH).decode()


class Sshd:
    """In the foreground, on a free port, letting in one key of whoever runs the tests."""

    def __init__(self, folder: Path, program: str) -> None:
        self.folder = folder
        self.key = folder / "user_key"
        (folder / "authorized_keys").write_text(make_key(self.key) + "\n")
        make_key(folder / "host_key")
        self.port = free_port()
        (folder / "config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
        )
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        log = str(self.folder / "log")
        self._process = subprocess.Popen([self._program, "-D", "-f", str(self.folder / "config"), "-E", log])
        wait_until(self._answers, 20, "an answer of sshd")

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(10)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def host(self, key: Path | None = None, **more: object) -> SshHost:
        access = SshAccess("127.0.0.1", user_name(), self.port, str(key or self.key))
        return SshHost(access, self.folder / "client" / "known_hosts", name="there", **more)  # type: ignore[arg-type]


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if program is None:
        missing("sshd", "apt-get install openssh-server")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    server = Sshd(tmp_path, program)
    yield server
    server.stop()


def test_commands_files_and_words_pass_as_they_are(sshd: Sshd, tmp_path: Path) -> None:
    content = os.urandom(2_000_000)
    with sshd.host() as host:
        done = host.run(["sh", "-c", "cat >&2; printf '%s|' \"$@\"; exit 7", "x", "a b", "$(id)", "'", ""], stdin=b"in")
        assert (done.code, done.out, done.err) == (7, "a b|$(id)|'||", "in")
        host.put(content, str(tmp_path / "put"), 0o600)
        assert host.get(str(tmp_path / "put")) == content == (tmp_path / "put").read_bytes()
        assert host.run(["true"], stdin=content).ok


def test_the_key_that_was_seen_first_is_pinned_and_another_one_is_refused(sshd: Sshd) -> None:
    with sshd.host() as host:
        assert host.run(["true"]).ok
    pinned = (sshd.folder / "client" / "known_hosts").read_text()
    assert pinned.startswith(f"[127.0.0.1]:{sshd.port} ssh-ed25519 ") and pinned.count("\n") == 1
    with sshd.host() as again:
        assert again.run(["true"]).ok
    assert (sshd.folder / "client" / "known_hosts").read_text() == pinned

    sshd.stop()
    make_key(sshd.folder / "host_key")
    sshd.start()
    with sshd.host() as changed, pytest.raises(HostKeyError, match=r"SHA256:.*reinstalled.*known_hosts"):
        changed.run(["true"])
    assert (sshd.folder / "client" / "known_hosts").read_text() == pinned


def test_a_key_that_is_not_let_in_is_refused_and_nothing_is_pinned(sshd: Sshd, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    with (
        sshd.host(tmp_path / "other") as host,
        pytest.raises(AccessRefusedError, match=f"refuses the user {user_name()}"),
    ):
        host.run(["true"])
    with sshd.host(tmp_path / "absent") as host, pytest.raises(AccessRefusedError, match="absent does not exist"):
        host.run(["true"])
    assert not (sshd.folder / "client").exists()


def test_a_closed_port_and_an_unknown_name_are_unreachable(sshd: Sshd) -> None:
    sshd.stop()
    with sshd.host() as host, pytest.raises(HostUnreachableError, match=f"no SSH at 127.0.0.1:{sshd.port}"):
        host.run(["true"])
    lost = SshHost(SshAccess("no-such-host.invalid", "root"), sshd.folder / "known_hosts")
    with pytest.raises(HostUnreachableError, match=r"no-such-host\.invalid"):
        lost.run(["true"])
    sshd.start()


def test_what_is_no_ssh_is_told_once_and_by_us(sshd: Sshd, tmp_path: Path) -> None:
    """In a process of its own: pytest listens to every logger."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(b"HTTP/1.0 400 no\r\n" * 1000)

        answer = threading.Thread(target=refuse)
        answer.start()
        script = (
            "import sys; from pathlib import Path; from grass.hosts.ssh import SshAccess, SshHost\n"
            "try: SshHost(SshAccess('127.0.0.1', 'me', int(sys.argv[1])), Path('none')).connect()\n"
            "except Exception as error: print(error)"
        )
        command = [sys.executable, "-c", script, str(server.getsockname()[1])]
        said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=40, check=True)
        answer.join(5)
    assert "127.0.0.1: no SSH at 127.0.0.1:" in said.stdout
    assert said.stderr == ""


def test_a_command_that_does_not_end_is_given_up_and_the_connection_stays_good(sshd: Sshd) -> None:
    with sshd.host() as host:
        with pytest.raises(CommandTimeoutError, match=r"there: `sleep 60` did not end within 0\.5 s"):
            host.run(["sleep", "60"], timeout=0.5)
        assert host.run(["echo", "still"]).out == "still\n"


def test_a_connection_that_broke_is_told_and_the_next_command_makes_a_new_one(sshd: Sshd) -> None:
    with sshd.host() as host:
        with pytest.raises(HostUnreachableError, match="there: the connection broke during"):
            host.run(["sh", "-c", "kill -9 $PPID; sleep 10"])
        assert host.run(["echo", "back"]).out == "back\n"


def test_a_channel_reaches_what_listens_there_and_says_when_nothing_does(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, sshd.host() as host:
        channel = host.open_channel("127.0.0.1", server.getsockname()[1])
        peer, _ = server.accept()
        with peer:
            channel.sendall(b"hello")
            assert peer.recv(5) == b"hello"
        channel.close()
        with pytest.raises(HostUnreachableError, match="there: no tunnel over SSH"):
            host.open_channel("127.0.0.1", 1)


def test_a_tunnel_is_an_ordinary_socket_that_ends_when_either_side_does(sshd: Sshd) -> None:
    way = {
        "address": "127.0.0.1",
        "username": user_name(),
        "port": sshd.port,
        "key": str(sshd.key),
        "known_hosts": str(sshd.folder / "known_hosts"),
    }
    tunnel = Tunnel(Profile("lab", "http://127.0.0.1:1", "me", "key", way))
    with socket.create_server(("127.0.0.1", 0)) as server:
        content = os.urandom(1_000_000)
        with tunnel.open("127.0.0.1", server.getsockname()[1]) as ours:
            ours.settimeout(20)
            peer, _ = server.accept()
            with peer:
                sender = threading.Thread(target=lambda: (peer.sendall(content), peer.shutdown(socket.SHUT_WR)))
                sender.start()
                got = b"".join(iter(lambda: ours.recv(65536), b""))
                sender.join(10)
                assert got == content
                ours.sendall(b"and back")
                ours.shutdown(socket.SHUT_WR)
                assert b"".join(iter(lambda: peer.recv(100), b"")) == b"and back"
    with pytest.raises(HostUnreachableError, match="no tunnel over SSH"):
        tunnel.open("127.0.0.1", 1)
    tunnel.close()


def test_a_password_that_sudo_would_have_to_ask_for_is_never_sent_to_a_user_who_is_root(sshd: Sshd) -> None:
    if os.getuid() != 0:
        pytest.skip("runs as root")
    with sshd.host(become=Become.SUDO, password=Secret("not asked for")) as host:
        assert host.run(["cat"], stdin=b"input", sudo=True).out == "input"


def test_a_host_behind_another_is_reached_through_it_by_grass_and_by_ssh(sshd: Sshd) -> None:
    login = Login(user_name(), sshd.port, str(sshd.key))
    behind = HostSettings("127.0.0.1", login, "node", through=Jump("localhost", login))
    client_dir = sshd.folder / "client"
    with open_host(behind, client_dir) as host:
        assert host.run(["sh", "-c", "echo $SSH_CLIENT"]).check().out.startswith("127.0.0.1 ")
        assert host.server_address() == "127.0.0.1"
    pinned = (client_dir / "known_hosts").read_text()
    assert f"[localhost]:{sshd.port} " in pinned and f"[127.0.0.1]:{sshd.port} " in pinned
    done = subprocess.run([*ssh_words(behind, client_dir), "echo", "here"], capture_output=True, text=True, timeout=20)
    assert done.stdout == "here\n", done.stderr


def test_a_damaged_line_lets_no_other_key_be_pinned(sshd: Sshd) -> None:
    """A machine that loses its power may leave a part of the line. Another one that answers then is not believed."""
    with sshd.host() as host:
        assert host.run(["true"]).ok
    known = sshd.folder / "client" / "known_hosts"
    line = known.read_text()
    sshd.stop()
    make_key(sshd.folder / "host_key")
    sshd.start()
    address = line.index(" ")
    parts = [line[:end] for end in (3, address, address + 8, address + 16, len(line) // 2, len(line) - 3)]
    for text in (*parts, *(f"{part}\n" for part in parts[2:]), "\0" * len(line), f"{line[:-8]}\0\0\0\n"):
        known.write_text(text)
        with sshd.host() as other, pytest.raises(HostKeyError):
            other.run(["true"])
        assert known.read_text() == text
    known.write_text(line)
    with sshd.host() as other, pytest.raises(HostKeyError, match="another machine answers"):
        other.run(["true"])
