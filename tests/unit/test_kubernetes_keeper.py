"""What a pod is made of: the container that keeps its output, and nothing that belongs to Grass alone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from grass.kubernetes.objects import Pod
from grass.model.runtime import RuntimeName
from grass.node_config import KubernetesConfig, NodeConfig, NodeHome
from grass.wire.codec import Form
from grass.wire.desired import DesiredAttempt
from node.agent import environment
from node.membership.rendering import additions
from node.runtime.kubernetes import keeper
from node.runtime.kubernetes.judge import TASK
from node.runtime.kubernetes.pods import pod
from node.runtime.protocol import Launch, Start
from tests.support.templates import template

SETTINGS = KubernetesConfig("lab", pull_policy="Never")
PLAIN = Launch(["/train"], {}, None, 5.0, runtime=RuntimeName.KUBERNETES, image="image:1")
POD: Form[Pod] = Form(Pod)


def body(settings: KubernetesConfig = SETTINGS, start: Start | None = None, launch: Launch = PLAIN) -> dict[str, Any]:
    return pod("c1", "n1", start or Start("j-1/w.0/1", "l", {}), launch, settings)


def status(keeper_state: dict[str, Any] | None, **metadata: Any) -> Pod:
    containers = [{"name": TASK, "state": {"terminated": {"exitCode": 0}}, "containerID": "docker://abc"}]
    if keeper_state is not None:
        containers.append({"name": keeper.KEEPER, "state": keeper_state})
    return POD.convert({"metadata": {"name": "p", **metadata}, "status": {"containerStatuses": containers}})


def test_nothing_that_belongs_to_grass_reaches_a_pod(tmp_path: Path) -> None:
    runtimes = (RuntimeName.KUBERNETES.value,)
    node = NodeConfig("n1", runtimes=runtimes, kubernetes=SETTINGS)
    config = NodeHome("c1", "local", str(tmp_path), str(tmp_path), node=node, task_redis=7654)
    of_job = template(image="image:1", secret="0123456789abcdef", awaited={"first": "first-1"}, env={"OWN": "value"})
    launch = environment.launch(config, of_job, {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "of the agent"})
    entry = DesiredAttempt(1)
    added = additions(config, "j-1/w.0/1", of_job, entry, {}, {})
    start = environment.start("j-1/w.0/1", "l", of_job, entry, 0, added)
    token = added.env["GRASS_TOKEN"]
    said = json.dumps(body(start=start, launch=launch))
    assert '"OWN"' in said
    for leak in (token, of_job.secret, str(tmp_path), "GRASS_TOKEN", "of the agent", "7654", "localhost"):
        assert leak not in said


def test_the_keeper_starts_first_and_has_nothing_of_the_task() -> None:
    first, second = body(launch=PLAIN._replace(env={"SECRET": "of a user"}))["spec"]["containers"]
    assert (first["name"], second["name"]) == (keeper.KEEPER, TASK)
    assert first["image"] == second["image"] and first["imagePullPolicy"] == "Never"
    assert first["securityContext"] == second["securityContext"]
    assert "env" not in first and first["volumeMounts"][0]["readOnly"]
    assert first["resources"]["requests"] == first["resources"]["limits"]


def test_a_node_that_keeps_nothing_has_pods_of_one_container() -> None:
    [only] = body(KubernetesConfig("lab", output=False))["spec"]["containers"]
    assert only["name"] == TASK


@pytest.mark.parametrize(
    ("state", "metadata", "why"),
    [
        ({"running": {}}, {}, ""),
        (None, {}, ""),
        ({"running": {}}, {"deletionTimestamp": "2026-11-27T05:00:00Z"}, "its pod was deleted"),
        ({"terminated": {"exitCode": 128, "startedAt": None}}, {}, "its image has no /bin/sh"),
        ({"waiting": {"reason": "RunContainerError"}}, {}, "its image has no /bin/sh"),
        (
            {"terminated": {"exitCode": 137, "startedAt": "2026-11-27T05:00:00Z"}},
            {},
            "the container that keeps them ended first (exit code 137)",
        ),
    ],
)
def test_it_says_why_nothing_can_be_fetched(state: dict[str, Any] | None, metadata: dict[str, Any], why: str) -> None:
    assert keeper.trouble(status(state, **metadata)) == why


def test_an_agent_that_comes_later_knows_that_the_files_were_fetched() -> None:
    assert keeper.was_let_go(status({"terminated": {"exitCode": 0}}))
    assert not keeper.was_let_go(status({"terminated": {"exitCode": 1}})) and not keeper.was_let_go(status(None))


def test_only_a_running_keeper_can_signal_the_task() -> None:
    command = keeper.signals(status({"running": {}}), "TERM")
    assert command is not None and command[-2:] == ["abc", "TERM"]
    assert keeper.signals(status({"waiting": {}}), "TERM") is None and keeper.signals(status(None), "TERM") is None


@pytest.mark.parametrize("shell", [["sh"], ["bash"], ["busybox", "sh"]])
def test_the_keeper_waits_until_it_is_let_go(shell: list[str]) -> None:
    made = keeper.container("image:1", SETTINGS)
    with subprocess.Popen([*shell, *made["command"][1:]]) as waiting:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.5)
        waiting.send_signal(10)
        assert waiting.wait(5) == 0
