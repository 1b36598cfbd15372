"""Kinds of clusters, as settings files and ``cluster.json`` name them.

Used by ``grass``, ``grass.cli``, ``grass.manifest`` and ``grass.provision``.
"""

LOCAL = "local"
ON_PREMISES = "grass/on-premises"
AZURE = "grass/azure"
KUBERNETES = "grass/k8s"
"""A cluster on this machine, all of whose nodes are namespaces of Kubernetes."""
KUBERNETES_INSIDE = "grass/k8s inside"
"""The same, with its master in a pod there; a settings file says `master: inside` beside the mode."""
AKS = "k8s/aks"
"""A cluster on this machine, whose node is a namespace of a Kubernetes that Grass makes on Azure."""
SIGNED_IN = "signed-in"
"""No settings file names it: the cluster is elsewhere, and this machine has a user's key (`grass login`)."""
