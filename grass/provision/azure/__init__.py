"""Clusters whose machines Grass makes on Azure: ``mode: grass/azure``. What answers SSH is a host as any other.

Decisions are in ``grass.azure`` and ``plan``, which are pure. Used by ``grass.provision``.
"""
