"""On which machines the pod of a task may go: the labels that it asks for, as node affinity. Pure; used by ``pods``.

Labels of Grass (``arch``, ``gpu_model``) become those of Kubernetes that mean the same. Models of GPUs are found among
those of the machines that are seen, because affinity compares whole values only.
"""

from __future__ import annotations

from collections.abc import Iterable

from grass.kubernetes.machines import models
from grass.model.job import GpuNeed
from grass.model.machine_labels import GPU_MODEL, GPU_PRODUCT, KUBERNETES_NAMES, grass_value, kubernetes_values
from grass.model.pod_security import Part
from grass.model.reasons import Reason, ReasonCode
from grass.wire.machines import Machines
from node.runtime.protocol import ANY_GPU, Launch


def needs_machines(launch: Launch, gpus: int) -> bool:
    """Return whether the machines must be known. ``gpus``: how many the task gets."""
    return GPU_MODEL in launch.where or bool(gpus and launch.gpu != ANY_GPU)


def affinity(launch: Launch, gpus: int, seen: Machines | None) -> Part | Reason:
    """Return the affinity of a pod; empty: it may go anywhere. Or why no machine is known that it may go to.

    ``seen``: the machines; needed only if ``needs_machines`` says so."""
    terms: list[Part] = []
    for label, wanted in launch.where.items():
        if label == GPU_MODEL:
            found = _products(seen, wanted)
            if not found:
                return _none(f"GPUs of model {' or '.join(wanted)}")
            terms.append(_in(GPU_PRODUCT, found))
        else:
            terms.append(_in(KUBERNETES_NAMES.get(label, label), kubernetes_values(label, wanted)))
    if gpus and launch.gpu != ANY_GPU:
        found = models(seen or Machines(), launch.gpu)
        if not found:
            return _none(f"GPUs of {_text(launch.gpu)}")
        terms.append(_in(GPU_PRODUCT, found))
    if not terms:
        return {}
    required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _products(seen: Machines | None, wanted: Iterable[str]) -> list[str]:
    known = {labels.get(GPU_PRODUCT, "") for _, labels in (seen.labelled() if seen is not None else ())} - {""}
    names = set(wanted)
    return sorted(each for each in known if each in names or grass_value(GPU_MODEL, each) in names)


def _in(label: str, values: Iterable[str]) -> Part:
    return {"key": label, "operator": "In", "values": sorted(values)}


def _none(what: str) -> Reason:
    return Reason(ReasonCode.UNSCHEDULABLE, f"no machine of its namespace is seen that has {what}")


def _text(need: GpuNeed) -> str:
    parts = [f"model {need.model}" if need.model else "", f"{need.memory >> 30} GiB" if need.memory else ""]
    return " and ".join(each for each in parts if each)
