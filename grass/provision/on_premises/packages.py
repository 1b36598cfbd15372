"""System packages that Grass installs on a host. Their dependencies are recorded first, so that removal is possible.

Used by ``join_steps``, ``master``, ``node_steps`` and ``removal``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from grass.errors import InputError
from grass.hosts import Host
from grass.lines import lines_of
from grass.provision.on_premises import record
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.steps import Call, Run, Step

_APT = """
export DEBIAN_FRONTEND=noninteractive
keep="-o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold"  # configuration that is there
get() { apt-get install -y -q --no-install-recommends $keep "$@"; }
get "$@" || { apt-get update -q && get "$@"; }
"""
_APT_WOULD = 'LC_ALL=C apt-get install --simulate -y -q --no-install-recommends "$@" 2>&1'
# If no mirror answers, try one package only: each further package would wait for a timeout as well.
_APT_FETCH = """
export LC_ALL=C
limits="-o Acquire::Retries=0 -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15"
apt-get update -q --error-on=any $limits >/dev/null 2>&1 || {
  folder=$(mktemp -d)
  (cd "$folder" && apt-get download -q $limits "$1" 2>&1)
  code=$?
  rm -rf "$folder"
  [ $code = 0 ] || exit $code
}
apt-get install --download-only -y -q --no-install-recommends "$@" 2>&1
"""
_APT_CHECK = """
for package in "$@"; do
  dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || exit 1
done
"""
_SERVICES = ("smbd", "nmbd", "samba-ad-dc", "redis-server", "redis", "smb", "nmb")
"""Services that the packages start by themselves. Grass runs its own instead."""
_MISSING = """
for unit in "$@"; do systemctl cat "$unit.service" >/dev/null 2>&1 || echo "$unit"; done
"""
_QUIET = """
for unit in "$@"; do
  ! systemctl cat "$unit.service" >/dev/null 2>&1 || systemctl disable --quiet --now "$unit.service" || exit 1
done
"""
# Packages that others need stay: a package is removed only if nothing outside the list is removed with it. A package
# whose service was enabled or started since then has another user, and stays with what it needs.
_APT_REMOVE = """
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
there() { for p in "$@"; do
  dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' "$p" 2>/dev/null | sed -n 's/^i. *\\([^ ]*\\)$/\\1/p'
done; }
goes() { apt-get remove --simulate "$@" 2>/dev/null | sed -n 's/^\\(Remv\\|Purg\\) \\([^ :]*\\).*/\\2/p'; }
foreign() { goes "$@" | while read -r gone; do
  case " $list " in *" $gone "*) ;; *) echo "$gone";; esac
done; }
used() { for unit in $services; do
  systemctl is-enabled --quiet "$unit.service" 2>/dev/null || systemctl is-active --quiet "$unit.service" || continue
  dpkg-query -S "*/systemd/system/$unit.service" 2>/dev/null | cut -d: -f1  # the owner may have replaced that file
done; }
list=$(there "$@" | grep -vxF "$(used; echo /)" | tr '\\n' ' ')
[ -n "$list" ] || exit 0
if [ -n "$(foreign $list)" ]; then
  for p in $list; do [ -n "$(foreign "$p")" ] || free="$free $p"; done
  list=$free
fi
[ -z "$list" ] || apt-get remove --purge -y -q $list
"""
_RPM_REMOVE = 'if command -v dnf >/dev/null; then dnf remove -y -q "$@"; else yum remove -y -q "$@"; fi'
_REMOVE = (
    f"services='{' '.join(_SERVICES)}'\nif command -v apt-get >/dev/null; then {_APT_REMOVE}\nelse {_RPM_REMOVE}\nfi"
)


def fetch_step(packages: Sequence[str], packager: str) -> Step:
    """Download packages before any change. Raises InputError with the missing packages and the manager's reason."""
    words = ", ".join(packages)

    def fetch(host: Host) -> None:
        if packager == "apt-get":
            command = ("sh", "-c", _APT_FETCH, "fetch", *packages)
        else:
            command = (packager, "install", "--downloadonly", "-y", "-q", *packages)
        done = host.run(command, sudo=True, timeout=1800)
        if not done.ok:
            lines = [line for line in lines_of(done.out) if line.startswith("E:")] or [done.err or done.out]
            said = "\n    ".join(lines)[-1000:]
            raise InputError(f"missing: {words}; {host.name} cannot get it, nothing was changed:\n    {said}")

    hint = f"install {' '.join(packages)} there by hand, or give that machine a source of packages; then try again"
    return Step(f"fetch {words}", (Call(f"let {packager} download {words}", fetch),), hint=hint)


def install_step(packages: Sequence[str], packager: str, noted: str) -> Step:
    """Install packages. ``noted``: the path of the record.

    Services that the packages bring and start are stopped, so that no service listens without a request. Services that
    the host had before belong to its owner and are left alone.
    """
    words = " ".join(packages)
    if packager == "apt-get":
        install = Run(("sh", "-c", _APT, "install", *packages), timeout=1800)
        check = Run(("sh", "-c", _APT_CHECK, "check", *packages))
    else:
        install = Run((packager, "install", "-y", "-q", *packages), timeout=1800)
        check = Run(("rpm", "-q", "--quiet", *packages))
    hint = f"install {words} there by hand, or give that machine a source of packages; then try again"

    def note(host: Host) -> None:
        new: tuple[str, ...] = ()
        if packager == "apt-get":
            done = host.run(("sh", "-c", _APT_WOULD, "would", *packages), sudo=True, timeout=120).check()
            new = would_install(done.out)
        services = host.run(("sh", "-c", _MISSING, "missing", *_SERVICES), sudo=True).check().out.split()
        add_to_record(host, noted, new, services)

    noting = Call(f"note in {noted} what comes with it", note)
    quiet = Call("stop and disable the services that came with it", lambda host: stop_services(host, noted))
    return Step(f"install {words}", (noting, install, quiet), check, hint)


def would_install(said: str) -> tuple[str, ...]:
    """Return the new packages in the output of ``apt-get install --simulate``.

    A package that is only upgraded has its present version in brackets. It was there before, and is not ours to remove.
    """
    return tuple(re.findall(r"^Inst (\S+) \(", said, re.MULTILINE))


def add_to_record(host: Host, path: str, packages: Sequence[str], services: Sequence[str]) -> None:
    """Note packages that are about to be installed, and services that are not there before.

    A call that was interrupted noted its services before it installed them. They wait to be stopped until then.
    """
    there = _record(host, path)
    made = record.merged(there, Made(packages=tuple(packages)))
    made = replace(made, services=tuple(dict.fromkeys([*there.services, *services])))
    host.put(made.text(), path, 0o600, "root:root", sudo=True)


def stop_services(host: Host, path: str) -> None:
    made = _record(host, path)
    host.run(("sh", "-c", _QUIET, "quiet", *made.services), sudo=True, timeout=150).check()
    host.put(replace(made, services=()).text(), path, 0o600, "root:root", sudo=True)


def _record(host: Host, path: str) -> Made:
    return Made.parse(host.run(["cat", path], sudo=True).check().out)


def remove_step(names: tuple[str, ...]) -> Step | None:
    """Remove packages that Grass installed and that no other package needs."""
    if not names:
        return None
    action = Run(("sh", "-c", _REMOVE, "remove", *names), timeout=1800)
    return Step("remove the packages that were installed for it", (action,))
