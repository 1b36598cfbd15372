"""Commands that look at processes of a pod and signal them, from inside: Kubernetes ends containers only. Pure; used by
``keeper``, ``execution`` and ``kind``.

The containers of a pod share their processes. A container is recognized by its id in the path of its control group, a
command by a variable that it was started with, as are all that it has started. The scripts need a shell only.
"""

from __future__ import annotations

_VARIABLE = "GRASS_EXEC"
_LOOK = """
look() { found=; while read -r line || [ -n "$line" ]; do found="$found $line"; done 2>/dev/null <"$1"; }
"""
_FIRST = f"""{_LOOK}
look /proc/self/cgroup; own=$found; main=
[ -n "$own" ] || exit 1
for each in /proc/[0-9]*; do
  look "$each/cgroup"; number=${{each#/proc/}}
  case "$0" in
    self) [ "$found" = "$own" ] || continue ;;
    *) case "$found" in *"$0"*) ;; *) continue ;; esac ;;
  esac
  {{ [ -z "$main" ] || [ "$number" -lt "$main" ]; }} && main=$number
done
[ -n "$main" ] && kill -"$1" "$main"
"""
_MARKED = f"""{_LOOK}
for each in /proc/[0-9]*; do
  look "$each/environ"
  case "$found" in *"{_VARIABLE}=$0"*) kill -"$1" "${{each#/proc/}}" 2>/dev/null ;; esac
done
"""
_LISTENS = """
for table in /proc/net/tcp /proc/net/tcp6; do
  while read -r _ local _ state _; do
    case "$local $state" in *":$0 0A") exit 0 ;; esac
  done 2>/dev/null <"$table"
done
exit 1
"""


def listens(port: int) -> list[str]:
    """Return the command that ends with 0 if a program listens on a TCP port."""
    return ["/bin/sh", "-c", _LISTENS, f"{port:04X}"]


def signal_first(container: str, name: str) -> list[str]:
    """Return the command that sends the signal ``name`` to the first process of a container, by its id."""
    return ["/bin/sh", "-c", _FIRST, container, name]


def signal_own_first(name: str) -> list[str]:
    """The same for the container that the command runs in."""
    return ["/bin/sh", "-c", _FIRST, "self", name]


def marked(argv: list[str], mark: str) -> list[str]:
    """Return a command that can be found again."""
    return ["/bin/sh", "-c", f'export {_VARIABLE}="$0"; exec "$@"', mark, *argv]


def signal_marked(mark: str, name: str) -> list[str]:
    """Return the command that sends a signal to a marked command, and to what it has started."""
    return ["/bin/sh", "-c", _MARKED, mark, name]
