"""The cluster's certificate authority: its key on the master, and certificates of hosts that it signs.

A host makes its own key and sends a request with the public half; the name in its certificate is what the master
knows it by, never what the request says. Used by ``master_certificate``, ``joins`` and ``host_certificate``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from grass.errors import CertificateError, InputError
from grass.system.atomic_file import replace_file
from grass.system.private_file import write_private
from grass.tls_files import BACKDATED, TlsFiles

AUTHORITY_DAYS = 7300
MASTER_DAYS = 400
NODE_DAYS = 2
"""Short, because nothing but the other nodes' API learns that a node was removed: its last certificate opens
connections to other servers until it expires. Each is renewed after half of its time."""
_KEY = "ca.key"


@dataclass(frozen=True)
class Authority:
    """Signs certificates of one cluster's hosts."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> str:
        return _pem(self.certificate)

    def sign(self, request: str, identity: str, now: float, days: float) -> str:
        """Return a certificate for the key of a request (PEM), with the owner's name.

        Raises InputError: the text is not a request, or not signed with its own key."""
        names = [x509.UniformResourceIdentifier(identity)]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        own = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
        public = _public_key(request)
        built = _builder(_name(identity), self.certificate.subject, public, now, days)
        built = built.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
        built = built.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        built = built.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        built = built.add_extension(_usage(signs_certificates=False), critical=True)
        known = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)
        return _pem(built.add_extension(known, critical=False).sign(self.key, hashes.SHA256()))


def make_authority(folder: Path, cluster: str, now: float) -> Authority:
    """Return the authority in ``folder`` of the master, made if the folder has none.

    Raises CertificateError if one of its two files is missing: another authority would shut out every node.
    """
    files, key_file = TlsFiles(folder), folder / _KEY
    there = [path for path in (key_file, files.authority) if path.exists()]
    if there:
        missing = {key_file, files.authority} - set(there)
        if missing:
            raise CertificateError(
                f"{missing.pop()}: not found; restore the file from a backup, or remove {folder} to make a new "
                "authority: then every node has to leave and join again"
            )
        return load_authority(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"Grass cluster {cluster}")
    built = _builder(name, name, key.public_key(), now, AUTHORITY_DAYS)
    built = built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    built = built.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    built = built.add_extension(_usage(signs_certificates=True), critical=True)
    authority = Authority(key, built.sign(key, hashes.SHA256()))
    write_private(files.authority.with_suffix(".draft"), authority.pem)
    write_private(key_file, _key_pem(key))
    files.authority.with_suffix(".draft").replace(files.authority)
    return authority


def load_authority(folder: Path) -> Authority:
    """Return the authority in ``folder``. Raises CertificateError."""
    path = folder / _KEY
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
        path = TlsFiles(folder).authority
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise CertificateError(
            f"{path}: cannot be read ({error.strerror}); no certificate can be made until it is restored"
        ) from error
    except (ValueError, TypeError) as error:
        raise CertificateError(f"{path}: damaged; restore it from a backup") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise CertificateError(f"{path}: does not belong to {folder / _KEY}; restore both from one backup")
    return Authority(key, certificate)


def new_key() -> str:
    return _key_pem(ec.generate_private_key(ec.SECP256R1()))


def request_for(key: str) -> str:
    """Return the request (PEM) for a certificate of a key (PEM). It names nobody: the master knows the caller."""
    private = _private_key(key)
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .sign(private, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
        .decode()
    )


def install(files: TlsFiles, key: str, certificate: str, authority: str) -> None:
    """Write the files of a host. Raises CertificateError, and changes nothing, if they do not belong together."""
    made, root = _certificate(certificate), _certificate(authority)
    if made.public_key() != _private_key(key).public_key():
        raise CertificateError(f"{files.host}: the master's certificate is for another key; nothing was changed")
    try:
        made.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise CertificateError(f"{files.host}: not signed by the authority of this cluster; nothing was changed") from (
            error
        )
    files.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(files.authority, authority, mode=0o644, sync=True)
    write_private(files.host, key + certificate)


def why_due(files: TlsFiles, now: float) -> str:
    """Return why the host needs a new certificate; empty: it does not."""
    try:
        root = _certificate(files.authority.read_text())
        text = files.host.read_text()
        own = _certificate(text)
        own.verify_directly_issued_by(root)
        if _private_key(text).public_key() != own.public_key():
            return "key and certificate do not belong together"
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    except (OSError, ValueError, TypeError, InvalidSignature, CertificateError) as error:
        return f"damaged, or of another authority ({error or type(error).__name__})"
    left = own.not_valid_after_utc - datetime.fromtimestamp(now, timezone.utc)
    if left < (own.not_valid_after_utc - own.not_valid_before_utc) / 2:
        return f"valid until {own.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    return ""


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: float, days: float
) -> x509.CertificateBuilder:
    at = datetime.fromtimestamp(now, timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - timedelta(seconds=BACKDATED))
        .not_valid_after(at + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    """Return a name for people; X.509 allows 64 characters. Programs compare the whole URI."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _public_key(request: str) -> ec.EllipticCurvePublicKey:
    try:
        asked = x509.load_pem_x509_csr(request.encode())
        key = asked.public_key()
        if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name == "secp256r1" and asked.is_signature_valid:
            return key
    except ValueError as error:
        raise InputError(f"request: not a certificate request in PEM form ({error})") from error
    raise InputError("request: must be for a key of the curve P-256, and signed with it")


def _private_key(text: str) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(text.encode(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the key is of another kind than Grass makes")
    return key


def _certificate(text: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(text.encode())
    except ValueError as error:
        raise CertificateError("the certificate is not in PEM form") from error


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization
    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()).decode()
