"""Umask and limits of the submitting shell, on a cluster of this machine."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import replace

import pytest

from grass import process_settings
from grass.config import MasterConfig
from grass.errors import InputError
from grass.model.process_settings import LIMITS, UMASK, UNLIMITED, is_setting, with_settings
from grass.model.runtime import RuntimeName
from grass.node_config import NodeConfig, NodeHome
from grass.wire.calls import Submission
from master.api.submission import Terms, accept_job
from node.agent.environment import launch
from tests.support.templates import changed, template

CONFIG = NodeHome(
    "local", "local", "/g/clusters/local", "/r", master=MasterConfig(nodes_on_client=True), node=NodeConfig()
)
JOB = {"name": "j", "components": {"w": {"command": "true"}}}
SHOW = "import json, sys; from grass.process_settings import present; print(json.dumps(present()), sys.argv[1:])"
OTHERS = {"core": 512 * 3, "cpu": 60, "file": 1 << 20, "memory_lock": 1024, "open_files": 99, "stack": 1 << 22}


def test_a_program_has_the_settings_that_it_was_submitted_with() -> None:
    own = process_settings.present()
    wanted = {**own, **OTHERS, UMASK: 0o027}
    command = with_settings([sys.executable, "-c", SHOW, "a b", "", "--"], wanted, own)
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)})
    shown, _, words = done.stdout.partition("} ")
    assert json.loads(shown + "}") == wanted and words == "['a b', '', '--']\n"


def test_a_limit_above_that_of_the_node_is_the_most_that_the_node_allows() -> None:
    own = process_settings.present()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    command = with_settings(["sh", "-c", "ulimit -n"], {**own, "open_files": most + 1}, own)
    command = ["sh", "-c", 'ulimit -S -n 50; exec "$@"', "sh", *command]
    if os.geteuid() == 0:  # who may raise the hard limit, may not here
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    assert subprocess.check_output(command) == b"%d\n" % most


def test_equal_settings_change_no_command() -> None:
    own = process_settings.present()
    assert own.keys() == {UMASK, *LIMITS}
    umask = os.umask(0)
    os.umask(umask)
    assert own[UMASK] == umask
    assert with_settings(["a"], own, own) == with_settings(["a"], {UMASK: 7}, {}) == ["a"]
    assert "unlimited" in with_settings(["a"], {"core": UNLIMITED}, {"core": 0})


def test_processes_and_not_containers_take_them() -> None:
    plain = template(command=("a",), process=((UMASK, 0o77),))
    assert launch(CONFIG, plain, {}, {UMASK: 0o22}).argv[-3:] == ["0077", "--", "a"]
    assert launch(CONFIG, plain, {}, {UMASK: 0o77}).argv == ["a"]
    docker = replace(CONFIG, node=replace(CONFIG.node, runtimes=("process", "docker")))
    image = changed(plain, image="i:1", runtime=RuntimeName.DOCKER)
    assert launch(docker, image, {}, {UMASK: 0o22}).argv == ["a"]


@pytest.mark.parametrize("wrong", [{"umask": 0o1000}, {"umask": -1}, {"stack": -2}, {"stack": 1 << 63}, {"no; rm": 1}])
def test_other_settings_are_refused(wrong: dict[str, int]) -> None:
    assert not any(is_setting(name, value) for name, value in wrong.items())
    with pytest.raises(InputError, match="process"):
        accept_job(Submission(manifest=JOB, process=wrong), list, lambda name: name)


def test_a_job_keeps_them_only_where_the_nodes_are_the_machine_of_the_client() -> None:
    submission = Submission(manifest=JOB, process={UMASK: 0o27})
    assert accept_job(submission, list, lambda name: name).job.components["w"].process == ((UMASK, 0o27),)
    elsewhere = accept_job(submission, list, lambda name: name, Terms(keep_cwd=False))
    assert elsewhere.job.components["w"].process == ()
