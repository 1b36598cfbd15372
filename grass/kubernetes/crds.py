"""The CustomResourceDefinitions of the resources that Grass serves, for clusters that have none of their own systems.

Written for Grass: names, columns and the shape of the status are those of the systems, so that `kubectl get` looks the
same. Specifications keep every field (``x-kubernetes-preserve-unknown-fields``), so that none is dropped without a
word: Grass itself says what it does not know. Pure. Used by ``grass.cli.kubernetes``.
"""

from __future__ import annotations

from grass.kubernetes.custom_kinds import ELASTIC_JOB, KINDS, MARS_JOB, SCALE_IN, SCALE_OUT, TRAINING_JOB, Kind
from grass.kubernetes.names import MANAGED
from grass.manifest.document import Document
from grass.wire.codec import builtins

_SINGULAR = {kind: kind.name.lower() for kind in KINDS}
_ANYTHING: Document = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_REPLICAS = {"type": "integer", "minimum": 1}
_COUNT: Document = {"type": "object", "properties": {"count": _REPLICAS}, "x-kubernetes-preserve-unknown-fields": True}
_SELECTOR = {**_ANYTHING, "required": ["name"], "properties": {"name": {"type": "string", "minLength": 1}}}
_LAST = ".status.conditions[-1:].type"
"""The last condition is the present one."""
_AGE = ("Age", "date", ".metadata.creationTimestamp")


def crds() -> list[Document]:
    """Return all of them, in the order of their kinds."""
    return [builtins(_crd(kind)) for kind in KINDS]  # copies, so that no part is written as an alias of another


def _crd(kind: Kind) -> Document:
    names = {"kind": kind.name, "listKind": f"{kind.name}List", "plural": kind.plural, "singular": _SINGULAR[kind]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd, "labels": MANAGED},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced",
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": type_, "jsonPath": path} for name, type_, path in _COLUMNS[kind]
                    ],
                    "schema": {"openAPIV3Schema": _schema(kind)},
                }
            ],
        },
    }


def _schema(kind: Kind) -> Document:
    return {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {**_ANYTHING, **_SPECS[kind]},
            "status": _ANYTHING,
        },
    }


_COLUMNS = {
    TRAINING_JOB: (("Phase", "string", ".status.phase"), _AGE),
    MARS_JOB: (
        ("State", "string", _LAST),
        _AGE,
        ("Finished-TTL", "integer", ".spec.ttlSecondsAfterFinished"),
        ("Max-Lifetime", "integer", ".spec.activeDeadlineSeconds"),
    ),
    ELASTIC_JOB: (("Phase", "string", ".status.phase"), _AGE),
    SCALE_IN: (("Phase", "string", _LAST), _AGE),
    SCALE_OUT: (("Phase", "string", _LAST), _AGE),
}
_SPECS: dict[Kind, Document] = {
    TRAINING_JOB: {"required": ["etReplicaSpecs"], "properties": {"etReplicaSpecs": _ANYTHING}},
    MARS_JOB: {
        "required": ["marsReplicaSpecs"],
        "properties": {"marsReplicaSpecs": _ANYTHING, "webHost": {"type": "string"}},
    },
    ELASTIC_JOB: {"required": ["replicaSpecs"], "properties": {"replicaSpecs": _ANYTHING}},
    SCALE_IN: {"required": ["selector", "toDelete"], "properties": {"selector": _SELECTOR, "toDelete": _COUNT}},
    SCALE_OUT: {"required": ["selector", "toAdd"], "properties": {"selector": _SELECTOR, "toAdd": _COUNT}},
}
