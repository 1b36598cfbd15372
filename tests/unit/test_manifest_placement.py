"""Native job files: amounts, constraints, gangs, policies, jobs on jobs, matrices; and what is said about mistakes."""

from __future__ import annotations

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.manifest.schedule import parse_schedule
from grass.model.job import NODE_LEVEL, After, AfterState, Component, GpuNeed, Job, Policy
from grass.model.matrix import combination, environment
from grass.model.resources import Resources


def job_of(text: str) -> Job:
    return parse_job(read_document(f"{{name: a, components: {{x: {{command: c}}, y: {{command: d}}}}, {text}}}")).job


def component_of(text: str) -> Component:
    return parse_job(read_document(f"{{name: a, components: {{x: {{command: c, {text}}}}}}}")).job.components["x"]


def problems_of(text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse_job(read_document(text))
    return [str(problem) for problem in caught.value.problems]


def job_problems(text: str) -> list[str]:
    return problems_of(f"{{name: a, components: {{x: {{command: c}}, y: {{command: d}}}}, {text}}}")


def component_problems(text: str) -> list[str]:
    return problems_of(f"{{name: a, components: {{x: {{command: c, {text}}}}}}}")


# amounts


@pytest.mark.parametrize(
    ("text", "wanted", "need"),
    [
        ("gpu: 2", Resources(1000, gpu=2000), GpuNeed()),
        ("gpu: 0.25", Resources(1000, gpu=250), GpuNeed()),
        ("gpu: {model: A100}", Resources(1000, gpu=1000), GpuNeed("A100")),
        ("gpu: {count: 0.5, memory: 40GiB}", Resources(1000, gpu=500), GpuNeed(None, 40 << 30)),
        ("gpu: {count: 2, model: A100, memory: '>= 40GiB'}", Resources(1000, gpu=2000), GpuNeed("A100", 40 << 30)),
        ("disk: 2GiB", Resources(1000, disk=2 << 30), GpuNeed()),
        ("licences: 1", Resources(1000, custom=(("licences", 1),)), GpuNeed()),
        ("custom: {cpus: 1, b: 2}", Resources(1000, custom=(("b", 2), ("cpus", 1))), GpuNeed()),
        ("custom: {licences: 0}", Resources(1000), GpuNeed()),
    ],
)
def test_amounts_are_what_they_say(text: str, wanted: Resources, need: GpuNeed) -> None:
    component = component_of(f"resources: {{{text}}}")
    assert (component.resources, component.gpu) == (wanted, need)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gpu: 2.5", "gpu: must be a whole number of devices, or a share of one below 1 such as 0.25; got 2.5"),
        ("gpu: 0.0001", "gpu: must be 0 or at least 0.001 of a device, got 0.0001"),
        ("gpu: -1", "gpu: must not be negative, got -1"),
        ("gpu: {count: 0, model: A100}", "gpu.count: is 0, so `model` and `memory` match no device"),
        *(
            (f"gpu: {{memory: '{sign}40GiB'}}", f'gpu.memory: must be a minimum such as >=40GiB, got "{sign}40GiB"')
            for sign in ("<", ">", "=", "!=")
        ),
        ("gpu: {modell: A100}", "gpu.modell: unknown key; did you mean `model`?"),
        ("memroy: 3", "memroy: unknown key; did you mean `memory`?"),
        ("cores: 3", "cores: unknown key; did you mean `cpu`?"),
        ("gpus: 1", "gpus: unknown key; did you mean `gpu`?"),
        ("replicas: 3", "replicas: belongs to the component, one level up"),
        ("licences: some", "licences: unknown key; use one of gpu, cpu, memory, disk, custom"),
        ("licences: true", "licences: unknown key; use one of gpu, cpu, memory, disk, custom"),
        ("licences: -1", "licences: must be at least 0, got -1"),
        ("custom: {cpu: 1}", "custom.cpu: is a built-in resource; move it one level up"),
        ("custom: {licences: 1.5}", "custom.licences: must be a whole number, got 1.5"),
        ("custom: {a: 1}, a: 2", "a: is also under `custom`; keep one"),
    ],
)
def test_a_mistake_in_amounts_is_told_from_a_resource_of_ones_own(text: str, problem: str) -> None:
    assert component_problems(f"resources: {{{text}}}") == [f"components.x.resources.{problem}"]


