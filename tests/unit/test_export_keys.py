"""Every key of a job is written by an export, or named. This walks all fields of the model: none can be forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from grass.errors import InputError
from grass.manifest import parse_job, read_document
from grass.manifest.export.formats import FORMATS
from grass.model.autoscale import Autoscale, AutoscalePolicy
from grass.model.ending import Clean, Enough
from grass.model.framework import Framework, FrameworkName
from grass.model.job import (
    After,
    Component,
    Condition,
    ExitCodes,
    Job,
    Keep,
    Mount,
    Notice,
    NoticeSignal,
    Policy,
    Ready,
    Replace,
    RestartOn,
    StopSignal,
)
from grass.model.lifecycle import JobState
from grass.model.notify import OnEnd, OnHang
from grass.model.runtime import RuntimeName

NO_KEYS = {
    "name",
    "components",
    "dialect",
    "carried",
    "files",
    "components.name",
    "components.base",
    "components.shell",
    "components.process",
    "components.checks",
    "components.grown_from",
}
"""Fields that are no keys of a file: what a run of the job is, and where it was submitted."""
OTHERS: dict[str, Any] = {
    "success": ("worker",),
    "timeout": 60.0,
    "fail_fast": False,
    "priority": 7,
    "tags": {"a": "b"},
    "gang": ("worker",),
    "policy": Policy.BALANCED,
    "metric": "memory",
    "together": 1,
    "preemptible": True,
    "after": (After("other"),),
    "ending.clean": Clean.ALL,
    "ending.ttl": 60.0,
    "ending.max_failures": 3,
    "ending.deadline": 60.0,
    "ending.restart.limit": 2,
    "ending.restart.backoff": 7.0,
    "ending.enough": {"worker": Enough.ANY},
    "on_end.webhook": "https://example.net/end",
    "on_end.secret": "s",
    "on_end.command": "end",
    "on_end.states": (JobState.FAILED,),
    "on_hang": OnHang.ACT,
    "read_only_data": True,
    "components.command": "another",
    "components.replicas": 3,
    "components.resources.cpu": 3000,
    "components.resources.memory": 1 << 30,
    "components.resources.gpu": 1500,
    "components.resources.disk": 1 << 30,
    "components.resources.custom": (("licences", 1),),
    "components.ports": ("p", "q", "mars", "web"),
    "components.depends_on": {"other": Condition.SUCCEEDED},
    "components.env": {"A": "b"},
    "components.cwd": "below",
    "components.restart.policy": RestartOn.ALWAYS,
    "components.restart.limit": 5,
    "components.restart.backoff": 7.0,
    "components.restart.codes": (137,),
    "components.restart.memory": 2 << 30,
    "components.ready.port": "p",
    "components.ready.command": "test -e up",
    "components.ready.log": "up",
    "components.ready.timeout": 7.0,
    "components.grace": 7.0,
    "components.timeout": 70.0,
    "components.parallelism": 1,
    "components.image": "another",
    "components.framework.name": FrameworkName.TORCH,
    "components.framework.options": {"slots": 3},
    "components.gpu.model": "A100",
    "components.gpu.memory": 1 << 30,
    "components.where": {"zone": ("a", "b")},
    "components.avoid": ("n1",),
    "components.spread": 1,
    "components.pack": 1,
    "components.matrix": {"X": ("1", "2")},
    "components.entries": ("a", "b"),
    "components.columns": {"X": ("1", "2")},
    "components.runtime": RuntimeName.PROCESS,
    "components.container.entrypoint": ("run",),
    "components.container.user": "ann",
    "components.container.shm": 1 << 20,
    "components.container.network": "bridge",
    "components.container.ulimits": {"nofile": 9},
    "components.container.mounts": (Mount("/a", "/b", shared=True),),
    "components.container.data": "/data",
    "components.min": 2,
    "components.max": 9,
    "components.unit": 2,
    "components.autoscale.policy": AutoscalePolicy.OPPORTUNISTIC,
    "components.autoscale.cooldown": 90.0,
    "components.autoscale.gain": 0.75,
    "components.web": "p",
    "components.output_limit": 1 << 20,
    "components.output_file": "run-{index}.log",
    "components.exit_codes": ExitCodes.PLAIN,
    "components.check": 1,
    "components.keep": Keep.SHM,
    "components.stop_signal": StopSignal.USR1,
    "components.replace": Replace.SLOW,
    "components.notice.seconds": 90.0,
    "components.notice.signal": NoticeSignal.USR1,
    "components.notice.command": "save",
}
"""Field → another value than the jobs below have."""
TOGETHER: dict[str, dict[str, Any]] = {
    "ending.restart.backoff": {"ending.restart.limit": 1},
    "metric": {"policy": Policy.COMPACTED},
    "on_end.secret": {"on_end.webhook": "https://example.net/other"},
    "components.restart.limit": {"components.restart.policy": RestartOn.ON_FAILURE},
    "components.restart.backoff": {"components.restart.policy": RestartOn.ON_FAILURE},
    "components.restart.codes": {"components.restart.policy": RestartOn.ON_FAILURE},
    "components.restart.memory": {"components.restart.policy": RestartOn.ON_FAILURE},
    "components.ready.port": {"components.ports": ("p",)},
    "components.ready.timeout": {"components.ready.command": "true"},
    "components.gpu.model": {"components.resources.gpu": 1000},
    "components.gpu.memory": {"components.resources.gpu": 1000},
    "components.matrix": {"components.replicas": 2},
    "components.entries": {"components.replicas": 2},
    "components.columns": {"components.replicas": 2},
}
"""Field → what else must be set for it to mean anything."""
SAME = {(format, "components.container.network") for format in ("kubernetes", "kubernetes-pods")}
"""A key of no consequence: each pod has a network of its own."""
BLANK: dict[str, Any] = {
    "on_end": OnEnd(),
    "ready": Ready(),
    "notice": Notice(),
    "autoscale": Autoscale(),
    "framework": Framework(FrameworkName.NONE),
}


def of_file(path: str) -> Job:
    return parse_job(read_document(Path(path).read_bytes())).job


def only_worker(job: Job) -> Job:
    """Return the job without the master that Grass added, which depends on the worker."""
    return replace(job, components={"worker": job.components["worker"]})


def job(**components: Any) -> Job:
    return parse_job({"name": "j", "components": components}).job


TWO = {"worker": {"command": "x", "image": "i", "replicas": 2}, "other": {"command": "y", "image": "i"}}
DLROVER = {"command": "dlrover-run t.py", "image": "i", "replicas": 2, "framework": "dlrover"}
BASES: dict[str, tuple[str, Job]] = {
    "native": ("native", job(**TWO)),
    "ElasticJob": ("ElasticJob", only_worker(job(worker=DLROVER))),
    "TrainingJob": ("TrainingJob", of_file("examples/foreign/training_job.yml")),
    "MarsJob": ("MarsJob", of_file("tests/support/manifests/mars_job.yml")),
    "kubernetes": ("kubernetes", job(**TWO)),
    "kubernetes-pods": ("kubernetes-pods", job(**TWO)),
    "compose": ("compose", job(**TWO)),
    "slurm, several": ("slurm", job(**TWO)),
    "slurm, one": ("slurm", job(worker={"command": "x", "replicas": 2})),
}
"""A format, and a job that it can describe."""


def paths_of(part: Any, prefix: str = "") -> Iterator[str]:
    """Yield all fields of a dataclass, and those of the parts in them."""
    for name, kind in get_type_hints(part).items():
        inner = next((each for each in (kind, *get_args(kind)) if is_dataclass(each)), None)
        if name == "components":
            yield from (name, *paths_of(Component, f"{name}."))
        elif inner is not None and get_origin(kind) not in (tuple, dict):
            yield from paths_of(inner, f"{prefix}{name}.")
        else:
            yield prefix + name


def changed(part: Any, path: str, value: Any) -> Any:
    """Return the job, or the part of one, with another value at ``path``; of components, in the worker."""
    name, _, rest = path.partition(".")
    if name == "components":
        return replace(part, components={**part.components, "worker": changed(part.components["worker"], rest, value)})
    if not rest:
        return replace(part, **{name: value})
    inner = getattr(part, name)
    return replace(part, **{name: changed(BLANK[name] if inner is None else inner, rest, value)})


def test_the_walk_knows_every_field_of_a_job() -> None:
    assert {*OTHERS, *NO_KEYS} == set(paths_of(Job))
    assert {format for format, _ in BASES.values()} == set(FORMATS)


@pytest.mark.parametrize("path", OTHERS)
@pytest.mark.parametrize("base", BASES)
def test_every_key_of_a_job_is_written_or_named(base: str, path: str) -> None:
    format, before = BASES[base]
    for also, value in TOGETHER.get(path, {}).items():
        before = changed(before, also, value)
    after = changed(before, path, OTHERS[path])
    if path == "fail_fast":
        after = replace(before, fail_fast=not before.fail_fast)
    if after == before:
        assert (base, path) in (("slurm, one", "success"), ("ElasticJob", "success"))  # there is only one
        return
    try:
        exported, first = FORMATS[format](after), FORMATS[format](before)
    except InputError as refused:
        assert "mars" in str(refused) or "dlrover" in str(refused)
        return
    lost = exported.missing if path != "fail_fast" else (*exported.missing, *first.missing)  # one is the format's own
    named = [key.removeprefix("components.worker.").partition(" ")[0] for key in lost]
    if (format, path) in SAME:
        assert content(exported.text) == content(first.text) and exported.missing == first.missing
        return
    assert content(exported.text) != content(first.text) or any(stands_for(key, path) for key in named)


def content(text: str) -> list[str]:
    """Return the lines of a file without its comments: what is only said there is not written."""
    return [line for line in text.split("\n") if not line.startswith("# ")]


KEYS = {
    "components.entries": "from",
    "components.columns": "from",
    "components.framework.options": "framework",
    "components.gpu.model": "resources.gpu",
    "components.gpu.memory": "resources.gpu",
    "components.output_limit": "output",
    "components.output_file": "output",
    "ending.enough": "success",
    "metric": "place.metric",
    "policy": "place.policy",
    "read_only_data": "data",
}


def stands_for(key: str, path: str) -> bool:
    """Return whether a key that is named is that of a field, or one above or below it."""
    own = KEYS.get(path, path.removeprefix("components.").removeprefix("ending.")) + "."
    return own.startswith(f"{key}.") or f"{key}.".startswith(own)


@pytest.mark.parametrize("path", sorted({*OTHERS} - {"metric", "components.ready.port", "components.unit"}))
def test_a_native_file_says_every_key(path: str) -> None:
    before = BASES["native"][1]
    for also, value in TOGETHER.get(path, {}).items():
        before = changed(before, also, value)
    after = changed(before, path, OTHERS[path])
    assert FORMATS["native"](after).text != FORMATS["native"](before).text
