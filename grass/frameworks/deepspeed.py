"""``deepspeed``: a host file for ``deepspeed --hostfile $GRASS_HOSTS --launcher openmpi|mpich``, over the shim.

The launcher ``pdsh`` works, too: it reaches hosts with the ``ssh`` on PATH. Used by ``registry``.
"""

from __future__ import annotations

from grass.frameworks import openmpi
from grass.frameworks.seat import Rendered, Seat


def render(seat: Seat) -> Rendered:
    made = openmpi.render(seat)
    return made._replace(env={**made.env, "PDSH_RCMD_TYPE": "ssh"})
