"""One rank: joins the others, then ends, or waits to be killed."""

from __future__ import annotations

import os
import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
print(f"rank {world.rank} of {world.size}: {world.allreduce(1)} here, pid {os.getpid()} end", flush=True)
if "wait" in sys.argv:
    time.sleep(600)
