from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from grass.model.framework import Framework, FrameworkName
from grass.model.job import Container, StopSignal
from grass.model.runtime import RuntimeName
from grass.node_config import KubernetesConfig, NodeConfig, NodeHome
from grass.wire.desired import DesiredAttempt
from node.agent.environment import argv, attempt_env, inherited, launch, start
from tests.support.templates import changed, template

CONFIG = NodeHome(name="lab", mode="local", home="/h", runtime_dir="/r", node=NodeConfig(name="n1"))
TEMPLATE = template(
    job_id="train-12345678",
    job="train",
    name="actor",
    size=4,
    cpu=0,
    command="echo hi",
    env={"EPOCHS": "5", "GRASS_NODE": "elsewhere", "PYTHONUNBUFFERED": ""},
    grace=2.0,
    width=3,
)


def test_what_a_component_has_in_common() -> None:
    made = launch(CONFIG, TEMPLATE, {"PATH": "/bin", "EPOCHS": "1"})
    assert (made.argv, made.cwd, made.grace, made.width) == (["/bin/sh", "-c", "echo hi"], None, 2.0, 3)
    assert made.env == {
        "PATH": "/bin",
        "EPOCHS": "5",
        "PYTHONUNBUFFERED": "",
        "GRASS_CLUSTER": "lab",
        "GRASS_JOB": "train",
        "GRASS_JOB_ID": "train-12345678",
        "GRASS_COMPONENT": "actor",
        "GRASS_REPLICAS": "4",
        "GRASS_NODE": "n1",
        "GRASS_ADDRESSES": "/h/node/jobs/train-12345678/addresses",
        "GRASS_DATA": str(Path("/h/data")),
        "GRASS_OUTPUT": str(Path("/h/data/jobs/train-12345678")),
        "GRASS_FIGURES": "/r/figures.sock",
        "CLUSTER_ID": "lab",
        "CLUSTER_NAME": "lab",
        "NODE_ID": "n1",
        "NODE_NAME": "n1",
        "JOB_ID": "train-12345678",
        "JOB_NAME": "train",
        "COMPONENT_TYPE": "actor",
    }


def test_what_stops_its_tasks_is_the_signal_that_a_component_names() -> None:
    assert launch(CONFIG, TEMPLATE, {}).stop_signal == signal.SIGTERM
    assert launch(CONFIG, changed(TEMPLATE, stop_signal=StopSignal.QUIT), {}).stop_signal == signal.SIGQUIT


def test_a_job_that_waited_for_others_finds_their_output_also_in_a_container() -> None:
    config = replace(CONFIG, node=replace(CONFIG.node, runtimes=("process", "docker")))
    found = changed(TEMPLATE, awaited={"pre-train.v2": "pre-train.v2-00000001"})
    assert launch(config, found, {}).env["GRASS_AFTER_PRE_TRAIN_V2_OUTPUT"] == "/h/data/jobs/pre-train.v2-00000001"
    made = launch(config, changed(found, image="i:1", container=Container(data="/data")), {})
    assert "GRASS_FIGURES" not in made.env  # a container does not reach the socket
    assert made.env["GRASS_AFTER_PRE_TRAIN_V2_OUTPUT"] == "/data/jobs/pre-train.v2-00000001"
    assert made.env["GRASS_OUTPUT"] == "/data/jobs/train-12345678"


def test_a_container_has_nothing_of_the_hosts_environment() -> None:
    config = replace(CONFIG, node=replace(CONFIG.node, runtimes=("process", "docker")))
    found = changed(TEMPLATE, image="i:1", cpu=500, memory=9, container=Container(user="7"))
    made = launch(config, found, {"PATH": "/host/bin", "HOME": "/home/me"})
    assert (made.runtime, made.image, made.cpu, made.memory, made.container.user) == ("docker", "i:1", 500, 9, "7")
    assert {"PATH", "HOME"}.isdisjoint(made.env) and made.env["EPOCHS"] == "5"
    assert launch(CONFIG, found, {"PATH": "/bin"}).env["PATH"] == "/bin"  # it has no engine


def test_a_task_has_what_a_login_sets_even_if_the_submitting_shell_has_not() -> None:
    login = {"PATH": "/bin", "HOME": "/home/me", "USER": "me", "LOGNAME": "me", "SHELL": "/bin/sh"}
    base = {**login, "VIRTUAL_ENV": "/old"}
    made = launch(CONFIG, changed(TEMPLATE, shell=(("LANG", "C"), ("SHELL", "/bin/zsh"))), base)
    assert {name: made.env.get(name) for name in login} == {**login, "SHELL": "/bin/zsh"}
    assert "VIRTUAL_ENV" not in made.env and made.env["LANG"] == "C"


@pytest.mark.parametrize(("cpu", "count"), [(500, "1"), (1000, "1"), (2500, "3"), (0, None)])
def test_numeric_libraries_start_a_thread_for_each_core_of_the_task(cpu: int, count: str | None) -> None:
    found = changed(TEMPLATE, cpu=cpu)
    assert launch(CONFIG, found, {}).env.get("OMP_NUM_THREADS") == count
    assert launch(CONFIG, found, {"OMP_NUM_THREADS": "9"}).env["OMP_NUM_THREADS"] == "9"
    own = changed(found, env={"OMP_NUM_THREADS": "7"})
    assert launch(CONFIG, own, {"OMP_NUM_THREADS": "9"}).env["OMP_NUM_THREADS"] == "7"


