"""Hosts with systemd, sshd and an own docker engine, as containers on one machine. Standard library only.

Used by ``scripts/lab`` (people) and by ``tests/support/lab.py`` (end-to-end tests); it knows nothing of Grass but the
file that ``grass create`` takes. The files, from the ground up: ``command`` (run a program), ``packages``, ``engine``,
``images`` (with ``recipe/``), ``network``, ``keys``, ``host`` (one of them), ``lab`` (all of them), ``cluster_file``.
"""
