"""Which variables hold secrets, and how they are shown. Pure. Used wherever environments leave the API.

Used by ``grass.cli.dashboard_start``, ``grass.manifest.secret_text``, ``master.api.views`` and ``node.causes.cause``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

REDACTED = "[REDACTED]"
_INSIDE = r"SECRET|TOKEN|PASSW|PASSPHRASE|CREDENTIAL|(?:API|ACCESS|PRIVATE|SIGNING|ENCRYPTION|AUTH)_?KEY"
_AT_END = r"PWD|PASS|KEY|AUTH"
_SECRET = re.compile(rf"{_INSIDE}|(?:^|_)(?:{_AT_END})$", re.IGNORECASE)
_LOGIN = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]+(?=@)")
_PUBLIC = frozenset({"PWD", "OLDPWD"})
_SAID = re.compile(
    rf"\b(\w*(?:{_INSIDE})\w*|(?:\w+_)?(?:{_AT_END}))(\s*[=:]\s*)('[^'\n]*'|\"[^\"\n]*\"|[^\s'\"]+)", re.IGNORECASE
)
_OPTION = re.compile(r"(?<!\S)--([\w-]+)(\s+|=)(?!-)('[^'\n]*'|\"[^\"\n]*\"|\S+)")
_TOKEN = re.compile(
    r"\b(?:(?<=Bearer )|(?<=Basic ))[\w.~+/=-]{6,}|\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_\w{20,}|glpat-[\w-]{16,}"
    r"|hf_\w{20,}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?)"
)
"""Tokens that tell by their form what they are."""
_WORDS = re.compile(r"tokens|tokeni[sz]\w*", re.IGNORECASE)
_ERROR_NAME = re.compile(r"(?:Error|Exception|Warning)$")
_SHORTEST = 4
"""Characters of a secret below which it is no more hidden where it stands in other words."""


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


def without_named(text: str) -> str:
    """Return the text without what it gives to a secret name: ``API_KEY=…``, ``password: …``."""
    return _SAID.sub(lambda said: f"{said[1]}{said[2]}{REDACTED}" if _names_secret(said[1]) else said[0], text)


def hide_secrets(text: str, values: Collection[str] = ()) -> str:
    """Return a line of a program's output without secrets. ``values``: those that are known."""
    for value in sorted((each for each in values if len(each) >= _SHORTEST), key=len, reverse=True):
        text = text.replace(value, REDACTED)
    return _OPTION.sub(_without_option, without_named(_TOKEN.sub(REDACTED, without_login(text))))


def shown_parameter(name: str, text: str, values: Collection[str] = ()) -> str:
    """Return a parameter that a program said of itself without secrets; ``tokenizer`` and ``max_tokens`` are none."""
    return REDACTED if is_secret(_WORDS.sub("", name)) else hide_secrets(text, values)


def _without_option(said: re.Match[str]) -> str:
    return f"--{said[1]}{said[2]}{REDACTED}" if is_secret(said[1].replace("-", "_")) else said[0]


def _names_secret(name: str) -> bool:
    return is_secret(name) and not _ERROR_NAME.search(name)
