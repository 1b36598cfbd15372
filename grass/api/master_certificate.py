"""The master's own certificate, and those that it signs for nodes. Used on the master, where the authority's key is.

Used by ``grass.provision.host_certificate``, ``grass.provision.on_premises.on_host`` and ``master.api.joins``.
"""

from __future__ import annotations

from grass.api import certificates
from grass.config import ClusterConfig
from grass.tls_files import MASTER, identity, node_identity


def make(config: ClusterConfig, now: float) -> bool:
    """Make the authority if there is none, and the master's certificate if it is due. Return whether it was.

    Raises CertificateError.
    """
    files = config.tls_files
    authority = certificates.make_authority(files.folder, config.name, now)
    if not certificates.why_due(files, now):
        return False
    key = certificates.new_key()
    signed = authority.sign(certificates.request_for(key), identity(config.name, MASTER), now, certificates.MASTER_DAYS)
    certificates.install(files, key, signed, authority.pem)
    return True


def sign_for_node(config: ClusterConfig, node: str, request: str, now: float) -> tuple[str, str]:
    """Return the node's certificate and that of the authority. Raises InputError, CertificateError."""
    authority = certificates.load_authority(config.tls_files.folder)
    return authority.sign(request, node_identity(config.name, node), now, certificates.NODE_DAYS), authority.pem
