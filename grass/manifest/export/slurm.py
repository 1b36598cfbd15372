"""Writes a job as a script for Slurm's `sbatch`. One component becomes an array, several one heterogeneous job.

Used by ``formats``.
"""

from __future__ import annotations

import shlex

from grass.manifest.export.losses import Exported, missing, of_amounts
from grass.model.job import Component, Job, RestartOn

_WRITTEN = ("replicas", "resources", "env", "cwd")
"""Keys of a component that the script expresses."""
_OF_ARRAY = ("parallelism", "timeout")
"""More such keys, of a component that is alone: `sbatch` has these options for a whole job."""


def write(job: Job) -> Exported:
    parts = list(job.components.values())
    single = len(parts) == 1
    lines = ["#!/bin/bash", f"#SBATCH --job-name={job.name}"]
    if job.timeout is not None or (single and parts[0].timeout is not None):
        seconds = min(each for each in (job.timeout, parts[0].timeout if single else None) if each is not None)
        lines.append(f"#SBATCH --time={_minutes(seconds)}")
    if single and parts[0].restart.policy is not RestartOn.NEVER:
        lines.append("#SBATCH --requeue")  # Slurm requeues after a failure of the node, not of the command
    for at, part in enumerate(parts):
        lines += ["#SBATCH hetjob"] if at else []
        lines += _options(part, array=single)
    lines += ["", "set -e", *(_alone(parts[0]) if single else _together(parts))]
    lost = ["success"] if not single and job.success != tuple(job.components) else []
    lost += [key for part in parts for key in of_amounts(part)]
    text = "\n".join(lines) + "\n"
    return Exported(text, (*missing(job, ("timeout",), (*_WRITTEN, *(_OF_ARRAY if single else ()))), *lost))


def _options(part: Component, *, array: bool) -> list[str]:
    lines = []
    if array and part.replicas > 1:
        most = f"%{part.parallelism}" if part.parallelism else ""
        lines.append(f"#SBATCH --array=0-{part.replicas - 1}{most}")
    lines.append(f"#SBATCH --ntasks={1 if array else part.replicas}")
    return [*lines, *(f"#SBATCH {option}" for option in _of_each_task(part))]


def _of_each_task(part: Component) -> list[str]:
    """Return the amounts per task. `srun` gets them again: it does not take all options over from `sbatch`."""
    amounts = part.resources
    cpus, gpus = (-(-amount // 1000) for amount in (amounts.cpu, amounts.gpu))
    options = [f"--cpus-per-task={cpus}"] if cpus else []
    options += [f"--mem-per-cpu={-(-amounts.memory // (max(cpus, 1) << 20))}M"] if amounts.memory else []
    return [*options, *([f"--gpus-per-task={gpus}"] if gpus else [])]


def _alone(part: Component) -> list[str]:
    index = ['export GRASS_INDEX="$SLURM_ARRAY_TASK_ID"'] if part.replicas > 1 else []
    return [*index, *_environment(part), f"exec {_command(part)}"]


def _together(parts: list[Component]) -> list[str]:
    lines = ["started="]
    for at, part in enumerate(parts):
        shell = "; ".join(['export GRASS_INDEX="$SLURM_PROCID"', *_environment(part), f"exec {_command(part)}"])
        options = " ".join((f"--het-group={at}", f"--ntasks={part.replicas}", *_of_each_task(part)))
        lines += [f"srun {options} bash -c {shlex.quote(shell)} &", 'started="$started $!"']
    return [*lines, 'for each in $started; do wait "$each"; done']


def _environment(part: Component) -> list[str]:
    folder = [f"cd {shlex.quote(part.cwd)}"] if part.cwd else []
    return [*folder, *(f"export {name}={shlex.quote(value)}" for name, value in part.env.items())]


def _command(part: Component) -> str:
    words = ("/bin/sh", "-c", part.command) if isinstance(part.command, str) else part.command
    return shlex.join(words)


def _minutes(seconds: float) -> int:
    return max(1, -(-round(seconds) // 60))
