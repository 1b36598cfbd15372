"""Hosts with systemd, sshd and their own docker engine, as containers on one machine. Standard library only.

Used by ``scripts/lab`` (people) and by ``tests/support/lab.py`` (end-to-end tests). The package knows nothing of Grass
except the file that ``grass create`` reads. Modules, from the lowest layer up: ``command`` (run a program),
``packages``, ``engine``, ``images`` (with ``recipe/``), ``network``, ``keys``, ``host`` (one host), ``lab`` (all
hosts), ``cluster_file``.
"""
