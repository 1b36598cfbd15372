"""Kinds of clusters, as settings files and ``cluster.json`` name them.

Used by ``grass``, ``grass.cli``, ``grass.manifest`` and ``grass.provision``.
"""

LOCAL = "local"
ON_PREMISES = "grass/on-premises"
AZURE = "grass/azure"
KUBERNETES = "grass/k8s"
"""A cluster on this machine, all of whose nodes are namespaces of Kubernetes."""
SIGNED_IN = "signed-in"
"""No settings file names it: the cluster is elsewhere, and this machine has a user's key (`grass login`)."""
