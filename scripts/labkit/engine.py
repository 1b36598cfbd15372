"""The docker engine of this machine: a running engine, or an engine that this module starts.

An engine that somebody else started is used but never stopped.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

from .command import LabError, attempt, run, say, wait_until


class Engine:
    """The engine. ``folder`` keeps the log and the identity of an engine that this class started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "dockerd.log"
        self._record = folder / "engine.json"

    def answers(self) -> bool:
        """Return whether an engine answers. Return False if docker is not installed."""
        asked = ["docker", "version", "--format", "{{.Server.Version}}"]
        return shutil.which("docker") is not None and attempt(asked, seconds=30).code == 0

    def start(self) -> None:
        """Start an engine unless one answers. An engine answers afterwards."""
        if self.answers():
            return
        if os.environ.get("DOCKER_HOST"):
            raise LabError(
                f"no engine answers at DOCKER_HOST={os.environ['DOCKER_HOST']}; start it, or unset DOCKER_HOST"
            )
        if Path("/run/systemd/system").is_dir():
            say("starting docker.service")
            run(["systemctl", "start", "docker"])
        else:
            self._start_by_hand()

    def _start_by_hand(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        pid_file = self.folder / "dockerd.pid"
        pid_file.unlink(missing_ok=True)  # dockerd refuses to start if another process has reused the pid in the file
        say(f"starting dockerd (its log: {self.log})")
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                ["dockerd", "--pidfile", str(pid_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        self._record.write_text(json.dumps({"pid": process.pid, "started": _start_time(process.pid)}))
        wait_until(lambda: self.answers() or process.poll() is not None, 90, "an answer of dockerd", every=0.2)
        if process.poll() is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-8:])
            raise LabError(f"dockerd ended with code {process.returncode}; the end of {self.log}:\n{tail}")
        process.returncode = 0  # the engine keeps running: not our child to wait for

    def own_pid(self) -> int | None:
        """Return the pid of the engine that this class started, while the engine runs."""
        try:
            record = json.loads(self._record.read_text())
        except (OSError, ValueError):
            return None
        pid = int(record["pid"])
        return pid if _start_time(pid) == record["started"] != "" else None

    def stop(self) -> bool:
        """Stop the engine that this class started.

        Return False if there is no such engine; other engines keep running.
        """
        pid = self.own_pid()
        if pid is None:
            return False
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: _start_time(pid) == "", 60, "the end of dockerd")
        self._record.unlink()
        return True


def _start_time(pid: int) -> str:
    """Return the start time, which distinguishes processes with the same pid. Empty: no process, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
