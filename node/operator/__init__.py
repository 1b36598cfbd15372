"""The operator: serves custom resources of a namespace (TrainingJob, ScaleIn, …) as jobs of Grass.

A daemon beside the agent of the namespace. It is a client of the cluster and of the API server, and keeps nothing:
what a resource has become follows from the resource, and from the job whose id follows from it. What is to be done is
decided in ``jobs`` and ``scales``, which are pure, as are ``identity``, ``status``, ``events`` and ``page``.
"""
