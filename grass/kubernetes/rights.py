"""The rights that Grass needs in a namespace: one Role, and the look for what is missing of it.

None of them is cluster-wide. One more right, on machines, is cluster-wide and never needed; an administrator may give
it. Used by ``grass.provision`` and ``trial``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from grass.kubernetes.api import ApiServer
from grass.kubernetes.custom_kinds import KINDS
from grass.kubernetes.objects import AccessReview
from grass.kubernetes.queues import GROUPS, POD_GROUPS
from grass.model.namespace import QueueKind
from grass.node_config import KubernetesConfig
from grass.wire.codec import Form

_REVIEW: Form[AccessReview] = Form(AccessReview)
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
AUTHORIZATION = "rbac.authorization.k8s.io"


class Rule(NamedTuple):
    """``resource`` may have a subresource, ``pods/log``. ``why``: what does not work without it. ``name``: of the one
    object for which the right is needed; empty: all."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    name: str = ""


RULES = (
    Rule("", "pods", ("create", "get", "list", "watch", "patch", "delete"), "tasks"),
    Rule("", "pods/log", ("get",), "the output of tasks"),
    # before 1.35 a websocket needs `get`, since then `create`
    Rule("", "pods/exec", ("get", "create"), "job exec, job pull, readiness checks"),
    Rule("", "pods/portforward", ("get", "create"), "job open, ports"),
    Rule("", "events", ("list",), "why a pod does not start"),
    Rule("", "resourcequotas", ("list",), "the size of the namespace"),
    Rule("coordination.k8s.io", "leases", ("create", "get", "update", "delete"), "that only one agent acts"),
)
"""What every namespace needs."""
SERVING = (
    *(Rule(kind.group, kind.plural, ("get", "list", "watch"), "resources that are served") for kind in KINDS),
    *(Rule(kind.group, f"{kind.plural}/status", ("patch",), "the status of resources") for kind in KINDS),
    Rule("", "events", ("create",), "why a resource is refused"),
    Rule("", "services", ("create", "patch"), "webHost of a MarsJob"),
    Rule("networking.k8s.io", "ingresses", ("create", "patch"), "webHost of a MarsJob"),
)
"""What a namespace needs whose custom resources are served."""
MACHINES = Rule("", "nodes", ("list",), "what machines there are")
"""Cluster-wide, and never needed."""


def rules(settings: KubernetesConfig) -> tuple[Rule, ...]:
    """Return what a namespace with these settings needs."""
    found = [*RULES]
    if settings.claim is not None:
        found.append(Rule("", "persistentvolumeclaims", ("get",), "the claim that is its share", settings.claim))
    found += SERVING if settings.serve is not None else ()
    if settings.queue is not None and settings.queue_kind != QueueKind.KUEUE:
        verbs = ("create", "list", "delete")
        found.append(Rule(GROUPS[QueueKind.VOLCANO], POD_GROUPS, verbs, "gangs in a queue of Volcano"))
    found += (Rule("", "secrets", ("get",), "images of a private registry", name) for name in settings.pull_secrets)
    if settings.registry_secret is not None:
        why = "the login of its registry"
        found.append(Rule("", "secrets", ("create",), why))
        found.append(Rule("", "secrets", ("get", "update", "delete"), why, settings.registry_secret))
    return tuple(found)


class Missing(NamedTuple):
    verb: str
    rule: Rule

    def __str__(self) -> str:
        group = f" in {self.rule.group}" if self.rule.group else ""
        name = f" {self.rule.name}" if self.rule.name else ""
        return f"{self.verb} {self.rule.resource}{name}{group} (for {self.rule.why})"


def missing(api: ApiServer, settings: KubernetesConfig, more: Iterable[Rule] = ()) -> list[Missing]:
    """Ask the server, for each verb and resource. Return what this user may not do. ``more``: what is also needed."""
    wanted = [Missing(verb, rule) for rule in (*rules(settings), *more) for verb in rule.verbs]
    return [each for each in wanted if not _allowed(api, settings.namespace, each)]


def may_see_machines(api: ApiServer) -> bool:
    """Return whether this user may list the machines of the cluster."""
    return all(_allowed(api, "", Missing(verb, MACHINES)) for verb in MACHINES.verbs)


def _allowed(api: ApiServer, namespace: str, asked: Missing) -> bool:
    resource, _, subresource = asked.rule.resource.partition("/")
    attributes = {
        **({"namespace": namespace} if namespace else {}),
        "verb": asked.verb,
        "group": asked.rule.group,
        "resource": resource,
        **({"subresource": subresource} if subresource else {}),
        **({"name": asked.rule.name} if asked.rule.name else {}),
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return api.post(_REVIEWS, review, _REVIEW).status.allowed


def objects(settings: KubernetesConfig, name: str = "grass", user: str = "USER") -> list[dict[str, object]]:
    """Return what an administrator creates for who runs Grass: a Role, and a RoleBinding for ``user``."""
    return _bound("Role", {"name": name, "namespace": settings.namespace}, rules(settings), user)


def optional_objects(name: str = "grass-machines", user: str = "USER") -> list[dict[str, object]]:
    """Return what an administrator may create so that ``user`` sees machines. Nothing needs it."""
    return _bound("ClusterRole", {"name": name}, [MACHINES], user)


def _bound(kind: str, metadata: dict[str, str], wanted: Iterable[Rule], user: str) -> list[dict[str, object]]:
    """Return a role of a kind, and its binding to a user."""
    version = f"{AUTHORIZATION}/v1"
    return [
        {"apiVersion": version, "kind": kind, "metadata": metadata, "rules": [in_role(rule) for rule in wanted]},
        {
            "apiVersion": version,
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "subjects": [{"kind": "User", "name": user, "apiGroup": AUTHORIZATION}],
            "roleRef": {"kind": kind, "name": metadata["name"], "apiGroup": AUTHORIZATION},
        },
    ]


def in_role(rule: Rule) -> dict[str, object]:
    """Return the rule as it stands in a Role."""
    named: dict[str, object] = {"resourceNames": [rule.name]} if rule.name else {}
    return {"apiGroups": [rule.group], "resources": [rule.resource], **named, "verbs": [*rule.verbs]}
