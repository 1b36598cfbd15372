"""A host's own part in getting its certificate: ``python -m grass.provision.host_certificate`` as the daemons' user.

    request HOME        make a key, and print the request for its certificate
    install HOME        read ``Signed`` on stdin; write the certificate, and that the node speaks TLS
    check HOME          end with 0 if a certificate is there that need not be renewed
    renew CLUSTER_JSON  renew the certificate if it is due; the master also has its redis servers read it

The steps of joining run the first three on the node. ``certificate_renewal`` runs the last.
"""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec

from grass.api import certificates
from grass.api.known_master import MASTER, Master, master_file
from grass.config import ClusterConfig, Secrets
from grass.errors import CertificateError, GrassError, UndecodableError
from grass.node_config import NodeHome
from grass.system import clock
from grass.system.private_file import write_private
from grass.tls_files import TlsFiles
from grass.wire.codec import Form, encode
from grass.wire.join_views import CertificateView


class Signed(msgspec.Struct, frozen=True):
    """The master's answer to a request."""

    answer: CertificateView
    master: Master


_SIGNED: Form[Signed] = Form(Signed)


def request(home: Path) -> str:
    """Make a key that waits for its certificate. Return the request."""
    folder = TlsFiles(home / "tls").folder
    folder.mkdir(mode=0o700, exist_ok=True)
    key = certificates.new_key()
    write_private(folder / "request.key", key)
    return certificates.request_for(key)


def install(home: Path, text: str) -> None:
    """Write the certificate, then the configuration, so that an interrupted call is repeated. Raises GrassError."""
    signed, files = _SIGNED.decode(text), TlsFiles(home / "tls")
    waiting = files.folder / "request.key"
    certificates.install(files, waiting.read_text(), signed.answer.certificate, signed.answer.authority)
    write_private(master_file(files), encode(signed.master))
    waiting.unlink()
    config = NodeHome.load(home / "cluster.json")
    replace(config, tls=True, redis=replace(config.redis, tls=signed.answer.redis)).save()
    (home / "cluster.json").chmod(0o644)


def why_incomplete(home: Path, now: float) -> str:
    """Return what is missing for a node that speaks TLS; empty: nothing."""
    config = ClusterConfig.load(home / "cluster.json")
    if not config.tls or not master_file(config.tls_files).exists():
        return "it has no certificate yet"
    return certificates.why_due(config.tls_files, now)


def renew(path: Path, now: float) -> bool:
    """Renew the certificate of the host with this ``cluster.json`` if it is due. Return whether it was."""
    config = ClusterConfig.load(path)
    if not config.tls:
        return False
    if config.redis.embedded:
        return _renew_master(config, now)
    if not certificates.why_due(config.tls_files, now):
        return False
    from grass.api.invitation import Invitation
    from grass.api.join_client import open_join_client

    try:
        master = MASTER.decode(master_file(config.tls_files).read_text())
    except (OSError, UndecodableError) as error:
        raise CertificateError(
            f"{master_file(config.tls_files)}: cannot be read; run `grass node add` or `grass join` again to repair it"
        ) from error
    key, token = certificates.new_key(), Secrets.load(config.home).node_token
    client = open_join_client(Invitation(master.urls, master.key, "", cluster=config.name))
    try:
        signed = client.certificate(NodeHome.load(path).node.name, token, certificates.request_for(key))
    finally:
        client.close()
    certificates.install(config.tls_files, key, signed.certificate, signed.authority)
    return True


def _renew_master(config: ClusterConfig, now: float) -> bool:
    from grass.api import master_certificate
    from grass.store.connect import open_backend, open_task_redis

    made, secrets = master_certificate.make(config, now), Secrets.load(config.home)
    if config.redis.tls:  # each time: redis may have been down when the certificate was renewed
        with closing(open_backend(config, secrets, "admin")) as redis:
            redis.read_certificates()
        if config.task_redis_server is not None:
            with closing(open_task_redis(config, secrets)) as redis_for_tasks:
                redis_for_tasks.read_certificates()
    return made


def main(action: str, path: Path) -> int:
    try:
        match action:
            case "request":
                sys.stdout.write(request(path))
            case "install":
                install(path, sys.stdin.read())
            case "check":
                return 1 if why_incomplete(path, clock.wall()) else 0
            case "renew":
                renew(path, clock.wall())
            case _:
                raise SystemExit(f"unknown action {action}")
    except (GrassError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code if isinstance(error, GrassError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
