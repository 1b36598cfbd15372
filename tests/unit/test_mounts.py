from __future__ import annotations

import socket
import subprocess
import threading
from pathlib import Path

import pytest

from node import share_mount, share_rebinding
from node.mounts import Changes, Mounted, lines_at, mount_of, mount_point, read_only
from node.unsent_files import UnsentFiles
from tests.support.hung_mount import hung_mount
from tests.support.needs import require_root

TABLE = """22 1 254:0 / / rw - ext4 /dev/vda rw
40 22 0:50 / /srv/gr\\040ss/lab rw shared:9 - fuse.rclone grass:grass rw
41 22 0:51 / /srv/gr\\040 rw - tmpfs tmpfs rw
42 22 0:52 / /mnt rw,relatime master:3 - cifs //m/grass rw
43 42 0:53 / /mnt rw - fuseblk /dev/sdb rw
"""


def test_the_mount_point_of_a_path_is_the_deepest_above_it() -> None:
    assert mount_point(Path("/srv/gr ss/lab/data"), TABLE) == "/srv/gr ss/lab"
    assert mount_point(Path("/srv/gr ss/other"), TABLE) == "/"


def test_of_several_mounts_at_one_point_the_last_is_what_is_seen() -> None:
    assert mount_of(Path("/mnt/a"), TABLE) == Mounted("/mnt", "fuseblk", propagates=False)
    assert mount_of(Path("/mnt/a"), TABLE.rpartition("43 ")[0]) == Mounted("/mnt", "cifs", propagates=True)


def test_only_a_file_system_of_a_program_is_one_through_fuse() -> None:
    assert mount_of(Path("/srv/gr ss/lab"), TABLE).through_fuse
    assert not mount_of(Path("/mnt"), TABLE).through_fuse  # ntfs-3g, on a disk of its own: nothing is stacked there


def test_a_mount_is_read_only_by_its_own_options() -> None:
    line = "44 43 0:52 /shared /srv/x/data/shared {},nosuid,nodev,relatime - fuse.rclone grass rw,errors=remount-ro"
    assert read_only(line.format("ro")) and not read_only(line.format("rw"))


def test_a_change_of_the_mounts_is_seen(tmp_path: Path) -> None:
    require_root()
    changes = Changes()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(tmp_path)], check=True)
    try:
        assert changes.seen() and lines_at(str(tmp_path))
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert changes.seen()


def test_of_an_ended_mount_those_folders_are_shown_again_that_nothing_newer_covers() -> None:
    table = """70 1 0:60 / /srv/lab rw - tmpfs tmpfs rw
71 70 0:50 /jobs/j\\0401 /srv/lab/jobs/j\\0401 rw,nosuid - fuse.rclone grass:grass rw
72 70 0:50 /sets//deleted /srv/lab/sets ro,nosuid - fuse.rclone grass:grass rw
73 70 0:50 /data/ann /data rw - fuse.rclone grass:grass rw
74 73 0:51 /data/ann /data rw - fuse.rclone grass:grass rw
75 70 0:49 /data/shared /srv/lab/data/shared ro - fuse.rclone other:grass rw
"""
    assert share_rebinding.lost_places(table, {"0:50"}) == [
        share_rebinding.Place("/jobs/j 1", "/srv/lab/jobs/j 1", read_only=False, mount=71),
        share_rebinding.Place("/sets", "/srv/lab/sets", read_only=True, mount=72),
    ]


def test_rclone_encodes_no_dot_and_no_space_so_that_it_makes_no_folder_beside_the_share() -> None:
    """As `Dot`, it takes the share's own folder for a file name, and makes a folder named U+FF0E."""
    share = share_mount.Share("lab", "10.0.0.1", 51445, "/srv/grass/lab", "/etc/x", "/cache", "/stage", "root")
    words = share_mount.command(share)
    encoded = words[words.index("--smb-encoding") + 1].split(",")
    assert {"Slash", "Colon", "InvalidUtf8"} <= set(encoded)
    assert not {"Dot", "RightPeriod", "RightSpace"} & set(encoded)


@pytest.mark.parametrize(("answers", "said"), [(True, "rclone ended with -15"), (False, "did not answer for 0.2 s")])
def test_a_mount_is_no_hung_one_only_because_the_whole_machine_stood_still(
    tmp_path: Path, answers: bool, said: str
) -> None:
    """The machine stands still for longer than a mount may be silent. Afterwards the mount answers, or never does."""
    with socket.create_server(("127.0.0.1", 0)) as server, hung_mount(tmp_path) as mount:
        host, port = server.getsockname()
        share = share_mount.Share("lab", host, port, str(tmp_path), "/etc/x", "/cache", "/stage", "root")
        rclone, beats = share_mount.Rclone(["sleep", "60"], UnsentFiles(tmp_path / "cache", "lab", tmp_path)), 0

        def beat() -> None:
            nonlocal beats
            beats += 1
            if beats == 2:
                threading.Event().wait(0.3)  # this is what the program sees of such a machine
            elif beats == 3 and answers:
                mount.die()
                rclone.end()

        try:
            assert said in share_mount.watch(share, rclone, beat, 0.05, 0.2)
        finally:
            rclone.end()
