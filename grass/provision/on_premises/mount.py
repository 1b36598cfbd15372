"""The share on a node: by kernel cifs, else through FUSE, or a mount that is there already. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grass.errors import InputError
from grass.provision.on_premises.facts import Facts
from grass.provision.on_premises.node_places import Places
from grass.provision.on_premises.steps import Put, Run, Step
from grass.share import shared

CIFS, FUSE = "cifs", "fuse"
_INACTIVE_SECONDS = 60


@dataclass(frozen=True)
class ShareMount:
    """How the share gets onto the node. ``packages`` are missing for it (by the names that Debian and Fedora have)."""

    kind: str
    packages: tuple[str, ...] = ()

    @property
    def unit_file(self) -> str:
        return f"grass-share-{self.kind}@.service"

    def unit(self, cluster: str) -> str:
        return f"grass-share-{self.kind}@{cluster}.service"


def choose(facts: Facts) -> ShareMount:
    """Kernel cifs where there is some: it is faster, and one process less. Raises InputError: neither is there."""
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


def share_steps(places: Places, mount: ShareMount, share: Mapping[str, Any]) -> list[Step]:
    """``share``: as the master answered, with the password, which goes through standard input only."""
    unit = mount.unit(places.cluster)
    files = (
        Put(f"{places.units}/{mount.unit_file}", shared(f"deploy/systemd/{mount.unit_file}").read_bytes()),
        Put(places.share_env, _environment(places, share)),
    )
    return [
        Step("write the credentials of the share", (_credentials(places, mount, share),)),
        Step("write the unit of the share", (*files, Run(("systemctl", "daemon-reload")))),
        Step(
            "mount the share",
            (
                Run(("install", "-d", "-m", "0755", places.share)),
                Run(("systemctl", "enable", unit)),
                Run(("systemctl", "restart", unit), timeout=_INACTIVE_SECONDS),
                Run(("sh", "-c", _APPEARS, "look", places.share)),
            ),
            check=Run(("sh", "-c", f'systemctl is-active --quiet "$2" && {_IS_MOUNTED}', "look", places.share, unit)),
            hint=f"`journalctl -u {unit}` on the host says why; does a firewall keep the node from the master's port "
            f"{share['port']}?",
        ),
    ]


# What is mounted is the master's share, and not something empty in its place.
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


def _credentials(places: Places, mount: ShareMount, share: Mapping[str, Any]) -> Put | Run:
    """rclone wants its passwords obscured, in a way that is its own."""
    if mount.kind == CIFS:
        text = f"username={share['user']}\npassword={share['password']}\n"
        return Put(places.credentials, text.encode(), 0o600)
    words = (places.credentials, share["host"], str(share["port"]), share["user"])
    return Run(("sh", "-c", _OBSCURE, "obscure", *words), stdin=f"{share['password']}\n".encode())


def _environment(places: Places, share: Mapping[str, Any]) -> bytes:
    lines = {
        "SHARE": f"//{share['host']}/{share['share']}",
        "SHARE_NAME": share["share"],
        "SHARE_HOST": share["host"],
        "SHARE_PORT": share["port"],
        "SHARE_FOLDER": places.share,
        "SHARE_CREDENTIALS": places.credentials,
        "SHARE_CACHE": f"{places.home}/share-cache",
        "GRASS_PYTHON": places.python,
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items()).encode()