def test_what_starts_several_processes_in_a_task_counts_threads_by_itself() -> None:
    found = changed(TEMPLATE, cpu=4000, framework=Framework(FrameworkName.TORCHRUN))
    assert "OMP_NUM_THREADS" not in launch(CONFIG, found, {}).env
    found = changed(TEMPLATE, cpu=4000, framework=Framework(FrameworkName.TORCH))
    assert launch(CONFIG, found, {}).env["OMP_NUM_THREADS"] == "4"


def test_a_container_takes_its_number_of_threads_where_its_image_has_none() -> None:
    config = replace(CONFIG, node=replace(CONFIG.node, runtimes=("process", "docker")))
    made = launch(config, changed(TEMPLATE, image="i:1", cpu=2000), {})
    assert "OMP_NUM_THREADS" not in made.env and made.defaults == {"OMP_NUM_THREADS": "2"}


def test_a_start_carries_ports_and_devices() -> None:
    entry = DesiredAttempt(1, {"web": 4000}, ((2, 1000), (3, 500)))
    made = start("j-1/a.0/1", "j-1/a", TEMPLATE, entry, 4)
    assert (made.ports, made.gpus, made.env["CUDA_VISIBLE_DEVICES"]) == ({"web": 4000}, (2, 3), "2,3")


def test_what_is_an_attempts_own() -> None:
    entry = DesiredAttempt(1, {"params": 4000, "tensor-board": 4001})
    assert attempt_env("train-12345678/actor.3/2", TEMPLATE, entry, node_gpus=0) == {
        "GRASS_INDEX": "3",
        "GRASS_TASK": "train.actor.3",
        "GRASS_ATTEMPT": "2",
        "COMPONENT_INDEX": "3",
        "COMPONENT_ID": "train-12345678.actor.3",
        "CONTAINER_NAME": "train-12345678.actor.3.2",
        "GRASS_PORT_PARAMS": "4000",
        "GRASS_PORT_TENSOR_BOARD": "4001",
    }


def test_a_task_sees_its_combination_of_the_matrix() -> None:
    found = changed(TEMPLATE, matrix={"lr": ("0.1", "0.01"), "seed": ("1", "2", "3")})
    env = attempt_env("train-12345678/actor.4/1", found, DesiredAttempt(1), node_gpus=0)
    assert (env["lr"], env["seed"], env["GRASS_MATRIX_LR"], env["GRASS_MATRIX_SEED"]) == ("0.01", "2", "0.01", "2")


def test_a_task_sees_the_gpus_that_it_was_given_and_no_others() -> None:
    entry = DesiredAttempt(1, gpus=((0, 1000), (3, 250)))
    assert attempt_env("j-1/a.0/1", TEMPLATE, entry, node_gpus=4)["CUDA_VISIBLE_DEVICES"] == "0,3"
    assert attempt_env("j-1/a.0/1", TEMPLATE, DesiredAttempt(1), node_gpus=4)["CUDA_VISIBLE_DEVICES"] == ""


def test_a_string_runs_in_a_shell_and_a_list_as_it_is() -> None:
    assert argv("a b") == ["/bin/sh", "-c", "a b"]
    assert argv(("a b",)) == ["a b"]


def test_what_belongs_to_grass_itself_is_not_inherited() -> None:
    assert inherited({"PATH": "/bin", "GRASS_HOME": "/x", "SUPERVISOR_SERVER_URL": "y"}) == {"PATH": "/bin"}


@pytest.mark.parametrize(
    "cwd, base, process, container",
    [
        (None, None, None, None),
        (None, "/home/ann", "/home/ann", None),
        ("src", "/home/ann", "/home/ann/src", "/share/src"),
        ("src", None, "/h/data/src", "/share/src"),
        ("/opt", "/home/ann", "/opt", "/opt"),
    ],
)
def test_a_relative_folder_is_that_of_the_file_or_in_the_share(
    cwd: str | None, base: str | None, process: str | None, container: str | None
) -> None:
    found = changed(TEMPLATE, cwd=cwd, base=base)
    assert launch(CONFIG, found, {}).cwd == process
    inside = changed(found, runtime=RuntimeName.DOCKER, image="i", container=Container(data="/share"))
    assert launch(CONFIG, inside, {}).cwd == container


def test_a_pod_is_told_of_no_redis_of_the_machine_of_its_agent() -> None:
    namespace = NodeConfig(name="k", runtimes=("kubernetes",), kubernetes=KubernetesConfig("lab"))
    config = replace(CONFIG, node=namespace, task_redis=6380)
    made = launch(config, changed(TEMPLATE, image="i:1", env={"REDIS_HOST": "redis.lab"}, timeout=60.0), {})
    assert (made.runtime, made.timeout) == (RuntimeName.KUBERNETES, 60.0)
    assert made.env["REDIS_HOST"] == "redis.lab" and {"REDIS_PORT", "GRASS_REDIS_URL"}.isdisjoint(made.env)
