"""A cluster on one machine, with processes only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grass.manifest.local_settings import LocalSettings, OfferedResources
from tests.faults.bed import Bed
from tests.faults.table import ONE_MACHINE
from tests.support.local_cluster import LocalCluster

PATIENCE = 30.0


class LocalBed(Bed):
    name = ONE_MACHINE

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.marks, self.python = str(folder), sys.executable
        self.there = {}
        self.seat = {"seats": 1}
        self.client = cluster.client()

    def grass(self, *words: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "GRASS_HOME": str(self.cluster.home)}
        program = [sys.executable, "-m", "grass.cli.entry", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(program, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)

    def lines_of(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def write(self, name: str) -> None:
        (self.folder / name).touch()

    def is_up(self) -> bool:
        states = self.cluster.states()
        return set(states.values()) == {"RUNNING"} and [node.state for node in self.client.nodes()] == ["READY"]


@contextmanager
def local_bed(small: str = "") -> Iterator[LocalBed]:
    """``small``: options of a file system of memory, which a fault may fill; the marks are elsewhere."""
    settings = LocalSettings(resources=OfferedResources(custom={"seats": 1}))
    marks = Path(tempfile.mkdtemp(prefix="grass-marks-", dir="/tmp"))
    try:
        with _home(small) as home, LocalCluster(settings, home=home).running() as cluster:
            bed = LocalBed(cluster, marks)
            try:
                yield bed
            finally:
                bed.client.close()
    finally:
        shutil.rmtree(marks)


@contextmanager
def _home(small: str) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="grass-test-", dir="/tmp"))
    if not small:
        yield home
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"{small},mode=0700", "tmpfs", str(home)], check=True)
    try:
        yield home
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True)
        home.rmdir()
