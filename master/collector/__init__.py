"""The log collector of the master: receives output of tasks and logs of daemons, and acknowledges what is on the disk.

Whoever connects is not trusted. The API server reads the files; it uses ``blocks`` and ``journal`` of this package.
"""
