"""What keeps the daemons of one machine alive: watchers inside of them, supervisord's watchdog, and their processes.

Used by the daemons and by ``grass.provision``. Knows nothing of how a cluster is made: what restarts or ends one is a
program of ``grass.provision``, which is started by its name (``apart``).
"""
