"""No document, however strange, gets past the parsers unnoticed or out of them as anything but a ManifestError."""

from __future__ import annotations

import copy
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document, yaml_text
from grass.manifest.document import read_documents
from grass.manifest.foreign.dialects import is_scale, parse_scale
from grass.manifest.native_writer import job_document
from grass.manifest.schedule import parse_schedule
from grass.manifest.settings import parse_settings
from grass.model.matrix import combination, combinations
from grass.model.schedule import Schedule
from grass.wire import codec
from grass.wire.specification import SPECIFICATION
from tests.support.examples import examples

COMPONENT_KEYS = [
    *("command", "replicas", "num", "parallelism", "resources", "ports", "depends_on", "ready", "timeout", "env"),
    *("restart", "grace", "image", "framework", "cwd", "mount", "where", "avoid", "spread", "pack", "matrix"),
    *("runtime", "container", "output"),
]
INNER_KEYS = [
    *("cpu", "memory", "gpu", "port", "log", "policy", "limit", "backoff", "target", "metric", "embedded", "host"),
    *("password", "api", "node_api", "resource", "agents", "check_interval", "x", "y", "A", "disk", "custom", "model"),
    *("count", "licences", "entrypoint", "user", "shm", "network", "ulimits", "nofile", "mounts", "source", "data"),
]
TOP_KEYS = [
    *("mode", "success", "fail_fast", "priority", "tags", "timeout", "allocation", "job", "jobs", "job_names", "cron"),
    *("time_zone", "missed", "overlap", "redis", "redis_info", "redis_mode", "parallel_level", "check_interval"),
    *("keep_agent_alive", "agent_countdown", "ports", "resources", "keep_jobs", "keep_days", "master", "gang", "place"),
    *("together", "preemptible", "after", "quotas", "reserve", "labels", "topology"),
]
WORDS = [
    *("process", "grass", "grass/local", "local", "running", "ready", "succeeded", "on-failure", "never", "always"),
    *("unlimited", "all", "MARO", "customized", "skip", "queue", "UTC", "Europe/Paris", "1h", "512MiB", "512m", "0.5"),
    *("node", "best-fit", "single-metric-balanced", "docker", "host", "/a:/b:ro", ">=40GiB", "rack1/switch3", "ended"),
    *("../x", "-x", ".inf", "[[", "*", "1e9", "7", "-1", "", " ", "0 3 * * *", "x", "y"),
]

HOSTILE = [
    *(float("nan"), float("inf"), -float("inf"), 1e308, 10**400, -(10**400), -0.0, 1e-9, True, None, [], {}, ""),
    *("\0", "\ud800", "\x1b[31m", "²", "٣", "9" * 5000, "x" * 200_000, "1e999", "a\n", object(), b"", [[]], {1: 1}),
]

scalars = (
    st.sampled_from(HOSTILE)
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=8)
    | st.binary(max_size=3)
)
keys = (
    st.sampled_from(["name", "components", *COMPONENT_KEYS, *INNER_KEYS, *TOP_KEYS])
    | st.text(max_size=4)
    | st.integers()
)
nonsense = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5) | st.tuples(inner),
    max_leaves=25,
)

