"""The rights that Grass needs in a namespace: one Role, and the look for what is missing of it.

Nothing here is cluster-wide. Used by ``grass.provision``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from grass.kubernetes.api import ApiServer
from grass.kubernetes.objects import AccessReview
from grass.wire.codec import Form

_REVIEW: Form[AccessReview] = Form(AccessReview)
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Rule(NamedTuple):
    """``resource`` may have a subresource, ``pods/log``. ``why``: what does not work without it."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str


RULES = (
    Rule("", "pods", ("create", "get", "list", "watch", "patch", "delete"), "tasks"),
    Rule("", "pods/log", ("get",), "the output of tasks"),
    # before 1.35 a websocket needs `get`, since then `create`
    Rule("", "pods/exec", ("get", "create"), "job exec, job pull, readiness checks"),
    Rule("", "pods/portforward", ("get", "create"), "job open, ports"),
    Rule("", "events", ("list",), "why a pod does not start"),
    Rule("", "resourcequotas", ("list",), "the size of the namespace"),
    Rule("", "limitranges", ("list",), "the largest task"),
    Rule("", "secrets", ("create", "get", "delete"), "images of a private registry"),
    Rule("coordination.k8s.io", "leases", ("create", "get", "update", "delete"), "that only one agent acts"),
)


class Missing(NamedTuple):
    verb: str
    rule: Rule

    def __str__(self) -> str:
        group = f" in {self.rule.group}" if self.rule.group else ""
        return f"{self.verb} {self.rule.resource}{group} (for {self.rule.why})"


def missing(api: ApiServer, namespace: str) -> list[Missing]:
    """Ask the server, for each verb and resource. Return what this user may not do."""
    return [each for each in _all() if not _allowed(api, namespace, each)]


def _all() -> Iterator[Missing]:
    for rule in RULES:
        for verb in rule.verbs:
            yield Missing(verb, rule)


def _allowed(api: ApiServer, namespace: str, asked: Missing) -> bool:
    resource, _, subresource = asked.rule.resource.partition("/")
    attributes = {
        "namespace": namespace,
        "verb": asked.verb,
        "group": asked.rule.group,
        "resource": resource,
        **({"subresource": subresource} if subresource else {}),
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return api.post(_REVIEWS, review, _REVIEW).status.allowed


def role(namespace: str, name: str = "grass") -> dict[str, object]:
    """Return the Role that an administrator gives to who runs Grass."""
    rules = [{"apiGroups": [rule.group], "resources": [rule.resource], "verbs": list(rule.verbs)} for rule in RULES]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": namespace},
        "rules": rules,
    }
