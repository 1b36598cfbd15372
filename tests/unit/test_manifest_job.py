"""Native job files: what each key becomes, and what is said about each mistake."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.manifest.values import not_text
from grass.model.ending import JobRestart
from grass.model.job import Component, Condition, Job, Ready, Restart, RestartOn
from grass.model.resources import Resources
from grass.wire import codec
from grass.wire.specification import SPECIFICATION

DIGITS = """
name: digits
timeout: 10m
components:
  server:
    command: python server.py
    resources: {cpu: 1, memory: 512MiB, gpu: 0}
    ports: [params]
  worker:
    replicas: 4
    command: [python, worker.py]
    depends_on: {server: running}
    env: {EPOCHS: "5"}
    restart: {policy: on-failure, limit: 3, backoff: 1s}
success: [worker]
"""


def job_of(text: str) -> Job:
    return parse_job(read_document(text)).job


def component_of(text: str) -> Component:
    return job_of(f"{{name: a, components: {{x: {{command: c, {text}}}}}}}").components["x"]


def problems_of(document: Any) -> list[str]:
    if isinstance(document, str):
        document = read_document(document)
    with pytest.raises(ManifestError) as caught:
        parse_job(document)
    return [str(problem) for problem in caught.value.problems]


def component_problems(text: str) -> list[str]:
    return problems_of(f"{{name: a, components: {{x: {{command: c, {text} }}, y: {{command: d}}}}}}")


def test_the_sample_becomes_the_job_that_it_describes() -> None:
    parsed = parse_job(read_document(DIGITS))
    assert parsed.warnings == ()
    assert parsed.job == Job(
        name="digits",
        timeout=600.0,
        success=("worker",),
        fail_fast=True,
        components={
            "server": Component(
                "server", "python server.py", resources=Resources(1000, 512 << 20, 0), ports=("params",)
            ),
            "worker": Component(
                "worker",
                ("python", "worker.py"),
                replicas=4,
                depends_on={"server": Condition.RUNNING},
                env={"EPOCHS": "5"},
                restart=Restart(RestartOn.ON_FAILURE, 3, 1.0),
            ),
        },
    )


def test_a_job_survives_its_way_over_the_wire() -> None:
    job = job_of(DIGITS)
    assert SPECIFICATION.decode(codec.encode(job)) == job


def test_parsing_leaves_the_document_as_it_was() -> None:
    document = read_document(DIGITS)
    before = copy.deepcopy(document)
    parse_job(document)
    assert document == before


def test_what_is_left_out_gets_its_default() -> None:
    job = job_of("{name: a, components: {x: {command: c}}}")
    assert job == Job("a", {"x": Component("x", "c")}, ("x",), fail_fast=False)
    assert job.components["x"].resources == Resources(cpu=1000)


@pytest.mark.parametrize("limit", ["unlimited", "3"])
def test_a_task_that_restarts_waits_a_moment_each_time_and_that_is_said(limit: str) -> None:
    text = f"{{name: a, components: {{x: {{command: c, restart: {{limit: {limit}, backoff: 50ms}}}}}}}}"
    [warning] = parse_job(read_document(text)).warnings
    assert warning.startswith("components.x.restart.backoff: 0.05s is raised to 0.1s; what fails at once")


def test_a_job_that_restarts_waits_a_moment_each_time_and_that_is_said() -> None:
    parsed = parse_job(read_document("{name: a, restart: {limit: 3, backoff: 0}, components: {x: {command: c}}}"))
    assert parsed.job.ending.restart == JobRestart(3, 0.1)
    assert parsed.warnings[0].startswith("restart.backoff: 0s is raised to 0.1s; what fails at once")


def test_a_job_with_several_components_fails_fast_and_an_array_does_not() -> None:
    several = "{name: a, components: {x: {command: c}, y: {command: c}}}"
    assert job_of(several).fail_fast is True
    assert job_of(several.replace("{name: a", "{name: a, fail_fast: false")).fail_fast is False
    assert job_of("{name: a, components: {x: {command: c, replicas: 5000, parallelism: 8}}}").fail_fast is False


@pytest.mark.parametrize(
    ("text", "attribute", "wanted"),
    [
        ("resources: {cpu: 0.5}", "resources", Resources(500, 0, 0)),
        ("resources: {cpu: 1.50, memory: 1.5GiB}", "resources", Resources(1500, 3 << 29, 0)),
        ("resources: {memory: 2GB}", "resources", Resources(1000, 2 * 10**9, 0)),
        ("resources: {cpu: 0, gpu: 2}", "resources", Resources(0, 0, 2000)),
        ("resources: {memory: 1048576}", "resources", Resources(1000, 1 << 20, 0)),
        ("timeout: 1h30m", "timeout", 5400.0),
        ("timeout: 500ms", "timeout", 0.5),
        ("timeout: 90", "timeout", 90.0),
        ("timeout: '1.5'", "timeout", 1.5),
        ("timeout: 1d2h3m4s5ms", "timeout", 93784.005),
        ("grace: 0", "grace", 0.0),
        ("output: {limit: 2GiB}", "output_limit", 2 << 30),
        ("output: {}", "output_limit", 1 << 30),
        ("restart: always", "restart", Restart(RestartOn.ALWAYS)),
        ("restart: {limit: 5}", "restart", Restart(RestartOn.ON_FAILURE, 5)),
        ("restart: {limit: unlimited, backoff: 0}", "restart", Restart(RestartOn.ON_FAILURE, None, 0.1)),
        ("restart: {limit: 5, backoff: 0}", "restart", Restart(RestartOn.ON_FAILURE, 5, 0.1)),
        ("ports: [a, b-c]", "ports", ("a", "b-c")),
        ("ports: [http], ready: {port: http, timeout: 30s}", "ready", Ready(port="http", timeout=30.0)),
        ("ready: {command: [test, -e, 1]}", "ready", Ready(command=("test", "-e", "1"))),
        ("ready: {log: 'up.*'}", "ready", Ready(log="up.*")),
        (
            "env: {A: 1, B: 1.10, C: '', D: no, E: -2.5}",
            "env",
            {"A": "1", "B": "1.10", "C": "", "D": "no", "E": "-2.5"},
        ),
        ("cwd: /tmp", "cwd", "/tmp"),
    ],
)
def test_a_key_becomes_a_value(text: str, attribute: str, wanted: object) -> None:
    assert getattr(component_of(text), attribute) == wanted


def test_a_list_of_dependencies_means_running() -> None:
    job = job_of("{name: a, components: {x: {command: c, depends_on: [y]}, y: {command: d}}}")
    assert job.components["x"].depends_on == {"y": Condition.RUNNING}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("replicas: -1", "components.x.replicas: must be at least 1, got -1"),
        ("replicas: 0", "components.x.replicas: must be at least 1, got 0"),
        ("replicas: 100001", "components.x.replicas: must be at most 100000, got 100001"),
        ("replicas: 2.5", "components.x.replicas: must be a whole number, got 2.5"),
        ("replicas: true", "components.x.replicas: must be a whole number, got true"),
        ("replicas: '4'", 'components.x.replicas: must be a whole number, got "4"'),
        ("replicas:", "components.x.replicas: has no value; leave the key out for its default"),
        ("parallelism: 0", "components.x.parallelism: must be at least 1, got 0"),
        ("replica: 2", "components.x.replica: unknown key; did you mean `replicas`?"),
        ("num: 2", "components.x.num: unknown key; did you mean `replicas`?"),
        ("resources: {cpus: 2}", "components.x.resources.cpus: unknown key; did you mean `cpu`?"),
        ("resources: {cpu: -3}", "components.x.resources.cpu: must not be negative, got -3"),
        ("resources: {cpu: true}", "components.x.resources.cpu: must be a number of cores such as 1 or 0.5, got true"),
        (
            "resources: {cpu: .nan}",
            'components.x.resources.cpu: must be a number of cores such as 1 or 0.5, got ".nan"',
        ),
        ("resources: {cpu: 1000000}", "components.x.resources.cpu: must be at most 65536 cores, got 1000000"),
        ("resources: {cpu: 0.0001}", "components.x.resources.cpu: must be 0 or at least 0.001 cores, got 0.0001"),
        (
            "resources: {memory: 12 parsecs}",
            "components.x.resources.memory: must be a size such as 512MiB or 1.5GiB, got",
        ),
        ("resources: {memory: -5MiB}", "components.x.resources.memory: must be a size such as 512MiB or 1.5GiB, got"),
        (
            "resources: {memory: 512}",
            "components.x.resources.memory: must be 0 or at least 1MiB, got 512 (a plain number",
        ),
        ("resources: {memory: 4g}", "components.x.resources.memory: must have a full unit: 4GiB (binary) or 4GB"),
        ("resources: {memory: 9999999TiB}", "components.x.resources.memory: must be at most 1024TiB"),
        (
            "resources: {gpu: 1.5}",
            "components.x.resources.gpu: must be a whole number of devices, or a share of one below 1 such as 0.25; "
            "got 1.5",
        ),
        (
            "resources: {gpu: many}",
            "components.x.resources.gpu: must be a number of devices such as 2, or a share of one such as 0.25, "
            'got "many"',
        ),
        ("resources: 4", "components.x.resources: must be a mapping (KEY: VALUE lines), got 4"),
        ("timeout: -1", "components.x.timeout: must not be negative, got -1"),
        ("timeout: 0", "components.x.timeout: must be more than 0, got 0"),
        ("timeout: .inf", "components.x.timeout: must be a duration such as 90s, 10m, 1h30m or 500ms, got"),
        ("timeout: 10 minutes", "components.x.timeout: must be a duration such as"),
        (
            "timeout: 5m1h",
            "components.x.timeout: must be a duration such as 90s, 10m, 1h30m or 500ms, with each unit once",
        ),
        (
            "timeout: 5m5m",
            "components.x.timeout: must be a duration such as 90s, 10m, 1h30m or 500ms, with each unit once",
        ),
        ("timeout: 1000000h", "components.x.timeout: must be at most 365d"),
        ("timeout: yes", 'components.x.timeout: must be a duration such as 90s, 10m, 1h30m or 500ms, got "yes"'),
        ("grace: -1s", 'components.x.grace: must be a duration such as 90s, 10m, 1h30m or 500ms, got "-1s"'),
        ("ports: [a, a]", "components.x.ports[1]: the port `a` is named twice"),
        ("ports: [a-b, a_b]", "components.x.ports[1]: the port `a_b` is GRASS_PORT_A_B in the environment, as `a-b`"),
        ("ports: [80]", "components.x.ports[0]: must be a name, got 80"),
        ("ports: http", 'components.x.ports: must be a list, got "http"'),
        ("depends_on: {z: running}", "components.x.depends_on.z: unknown component; the job has x, y"),
        ("depends_on: {y: ready}", "components.x.depends_on.y: `y` has no readiness check; give it `ready:`"),
        ("depends_on: {y: up}", 'components.x.depends_on.y: must be one of running, ready, succeeded; got "up"'),
        ("depends_on: [x]", "components.x.depends_on: is a cycle, so none of these could ever start: x → x"),
        ("depends_on: y", 'components.x.depends_on: must be a mapping (KEY: VALUE lines), got "y"'),
        ("ready: {port: web}", "components.x.ready.port: unknown port `web`; it has none"),
        ("ready: {log: '['}", "components.x.ready.log: is not a regular expression: missing ]: ["),
        (
            "ready: {log: a, command: b}",
            "components.x.ready: must have exactly one of port, command, log; got command, log",
        ),
        ("ready: {timeout: 5}", "components.x.ready: must have exactly one of port, command, log; got none"),
        ("env: {1A: x}", "components.x.env.1A: must be the name of an environment variable"),
        (
            "env: {GRASS_JOB: x}",
            "components.x.env.GRASS_JOB: is reserved; Grass sets the variables that begin with GRASS_",
        ),
        ("env: {A: true}", 'components.x.env.A: must be text or a number, got true; write "true" to make it text'),
        ("env: {A: }", 'components.x.env.A: must be text or a number, got nothing; write "" for empty text'),
        ("env: {A: [1]}", "components.x.env.A: must be text or a number, got a list"),
        ('env: {A: "x\\0y"}', "components.x.env.A: must not contain a NUL character"),
        ("env: [A=1]", "components.x.env: must be a mapping (KEY: VALUE lines), got a list"),
        ("restart: sometimes", 'components.x.restart: must be one of never, on-failure, always; got "sometimes"'),
        ("restart: {limit: 0}", "components.x.restart.limit: must be at least 1, got 0"),
        ("restart: {policy: on-fail}", "components.x.restart.policy: must be one of never, on-failure, always"),
        ("restart: {max: 3}", "components.x.restart.max: unknown key; use one of policy, limit, backoff"),
        ("cwd: ''", "components.x.cwd: must not be empty"),
        ("image: 5", "components.x.image: must be text, got 5"),
    ],
)
def test_a_mistake_in_a_component_is_named_with_its_path(text: str, problem: str) -> None:
    found = component_problems(text)
    assert len(found) == 1
    assert found[0].startswith(problem)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "is missing; it says what the tasks run"),
        ("command: ''", "must not be empty"),
        ("command: '  \t '", "must not be empty"),
        ("command: []", "must not be empty"),
        ("command: ['', a]", "item 0 must not be empty"),
        ("command: [a, true]", 'item 1 must be text or a number, got true; write "true" to make it text'),
        ("command: 5", "must be text (for /bin/sh) or a list of arguments, got 5"),
        ("command: {run: x}", "must be text (for /bin/sh) or a list of arguments, got a mapping"),
        (
            "command: " + "x" * 140_000,
            "must be at most 131071 bytes long, got 140000; put it in a file (`grass data push`)",
        ),
    ],
)
def test_a_component_needs_a_command(command: str, message: str) -> None:
    document = read_document(f"{{name: a, components: {{x: {{{command}}}}}}}")
    assert problems_of(document) == [f"components.x.command: {message}"]


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "a/b",
        "/etc/passwd",
        "-rf",
        "a b",
        "",
        "a..b",
        ".hidden",
        "end-",
        "ä",
        "a\n",
        "a\0",
        "x" * 64,
        True,
        None,
        [],
    ],
)
def test_a_name_that_is_a_path_or_an_option_is_refused(name: object) -> None:
    (problem,) = problems_of({"name": name, "components": {"x": {"command": "c"}}})
    assert problem.startswith("name: ")


@pytest.mark.parametrize("name", ["a", "MyJobName", "a.b-c_d", "7", "x" * 63])
def test_a_sensible_name_is_accepted(name: str) -> None:
    assert parse_job({"name": name, "components": {"x": {"command": "c"}}}).job.name == name


@pytest.mark.parametrize("name", ["a.b", "../x", "-x", "a/b", "x" * 64])
def test_a_component_has_a_simple_name(name: str) -> None:
    (problem,) = problems_of({"name": "a", "components": {name: {"command": "c"}}})
    assert "must be" in problem


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "must be a mapping (KEY: VALUE lines), got a list"),
        ({"name": "a"}, "components: is missing; a job needs at least one component"),
        ({"name": "a", "components": {}}, "components: must not be empty; a job needs at least one component"),
        ({"name": "a", "components": []}, "components: must be a mapping (KEY: VALUE lines), got a list"),
        ({"name": "a", "components": {"x": None}}, "components.x: must be a mapping (KEY: VALUE lines), got nothing"),
        ({"name": "a", "components": {"x": {"command": "c"}}, 7: 1}, "a key must be text, got 7"),
        ({"components": {"x": {"command": "c"}}}, "name: is missing"),
    ],
)
def test_a_document_of_the_wrong_shape_is_refused(document: Any, problem: str) -> None:
    assert problems_of(document) == [problem]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("sucess: [x]", "sucess: unknown key; did you mean `success`?"),
        ("success: [z]", "success[0]: unknown component; the job has x"),
        ("success: {z: all}", "success.z: unknown component; the job has x"),
        ("success: {x: all, z: any}", "success.z: unknown component; the job has x"),
        ("success: [x, x]", "success[1]: `x` is named twice"),
        ("success: []", "success: must not be empty; without it, every component must succeed"),
        ("success: x", 'success: must be a list of components, or COMPONENT: all, any or index0; got "x"'),
        ("priority: -1", "priority: must be at least 0, got -1"),
        ("priority: 5000", "priority: must be at most 1000, got 5000"),
        ("fail_fast: yes", 'fail_fast: must be true or false, got "yes"'),
        ("fail_fast: 1", "fail_fast: must be true or false, got 1"),
        ("tags: [a]", "tags: must be a mapping (KEY: VALUE lines), got a list"),
        ("cron: '* * * * *'", "cron: belongs to a schedule; start this file with `grass schedule start`"),
        (
            "mode: nonsense",
            "mode: must be one of process, grass, grass/local, grass/azure, grass/on-premises, k8s/aks; got",
        ),
    ],
)
def test_a_mistake_beside_the_components_is_named(line: str, problem: str) -> None:
    found = problems_of(f"name: a\ncomponents: {{x: {{command: c}}}}\n{line}\n")
    assert found[0].startswith(problem)


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_parts() -> None:
    found = problems_of("name: ../a\ntimeout: -5\nx: 1\ncomponents: {x: {command: '', replicas: -1, colour: red}}\n")
    assert [problem.split(":")[0] for problem in found] == [
        "components.x.command",
        "components.x.replicas",
        "components.x.colour",
        "name",
        "timeout",
        "x",
    ]


def test_a_cycle_is_printed() -> None:
    parts = "a: {command: c, depends_on: [b]}, b: {command: c, depends_on: [d]}, d: {command: c, depends_on: [b]}"
    (problem,) = problems_of(f"{{name: j, components: {{{parts}}}}}")
    assert problem == "components.b.depends_on: is a cycle, so none of these could ever start: b → d → b"


def test_a_diamond_of_dependencies_is_no_cycle() -> None:
    parts = "a: {command: c}, b: {command: c, depends_on: [a]}, d: {command: c, depends_on: [a]}"
    job_of(f"{{name: j, components: {{{parts}, e: {{command: c, depends_on: [b, d]}}}}}}")


def test_the_tasks_of_a_job_are_bounded_in_all() -> None:
    parts = ", ".join(f"c{i}: {{command: c, replicas: 60000}}" for i in range(2))
    assert problems_of(f"{{name: j, components: {{{parts}}}}}") == [
        "components: must have at most 100000 tasks in all, got 120000"
    ]


def test_the_list_of_mistakes_is_bounded() -> None:
    found = problems_of({"name": "a", "components": {"x": {"command": "c"}}, **{f"k{i}": 1 for i in range(4_000)}})
    assert len(found) == 51
    assert found[-1] == "stopped after 50 problems; there may be more"


def test_a_message_shows_hostile_text_cut_and_on_one_line() -> None:
    (problem,) = problems_of({"name": "a\n\x1b[31m" + "b" * 1000, "components": {"x": {"command": "c"}}})
    assert "\n" not in problem
    assert "\x1b" not in problem
    assert len(problem) < 250


def test_text_that_utf_8_cannot_hold_is_refused() -> None:
    (problem,) = problems_of({"name": "a", "components": {"x": {"command": "echo \ud800"}}})
    assert "half of a surrogate pair" in problem


@pytest.mark.parametrize(
    ("wrong", "shown"), [("a\udc80b", "'a\\x80b'"), ("a" * 30 + "\udcff" + "b" * 30, f"…'{'a' * 20}\\xff{'b' * 19}'…")]
)
def test_text_that_is_not_utf_8_is_shown_near_the_first_wrong_byte(wrong: str, shown: str) -> None:
    assert not_text(wrong) == shown


@pytest.mark.parametrize("half", ["\ud800", "\udfff"])
def test_half_of_a_surrogate_pair_is_found_wherever_it_is(half: str) -> None:
    assert not_text("a" * 60 + half) == "half of a surrogate pair"


def test_without_components_nothing_is_said_of_names_that_could_not_be_there() -> None:
    found = problems_of("name: a\ncomponents: []\nsuccess: [x]\n")
    assert found == ["components: must be a mapping (KEY: VALUE lines), got a list"]
