"""Checks of a cluster's namespaces of Kubernetes for `grass doctor`. Called by ``inside`` and ``local_findings``.

They change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from datetime import datetime

from grass.errors import GrassError
from grass.kubernetes import names, rights
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.objects import LEASE, PODS, ResourceQuota
from grass.kubernetes.quantity import amount
from grass.kubernetes.trial import (
    check_claim,
    check_pull_secrets,
    check_queue,
    check_version,
    quotas,
    server_of,
    try_pod,
)
from grass.node_config import KubernetesConfig, NodeConfig
from grass.provision.provisioner import Finding

_LEFT_AFTER = 3600.0
"""Seconds since the last renewal of a lease after which its agent counts as gone. The agent's clock wrote that; it may
also have been stopped for a moment."""
_NAMED = 5
"""Pods that are named."""


def namespace_findings(nodes: Iterable[NodeConfig]) -> Iterator[Finding]:
    """``nodes``: those of one cluster."""
    ours = {each.name: each.kubernetes for each in nodes if each.kubernetes is not None}
    labels = [names.node_labels(settings.cluster_id, name) for name, settings in ours.items()]
    for name, settings in ours.items():
        title = f"node {name} (namespace {settings.namespace})"
        try:
            with closing(server_of(settings)) as server:
                yield from _namespace(server, title, settings, labels)
        except GrassError as error:
            fix = "try `kubectl get pods` with the same kubeconfig and context; tasks there wait meanwhile"
            yield Finding(title, False, str(error), fix)


def _namespace(
    server: ApiServer, title: str, settings: KubernetesConfig, ours: Collection[dict[str, str]]
) -> Iterator[Finding]:
    version = check_version(server)
    seen = "" if rights.may_see_machines(server) else "not "
    yield Finding(title, True, f"Kubernetes {version} answers; its machines are {seen}seen, which nothing needs")
    missing = rights.missing(server, settings)
    for each in missing:
        fix = "send an administrator the Role that `grass node add --kubernetes … --plan` prints"
        yield Finding(title, False, f"a right is missing: {each}", fix)
    may = {(each.verb, each.rule.resource) for each in missing}
    checks: tuple[tuple[tuple[str, str], Callable[[], Iterator[Finding]]], ...] = (
        (("get", "persistentvolumeclaims"), lambda: _tried(title, lambda: check_claim(server, settings))),
        (("get", "secrets"), lambda: _tried(title, lambda: check_pull_secrets(server, settings))),
        (("create", "pods"), lambda: _tried(title, lambda: try_pod(server, settings))),
        (("create", "pods"), lambda: _tried(title, lambda: check_queue(server, settings))),
        (("list", "resourcequotas"), lambda: _quotas(server, title, settings)),
        (("list", "pods"), lambda: _left(server, title, settings, ours)),
    )
    for needs, check in checks:
        if needs not in may:
            yield from check()


def _tried(title: str, test: Callable[[], object]) -> Iterator[Finding]:
    try:
        test()
    except GrassError as error:
        yield Finding(title, False, str(error), "tasks cannot start there until that is mended")


def _quotas(server: ApiServer, title: str, settings: KubernetesConfig) -> Iterator[Finding]:
    """A full quota is no fault: tasks wait for it, as they do for a full machine."""
    for quota in quotas(server, settings.namespace):
        full = [f"{key} {quota.status.used[key]} of {hard}" for key, hard in _full(quota)]
        if full:
            message = f"quota {quota.metadata.name} is used up: {', '.join(full)}; pods wait until others end"
            yield Finding(title, True, message)


def _full(quota: ResourceQuota) -> Iterator[tuple[str, str]]:
    for key, hard in quota.status.hard.items():
        if amount(quota.status.used.get(key, "0")) >= amount(hard) > 0:
            yield key, hard


def _left(
    server: ApiServer, title: str, settings: KubernetesConfig, ours: Collection[dict[str, str]]
) -> Iterator[Finding]:
    """Find pods that our finalizer keeps, and whose agent is gone for good: nobody will remove them."""
    path = f"/api/v1/namespaces/{settings.namespace}"
    pods = server.get(f"{path}/pods", PODS, {"labelSelector": names.CLUSTER}).items
    alive: dict[str, bool] = {}
    left = []
    for pod in pods:
        labels = pod.metadata.labels
        if names.FINALIZER not in pod.metadata.finalizers or names.NODE not in labels:
            continue
        if any(each.items() <= labels.items() for each in ours):
            continue
        lease = names.lease_name(labels)
        if lease not in alive:
            alive[lease] = _lives(server, settings.namespace, lease)
        if not alive[lease]:
            left.append(pod.metadata.name)
    if left:
        named = ", ".join(left[:_NAMED]) + (f" and {len(left) - _NAMED} more" if len(left) > _NAMED else "")
        message = f"{len(left)} pods of another cluster or node are left, whose agent is gone: {named}"
        fix = (
            f"if nobody misses them: kubectl -n {settings.namespace} patch pod NAME --type=merge "
            '-p \'{"metadata":{"finalizers":null}}\', then delete them'
        )
        yield Finding(title, False, message, fix)


def _lives(server: ApiServer, namespace: str, lease: str) -> bool:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease}"
    try:
        spec = server.get(path, LEASE).spec
    except RefusedError as error:
        return error.http != 404
    now = server.wall()
    if spec.renew_time is None or now is None:
        return True
    return now - datetime.fromisoformat(spec.renew_time.replace("Z", "+00:00")).timestamp() < _LEFT_AFTER