# constraints


def test_where_and_what_to_avoid() -> None:
    component = component_of("where: {arch: x86_64, gen: [3, 4]}, avoid: [n1, n2], spread: node, pack: 1")
    assert component.where == {"arch": ("x86_64",), "gen": ("3", "4")}
    assert (component.avoid, component.spread, component.pack) == (("n1", "n2"), NODE_LEVEL, 1)
    assert component_of("avoid: n1").avoid == ("n1",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("where: {arch: []}", "where.arch: must not be empty; no node could match it"),
        ("where: {arch: [a, a]}", "where.arch[1]: `a` is named twice"),
        ("where: {arch: true}", 'where.arch: must be text or a number, got true; write "true" to make it text'),
        ("where: {'a b': c}", 'where."a b": a label must be made of at most 63 letters, digits'),
        ("where: [a]", "where: must be a mapping"),
        ("avoid: [n1, n1]", "avoid[1]: `n1` is named twice"),
        ("avoid: ['*']", "avoid[0]: must be a name made of"),
        ("spread: rack", 'spread: must be node, or a level of the topology from 1 to 8; got "rack"'),
        ("spread: 0", "spread: must be node, or a level of the topology from 1 to 8; got 0"),
        ("pack: true", "pack: must be node, or a level of the topology from 1 to 8; got true"),
        ("spread: node, pack: node", "spread: contradicts `pack: node`, which keeps tasks on one node"),
        ("spread: 1, pack: 2", "spread: contradicts `pack: 2`, which keeps tasks in one domain of level 1"),
    ],
)
def test_a_mistake_in_constraints_is_named_with_its_path(text: str, problem: str) -> None:
    (found,) = component_problems(text)
    assert found.startswith(f"components.x.{problem}")


def test_a_spread_within_the_packed_level_is_no_contradiction() -> None:
    assert component_of("spread: node, pack: 1").spread == NODE_LEVEL
    assert component_of("spread: 2, pack: 1").pack == 1


def test_a_spread_over_what_the_job_keeps_together_is_a_contradiction() -> None:
    text = "{name: a, together: node, components: {x: {command: c, spread: 1}}}"
    assert problems_of(text) == [
        "components.x.spread: contradicts the job's `together: node`, which keeps tasks in one domain of level 1"
    ]


# policies


def test_policies_are_those_of_maro_and_best_fit() -> None:
    assert (job_of("priority: 1").policy, job_of("place: best-fit").policy) == (Policy.BEST_FIT, Policy.BEST_FIT)
    job = job_of("place: {policy: single-metric-compacted, metric: disk}")
    assert (job.policy, job.metric) == (Policy.COMPACTED, "disk")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("place: spread", "place: must be one of best-fit, single-metric-balanced, single-metric-compacted"),
        ("place: single-metric-balanced", "place: needs a metric (cpu, memory, gpu, disk), as in {policy: single-me"),
        ("place: {policy: single-metric-balanced}", "place.metric: needs a metric (cpu, memory, gpu, disk), as in"),
        ("place: {policy: best-fit, metric: cpu}", "place.metric: requires a single-metric policy; best-fit uses"),
        ("place: {policy: single-metric-balanced, metric: x}", "place.metric: must be one of cpu, memory, gpu, disk"),
        ("preemptible: 1", "preemptible: must be true or false, got 1"),
        ("together: {}", "together: must be node, or a level of the topology from 1 to 8; got a mapping"),
    ],
)
def test_a_mistake_in_policies_is_named_with_its_path(text: str, problem: str) -> None:
    (found,) = job_problems(text)
    assert found.startswith(problem)


