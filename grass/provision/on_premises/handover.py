"""Takes the cluster from the master that works, so that it comes back by itself unless another one has taken over.

A guard on the old machine, a transient unit of systemd, starts the daemons again when the command that stopped them has
given no sign of life for a while. The fence and the guard exclude each other by a lock: after the fence, the guard does
nothing, and after the guard, the fence fails. A reboot before the fence starts the daemons as well. Used by ``moving``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from grass.errors import ConflictError, GrassError
from grass.hosts import Done, Host
from grass.lines import lines_of
from grass.manifest.on_premises import HostSettings
from grass.provision.on_premises import old_master
from grass.provision.on_premises.design import STATE
from grass.provision.on_premises.facts import REPLACED_BY
from grass.provision.on_premises.machines import open_host
from grass.provision.on_premises.on_host import MOVED_AS
from grass.provision.provisioner import Session

GIVEN_UP = 30
"""Seconds without a sign of life until the old master goes on."""
_SIGN = 5.0

_NAMES = f"""
name=$1; shift
home={STATE}/clusters/$name alive=/run/grass-move-$name
mark=$home/{REPLACED_BY}
[ -d "$home" ] || exit 0
exec 9<"$home"; flock 9
sign() {{ cut -d. -f1 /proc/uptime > "$alive.new" && mv "$alive.new" "$alive"; }}
"""
# What is stopped is enabled still.
_STOP = (
    _NAMES
    + f"""
[ ! -e "$mark" ] || {{ echo "its master is $(cat "$mark")" >&2; exit 2; }}
guard='
name=$1 home=$2 alive=$3 mark=$4; shift 4
while sleep 1; do
  (
    flock 9
    [ -e "$alive" ] || exit 0
    [ $(( $(cut -d. -f1 /proc/uptime) - $(cat "$alive") )) -ge {GIVEN_UP} ] || exit 3
    [ -e "$mark" ] || {{ systemctl enable --quiet "$@"; systemctl start "$@"; }}
    rm -f "$alive"
  ) 9<"$home"
  [ $? = 3 ] || break
done
rm -f "$alive.sh"
'
sign
systemctl stop "grass-move-$name.service" 2>/dev/null
printf '%s' "$guard" > "$alive.sh"
systemd-run --quiet --collect --unit="grass-move-$name" sh "$alive.sh" "$name" "$home" "$alive" "$mark" "$@" 9<&- ||
  {{ rm -f "$alive"; exit 1; }}
systemctl stop "$@"
for unit in "$@"; do
  ! systemctl is-active --quiet "$unit" || {{ echo "$unit does not stop" >&2; exit 1; }}
done
sign
"""
)
_ALIVE = _NAMES + '[ -e "$alive" ] && sign'
_GO_ON = _NAMES + '[ -e "$mark" ] || { systemctl enable --quiet "$@"; systemctl start "$@"; rm -f "$alive"; }'
# Disabled first, then marked: whatever is cut off in between, no two masters start. Its node on this machine goes on.
_FENCE = (
    _NAMES
    + """
new=$1 id=$2; shift 2
[ "$(cat "$mark" 2>/dev/null)" != "$new" ] || exit 0
for unit in "$@"; do
  ! systemctl is-active --quiet "$unit" || { echo "$unit was started again" >&2; exit 1; }
done
[ -e "$alive" ] || { echo "it was started again" >&2; exit 1; }
systemctl disable --quiet "$@" || exit 1
printf '%s\\n' "$id" > "$home/moved-as" && printf '%s\\n' "$new" > "$mark.new" || exit 1
chown grass:grass "$home/moved-as" "$mark.new" && sync && mv "$mark.new" "$mark" && sync || exit 1
systemctl stop "$@"
rm -f "$alive"
"""
)
_OWN = """
for unit in "$@"; do
  ! systemctl is-enabled --quiet "$unit" 2>/dev/null && ! systemctl is-active --quiet "$unit" || echo "$unit"
done
"""
_LOOK = (
    _NAMES
    + f"""
[ ! -e "$alive" ] || echo stopped
[ ! -s "$mark" ] || echo "new $(cat "$mark")"
[ ! -s "$home/{MOVED_AS}" ] || echo "id $(cat "$home/{MOVED_AS}")"
"""
)


class NotFencedError(GrassError):
    """The old master goes on: it was started again before it could be fenced."""

    code = "not-fenced"


@dataclass(frozen=True)
class Handed:
    """State of an old master. ``stopped``: by a move that goes on, or was killed. ``new``: the address of the new
    master, once this one is fenced; ``id``: of that move."""

    stopped: bool = False
    new: str = ""
    id: str = ""


def look(host: Host, name: str) -> Handed:
    said = dict(line.partition(" ")[::2] for line in lines_of(_run(host, _LOOK, name).out))
    return Handed("stopped" in said, said.get("new", ""), said.get("id", "") if "new" in said else "")


def units(host: Host, name: str, more: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the units of the master, and of ``more``, that run or start at boot. None of a fenced master does."""
    words = ("sh", "-c", _OWN, "units", *old_master.units(name), *more)
    return tuple(lines_of(host.run(words, sudo=True).check().out))


@contextmanager
def stopped(session: Session, host: Host, settings: HostSettings, units: tuple[str, ...]) -> Iterator[None]:
    """Stop the old master for the block. If the block does not fence it, it goes on."""
    end = threading.Event()
    signs = threading.Thread(target=_give_signs, args=(session, settings, end), daemon=True)
    try:
        _run(host, _STOP, session.name, *units)
        signs.start()
        yield
    finally:
        end.set()
        try:
            host.run(["sh", "-c", _GO_ON, "go-on", session.name, *units], sudo=True).check()
        except GrassError as error:
            session.progress(f"{host.name}: goes on by itself within {GIVEN_UP} s ({error})")


def go_on(host: Host, name: str, units: tuple[str, ...]) -> None:
    """Let the old master go on, unless it is fenced."""
    _run(host, _GO_ON, name, *units)


def fence(host: Host, name: str, new: str, id: str, units: tuple[str, ...]) -> None:
    """Keep the old master, which is stopped, from ever starting again. From now on ``new`` is the master.

    Raises NotFencedError: it was started again.
    """
    done = host.run(["sh", "-c", _FENCE, "fence", name, new, id, *units], sudo=True)
    if not done.ok:
        raise NotFencedError(f"{host.name}: the old master goes on, and was not moved: {done.err.strip()}; try again")


def _run(host: Host, script: str, name: str, *words: str) -> Done:
    done = host.run(["sh", "-c", script, "hand-over", name, *words], sudo=True)
    if done.code == ConflictError.exit_code:
        raise ConflictError(f"{host.name}: {done.err.strip()}")
    return done.check()


def _give_signs(session: Session, settings: HostSettings, end: threading.Event) -> None:
    """Say again and again that the command lives, over a connection of its own."""
    try:
        with open_host(settings, session.client_dir, session.ask) as host:
            while not end.wait(_SIGN) and host.run(["sh", "-c", _ALIVE, "alive", session.name], sudo=True).ok:
                pass
    except GrassError as error:
        session.progress(f"{settings.address}: {error}")
