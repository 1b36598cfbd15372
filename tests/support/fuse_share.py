"""A share through FUSE, mounted by the program that nodes run, whose files go away and come back.

The server is a folder of this machine. While it is away, rclone fails at once: with a server on the network, its own
pauses between tries take seconds for each file.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from node.mounts import detach, mounts
from tests.support.waiting import wait_until


class FuseShare:
    """``server``: the folder that is served at ``folder``. ``user``: whose files they are."""

    def __init__(self, place: Path, user: str) -> None:
        self.server, self.folder = place / "server", place / "share"
        self._place = place
        self._mounting: subprocess.Popen[bytes] | None = None
        for folder in (self.server, self.folder):
            folder.mkdir()
        self._served = place / "served"
        self._serve(self.server)
        (place / "rclone.conf").write_text("[grass]\ntype = local\n")
        given = {
            **{"name": self._served, "host": "127.0.0.1", "port": 9, "folder": self.folder, "user": user},
            **{"credentials": place / "rclone.conf", "cache": place / "cache", "stage": place / "stage"},
        }
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        self._mount = [sys.executable, "-m", "node.share_mount", *words]

    @property
    def depth(self) -> int:
        return sum(each.point == str(self.folder) for each in mounts())

    def take_away(self) -> None:
        """Have each question to the server fail, as it does without a server: with EIO."""
        self._serve(Path("/dev/null"))

    def bring_back(self) -> None:
        self._serve(self.server)

    def _serve(self, target: Path) -> None:
        """At once: rclone makes a folder that is missing for a moment."""
        new = self._place / "new"
        new.symlink_to(target)
        new.rename(self._served)

    def mount(self) -> None:
        self.begin_mount()
        wait_until(self.answers, what="an answer of the mount")

    def begin_mount(self) -> None:
        """Mount it, also while the server is away."""
        before = self.depth
        self._mounting = self._begun(self._mount, "mounted")
        wait_until(lambda: self.depth == before + 1, what="the mount")

    def kill_helper(self) -> None:
        """Kill what shows a new mount to containers."""
        words = f"node.share_rebinding {self.folder}"
        wait_until(lambda: subprocess.run(["pkill", "-9", "-f", words], check=False).returncode == 0, what="its helper")

    def kill_mount(self) -> None:
        """Kill it and its rclone, as the end of memory would. The mount stays and fails."""
        assert self._mounting is not None
        found = subprocess.run(
            ["pgrep", "-x", "rclone", "-P", str(self._mounting.pid)], capture_output=True, text=True, check=True
        )
        self._mounting.kill()
        subprocess.run(["kill", "-9", *found.stdout.split()], check=True)
        self._mounting.wait()

    def answers(self) -> bool:
        try:
            return (self.folder / "data").exists()
        except OSError:
            return False

    def close(self) -> None:
        _end(self._mounting)
        while self.depth:
            detach(str(self.folder))

    def _begun(self, command: list[str], log: str) -> subprocess.Popen[bytes]:
        with (self._place / f"{log}.log").open("ab") as file:
            return subprocess.Popen(command, stderr=file)


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.terminate()
        process.wait()
