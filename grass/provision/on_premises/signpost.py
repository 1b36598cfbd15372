"""Has an old master's machine answer where the new one is: its API server starts again, and sends all clients there.

Best effort: a machine that does not answer gets no signpost, and an old unit of the API server does not start beside
the mark of the fence. Used by ``failover``, ``moving`` and ``restore``.
"""

from __future__ import annotations

from collections.abc import Iterable

from grass.api.client import Client
from grass.errors import GrassError
from grass.manifest.on_premises import HostSettings
from grass.model.daemons import MASTER_API
from grass.provision.on_premises import old_master
from grass.provision.on_premises.design import STATE
from grass.provision.on_premises.facts import REPLACED_BY
from grass.provision.provisioner import Session
from grass.supervision.moved import MOVED_TO

_PUT_UP = f"""
home={STATE}/clusters/$1 unit="grass-{MASTER_API.name}@$1.service"
[ -s "$home/{REPLACED_BY}" ] || exit 0
draft="$home/.{MOVED_TO}"
cat > "$draft" && chown grass:grass "$draft" && mv "$draft" "$home/{MOVED_TO}" || exit 1
systemctl enable --quiet "$unit" && systemctl restart "$unit" && echo done
"""


def put_up(session: Session, machines: Iterable[HostSettings]) -> None:
    """Have each machine, whose master is fenced, send clients to the present one."""
    notice = ""
    for machine in machines:
        try:
            if not notice:
                with Client(session.name, home=session.home) as client:
                    notice = client.notice()
            with old_master.reached(session, machine) as host:
                if host is None:
                    continue
                done = host.run(["sh", "-c", _PUT_UP, "put-up", session.name], stdin=notice.encode(), sudo=True).check()
        except GrassError as error:
            session.progress(f"{machine.address}: its clients are not sent to the new master ({error})")
            continue
        if done.out.strip():
            session.progress(f"{machine.address}: its API server sends clients to the new master")
