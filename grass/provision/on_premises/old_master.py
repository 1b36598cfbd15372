"""The master that a restore replaces: whether it lives, and how it is kept from coming back. Used by ``restore``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from grass.api.keyring import public_key
from grass.config import ClusterConfig
from grass.errors import ConflictError
from grass.hosts import Host, HostUnreachableError
from grass.lines import lines_of
from grass.manifest.on_premises import REDIS_PORT, HostSettings
from grass.model.daemons import MASTER_DAEMONS
from grass.network_address import WILDCARDS, network_address
from grass.provision.backup.restoring import INTERRUPTED
from grass.provision.on_premises.backup_on_host import RESTORED_FROM
from grass.provision.on_premises.design import SERVICES, STATE
from grass.provision.on_premises.facts import REPLACED_BY
from grass.provision.on_premises.machines import open_host
from grass.provision.on_premises.masters import Masters
from grass.provision.on_premises.on_host import PUBLIC_KEY
from grass.provision.provisioner import Session
from grass.supervision.predecessor import answers

_ANSWERS = 5.0
_LOOK = f"""
home={STATE}/clusters/$1
! systemctl is-active --quiet "grass-redis@$1.service" || echo lives
[ ! -e "$home/redis/appendonlydir" ] || echo state
[ ! -e "$home/{INTERRUPTED}" ] || echo interrupted
[ ! -s "$home/{RESTORED_FROM}" ] || echo "restored-from $(cat "$home/{RESTORED_FROM}")"
[ ! -s "$home/{REPLACED_BY}" ] || echo "replaced-by $(cat "$home/{REPLACED_BY}")"
[ ! -s "$home/{PUBLIC_KEY}" ] || echo "key $(tr -d '\\n' < "$home/{PUBLIC_KEY}")"
"""
_FENCE = f"""
home={STATE}/clusters/$1
mark="$home/{REPLACED_BY}" redis="grass-redis@$1.service"
[ ! -d "$home" ] || {{ printf '%s\\n' "$2" > "$mark" && chown grass:grass "$mark"; }} || exit 1
shift 2
for unit in "$@"; do systemctl disable --now "$unit" 2>/dev/null; done
! systemctl is-active --quiet "$redis"
"""


@dataclass(frozen=True)
class Found:
    """What a machine has of a master. ``key``: id of the master's key; empty: none. ``replaced_by``: the address of
    the master that took over from this one."""

    lives: bool = False
    state: bool = False
    interrupted: bool = False
    restored_from: str = ""
    replaced_by: str = ""
    key: str = ""


def look(host: Host, name: str) -> Found:
    said = dict(
        line.partition(" ")[::2]
        for line in lines_of(host.run(["sh", "-c", _LOOK, "look", name], sudo=True).check().out)
    )
    key = public_key(json.loads(said["key"])).thumbprint() if "key" in said else ""
    return Found(
        "lives" in said,
        "state" in said,
        "interrupted" in said,
        said.get("restored-from", ""),
        said.get("replaced-by", ""),
        key,
    )


def check_dead(session: Session, old: HostSettings | None, before: ClusterConfig) -> None:
    """Raises ConflictError: the master on the machine ``old`` lives. None: it was on the machine of the new one."""
    if old is None:
        return
    living = ConflictError(
        f"cluster {session.name}: its master on {old.address} lives, and a restore would make a second one; "
        f"stop it there first: {by_hand(session.name)}"
    )
    with reached(session, old) as host:
        if host is not None:
            if look(host, session.name).lives:
                raise living
            return
    for address in {old.address, before.address} - WILDCARDS:
        if answers(address, before.master.api_port, _ANSWERS):
            raise living
    session.progress(f"{old.address}: the old master does not answer, so it counts as dead")


def redis_of(old: HostSettings, before: ClusterConfig) -> str:
    return network_address(before.redis.host or old.address, before.redis.port or REDIS_PORT)


def fence(session: Session, masters: Masters, new: str) -> Masters:
    """Keep the old masters from starting again: their units are disabled, and their folders name the new one.

    Return it with those that did not answer: the new master fences them when they come back.
    """
    masters = masters.without(new)
    for old in masters.old:
        if _fenced(session, old.machine, new):
            masters = masters.without(old.machine.address)
    return masters


def _fenced(session: Session, old: HostSettings, new: str) -> bool:
    with reached(session, old) as host:
        if host is None:
            session.progress(
                f"{old.address}: its units cannot be disabled; when it comes back, the new master takes all rights "
                f"from its redis within seconds. Better, before it has a network: {by_hand(session.name)}"
            )
            return False
        host.run(["sh", "-c", _FENCE, "fence", session.name, new, *units(session.name)], sudo=True).check()
        session.progress(f"{old.address}: the units of the old master are disabled")
    return True


def by_hand(name: str) -> str:
    return f"`systemctl disable --now grass-{{redis,master-agent,master-api-server}}@{name}`"


def units(name: str) -> tuple[str, ...]:
    """Return the units that a master may have. Those of a node on the same machine go on."""
    return tuple(f"grass-{each}@{name}.service" for each in (*MASTER_DAEMONS, *SERVICES))


@contextmanager
def reached(session: Session, settings: HostSettings) -> Iterator[Host | None]:
    """Yield the machine; None: it does not answer."""
    host = open_host(settings, session.client_dir, session.ask)
    with host:
        try:
            host.connect()
        except HostUnreachableError:
            yield None
            return
        yield host
