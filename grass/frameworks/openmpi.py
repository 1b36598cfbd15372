"""``openmpi``: ``mpirun`` of Open MPI 4 and 5 over the ``ssh`` shim, with a host file.

Version 5 reads PRTE's parameters, version 4 its own; each ignores the other's. Its daemons keep their sockets in a
folder of TMPDIR that is named after the machine, so several tasks of one node each need their own TMPDIR.
"""

from __future__ import annotations

from grass.frameworks import shim
from grass.frameworks.seat import Rendered, Seat, files_folder

HOSTS = "hosts"


def render(seat: Seat) -> Rendered:
    file = f"{files_folder(seat.folder, seat.component)}/{HOSTS}"
    env = {
        "GRASS_HOSTS": file,
        "PRTE_MCA_plm_ssh_agent": shim.path(seat),
        "PRTE_MCA_prte_default_hostfile": file,
        "OMPI_MCA_plm_rsh_agent": shim.path(seat),
        "OMPI_MCA_orte_default_hostfile": file,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "TMPDIR": seat.scratch,
    }
    return Rendered(env, {HOSTS: shim.lines(seat, "{host} slots={slots}")}, programs=shim.PROGRAMS)
