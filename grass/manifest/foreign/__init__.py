"""Reads the files of other systems: et-operator's TrainingJob, ScaleIn and ScaleOut, and KubeDL's MarsJob. Pure.

``dialects`` is the entry. A key that cannot apply is a warning. A key that would change the meaning of the job is a
problem with its path. No key is dropped silently, except ``status``.
"""
