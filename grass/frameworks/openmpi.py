"""``openmpi``: ``mpirun`` of Open MPI 4 and 5 over the ``ssh`` shim, with a host file.

Version 5 reads PRTE's parameters, version 4 its own; each ignores the other's. Its daemons keep their sockets in a
folder of TMPDIR that is named after the machine, so several tasks of one node each need their own TMPDIR. Used by
``deepspeed`` and ``registry``.

Left alone, ranks also try the bridges of container engines, which have the same addresses on every machine, and wait
forever for an answer. So they get the network that contains the addresses of the job's tasks.
"""

from __future__ import annotations

import ipaddress

from grass.frameworks import shim
from grass.frameworks.seat import Rendered, Seat, files_folder

HOSTS = "hosts"
_NETWORK = ("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_prte_if_include")


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
        **dict.fromkeys(_NETWORK if (network := common_network(seat)) else (), network),
    }
    return Rendered(env, {HOSTS: shim.lines(seat, "{host} slots={slots}")}, programs=shim.PROGRAMS)


def common_network(seat: Seat) -> str:
    """Return the smallest network with the addresses of all tasks, such as ``10.0.0.0/29``. Empty: it is not known."""
    if seat.own_network:
        return ""
    addresses = {member.address for each in seat.memberships.values() for member in each.members}
    try:
        numbers = [int(ipaddress.IPv4Address(address)) for address in (seat.address, *addresses)]
    except ValueError:  # a name, or IPv6
        return ""
    prefix = 32 - (min(numbers) ^ max(numbers)).bit_length()
    return str(ipaddress.IPv4Network((min(numbers), prefix), strict=False))
