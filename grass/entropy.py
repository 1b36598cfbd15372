"""The one module that makes ids and secrets; everything else takes them as arguments."""

from __future__ import annotations

import secrets


def run_id(name: str) -> str:
    """The id of one run of job ``name``: the name and 8 hexadecimal digits."""
    return f"{name}-{secrets.token_hex(4)}"


def request_id() -> str:
    return secrets.token_hex(16)


def password() -> str:
    """256 bits, safe in URLs, configuration files and shells."""
    return secrets.token_urlsafe(32)