# gangs


def test_a_gang_is_all_components_or_some() -> None:
    assert job_of("gang: true").gang == ("x", "y")
    assert job_of("gang: [y]").gang == ("y",)
    assert job_of("gang: false").gang == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gang: []", "gang: must not be empty; `true` means all components"),
        ("gang: x", 'gang: must be true, false or a list of components, got "x"'),
        ("gang: [x, z]", "gang[1]: unknown component; the job has x, y"),
        ("gang: [x, x]", "gang[1]: `x` is named twice"),
    ],
)
def test_a_mistake_in_a_gang_is_named_with_its_path(text: str, problem: str) -> None:
    assert job_problems(text) == [problem]


def test_members_of_a_gang_cannot_wait_for_each_other() -> None:
    text = "{name: a, gang: true, components: {x: {command: c, depends_on: [y]}, y: {command: d}}}"
    (problem,) = problems_of(text)
    assert problem.startswith(
        "components.x.depends_on.y: can never be met: `x` waits for `y`, but the gang starts together"
    )
    chain = (
        "{name: a, gang: [x, z], components: "
        "{x: {command: c, depends_on: [y]}, y: {command: d, depends_on: [z]}, z: {command: e}}}"
    )
    (problem,) = problems_of(chain)
    assert problem.startswith("components.x.depends_on.y: can never be met: `x` waits for `y` (through `z`)")


def test_a_gang_may_wait_for_what_is_not_in_it() -> None:
    text = "{name: a, gang: [x], components: {x: {command: c, depends_on: [y]}, y: {command: d}}}"
    assert parse_job(read_document(text)).job.gang == ("x",)


def test_a_gang_cannot_have_some_of_its_tasks_at_a_time() -> None:
    text = "{name: a, gang: true, components: {x: {command: c, replicas: 4, parallelism: 2}}}"
    assert problems_of(text) == [
        "components.x.parallelism: must be left out: the gang starts all 4 tasks together; got 2"
    ]


# jobs on jobs


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("after: b", (After("b"),)),
        ("after: b-0123abcd", (After("b-0123abcd"),)),
        ("after: {job: b, state: ended}", (After("b", AfterState.ENDED),)),
        ("after: [b, {job: c, state: ended}]", (After("b"), After("c", AfterState.ENDED))),
        (f"after: {'n' * 63}-0123abcd", (After(f"{'n' * 63}-0123abcd"),)),
    ],
)
def test_a_job_may_wait_for_others(text: str, wanted: tuple[After, ...]) -> None:
    assert job_of(text).after == wanted


def test_a_task_may_wait_for_the_same_one_of_another_job() -> None:
    text = "{name: a, after: {job: b, tasks: same}, components: {x: {command: c, replicas: 4}}}"
    assert parse_job(read_document(text)).job.after == (After("b", same_tasks=True),)


@pytest.mark.parametrize(
    ("after", "more", "problem"),
    [
        ("{job: b, tasks: all}", "", 'after.tasks: must be one of same; got "all"'),
        ("{job: b, tasks: same, state: ended}", "", "after.state: must be left out: with `tasks: same`"),
        ("{job: b, tasks: same}", "gang: true,", "after.tasks: cannot be combined with `gang`"),
        ("[c, {job: b, tasks: same}]", "gang: true,", "after[1].tasks: cannot be combined with `gang`"),
    ],
)
def test_tasks_that_cannot_wait_each_for_another_are_refused(after: str, more: str, problem: str) -> None:
    text = f"{{name: a, after: {after}, {more} components: {{x: {{command: c, replicas: 4}}}}}}"
    (found,) = problems_of(text)
    assert found.startswith(problem)


