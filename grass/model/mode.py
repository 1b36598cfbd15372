"""Kinds of clusters, as settings files and ``cluster.json`` name them."""

LOCAL = "local"
ON_PREMISES = "grass/on-premises"
