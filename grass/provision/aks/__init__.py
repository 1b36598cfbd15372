"""Clusters on a Kubernetes that Grass makes on Azure: ``mode: k8s/aks``. The master is this machine.

What is asked of Azure is in ``grass.azure``, which is pure but for its client. Once Kubernetes is there, its namespace
is a node as any other. Used by ``grass.provision``.
"""
