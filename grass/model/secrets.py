"""Which variables hold secrets, and how they are shown. Pure. Used wherever environments leave the API.

Used by ``grass.cli.dashboard_start``, ``grass.manifest.secret_text`` and ``master.api.views``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

REDACTED = "[REDACTED]"
_SECRET = re.compile(
    r"SECRET|TOKEN|PASSW|PASSPHRASE|CREDENTIAL|(?:API|ACCESS|PRIVATE|SIGNING|ENCRYPTION|AUTH)_?KEY|(?:^|_)(?:PWD|PASS|KEY|AUTH)$",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]+(?=@)")
_PUBLIC = frozenset({"PWD", "OLDPWD"})


def is_secret(name: str) -> bool:
    """Return whether a variable of this name is taken for a secret."""
    return name not in _PUBLIC and _SECRET.search(name) is not None


def redacted(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without secrets: by their names, and passwords inside URLs."""
    return {name: REDACTED if is_secret(name) else without_login(value) for name, value in env.items()}


def hidden(env: Mapping[str, str]) -> dict[str, str]:
    """Return the names of the variables, without their values: for those who neither own the job nor administer."""
    return dict.fromkeys(env, REDACTED)


def without_login(text: str) -> str:
    """Return the text without passwords inside URLs."""
    return _LOGIN.sub(rf"\1:{REDACTED}", text)
