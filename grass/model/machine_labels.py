"""Labels of machines of Kubernetes, and those of Grass that mean the same. Pure.

A node that is a machine finds the labels ``arch``, ``os`` and ``gpu_model`` by itself. Those of Kubernetes have other
names, and partly other values. Used by ``grass.kubernetes.machines``, ``master``, ``node.agent.labels`` and
``node.runtime.kubernetes.affinity``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

HOSTNAME = "kubernetes.io/hostname"
GPU_PRODUCT = "nvidia.com/gpu.product"
"""Label with the model of the GPUs: as NVML names it, with ``-`` for each space."""
ARCH, OS, GPU_MODEL = "arch", "os", "gpu_model"
KUBERNETES_NAMES = {ARCH: "kubernetes.io/arch", OS: "kubernetes.io/os", GPU_MODEL: GPU_PRODUCT}
"""Label of Grass → that of Kubernetes."""
TOPOLOGY = "topology"
"""Label with a node's topology path, ``rack1/switch3``. What the settings name ``topology`` takes precedence."""
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
_BRANDS = re.compile(r"\b(NVIDIA|Tesla|Quadro|GeForce)[-\s]+")
_VARIANT = re.compile(r"([-\s]+(SXM\d*|PCIE?|NVL|\d+GB))+\b.*", re.IGNORECASE)


def short_model(name: str) -> str:
    """Shorten a model's name as users write it: ``NVIDIA A100-SXM4-40GB`` → ``A100``."""
    return _VARIANT.sub("", _BRANDS.sub("", name)).strip() or name


def grass_value(label: str, value: str) -> str:
    """Return how Grass says the value of a label of Kubernetes. ``label``: that of Grass."""
    if label == ARCH:
        return _ARCHITECTURES.get(value, value)
    return short_model(value).replace("-", " ") if label == GPU_MODEL else value


def kubernetes_values(label: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return how Kubernetes says values of a label of Grass. The model of GPUs is another matter: many values mean
    one."""
    if label != ARCH:
        return tuple(values)
    names = {ours: theirs for theirs, ours in _ARCHITECTURES.items()}
    return tuple(dict.fromkeys(names.get(value, value) for value in values))


def with_own(labels: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the labels of a machine as `where` sees them: those of Kubernetes, and those of Grass that follow from
    them. ``name``: of the machine."""
    own = {label: grass_value(label, labels[theirs]) for label, theirs in KUBERNETES_NAMES.items() if theirs in labels}
    return {HOSTNAME: name, **own, **labels}
