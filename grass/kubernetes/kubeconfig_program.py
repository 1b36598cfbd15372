"""Prints the credentials that ``kubernetes.config`` finds, as JSON. Run by ``credentials`` as a program.

Arguments: the path of a kubeconfig, and a context; empty: as kubectl chooses. Without a kubeconfig, the account of the
pod that it runs in. Ends with 1 and a line on stderr if there are no credentials. The only module that imports
``kubernetes``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from grass.kubernetes.credentials import Credentials
from grass.system import environment
from grass.wire.codec import encode

try:
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
    from kubernetes.config.incluster_config import SERVICE_TOKEN_FILENAME
    from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, KubeConfigMerger
except ImportError:
    sys.exit("the Kubernetes client is not installed; install it with `pip install 'grass-cluster[kubernetes]'`")


def main(kubeconfig: str, context: str) -> int:
    try:
        sys.stdout.write(encode(_found(kubeconfig, context)))
    except (ConfigException, OSError, ValueError) as error:
        sys.stderr.write(" ".join(str(error).split()) or type(error).__name__)
        return 1
    return 0


def _found(kubeconfig: str, context: str) -> Credentials:
    configuration = Configuration()
    files = kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION
    if not any(Path(each).expanduser().exists() for each in files.split(os.pathsep)):
        if kubeconfig or context or "KUBERNETES_SERVICE_HOST" not in environment.variables():
            raise ConfigException(f"no such file: {files}")
        load_incluster_config(configuration)
        return _credentials(configuration, None, None, SERVICE_TOKEN_FILENAME)
    load_kube_config(files, context or None, configuration, persist_config=False)
    merged = KubeConfigMerger(files).config
    name = context or str(merged["current-context"])
    chosen = merged["contexts"].get_with_name(name).value["context"]
    user = merged["users"].get_with_name(chosen["user"]).value["user"] if chosen.get("user") else None
    given, fetched_by = user or {}, None
    if given.get("exec"):
        fetched_by = f"the program {given['exec']['command']}"
    elif given.get("auth-provider"):
        fetched_by = f"the provider {given['auth-provider']['name']}"
    return _credentials(configuration, name, chosen.get("namespace"), given.get("tokenFile"), fetched_by)


def _credentials(
    configuration: Configuration,
    context: str | None,
    namespace: str | None,
    token_file: str | None,
    fetched_by: str | None = None,
) -> Credentials:
    found = Credentials(
        server=configuration.host,
        namespace=namespace,
        context=context,
        ca=_text(configuration.ssl_ca_cert),
        verify=configuration.verify_ssl,
        server_name=configuration.tls_server_name,
        certificate=_text(configuration.cert_file),
        key=_text(configuration.key_file),
        token=_token(configuration),
        token_file=token_file,
        proxy=configuration.proxy,
        fetched_by=fetched_by,
    )
    if not found.token and not found.certificate:
        raise ConfigException("it has neither a token nor a certificate for this user, or its plugin failed")
    return found


def _token(configuration: Configuration) -> str | None:
    for text in configuration.api_key.values():
        kind, _, token = text.partition(" ")
        if kind.lower() == "bearer":
            return str(token).strip()
    return None


def _text(path: str | None) -> str | None:
    return None if path is None else Path(path).read_text()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
