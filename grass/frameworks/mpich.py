"""``mpich``: ``mpiexec`` of MPICH and Intel MPI (hydra) over the ``ssh`` shim, with a host file.

Used by ``registry``.
"""

from __future__ import annotations

from grass.frameworks import shim
from grass.frameworks.seat import Rendered, Seat, files_folder

HOSTS = "hosts"


def render(seat: Seat) -> Rendered:
    file = f"{files_folder(seat.folder, seat.component)}/{HOSTS}"
    env = {
        "GRASS_HOSTS": file,
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": shim.path(seat),
        "HYDRA_HOST_FILE": file,
        "I_MPI_HYDRA_HOST_FILE": file,
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": shim.path(seat),
    }
    return Rendered(env, {HOSTS: shim.lines(seat, "{host}:{slots}")}, programs=shim.PROGRAMS)
