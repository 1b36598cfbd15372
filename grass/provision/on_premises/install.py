"""Steps that masters and nodes share: the user `grass`, the bundle, Grass in its own environment. Pure.

Used by ``join_steps``, ``master``, ``namespace_nodes``, ``namespace_steps`` and ``node_steps``.
"""

from __future__ import annotations

from collections.abc import Sequence

from grass.provision.on_premises.bundle import UNKNOWN, Bundle
from grass.provision.on_premises.design import STATE, VENV
from grass.provision.on_premises.record import FOLDER, Made
from grass.provision.on_premises.steps import Put, Run, Step

BUNDLE = "/opt/grass/bundle"
FOLDERS = (VENV, "/opt/grass/venvs", BUNDLE)
"""What Grass makes in /opt/grass. That folder itself may be another program's, and is removed only when it is empty."""
AS_GRASS = ("runuser", "-u", "grass", "--")
"""Before a command that the user `grass` runs."""
COMMAND = "/usr/local/bin/grass"
"""Path of a link, so that every user of the machine has the command `grass`."""

_HOLDS = """
holds() { [ "$(cat /opt/grass/venv/bundle 2>/dev/null)" = "$1" ] &&
  /opt/grass/venv/bin/python -c "
import grass, master, node, importlib.util as i, sys
sys.exit(not i.find_spec('numpy'))"; }
"""
"""A node's environment is made from the same bundle, but without packages that only masters need, such as numpy."""
_INSTALL = """
set -e
umask 022
python=$1; digest=$2; bundle=$3
new=/opt/grass/venvs/$(echo "$digest" | cut -c1-16)-master
exec 9</opt/grass
flock -w 300 9 || { echo "another installation has been holding /opt/grass for 5 minutes" >&2; exit 1; }
! holds "$digest" || exit 0  # by one that was cut off, and went on
echo "$digest  $bundle" | sha256sum -c >/dev/null
trap 'rm -f /opt/grass/install.py' EXIT
tar -xOf "$bundle" install.py > /opt/grass/install.py
"$python" /opt/grass/install.py "$bundle" "$new" master
echo "$digest" > "$new/bundle"
ln -sfn "$new" /opt/grass/venv.new
mv -fT /opt/grass/venv.new /opt/grass/venv
"""
_OLD = """
now=$(readlink /opt/grass/venv)
for old in /opt/grass/venvs/*; do
  [ "$old" = "$now" ] || grep -qsF "$old/" /proc/[0-9]*/maps || rm -rf -- "$old"
done
"""
_NO_OLD = '[ "$(ls /opt/grass/venvs | wc -l)" = 1 ]'


def record_step(made: Made, path: str) -> Step:
    """Write the record. This step is the first: all objects created later are recorded for the removal."""
    make = Run(("sh", "-c", f"umask 077 && mkdir -p {FOLDER} && chmod 755 {STATE}"))
    return Step("note what will be made there", (make, Put(path, made.text(), 0o600)))


def user_step() -> Step:
    """Create a system user without a password. Its shell runs the one command that a files key is allowed."""
    make = (
        "useradd",
        "--system",
        "--user-group",
        "--home-dir",
        STATE,
        "--no-create-home",
        "--shell",
        "/bin/sh",
        "grass",
    )
    return Step(
        "make the user grass",
        (Run(make), Run(("usermod", "--password", "*", "grass"))),
        Run(("id", "-u", "grass")),
    )


def folder_step(folders: Sequence[tuple[str, int, str]]) -> Step:
    """Create folders. ``folders``: path, mode and owner of each."""
    words = [word for path, mode, owner in folders for word in (path, f"{mode:o}", owner)]
    make = (
        'while [ $# -gt 0 ]; do mkdir -p -- "$1" && chown "$3" -- "$1" && chmod "$2" -- "$1" || exit 1; shift 3; done'
    )
    check = 'while [ $# -gt 0 ]; do [ "$(stat -c "%a %U:%G" -- "$1")" = "$2 $3" ] || exit 1; shift 3; done'
    return Step(
        "make its folders", (Run(("sh", "-c", make, "make", *words)),), Run(("sh", "-c", check, "check", *words))
    )


def bundle_steps(bundle: Bundle, python: str) -> list[Step]:
    """Bring the wheels, install them beside the running version, and switch, so that no partial installation is used.

    A node that already runs on the machine uses the same bundle, but without packages that only masters need.
    """
    size = "once its packages are fetched"
    if bundle.digest != UNKNOWN:
        size = f"{bundle.tar.stat().st_size / 1e6:.0f} MB"
    tar = f"{BUNDLE}/bundle.tar"
    return [
        Step(
            f"bring the bundle ({size})",
            (Put(tar, bundle.tar), Put(f"{BUNDLE}/bundle.json", bundle.description())),
        ),
        Step(
            f"install Grass in {VENV}",
            (Run(("sh", "-c", _HOLDS + _INSTALL, "install", python, bundle.digest, tar)),),
            Run(("sh", "-c", f'{_HOLDS} holds "$1"', "check", bundle.digest)),
        ),
    ]


def command_step() -> Step:
    """Create the link for the command. An existing other `grass` stays."""
    make = Run(("ln", "-s", f"{VENV}/bin/grass", COMMAND))
    check = '[ -e "$1" ] || [ -L "$1" ] || [ ! -d "$(dirname "$1")" ]'
    return Step("make `grass` a command there", (make,), Run(("sh", "-c", check, "check", COMMAND)))


def old_versions_step() -> Step:
    return Step("remove earlier versions that nothing runs", (Run(("sh", "-c", _OLD)),), Run(("sh", "-c", _NO_OLD)))
