"""Certificates of hosts: what the authority signs, what it refuses, and when a host needs a new one."""

from __future__ import annotations

import json
import socket
import ssl
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from grass.api import certificates, master_certificate
from grass.config import ClusterConfig
from grass.errors import CertificateError, InputError
from grass.node_config import NodeConfig, NodeHome
from grass.provision import host_certificate
from grass.supervision import certificate_renewal
from grass.tls import ServerContext, client_context, wrap
from grass.tls_files import TlsFiles, node_identity
from tests.support.certificates import NOW, ClusterFiles, cluster_files

AT = NOW.timestamp()
DAY = 86_400.0


@pytest.fixture
def files(tmp_path: Path) -> ClusterFiles:
    return cluster_files(tmp_path, "x", "n1")


def test_a_certificate_is_renewed_after_half_of_its_time(files: ClusterFiles) -> None:
    own = files.nodes["n1"]
    assert certificates.why_due(own, AT) == "" == certificates.why_due(own, AT + 0.9 * DAY)
    assert "valid until" in certificates.why_due(own, AT + 1.1 * DAY)
    assert certificates.why_due(files.master, AT + 190 * DAY) == ""
    assert "valid until" in certificates.why_due(files.master, AT + 210 * DAY)
    assert not master_certificate.make(files.config, AT)
    assert master_certificate.make(files.config, AT + 210 * DAY)


def test_a_node_that_left_opens_no_connection_after_two_days_and_a_node_that_stays_renews_in_time(
    files: ClusterFiles,
) -> None:
    made = x509.load_pem_x509_certificate(files.nodes["n1"].host.read_bytes())
    assert made.not_valid_after_utc.timestamp() - AT <= 2 * DAY
    assert certificate_renewal.AGAIN < 0.02 * DAY  # so a master that is away for most of a day delays nothing


def test_a_certificate_is_valid_for_a_clock_that_is_an_hour_behind(files: ClusterFiles) -> None:
    made = x509.load_pem_x509_certificate(files.nodes["n1"].host.read_bytes())
    assert AT - made.not_valid_before_utc.timestamp() > 3600


def test_keys_are_readable_by_their_owner_only(files: ClusterFiles) -> None:
    for path in (files.master.host, files.master.folder / "ca.key", files.nodes["n1"].host):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not (files.nodes["n1"].folder / "ca.key").exists()


@pytest.mark.parametrize("name", ["ca.pem", "ca.key"])
def test_half_an_authority_is_named_and_not_replaced(files: ClusterFiles, name: str) -> None:
    (files.master.folder / name).unlink()
    left = sorted(path.name for path in files.master.folder.iterdir())
    with pytest.raises(CertificateError, match=f"{name}: not found; restore the file from a backup"):
        master_certificate.make(files.config, AT)
    with pytest.raises(CertificateError, match=f"{name}: cannot be read"):
        master_certificate.sign_for_node(files.config, "n1", "", AT)
    assert sorted(path.name for path in files.master.folder.iterdir()) == left


def test_the_authority_signs_no_text_no_foreign_kind_of_key_and_no_request_of_another_key(
    files: ClusterFiles,
) -> None:
    curve = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    other = curve.sign(ec.generate_private_key(ec.SECP384R1()), hashes.SHA256())
    for request in ("", "text", other.public_bytes(serialization.Encoding.PEM).decode()):
        with pytest.raises(InputError, match="request: "):
            master_certificate.sign_for_node(files.config, "n1", request, AT)


def test_a_certificate_for_another_key_or_of_another_authority_is_not_installed(
    files: ClusterFiles, tmp_path: Path
) -> None:
    own, key = files.nodes["n1"], certificates.new_key()
    before = own.host.read_text()
    foreign = cluster_files(tmp_path / "foreign", "x").config
    signed, authority = master_certificate.sign_for_node(files.config, "n1", certificates.request_for(key), AT)
    with pytest.raises(CertificateError, match="for another key"):
        certificates.install(own, certificates.new_key(), signed, authority)
    strange = master_certificate.sign_for_node(foreign, "n1", certificates.request_for(key), AT)[0]
    with pytest.raises(CertificateError, match="not signed by the authority"):
        certificates.install(own, key, strange, authority)
    assert own.host.read_text() == before


@pytest.mark.parametrize("damage", [b"", b"no certificate"])
def test_damaged_files_are_named_with_the_cure(files: ClusterFiles, damage: bytes) -> None:
    own = files.nodes["n1"]
    own.host.write_bytes(damage)
    for make in (client_context, ServerContext):
        with pytest.raises(CertificateError, match=r"damaged .*`grass node add` or `grass join`"):
            make(own)
    assert "damaged" in certificates.why_due(own, AT)


def test_a_server_keeps_its_certificate_while_the_new_file_is_damaged(files: ClusterFiles) -> None:
    context = ServerContext(files.nodes["n1"])
    files.nodes["n1"].host.write_bytes(b"half a fil")
    assert context.current() is context.current()


def test_a_node_makes_its_key_and_speaks_tls_once_its_certificate_is_installed(
    files: ClusterFiles, tmp_path: Path
) -> None:
    home = tmp_path / "node"
    home.mkdir()
    plain = NodeHome("x", "test", str(home), str(home), node=NodeConfig())
    plain.save()
    assert host_certificate.why_incomplete(home, AT) == "it has no certificate yet"
    certificate, authority = master_certificate.sign_for_node(files.config, "n1", host_certificate.request(home), AT)
    answer = {"certificate": certificate, "authority": authority, "redis": True}
    host_certificate.install(home, json.dumps({"answer": answer, "master": {"urls": ["http://m"], "key": "k"}}))
    config = NodeHome.load(home / "cluster.json")
    assert config == replace(plain, tls=True, redis=replace(plain.redis, tls=True))
    assert host_certificate.why_incomplete(home, AT) == ""
    assert not (home / "tls" / "request.key").exists()
    client_context(TlsFiles(home / "tls"))


def test_a_host_without_certificates_has_nothing_to_renew(tmp_path: Path) -> None:
    config = ClusterConfig("x", "test", str(tmp_path), str(tmp_path))
    config.save()
    assert not host_certificate.renew(config.path, AT)


def test_a_client_refuses_a_server_that_speaks_tls_1_2_only(files: ClusterFiles) -> None:
    own = files.nodes["n1"]

    def speak(*versions: ssl.TLSVersion) -> str | None:
        server = ServerContext(own).current()
        server.minimum_version, server.maximum_version = versions
        near, far = socket.socketpair()
        with ThreadPoolExecutor(1) as pool:
            serving = pool.submit(server.wrap_socket, far, server_side=True)
            with wrap(near, own, node_identity("x", "n1")) as secure, serving.result(10):
                return secure.version()

    assert speak(ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
        speak(ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
