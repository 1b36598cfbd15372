"""A Slurm of three nodes on this machine: Debian's daemons, without accounts, keys and control groups. Needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.example_run import free_port
from tests.support.needs import require
from tests.support.waiting import wait_until

NODES = ("n1", "n2", "n3")  # the components of a heterogeneous job share no node
_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=1,bf_interval=1
GresTypes=gpu
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_NODE = "NodeName={} NodeHostname={} NodeAddr=127.0.0.1 Port={} CPUs=2 RealMemory=2000 Gres=gpu:1 State=UNKNOWN"


@dataclass(frozen=True)
class Slurm:
    """Three nodes of 2 cores, 2,000 MiB and one GPU each, which is a plain file. ``folder``: where jobs write."""

    folder: Path

    def run(self, *words: str) -> str:
        """Run a command of Slurm; return what it wrote. The test fails if the command does."""
        ran = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, (words, ran.stdout, ran.stderr)
        return ran.stdout

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def submit(self, script: str) -> str:
        """Submit a script and wait for its end. Return what it wrote, of an array one part after the other."""
        path = self.folder / "job.sh"
        path.write_text(script)
        number = self.run("sbatch", "--parsable", str(path)).strip()
        wait_until(lambda: not self.run("squeue", "--noheader", f"--jobs={number}").strip(), 60, "the end of the job")
        return "".join(each.read_text() for each in sorted(self.folder.glob(f"slurm-{number}*.out")))

    def exit_codes(self) -> list[str]:
        """Return the exit codes of all jobs (``3:0``), with 0 for what Slurm forgot."""
        jobs = self.run("scontrol", "--oneliner", "show", "job").split()
        return [word.removeprefix("ExitCode=") for word in jobs if word.startswith("ExitCode=")]


@contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    """Run a Slurm below ``folder``, and end its daemons."""
    for program in ("slurmctld", "slurmd", "sbatch"):
        require(shutil.which(program) is not None, program, "Debian's slurmctld, slurmd and slurm-client")
    made = Slurm(folder)
    host = os.uname().nodename.partition(".")[0]
    nodes = "\n".join(_NODE.format(name, host, free_port()) for name in NODES)
    (folder / "slurm.conf").write_text(_CONF.format(host=host, port=free_port(), folder=folder, nodes=nodes))
    (folder / "gres.conf").write_text(
        "".join(f"NodeName={name} Name=gpu File={folder}/{name}-gpu0\n" for name in NODES)
    )
    for name in NODES:
        (folder / f"{name}-gpu0").touch()
    (folder / "state").mkdir()
    daemons = []
    try:
        for words in (["slurmctld", "-D"], *(["slurmd", "-D", "-N", name] for name in NODES)):
            with (folder / f"{words[-1]}.log").open("wb") as log:
                daemons.append(subprocess.Popen(words, env=made.environment, stdout=log, stderr=log))
        wait_until(lambda: _idle(made), 30, "the nodes of Slurm")
        yield made
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(20)


def _idle(made: Slurm) -> bool:
    words = ["sinfo", "--noheader", "--Node", "--format=%T"]
    ran = subprocess.run(words, env=made.environment, capture_output=True, text=True, check=False)
    return ran.stdout.split() == ["idle"] * len(NODES)
