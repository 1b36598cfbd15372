"""Azure's resource manager (ARM): requests and their bodies as data, waiting with deadlines, errors by their code.

Only ``pipeline`` imports packages of Azure, which are the extra ``azure``. Nothing here knows how a cluster is made.
Used by ``grass.provision.azure``.
"""
