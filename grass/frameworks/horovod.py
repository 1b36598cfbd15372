"""``horovod``: elastic Horovod. A hosts file, a discovery script that prints it, and the ``ssh`` shim.

Horovod runs the script each second, so a new membership takes effect at the job's next ``state.commit()``. Variables of
``horovodrun``'s arguments: ``horovodrun --host-discovery-script $GRASS_DISCOVER_HOSTS --min-np $GRASS_MIN_NP …``. Used
by ``registry``.
"""

from __future__ import annotations

from grass.frameworks import shim
from grass.frameworks.seat import Rendered, Seat, files_folder, hosts, integer

HOSTS, DISCOVER = "hosts", "discover_hosts.sh"
_SCRIPT = """#!/bin/sh
while IFS= read -r line; do
  [ -z "$line" ] || printf '%s\\n' "$line"
done < '{hosts}'
"""


def render(seat: Seat) -> Rendered:
    folder, workers = files_folder(seat.folder, seat.component), hosts(seat)
    slots = integer(seat.framework, "slots", max((each.slots for each in workers.members), default=1))
    env = {
        "GRASS_HOSTS": f"{folder}/{HOSTS}",
        "GRASS_DISCOVER_HOSTS": f"{folder}/{DISCOVER}",
        "GRASS_NP": str(slots * max(1, len(workers.members), workers.desired)),
        "GRASS_MIN_NP": str(slots * workers.min),
        "GRASS_MAX_NP": str(slots * max(workers.min, workers.max)),
    }
    script = _SCRIPT.format(hosts=f"{folder}/{HOSTS}".replace("'", "'\\''"))
    return Rendered(env, {HOSTS: shim.lines(seat, "{host}:{slots}"), DISCOVER: script}, programs=shim.PROGRAMS)