def test_components_have_no_tasks_in_common_with_another_job() -> None:
    (found,) = job_problems("after: {job: b, tasks: same}")
    assert found == "after.tasks: needs a job with one component, got 2; use `depends_on` between them"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("after: a", "after: a job cannot wait for itself; `a` is this job"),
        ("after: []", "after: must not be empty; without it, the job waits for no other job"),
        ("after: [b, {job: b}]", "after[1]: the job `b` is named twice"),
        ("after: {job: b, state: running}", 'after.state: must be one of succeeded, failed, ended; got "running"'),
        ("after: {state: ended}", "after.job: is missing; name the job to wait for"),
        ("after: ../b", "after: must be a name made of"),
        ("after: null", "after: must be a name, got nothing"),
    ],
)
def test_a_mistake_in_after_is_named_with_its_path(text: str, problem: str) -> None:
    (found,) = job_problems(text)
    assert found.startswith(problem)


def test_a_job_of_a_batch_cannot_wait_for_the_batch() -> None:
    with pytest.raises(ManifestError, match="after: a job cannot wait for itself; `two` is this job"):
        parse_schedule(read_document("{name: s, jobs: [one, two], after: two, components: {x: {command: c}}}"))


def test_a_schedules_own_keys_and_its_jobs_do_not_mix() -> None:
    text = "{name: s, cron: '0 3 * * *', gang: true, job: {components: {x: {command: c}}}}"
    with pytest.raises(ManifestError, match="gang: belongs under `job`, with the rest of the job"):
        parse_schedule(read_document(text))


# matrices


def test_a_matrix_is_a_task_for_each_combination() -> None:
    component = component_of("matrix: {lr: [0.1, 1e-2], seed: [1, 2, 3]}")
    assert (component.replicas, component.matrix) == (6, {"lr": ("0.1", "1e-2"), "seed": ("1", "2", "3")})
    assert combination(component.matrix, 0) == {"lr": "0.1", "seed": "1"}
    assert combination(component.matrix, 4) == {"lr": "1e-2", "seed": "2"}
    assert environment(combination(component.matrix, 5)) == {
        "lr": "1e-2",
        "seed": "3",
        "GRASS_MATRIX_LR": "1e-2",
        "GRASS_MATRIX_SEED": "3",
    }
    assert component_of("matrix: {a: [1, 2]}, replicas: 2").replicas == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "matrix: {a: [1, 2]}, replicas: 3",
            "replicas: must be 2, one for each combination of `matrix`",
        ),
        ("matrix: {}", "matrix: must not be empty; use `replicas` instead"),
        ("matrix: {a: []}", "matrix.a: must be a list of values, got none"),
        ("matrix: {a: 1}", "matrix.a: must be a list of values, got 1"),
        ("matrix: {a: [1, '1']}", 'matrix.a[1]: the value "1" appears twice'),
        ("matrix: {a: [true]}", "matrix.a[0]: must be text or a number, got true"),
        ("matrix: {a: [1]}, env: {a: 2}", "matrix.a: is also under `env`; keep one"),
        ("matrix: {a: [1], A: [2]}", "matrix.A: differs from `a` only in case"),
        ("matrix: {1a: [1]}", "matrix.1a: must be the name of an environment variable"),
        ("matrix: {GRASS_X: [1]}", "matrix.GRASS_X: is reserved; Grass sets the variables that begin with GRASS_"),
        ("matrix: {JOB_NAME: [1]}", "matrix.JOB_NAME: is reserved; Grass sets it"),
    ],
)
def test_a_mistake_in_a_matrix_is_named_with_its_path(text: str, problem: str) -> None:
    (found,) = component_problems(text)
    assert found.startswith(f"components.x.{problem}")


def test_a_billion_combinations_are_refused_without_being_made() -> None:
    thousand = list(range(1000))
    assert component_problems(f"matrix: {{a: {thousand}, b: {thousand}, c: {thousand}}}") == [
        "components.x.matrix: must make at most 100,000 combinations, got 1,000,000,000"
    ]
    many = ", ".join(f"v{place}: [0, 1]" for place in range(4_000))
    assert component_problems(f"matrix: {{{many}}}") == [
        "components.x.matrix: must make at most 100,000 combinations, got more than 1,000,000,000,000,000"
    ]
