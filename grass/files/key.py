"""The key by which a person's machine reaches the files of a cluster over SSH, and the lines that accept it.

The key pair is made on that machine. The public half goes to the master, which writes it into ``authorized_keys`` of
its user `grass`, with a forced command that names the user (``grass.provision.files_command``). Used by ``grass.api``,
``grass.provision`` and ``grass.provision.on_premises``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Iterable
from pathlib import Path

from grass.errors import InputError
from grass.lines import lines_of
from grass.system.atomic_file import replace_file
from grass.system.exclusive import exclusive

FILES_KEY = "files_key"
"""File in the cluster's ``client/`` folder."""
_KIND = "ssh-ed25519"
_BYTES = 32


def files_key(client: Path) -> str:
    """Return the public key as ``ssh-ed25519 BASE64``. Make the key pair if there is none."""
    return key_pair(client / FILES_KEY)


def key_pair(path: Path) -> str:
    """Return the public half of the key in a file, as ``ssh-ed25519 BASE64``. Make the file if there is none."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if not path.exists():
        made = Ed25519PrivateKey.generate()
        text = made.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, text)
    key = form.load_ssh_private_key(path.read_bytes(), None)
    return key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH).decode()


def check_files_key(line: str) -> str:
    """Return the key as ``ssh-ed25519 BASE64``. Raises InputError: it is something else, or more than that."""
    kind, _, encoded = line.partition(" ")
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        blob = b""
    head = struct.pack(">I", len(_KIND)) + _KIND.encode() + struct.pack(">I", _BYTES)
    if kind != _KIND or len(blob) != len(head) + _BYTES or not blob.startswith(head):
        raise InputError(f"files_key: must be an Ed25519 key in the form `{_KIND} BASE64`, got {line[:80]!r}")
    return f"{_KIND} {base64.b64encode(blob).decode()}"


def fingerprint(line: str) -> str:
    """Return the fingerprint of a public key as `ssh-keygen -l` shows it."""
    digest = hashlib.sha256(base64.b64decode(line.split(" ")[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def marker(cluster: str) -> str:
    """Return the comment of the cluster's lines in ``authorized_keys``. Several clusters share the file."""
    return f"grass-files-{cluster}"


def accepted(before: str, cluster: str, lines: Iterable[str]) -> str:
    """Return the content of ``authorized_keys`` in which ``lines`` are the cluster's only lines. Pure."""
    end = f" {marker(cluster)}"
    others = [line for line in lines_of(before) if not line.endswith(end)]
    return "".join(f"{line}\n" for line in (*others, *(f"{line}{end}" for line in lines)))


def accept(file: Path, cluster: str, lines: Iterable[str]) -> None:
    """Make ``lines`` the cluster's only lines in the file ``authorized_keys``. Raises OSError."""
    with exclusive(file.with_name("authorized_keys.lock")):
        before = file.read_text() if file.exists() else ""
        after = accepted(before, cluster, lines)
        if after != before:
            replace_file(file, after, sync=True)
