"""Runs attempts as pods of one namespace of a Kubernetes cluster. ``runtime`` has the ``Runtime``."""
