"""A local Grass cluster in a GRASS_HOME of its own, made and ended by the `grass` command, for one bench."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from grass.api.client import Client

GRASS = Path(sys.executable).with_name("grass")


class LocalCluster:
    """``client`` talks to it; ``command(...)`` is an argv of the CLI. Use as a context.

    ``settings``: the text of a settings file. ``GRASS_BENCH_HOME=FOLDER`` takes the cluster `local` of this GRASS_HOME,
    which is up and stays, for a bench without settings of its own: for quick repeats.
    """

    def __init__(self, settings: str = "") -> None:
        self._settings = settings
        if not GRASS.exists():
            sys.exit(f"{GRASS} does not exist: run this with the Python of the environment that Grass is installed in")
        self._folder = tempfile.TemporaryDirectory(prefix="bench-grass-")
        self.folder = Path(self._folder.name)
        self._given = False
        self._use(self.folder / "home")

    def __enter__(self) -> LocalCluster:
        given = "" if self._settings else os.environ.get("GRASS_BENCH_HOME", "")
        try:
            if given:
                self._given = True
                self._use(Path(given))
            else:
                self.create()
            self.client = Client()
        except BaseException:  # `run` ends the bench with SystemExit
            self.remove_rest()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if not self._given:
                self.delete()
        finally:
            self.remove_rest()

    def _use(self, home: Path) -> None:
        self.home = home
        os.environ["GRASS_HOME"] = str(home)
        os.environ.pop("GRASS_CLUSTER", None)

    def remove_rest(self) -> None:
        """End what a failed `grass create` or `delete` left behind, and remove the folder."""
        if not self._given and (self.home / "clusters" / "local").exists():
            subprocess.run([GRASS, "delete", "local", "--yes"], capture_output=True, check=False)
        self._folder.cleanup()

    def create(self) -> None:
        file = self.folder / "settings.yml"
        file.write_text(self._settings)
        run("create", *([str(file)] if self._settings else []))

    def delete(self) -> None:
        run("delete", "local", "--yes")

    def daemons(self) -> dict[str, int]:
        """Name → pid, from `grass status`."""
        status: dict[str, Any] = json.loads(run("status", "-o", "json"))
        return {daemon["name"]: int(daemon["pid"]) for daemon in status["daemons"]}

    def run_job(self, job: dict[str, Any], timeout: float = 300.0) -> None:
        """Starts it and waits; the bench ends here when it does not succeed."""
        name = self.client.start(job).name
        view = self.client.wait(name, timeout)
        if view.state != "SUCCEEDED":
            sys.exit(f"the job {name} of the bench is {view.state}: {view.reason}")


def run(*arguments: str) -> str:
    """One call of the CLI, its output; a failure ends the bench with what it said."""
    done = subprocess.run([GRASS, *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"grass {' '.join(arguments)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def one_task(name: str, command: list[str]) -> dict[str, Any]:
    """A job of one task with the cpu that the peer asks for too."""
    return array(name, command, 1)


def array(name: str, command: list[str], replicas: int) -> dict[str, Any]:
    component = {"command": command, "replicas": replicas, "resources": {"cpu": 1}}
    return {"name": name, "components": {"task": component}}
