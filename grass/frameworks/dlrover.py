"""``dlrover``: stock ``dlrover-run`` against a master of Grass, which is a task of the job (``grass_dlrover``).

The program ``dlrover-run`` of Grass comes first on the task's PATH. It starts the stock one. The kind of a node is the
option ``role``, or the component's name, or ``worker``. A component with a port ``tf`` gets ``TF_CONFIG``, too. Used by
``registry``.
"""

from __future__ import annotations

from grass.frameworks import tensorflow
from grass.frameworks.seat import NO_MEMBERSHIP, Rendered, Seat, files_folder, integer, library_folder
from grass.model.framework import DLROVER_KINDS, DLROVER_MASTER, DLROVER_PORT, TF_PORT, dlrover_role
from grass.wire.codec import encode
from grass.wire.membership import Membership

PROGRAMS, PROGRAM_FOLDER = ("dlrover-run",), "dlrover/bin"
MEMBERS, MASTER = "members.json", "master"
"""Files: the memberships, for the master; and the address of the master, for the others."""
RESTARTS = 3
ATTEMPTS = 1_000_000
"""As in ``grass_dlrover.members``: the ids of the attempts of a task differ by so many."""


def render(seat: Seat) -> Rendered:
    files = files_folder(seat.folder, seat.component)
    library = library_folder(seat.folder) + "/python"
    if dlrover_role(seat.framework, seat.component) == DLROVER_MASTER:
        address = "" if seat.own_network else seat.address
        env = {"GRASS_DLROVER_MEMBERS": f"{files}/{MEMBERS}", "GRASS_DLROVER_ADDRESS": address, "PYTHONPATH": library}
        return Rendered(env, {MEMBERS: encode(_groups(seat))})
    membership = seat.membership
    least, most = (membership.min, membership.max) if membership.members else (1, 1)
    env = {
        "GRASS_DLROVER_MASTER": f"{files}/{MASTER}",
        "DLROVER_MASTER_SERVICE_TYPE": "http",
        "ELASTIC_JOB_NAME": f"{seat.job_id}-{seat.component}-{seat.index}",  # also the name of what is in shared memory
        "NODE_TYPE": dlrover_role(seat.framework, seat.component),
        "NODE_RANK": str(seat.index),
        "NODE_ID": str(seat.index + ATTEMPTS * (seat.attempt - 1)),
        "NODE_NUM": str(max(1, membership.desired)),
        "POD_NAME": seat.task,
        "POD_IP": seat.address,
        "NODE_IP": seat.address,
        "PET_NNODES": f"{least}:{max(least, most)}",
        "PET_NPROC_PER_NODE": str(seat.slots),
        "PET_MAX_RESTARTS": str(integer(seat.framework, "restarts", RESTARTS)),
        "PET_LOG_DIR": seat.scratch,  # otherwise each start leaves a folder in /tmp
        "PYTHONPATH": library,
    }
    if TF_PORT in seat.ports:
        env |= tensorflow.render(seat).env
    return Rendered(env, {MASTER: _address(seat)}, programs=PROGRAMS, program_folder=PROGRAM_FOLDER)


def _groups(seat: Seat) -> dict[str, object]:
    """Return the members by kind of node. An option of the master names the component of a kind; otherwise its name
    does."""
    kinds = {kind: str(seat.framework.options.get(kind, kind)) for kind in DLROVER_KINDS}
    return {kind: _group(seat.memberships[name]) for kind, name in kinds.items() if name in seat.memberships}


def _group(membership: Membership) -> dict[str, object]:
    members = sorted(membership.members, key=lambda each: each.rank)
    return {
        "members": [(int(each.task.rpartition(".")[2]), each.attempt, each.address) for each in members],
        "desired": membership.desired,
        "min": membership.min,
    }


def _address(seat: Seat) -> str:
    """Return host and port of the master; empty: it does not run yet."""
    members = seat.memberships.get(DLROVER_MASTER, NO_MEMBERSHIP).members
    found = next((each for each in members if DLROVER_PORT in each.ports and each.address), None)
    return f"{found.address} {found.ports[DLROVER_PORT]}\n" if found else ""
