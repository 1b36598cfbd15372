"""A master for DLRover's own client, and the start of stock ``dlrover-run``. No dependencies; Python 3.8 or newer.

``python3 -m grass_dlrover`` is the master, a task of the job: it answers what DLRover 0.6.1 asks its master over HTTP.
``agent`` is what ``dlrover-run`` of Grass does in the other tasks. ADR 34 has the reasons. Only ``keeping``, ``agent``
and ``__main__`` know Grass. The rest is pure, but for ``server``.
"""

VERSION = "0.6.1"
"""The version of DLRover whose messages are known."""
