"""The one module that makes random ids and secrets. Pure code takes them as arguments. Used by all packages."""

from __future__ import annotations

import secrets


def run_id(name: str) -> str:
    """Return the id of a new run of job ``name``: the name and 8 hexadecimal digits."""
    return f"{name}-{secrets.token_hex(4)}"


def operation_id() -> str:
    """Return the id of a new operation on a job: 8 hexadecimal digits."""
    return secrets.token_hex(4)


def request_id() -> str:
    """Return 32 hexadecimal digits that nobody can guess."""
    return secrets.token_hex(16)


def mark() -> str:
    """Return 16 hexadecimal digits that mark what belongs together."""
    return secrets.token_hex(8)


def password() -> str:
    """Return a password of 256 bits that needs no quoting in URLs, configuration files and shells."""
    return secrets.token_urlsafe(32)
