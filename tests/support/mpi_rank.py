"""One rank: joins the others, then ends, or waits to be killed. ``mpi_rank.py mpich|openmpi [wait]``.

It calls the MPI library directly, so a host needs nothing besides Debian's MPI and python3.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import time
from ctypes import byref, c_int
from typing import Any


def library(framework: str) -> tuple[ctypes.CDLL, Any, Any, Any]:
    """Return the library, and its MPI_COMM_WORLD, MPI_INT and MPI_SUM: numbers in MPICH, addresses in Open MPI."""
    if framework == "mpich":
        return ctypes.CDLL("libmpich.so.12"), c_int(0x44000000), c_int(0x4C000405), c_int(0x58000003)
    mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    names = ("ompi_mpi_comm_world", "ompi_mpi_int", "ompi_mpi_op_sum")
    world, integer, plus = (byref(ctypes.c_char.in_dll(mpi, name)) for name in names)
    return mpi, world, integer, plus


def main(framework: str, wait: bool) -> None:
    mpi, world, integer, plus = library(framework)
    rank, size, one, here = c_int(), c_int(), c_int(1), c_int()
    mpi.MPI_Init(None, None)
    mpi.MPI_Comm_rank(world, byref(rank))
    mpi.MPI_Comm_size(world, byref(size))
    mpi.MPI_Allreduce(byref(one), byref(here), 1, integer, plus, world)
    on = f"on {socket.gethostname()}, pid {os.getpid()} end"
    print(f"rank {rank.value} of {size.value}: {here.value} here, {on}", flush=True)
    if wait:
        time.sleep(600)
    mpi.MPI_Finalize()


if __name__ == "__main__":
    main(sys.argv[1], "wait" in sys.argv)
