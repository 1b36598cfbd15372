"""The ``ssh`` shim for launchers: ``ssh HOST COMMAND`` executes in the task that HOST names, through its node.

Shared by all frameworks that reach their hosts with ssh. The program is ``grass/task/library/bin/ssh``.
"""

from __future__ import annotations

from grass.frameworks.seat import Seat, host_slots, hosts, library_folder
from grass.frameworks.seat import alias as alias_of

PROGRAMS = ("ssh",)


def path(seat: Seat) -> str:
    """Return the path of the program in the task."""
    return library_folder(seat.folder) + "/bin/ssh"


def lines(seat: Seat, pattern: str) -> str:
    """Return a host file: one line per host, in order of rank. ``pattern``: a line with ``{host}`` and ``{slots}``."""
    members = hosts(seat).members
    return "".join(pattern.format(host=alias_of(each), slots=host_slots(seat, each)) + "\n" for each in members)
