"""Certificates for tests: an authority that signs them, as files, and clients that a server should refuse."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from grass.api import certificates, master_certificate
from grass.config import ClusterConfig
from grass.tls_files import TlsFiles

NOW = datetime.now(timezone.utc)


class Authority:
    """Signs certificates. Files are ``<name>.crt`` and ``<name>.key`` in ``folder``."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        built = self._builder(self._name, self._key, 1).add_extension(constraints, critical=True)
        self.path = folder / f"{name}.crt"
        self._write(self.path, built)

    def issue(self, name: str, days: float = 1, password: bytes | None = None) -> tuple[str, str]:
        """Return the paths of a new certificate for 127.0.0.1 and its key; valid until ``days`` from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        address = x509.SubjectAlternativeName([x509.DNSName("localhost")])
        crt, pem = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        self._write(crt, self._builder(subject, key, days).add_extension(address, critical=False))
        lock = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        pem.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock))
        return str(crt), str(pem)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: float) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - timedelta(days=2))
            .not_valid_after(NOW + timedelta(days=days))
        )

    def _write(self, path: Path, builder: x509.CertificateBuilder) -> None:
        path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


@dataclass(frozen=True)
class ClusterFiles:
    """The files of a cluster's master and nodes, each in its own folder: ``<folder>/<name>/tls``."""

    config: ClusterConfig
    nodes: dict[str, TlsFiles]

    @property
    def master(self) -> TlsFiles:
        return self.config.tls_files

    def add(self, folder: Path, node: str, days: float = 0) -> TlsFiles:
        """Return a certificate of the node that was made ``days`` ago."""
        made, key = TlsFiles(folder / node / "tls"), certificates.new_key()
        at = NOW.timestamp() - days * 86_400
        signed = master_certificate.sign_for_node(self.config, node, certificates.request_for(key), at)
        certificates.install(made, key, *signed)
        return made

    def renew_master(self, days: float = 0) -> None:
        """Give the master a certificate that was made ``days`` ago."""
        self.master.host.unlink()
        master_certificate.make(self.config, NOW.timestamp() - days * 86_400)


def cluster_files(folder: Path, cluster: str, *nodes: str) -> ClusterFiles:
    home = str(folder / "master")
    config = ClusterConfig(name=cluster, mode="test", home=home, runtime_dir=home, tls=True)
    master_certificate.make(config, NOW.timestamp())
    files = ClusterFiles(config, {})
    for node in nodes:
        files.nodes[node] = files.add(folder, node)
    return files


def client_of(files: TlsFiles | None, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """Return a client that takes any server. ``files``: the certificate that it shows; None: it shows none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = newest
    if files is not None:
        context.load_cert_chain(files.host)
    return context


def answer(address: tuple[str, int], client: ssl.SSLContext | None, words: bytes = b"") -> str:
    """Return what a server says to these words, or how it refuses. ``client`` None: without TLS.

    Whoever is refused with TLS 1.3 reads it after the handshake. Without words, no reset can overtake it.
    """
    try:
        with socket.create_connection(address, 10) as plain:
            if client is None:
                plain.sendall(words)
                return plain.recv(1000).decode("latin-1")
            with client.wrap_socket(plain) as secure:
                secure.sendall(words)
                return secure.recv(1000).decode("latin-1")
    except OSError as error:
        return str(error)
