"""Steps that remove the objects in a host's record, for masters and nodes. Pure. Used by ``delete`` and ``leaving``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from grass.provision.on_premises import record
from grass.provision.on_premises.design import VENV
from grass.provision.on_premises.install import COMMAND
from grass.provision.on_premises.packages import remove_step
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.steps import Run, Step

_STOP = """
for unit in "$@"; do
  systemctl disable --now "$unit" 2>/dev/null
  systemctl stop "$unit" 2>/dev/null
  systemctl kill --signal=KILL "$unit" 2>/dev/null
  systemctl reset-failed "$unit" 2>/dev/null
done
for unit in "$@"; do
  if systemctl is-active --quiet "$unit"; then echo "$unit still runs" >&2; exit 1; fi
done
"""
_UNMOUNT = """
for target in "$@"; do
  while grep -qs " $target " /proc/self/mounts; do  # one on top of another: see node/share_mount.py
    timeout 20 umount "$target" 2>/dev/null || timeout 20 fusermount3 -u "$target" 2>/dev/null ||
      umount --lazy "$target" || exit 1
  done
done
"""
_MOUNTS = """
mounted() { grep -qs " $1 " /proc/self/mounts; }
disk() { grep -qs "^/dev/[^ ]* $1 " /proc/self/mounts; }
empty() { find "$1" -xdev -mindepth 1 -maxdepth 1 ! -name lost+found -exec rm -rf --one-file-system -- {} +; }
"""
"""Shell functions for mounted folders. A disk that an administrator mounted at a folder of Grass is emptied and stays.
"""
_FOLDERS = (
    _MOUNTS
    + """
for folder in "$@"; do
  ! grep -qs " $folder/" /proc/self/mounts || { echo "$folder: something is mounted below it" >&2; exit 1; }
  if disk "$folder"; then empty "$folder" || exit 1; continue; fi
  ! mounted "$folder" || { echo "$folder: something is mounted there" >&2; exit 1; }
  rm -rf --one-file-system -- "$folder" || exit 1
done
"""
)
_USERS = """
for user in "$@"; do
  id "$user" >/dev/null 2>&1 || continue
  n=0
  while left=$(find /proc -maxdepth 1 -user "$user" -name '[0-9]*' -printf '%f ' 2>/dev/null) && [ -n "$left" ]; do
    [ $n -lt 50 ] || { echo "processes of $user do not end: $left" >&2; exit 1; }
    kill -KILL $left 2>/dev/null; sleep 0.1; n=$((n+1))
  done
  userdel "$user" || exit 1
  ! getent group "$user" >/dev/null || groupdel "$user" || exit 1
done
"""
# $@: folders that were there before Grass, and stay with what they hold.
_EMPTY = (
    _MOUNTS
    + """
state=/var/lib/grass
theirs() { case " $kept " in *" $1 "*) return 0 ;; esac; return 1; }
kept=$*
if [ -z "$(ls -A $state/installed 2>/dev/null)" ]; then  # what installations that were killed left
  rm -rf -- /opt/grass/.bundle-* /opt/grass/install.py /opt/grass/venv.new
fi
for folder in /run/grass /srv/grass /etc/grass $state/installed $state/clusters $state/nodes $state/samba $state \
  /opt/grass; do
  [ ! -d "$folder" ] || theirs "$folder" || mounted "$folder" || rmdir --ignore-fail-on-non-empty "$folder"
done
# its user's home, in which tasks may have left files, when that user was made here and went with the last of all
if [ -d "$state" ] && ! theirs "$state" && [ ! -e "$state/installed" ] && ! id grass >/dev/null 2>&1; then
  if mounted "$state"; then empty "$state"
  elif grep -qs " $state/" /proc/self/mounts; then rm -rf --one-file-system -- "$state" 2>/dev/null || :  # a disk stays
  else rm -rf --one-file-system -- "$state"
  fi
fi
"""
)
_AS_BEFORE = """
while [ $# -gt 0 ]; do
  [ ! -d "$1" ] || { chmod "$2" -- "$1" && chown "$3" -- "$1"; } || exit 1
  shift 3
done
"""
# Somebody may have put another program in the place of the link.
_FILES = f"""
for file in "$@"; do
  [ "$file" != {COMMAND} ] || [ ! -e "$file" ] || [ "$(readlink -- "$file")" = {VENV}/bin/grass ] || continue
  rm -f -- "$file" || exit 1
done
! command -v systemctl >/dev/null || systemctl daemon-reload
"""
_LEFT = (
    _MOUNTS
    + """
code=0
for path in "$@"; do
  ! disk "$path" || continue
  if [ -e "$path" ] || [ -L "$path" ]; then echo "$path is still there" >&2; code=1; fi
done
exit $code
"""
)


def removal_steps(cluster: str, records: Mapping[str, Made], role: str = "", *, packages: bool = False) -> list[Step]:
    """Return the steps that remove a cluster's role from a host. Empty if the host has no record of it.

    ``records``: all records of the host (``Facts.records``). ``packages``: also remove the installed packages, unless
    another record shows that Grass still uses the host.
    """
    key = f"{cluster}+{role}" if role else cluster
    if key not in records:
        return []
    own = records[key]
    gone = record.leaving(own, [made for name, made in records.items() if name != key])
    steps = [
        _script("stop and disable its units", _STOP, gone.units),
        _script("unmount", _UNMOUNT, gone.mounts),
        _authorized(own),
        _script("remove its files", _FILES, gone.files),
        _script("remove its folders", _FOLDERS, gone.folders),
        _script("remove its user", _USERS, gone.users),
        remove_step(gone.packages) if packages and len(records) == 1 else None,
        _script("look whether anything is left", _LEFT, (*(f for f in gone.files if f != COMMAND), *gone.folders)),
        _script("give folders that were there before their mode and owner", _AS_BEFORE, _words(gone.before)),
        Step(
            "remove the record of what was made",
            (
                Run(("rm", "-f", "--", record.path(cluster, role))),
                Run(("sh", "-c", _EMPTY, "remove", *own.before)),
            ),
        ),
    ]
    return [step for step in steps if step is not None]


def _words(before: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(word for folder, had in before.items() for word in (folder, *had.split(" ")))


def _authorized(own: Made) -> Step | None:
    """Remove the lines of this cluster's files keys. Other clusters use the same file."""
    marker = own.details.get("authorized")
    if not isinstance(marker, str) or not re.fullmatch(r"[A-Za-z0-9._-]+", marker):
        return None
    pattern = " " + marker.replace(".", "[.]") + "$"
    script = 'file=/var/lib/grass/.ssh/authorized_keys; [ ! -f "$file" ] || sed -i "/$1/d" "$file"'
    return Step("take back the keys for its files", (Run(("sh", "-c", script, "remove", pattern)),))


def _script(name: str, script: str, words: tuple[str, ...]) -> Step | None:
    return Step(name, (Run(("sh", "-c", script, "remove", *words)),)) if words else None
