"""The TLS context of `/metrics`, from the files that the settings name. Used by the API server and by `create`.

Every error names the setting and the file: ``metrics.key: /etc/x.key does not belong to …``.
"""

from __future__ import annotations

import ssl
from datetime import datetime, timezone
from pathlib import Path

from cryptography import x509

from grass.errors import InputError, ManifestError, Problem
from grass.model.metrics import MetricsListen


def load_context(listen: MetricsListen, now: float) -> ssl.SSLContext:
    """Return the context of the server. ``now``: wall seconds. Raises ManifestError.

    With ``clients``, a client may send a certificate. Whether it must, the server decides, which also takes a token.
    """
    named = {"metrics.certificate": listen.certificate, "metrics.key": listen.key}
    if listen.clients is not None:
        named["metrics.clients"] = listen.clients
    problems = [Problem(path, why) for path, file in named.items() if (why := _unreadable(file))]
    if problems:
        raise ManifestError(problems)
    _check_time("metrics.certificate", listen.certificate, now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(listen.certificate, listen.key, password=_no_password)
    except InputError as error:
        raise _wrong("metrics.key", f"{listen.key}: {error}") from error
    except ssl.SSLError as error:
        why = f"{listen.key} is not a private key, or not that of {listen.certificate}"
        raise _wrong("metrics.key", f"{why} ({error.reason or error})") from error
    if listen.clients is not None:
        try:
            context.load_verify_locations(listen.clients)
        except ssl.SSLError as error:
            raise _wrong("metrics.clients", f"{listen.clients} has no certificate ({error.reason or error})") from error
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _unreadable(file: str) -> str:
    """Return why the file cannot be read; empty: it can."""
    try:
        Path(file).read_bytes()
    except OSError as error:
        return f"{file}: cannot be read ({error.strerror})"
    return ""


def _check_time(path: str, file: str, now: float) -> None:
    try:
        certificate = x509.load_pem_x509_certificates(Path(file).read_bytes())[0]
    except ValueError as error:
        raise _wrong(path, f"{file} has no certificate in PEM form") from error
    at = datetime.fromtimestamp(now, timezone.utc)
    if at > certificate.not_valid_after_utc:
        raise _wrong(path, f"{file} expired at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; renew it")
    if at < certificate.not_valid_before_utc:
        raise _wrong(path, f"{file} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC")


def _no_password() -> str:
    """Called by OpenSSL for an encrypted key. Without it, OpenSSL would ask on the terminal."""
    raise InputError("is encrypted; the server needs a key without a password")


def _wrong(path: str, message: str) -> ManifestError:
    return ManifestError([Problem(path, message)])
