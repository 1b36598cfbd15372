"""Mount of the share on a node: kernel cifs, or FUSE where the kernel has no cifs. Pure; ``joining`` runs the steps.

Used by ``join_steps`` and ``node_design``.
"""

from __future__ import annotations

from dataclasses import dataclass

from grass.assets import asset
from grass.errors import InputError
from grass.provision.on_premises.facts import Facts
from grass.provision.on_premises.node_paths import NodePaths
from grass.provision.on_premises.steps import Put, Run, Step
from grass.wire.join_views import ShareServer

CIFS, FUSE = "cifs", "fuse"
_INACTIVE_SECONDS = 60


@dataclass(frozen=True)
class ShareMount:
    """Way of mounting the share on a node. ``packages``: missing packages (same names in Debian and Fedora)."""

    kind: str
    packages: tuple[str, ...] = ()

    @property
    def unit_file(self) -> str:
        return f"grass-share-{self.kind}@.service"

    def unit(self, cluster: str) -> str:
        return f"grass-share-{self.kind}@{cluster}.service"


def choose(facts: Facts) -> ShareMount:
    """Choose the way of mounting the share.

    Kernel cifs is preferred: it is faster, needs no process, and is more reliable when several nodes write to one file.
    Raises InputError if the kernel has neither cifs nor FUSE.
    """
    if facts.cifs:
        return ShareMount(CIFS, () if "mount.cifs" in facts.programs else ("cifs-utils",))
    if not facts.fuse:
        raise InputError(
            f"{facts.hostname}: the kernel has neither cifs nor FUSE (/dev/fuse), so the share cannot be mounted; "
            "mount it in another way, and say where with --share PATH"
        )
    missing = [] if "rclone" in facts.programs else ["rclone"]
    if not {"fusermount3", "fusermount"} & set(facts.programs):
        missing.append("fuse3")
    return ShareMount(FUSE, tuple(missing))


def share_steps(paths: NodePaths, mount: ShareMount, server: ShareServer) -> list[Step]:
    """Return the steps that mount the share. The password is passed on standard input."""
    unit = mount.unit(paths.cluster)
    files = (
        Put(f"{paths.units}/{mount.unit_file}", asset(f"deploy/systemd/{mount.unit_file}").read_bytes()),
        Put(paths.share_env, _environment(paths, server)),
    )
    return [
        Step("write the credentials of the share", (_credentials(paths, mount, server),)),
        Step("write the unit of the share", (*files, Run(("systemctl", "daemon-reload")))),
        Step(
            "mount the share",
            (
                Run(("install", "-d", "-m", "0755", paths.share)),
                Run(("systemctl", "enable", unit)),
                Run(("systemctl", "restart", unit), timeout=_INACTIVE_SECONDS),
                Run(("sh", "-c", _APPEARS, "look", paths.share)),
            ),
            check=Run(("sh", "-c", f'systemctl is-active --quiet "$2" && {_IS_MOUNTED}', "look", paths.share, unit)),
            hint=f"`journalctl -u {unit}` on the host says why; does a firewall keep the node from the master's port "
            f"{server.port}?",
        ),
    ]


# The mounted folder must be the master's share, and not an empty folder in its place.
_IS_MOUNTED = 'grep -qs " $1 " /proc/self/mounts && timeout 15 test -d "$1/logs"'

_APPEARS = f"""
for _ in 1 2 3 4 5 6 7 8 9 10; do
  {_IS_MOUNTED}
  case $? in 0) exit 0;; 124) break;; esac  # 124: it hangs
  sleep 1  # through FUSE, the server is first asked now: its first answer may be a failure
done
grep " $1 " /proc/self/mounts || echo "nothing is mounted at $1" >&2
timeout 15 ls -d "$1/logs"
"""
_OBSCURE = """
umask 077
read -r password
XDG_CONFIG_HOME=$(mktemp -d) && export XDG_CONFIG_HOME  # rclone makes a folder for a configuration, whatever it does
{ printf '[grass]\\ntype = smb\\nhost = %s\\nport = %s\\nuser = %s\\nidle_timeout = 30s\\n' "$2" "$3" "$4"
  printf 'pass = %s\\n' "$(printf '%s' "$password" | rclone obscure -)"; } > "$1.new" && mv -f "$1.new" "$1"
code=$?
rm -rf "$XDG_CONFIG_HOME"
exit $code
"""


def _credentials(paths: NodePaths, mount: ShareMount, server: ShareServer) -> Put | Run:
    """Write the credentials of the mount. rclone needs passwords obscured in its own way."""
    if mount.kind == CIFS:
        text = f"username={server.user}\npassword={server.password}\n"
        return Put(paths.credentials, text.encode(), 0o600)
    words = (paths.credentials, server.host, str(server.port), server.user)
    return Run(("sh", "-c", _OBSCURE, "obscure", *words), stdin=f"{server.password}\n".encode())


def _environment(paths: NodePaths, server: ShareServer) -> bytes:
    lines = {
        "SHARE": f"//{server.host}/{server.share}",
        "SHARE_NAME": server.share,
        "SHARE_HOST": server.host,
        "SHARE_PORT": server.port,
        "SHARE_FOLDER": paths.share,
        "SHARE_CREDENTIALS": paths.credentials,
        "SHARE_CACHE": f"{paths.home}/share-cache",
        "GRASS_PYTHON": paths.python,
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items()).encode()
