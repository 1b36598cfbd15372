"""Reads the files of other systems. Pure.

These are et-operator's TrainingJob, ScaleIn and ScaleOut, KubeDL's MarsJob, and MPIJob, PyTorchJob and TFJob of KubeDL
and Kubeflow.

``dialects`` is the entry. A key that cannot apply is a warning. A key that would change the meaning of the job is a
problem with its path. No key is dropped silently, except ``status``.
"""
