"""docs/reference/kubernetes.md has every key of the job file, every variable of a task, and every right; the extra
``kubernetes`` and the kubeconfig are found."""

from __future__ import annotations

import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from grass.kubernetes.credentials import Login
from grass.kubernetes.rights import MACHINES, rules
from grass.model.framework import FrameworkName
from grass.node_config import KubernetesConfig
from grass.provision.namespaces import absolute_paths

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = (DOCS / "reference" / "kubernetes.md").read_text()
NAMED = set(re.findall(r"`([^`]+)`", REFERENCE))


def section(text: str, title: str) -> str:
    return text.split(f"\n{title}\n", 1)[1].split("\n## ", 1)[0]


def test_every_key_of_a_job_is_named() -> None:
    job_file = (DOCS / "reference" / "job-file.md").read_text()
    for title in ("## Job", "## Component"):
        keys = set(re.findall(r"^\| (?:… )?`(\w+)`", section(job_file, title), re.MULTILINE))
        own = section(REFERENCE, title)
        shown = {part for name in re.findall(r"`([^`]+)`", own) for part in name.split(".")}
        assert len(keys) > 15 and keys - shown == set(), title


def test_every_variable_of_a_task_is_named() -> None:
    guide = section((DOCS / "guide" / "jobs.md").read_text(), "### What a task sees").split("\n### ")[0]
    code = "".join(path.read_text() for path in (ROOT / "node" / "agent" / "environment.py", *_renderers()))
    variables = set(re.findall(r"^\|[^|]*`(\w+)`", guide, re.MULTILINE)) | set(
        re.findall(r'"(GRASS_[A-Z_]+[A-Z])"', code)
    )
    assert len(variables) > 25 and variables - NAMED == set()


def _renderers() -> list[Path]:
    return sorted((ROOT / "grass" / "frameworks").glob("*.py"))


def test_every_framework_is_named() -> None:
    assert {each.value for each in FrameworkName} - NAMED == set()


def test_every_right_is_named_with_its_verbs() -> None:
    rows = dict(re.findall(r"^\| `([\w/]+)`[^|]* \| ([a-z, ]+) \|", section(REFERENCE, "## Rights"), re.MULTILINE))
    most = (*rules(KubernetesConfig("lab", claim="c", queue="q", pull_secrets=("s",))), MACHINES)
    assert rows.keys() == {rule.resource for rule in most}
    for rule in most:
        assert set(rule.verbs) <= set(rows[rule.resource].split(", ")), rule.resource


def test_the_extra_has_what_is_imported_and_tests_have_the_extra() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = {name: set(text.split("\n")) - {""} for name, text in setup["options.extras_require"].items()}
    assert {re.split(r"[<>=!]", each)[0] for each in extras["kubernetes"]} == {"kubernetes"}
    assert extras["kubernetes"] <= extras["dev"]
    assert "websocket-client" in setup["options"]["install_requires"]  # masters run agents of namespaces


def test_without_the_extra_its_name_is_said() -> None:
    program = (
        "import runpy, sys; sys.modules['kubernetes'] = None; sys.argv = ['', '', '']; "
        "runpy.run_module('grass.kubernetes.kubeconfig_program', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1 and "pip install 'grass-cluster[kubernetes]'" in done.stderr.splitlines()[-1]


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: team/lab
contexts: [{name: team/lab, context: {cluster: c, user: u}}, {name: other, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""


def test_the_context_that_is_current_is_told_so_that_it_can_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    assert Login(str(path)).read().context == "team/lab"
    assert Login(str(path), "other").read().context == "other"


def test_paths_of_kubeconfigs_are_those_that_daemons_find(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_paths("a/config:/b/config") == f"{tmp_path}/a/config:/b/config"
    assert absolute_paths("") is None and absolute_paths(None) is None


@pytest.mark.parametrize(
    ("imported", "never"),
    [
        ("grass.kubernetes.api, grass.kubernetes.informer", "kubernetes yaml websocket grass.manifest grass.config"),
        ("node.runtime.kubernetes.runtime, node.agent.namespace", "kubernetes yaml grass.manifest"),
        ("node.agent.__main__", "grass.kubernetes.api"),  # of a machine
        ("node.api.__main__, master.agent.__main__, master.collector.__main__, grass.cli.main", "grass.kubernetes"),
    ],
)
def test_the_client_is_imported_where_it_is_used_and_imports_no_more_than_it_needs(imported: str, never: str) -> None:
    program = f"import sys, {imported}; print(sorted(set({never.split()}) & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "[]\n"
