"""What touches the operating system: clocks, randomness, environment, whole replacement of files, processes, systemd.

Each module knows one thing of it, and nothing of clusters. Used by all packages.
"""
