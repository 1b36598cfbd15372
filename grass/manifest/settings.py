"""Reads the settings file of `grass create FILE`: the kinds of clusters, each with its reader.

``docs/reference/settings-file.md`` explains every key. Used by ``grass``, ``grass.cli`` and tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grass.manifest.aks import read_aks
from grass.manifest.azure import read_azure
from grass.manifest.bounds import check_bounds
from grass.manifest.cluster_settings import ClusterSettings
from grass.manifest.document import Document
from grass.manifest.fields import Fields, Problems
from grass.manifest.inside import read_kubernetes
from grass.manifest.local_settings import read_local, read_maro_local, read_maro_process
from grass.manifest.on_premises import read_on_premises
from grass.manifest.values import Wrong, show
from grass.model.mode import AKS, AZURE, KUBERNETES, LOCAL, ON_PREMISES

Reader = Callable[[Fields], ClusterSettings]

_KINDS: dict[str, Reader] = {
    LOCAL: read_local,
    ON_PREMISES: read_on_premises,
    KUBERNETES: read_kubernetes,
    AZURE: read_azure,
    AKS: read_aks,
}
"""Mode → reader of its settings. A new kind of cluster is one more entry, here and in ``grass.provision.registry``."""
_OF_MARO: dict[str, Reader] = {"process": read_maro_process, "grass/local": read_maro_local}
_SHORT: dict[str, Reader] = {"k8s": read_kubernetes}


def parse_settings(document: Document, *, source: str = "") -> ClusterSettings:
    """Parse settings. Raise ManifestError with every problem and its path. ``source``: the name of the file."""
    problems = Problems(source)
    check_bounds(document, problems)
    keys = document if isinstance(document, dict) else {}
    if "components" in keys:
        problems.add("components", "belongs to a job; start this file with `grass job start`")
        problems.check()
    fields = Fields(document, "", problems)
    reader: Reader = read_local
    if "redis_info" in keys or "redis_mode" in keys:
        fields.has("mode")
        reader = read_maro_process
    else:
        reader = fields.read("mode", _reader, reader)
        problems.check()  # one message: the keys of another mode mean other things
    settings = reader(fields)
    fields.done()
    problems.check()
    return settings


def _reader(mode: Any) -> Reader:
    found = (_KINDS | _OF_MARO | _SHORT).get(mode) if isinstance(mode, str) else None
    if found is not None:
        return found
    one = f"must be {' or '.join(_KINDS)}"
    if isinstance(mode, str) and mode.startswith("k8s/"):
        raise Wrong(
            f"{one}: Grass makes no cluster of Kubernetes as {show(mode)} does; {AKS} makes one on Azure, and "
            f"{KUBERNETES} uses namespaces of a cluster that exists"
        )
    if isinstance(mode, str) and mode.startswith("grass"):
        raise Wrong(f"{one}; this version does not support the mode {show(mode)}")
    raise Wrong(f"{one}, got {show(mode)}")
