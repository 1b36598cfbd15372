"""The scripts that remove Grass from a host, run in a mount namespace of their own: this machine stays whole."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from grass.provision.on_premises import install
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.removal import removal_steps
from grass.provision.on_premises.steps import Run

pytestmark = pytest.mark.needs_root
STATE = "/var/lib/grass"
CLUSTER = f"{STATE}/clusters/c"
HOST = f"""
set -e
users=$(grep -v ^grass: /etc/passwd)
for folder in /etc /opt /srv /var/lib; do mount -t tmpfs none $folder; done
echo "$users" > /etc/passwd
mkdir -p {STATE}
%s
mkdir -p {STATE}/lost+found {STATE}/installed {STATE}/.ssh {CLUSTER}/redis
touch {STATE}/installed/c.json {STATE}/.bash_history {CLUSTER}/redis/aof
%s
for folder in {STATE} /opt/grass /etc/grass; do
  ! [ -e $folder ] || find $folder | sort
done
"""
OF_CLUSTER = Made(folders=(CLUSTER,))


def remove(mount: str = "", made: Made = OF_CLUSTER) -> tuple[int, list[str], str]:
    """Return the exit code of a removal, the files that are left, and what it said. ``mount``: done before."""
    steps = removal_steps("c", {"c": made})
    commands = [shlex.join(action.argv) for step in steps for action in step.actions if isinstance(action, Run)]
    script = HOST % (mount, "\n".join(commands))
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout.split(), done.stderr


def test_the_last_removal_on_a_host_leaves_nothing() -> None:
    assert remove() == (0, [], "")


def test_a_disk_that_is_mounted_at_the_folder_of_grass_is_emptied_and_stays() -> None:
    assert remove(f"mount -t tmpfs /dev/own {STATE}") == (0, [STATE, f"{STATE}/lost+found"], "")


def test_a_disk_that_is_mounted_at_the_folder_of_a_cluster_is_emptied_and_stays() -> None:
    mount = f"mkdir -p {CLUSTER}; mount -t tmpfs /dev/own {CLUSTER}"
    assert remove(mount) == (0, [STATE, f"{STATE}/clusters", CLUSTER], "")


def test_what_is_no_disk_and_is_mounted_at_a_folder_of_a_cluster_is_named_and_stops_the_removal() -> None:
    code, left, said = remove(f"mkdir -p {CLUSTER}; mount -t tmpfs server:/export {CLUSTER}")
    assert (code, left) == (1, []) and f"{CLUSTER}: something is mounted there" in said


OF_OTHERS = f"""
mkdir -p {STATE} /opt/grass/bin /opt/grass/venvs/1 /etc/grass
ln -s venvs/1 /opt/grass/venv; touch /opt/grass/bin/grass /opt/grass/install.py {STATE}/maps
"""


def test_a_program_of_the_owner_with_the_same_name_keeps_its_files_and_its_folder_as_it_was() -> None:
    """GRASS GIS is one."""
    had = {STATE: "751 1:1"}
    made = Made(folders=(CLUSTER, *install.FOLDERS, f"{STATE}/.ssh"), before=had)
    show = f"trap 'stat -c \"%a %u:%g\" {STATE}' EXIT"
    code, left, said = remove(f"{OF_OTHERS}\n{show}", made)
    assert (code, said) == (0, "")
    kept = [STATE, *(f"{STATE}/{name}" for name in (".bash_history", "lost+found", "maps"))]
    assert left == [*kept, "/opt/grass", "/opt/grass/bin", "/opt/grass/bin/grass", "751", "1:1"]