COMPLETE = [
    {
        "name": "a",
        "timeout": "1h",
        "fail_fast": True,
        "priority": 1,
        "tags": {"t": "v"},
        "success": ["x"],
        "gang": ["x"],
        "place": {"policy": "single-metric-balanced", "metric": "gpu"},
        "together": 1,
        "clean": "none",
        "ttl": "1h",
        "deadline": "2h",
        "restart": {"limit": 2, "backoff": "1s"},
        "preemptible": True,
        "after": [{"job": "b", "state": "ended"}, "c"],
        "components": {
            "x": {
                "command": ["run", "it"],
                "replicas": 2,
                "parallelism": 2,
                "resources": {
                    "cpu": 1,
                    "memory": "1GiB",
                    "disk": "1GiB",
                    "gpu": {"count": 2, "model": "A100", "memory": ">=40GiB"},
                    "custom": {"licences": 1},
                    "seats": 2,
                },
                "where": {"arch": "x86_64", "zone": ["a", "b"]},
                "avoid": ["n1"],
                "spread": "node",
                "pack": 1,
                "matrix": {"LR": [0.1, 0.01]},
                "runtime": "docker",
                "container": {
                    "entrypoint": ["tini", "--"],
                    "user": 1000,
                    "shm": "1GiB",
                    "network": "bridge",
                    "ulimits": {"nofile": 1024},
                    "mounts": ["/a:/b:ro", {"source": "/c", "target": "/d", "read_only": True}],
                    "data": "/data",
                },
                "ports": ["p", "mars"],
                "depends_on": {"y": "ready"},
                "env": {"A": "b"},
                "cwd": "/tmp",
                "restart": {"policy": "on-failure", "limit": 3, "backoff": 1},
                "grace": 1,
                "timeout": 1,
                "image": "i",
                "framework": {"name": "mars", "role": "worker", "spillDirs": ["/a", "/b"]},
                "web": "p",
            },
            "y": {"command": "run", "ready": {"log": "up", "timeout": 1}},
        },
    },
    {
        "mode": "grass",
        "name": "a",
        "tags": {"t": "v"},
        "allocation": {"mode": "single-metric-balanced", "metric": "cpu"},
        "components": {
            "x": {
                "command": "run",
                "num": 1,
                "image": "i",
                "mount": {"target": "/m"},
                "resources": {"cpu": 1, "memory": "512m", "gpu": 0},
            }
        },
    },
    {
        "name": "a",
        "cron": "0 3 * * *",
        "time_zone": "UTC",
        "missed": "skip",
        "overlap": "skip",
        "job": {"components": {"x": {"command": "run"}}},
    },
    {"name": "a", "jobs": ["b", "c"], "components": {"x": {"command": "run"}}},
    {
        "mode": "local",
        "name": "a",
        "redis": {"embedded": False, "host": "h", "port": 1, "password": "p"},
        "parallel_level": 1,
        "check_interval": 1,
        "keep_agent_alive": True,
        "agent_countdown": 1,
        "resources": {"cpu": 1, "memory": "1GiB", "gpu": "all", "disk": "1GiB", "custom": {"licences": 4}},
        "quotas": {"ann": {"gpu": 2, "cpu": 8, "licences": 1}, "default": {"memory": "1GiB"}},
        "reserve": {"cpu": 0.5, "memory": "1GiB"},
        "labels": {"zone": "a"},
        "topology": "rack1/switch3",
        "ports": {"api": 1, "node_api": 2},
        "keep_jobs": 1,
        "keep_days": 1,
    },
    {
        "redis_info": {"host": "h", "port": 1},
        "redis_mode": "customized",
        "parallel_level": 1,
        "keep_agent_alive": 1,
        "agent_countdown": 1,
        "check_interval": 1,
    },
    {
        "mode": "grass/local",
        "name": "a",
        "master": {
            "resource": {"cpu": 1, "memory": 1, "gpu": 0},
            "redis": {"port": 1},
            "agents": {"check_interval": 1},
        },
    },
]


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every value below ``content``."""
    if not isinstance(content, (dict, list)):
        return [path]
    inner = content.items() if isinstance(content, dict) else enumerate(content)
    return [*([path] if path else []), *(place for key, value in inner for place in places(value, (*path, key)))]


@st.composite
def near_misses(draw: st.DrawFn, complete: list[Any] = COMPLETE) -> Any:
    """A complete document with one or two values replaced, or a key added or renamed."""
    document = copy.deepcopy(draw(st.sampled_from(complete)))
    for _ in range(draw(st.integers(1, 2))):
        *trail, last = draw(st.sampled_from(places(document)))
        parent = document
        for key in trail:
            parent = parent[key]
        if isinstance(parent, dict) and draw(st.integers(0, 4)) == 0:
            parent[draw(keys)] = parent.pop(last) if draw(st.booleans()) else copy.deepcopy(draw(scalars))
        else:
            parent[last] = copy.deepcopy(draw(st.sampled_from(HOSTILE) | scalars | nonsense))  # the next may change it
    return document


durations = st.sampled_from(["1s", "10m", "1h30m", "500ms", 5, 0.25])
good_component = st.fixed_dictionaries(
    {"command": st.sampled_from(["run", ["run", 1, 2.5]])},
    optional={
        "replicas": st.integers(1, 40_000),
        "parallelism": st.integers(1, 100),
        "resources": st.fixed_dictionaries(
            {},
            optional={
                "cpu": st.sampled_from([0, 1, 0.5, "2.50"]),
                "memory": st.sampled_from(["512MiB", "2GB"]),
                "disk": st.just("1GiB"),
                "gpu": st.integers(0, 8) | st.sampled_from([0.25, {"model": "A100"}, {"count": 2, "memory": "1GiB"}]),
                "licences": st.integers(0, 3),
                "custom": st.just({"seats": 2}),
            },
        ),
        "where": st.sampled_from([{"arch": "x86_64"}, {"zone": ["a", "b"]}]),
        "avoid": st.sampled_from(["n1", ["n1", "n2"]]),
        "spread": st.sampled_from(["node", 2]),
        "pack": st.just(1),
        "env": st.dictionaries(st.from_regex(r"\A[A-Z_]{1,3}\Z"), st.sampled_from(["", "é", 1, 2.5]), max_size=3),
        "restart": st.sampled_from(["always", {"limit": 2}, {"policy": "never", "limit": "unlimited", "backoff": 0}]),
        "grace": durations,
        "timeout": durations,
        "ready": st.sampled_from([{"log": "up"}, {"command": ["test"], "timeout": 3}]),
        "cwd": st.just("/tmp"),
        "output": st.sampled_from([{}, {"limit": "1GiB"}, {"limit": "1500MiB"}, {"limit": 1 << 20}]),
        "image": st.just("python"),
    },
)
matrices = st.dictionaries(
    st.from_regex(r"\A[a-z]{1,3}\Z"),
    st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
    min_size=1,
    max_size=4,
)
good_jobs = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"\A[A-Za-z0-9]{1,20}\Z"),
        "components": st.dictionaries(st.sampled_from(["a", "b"]), good_component, min_size=1),
    },
    optional={
        "timeout": durations,
        "fail_fast": st.booleans(),
        "priority": st.integers(0, 1000),
        "preemptible": st.booleans(),
        "data": st.sampled_from(["rw", "ro"]),
        "place": st.sampled_from(["best-fit", {"policy": "single-metric-compacted", "metric": "disk"}]),
        "after": st.sampled_from(["other.0", [{"job": "other.1", "state": "ended"}]]),
        "together": st.just(1),
    },
)


def attempt(parse: Any, document: Any) -> Any:
    try:
        return parse(document)
    except ManifestError as error:
        assert error.problems
        assert len(str(error)) < 100_000
        str(error).encode()
        return None


@examples(500)
@given(nonsense | near_misses())
def test_nonsense_is_refused_as_a_manifest_error_by_every_parser(document: Any) -> None:
    for parse in (parse_job, parse_schedule, parse_settings):
        attempt(parse, document)


@examples(400)
@given(near_misses(COMPLETE[:2]))
def test_a_job_that_is_accepted_can_be_stored_and_read_again(document: Any) -> None:
    parsed = attempt(parse_job, document)
    if parsed is not None:
        assert SPECIFICATION.decode(codec.encode(parsed.job)) == parsed.job


@examples(100)
@given(good_jobs)
def test_good_jobs_are_accepted_and_survive_the_wire(document: dict[str, Any]) -> None:
    job = parse_job(document).job
    assert SPECIFICATION.decode(codec.encode(job)) == job
    assert set(job.success) == set(document["components"])


@examples(100)
@given(matrices)
def test_a_matrix_makes_each_combination_once_with_the_last_name_varying_fastest(document: dict[str, Any]) -> None:
    job = parse_job({"name": "a", "components": {"x": {"command": "run", "matrix": document}}}).job
    matrix = job.components["x"].matrix
    expected = list(itertools.product(*matrix.values()))
    assert job.components["x"].replicas == combinations(matrix) == len(expected)
    assert [tuple(combination(matrix, index).values()) for index in range(len(expected))] == expected
    assert SPECIFICATION.decode(codec.encode(job)) == job


@examples(50)
@given(good_jobs, st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, unique=True))
def test_good_batches_are_accepted_and_survive_the_wire(document: dict[str, Any], names: list[str]) -> None:
    schedule = parse_schedule({**document, "jobs": names}).schedule
    assert [job.name for job in schedule.jobs] == names
    assert codec.Form[Schedule](Schedule).decode(codec.encode(schedule)) == schedule


@examples(100)
@given(good_jobs)
def test_a_document_reads_the_same_from_yaml_and_from_json(document: dict[str, Any]) -> None:
    text = json.dumps(document, ensure_ascii=False)
    assert read_document(text) == read_document(text, json=True) == document


@examples(300)
@given(st.text(alphabet="ab:-[]{}&*<>#'\"|!?%@\n \t0\\é\0", max_size=40) | st.binary(max_size=40), st.booleans())
def test_any_text_is_a_mapping_or_a_manifest_error(content: str | bytes, json_too: bool) -> None:
    document = attempt(lambda text: read_document(text, json=json_too), content)
    assert document is None or isinstance(document, dict)


FOREIGN = [
    document
    for name in ("training_job", "mars_job", "pytorch_job", "tf_job", "mpi_job", "scale_in", "scale_out")
    for document in read_documents(Path(f"examples/foreign/{name}.yml").read_bytes())
]


@examples(400)
@given(near_misses(FOREIGN))
def test_a_foreign_document_is_a_job_a_request_or_a_manifest_error(document: Any) -> None:
    attempt(parse_scale if is_scale(document) else parse_job, document)


@examples(300)
@given(near_misses([*COMPLETE[:2], *FOREIGN[:5]]) | good_jobs)
def test_a_job_that_is_written_as_a_native_file_reads_the_same(document: Any) -> None:
    parsed = attempt(parse_job, document)
    if parsed is not None:
        text = yaml_text.write(job_document(parsed.job))
        assert replace(parse_job(read_document(text)).job, dialect=parsed.job.dialect) == parsed.job
