"""The examples in the documents run as they are written, those of a page one after the other, in Python and in a shell.

A block behind a comment ``<!-- not run: why -->`` is left out. One behind ``<!-- in a task -->`` runs in a task.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.test_cli import Grass, grass
from tests.support.local_cluster import LocalCluster
from tests.support.needs import require
from tests.support.waiting import wait_until

__all__ = ["grass"]

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
LANGUAGES = {"sh", "console", "text", "python", "yaml", "yml", "json"}
"""Of blocks. ``console``: commands behind ``$``, with what they print. ``text``: nothing that runs."""
MARK = r"(?:<!-- (not run: [^>]+|in a task) -->\n)?"
SHELL = re.compile(rf"{MARK}```(sh|console)\n(.*?)```", re.DOTALL)
BLOCK = re.compile(rf"{MARK}```python\n(.*?)```", re.DOTALL)
IN_A_TASK = re.compile(r"<!-- in a task -->\n```(sh|python)\n(.*?)```", re.DOTALL)
PRINTED = {
    "docs/guide/python.md": ["array ", "990001 to 1000000: ", "SUCCEEDED 0", "accuracy", "24990001", "1024"],
    "docs/guide/usage.md": ["GRASS_METRIC loss=0.53 accuracy=0.81"],
    "docs/guide/month.md": ["328350"],
    "docs/guide/notifications.md": [],
}


def programs() -> dict[str, str]:
    """Return the program of each page that has one."""
    pages = {str(path.relative_to(ROOT)): path.read_text() for path in DOCUMENTS}
    blocks = {name: [code for mark, code in BLOCK.findall(text) if not mark] for name, text in pages.items()}
    return {name: "\n".join(found) for name, found in blocks.items() if found}


def test_each_page_with_a_program_is_run() -> None:
    assert programs().keys() == PRINTED.keys()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "page",
    # test_executor.py and test_examples.py have what this page runs, and scripts/demo its longest job, in every run
    [pytest.param(each, marks=pytest.mark.nightly if each == "docs/guide/python.md" else ()) for each in PRINTED],
)
def test_the_python_examples_of_a_page_run_as_written(grass: Grass, tmp_path: Path, page: str) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    simulate = tmp_path / "simulate"
    simulate.write_text("#!/bin/sh\n")
    simulate.chmod(0o755)
    (tmp_path / "page.py").write_text(programs()[page])
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        env={**grass.environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    missing = [words for words in PRINTED[page] if words not in done.stdout]
    assert missing == [], done.stdout


# The shell


@dataclass(frozen=True)
class Page:
    """What a page speaks of, and what is printed. ``before``: run first. ``between``: run before each further block."""

    before: str = ""
    between: str = ""
    printed: tuple[str, ...] = ()


# Stand-ins for programs of the reader: kubectl prints a job that Kubernetes runs, sbatch parses the script.
PARTS = """
part() {  # NAME COMMAND KEY: VALUE, …
  printf 'name: %s\ncomponents: {worker: {command: "%s", resources: {cpu: 0.1}, %s}}\n' "$1" "$2" "$3" > "$1-part.yml"
  grass job start "$1-part.yml"
}
press() { "$PYTHON" "$PRESS" "$@"; }  # TEXT KEYS COMMAND…
kubectl() { sed "s/elastic-training/$3/" examples/foreign/training_job.yml; echo 'status: {phase: Running}'; }
sbatch() { bash -n && echo 'Submitted batch job 1'; }
grass() {  # what serves or shows until a key is pressed
  case "$1" in
    dashboard) press 'Ctrl-C ends' ctrl-c grass "$@" ;;
    top) press READY q grass "$@" ;;
    *) command grass "$@" ;;
  esac
}
"""
PAGES = {
    "docs/guide/dashboard.md": Page(printed=("http://127.0.0.1:8900/",)),
    "docs/guide/elastic.md": Page(
        "part train 'sleep 600' 'replicas: 2, min: 2, max: 8, unit: 2'",
        printed=("scale worker 2 → 4  DONE  worker has 4 tasks",),
    ),
    "docs/guide/events.md": Page(printed=("master-agent-started",)),
    "docs/guide/faults.md": Page(
        between="until grass events | grep -q 'node-agent: ended'; do sleep 0.1; done",
        printed=("node-agent: ended by signal SIGKILL", "main.0  RUNNING        1  local"),
    ),
    "docs/guide/foreign-files.md": Page(
        "part sweep 'exit 0' 'replicas: 2'", printed=("train  train-", "scale worker 2 → 3", "Submitted batch job 1")
    ),
    "docs/guide/hangs.md": Page(
        "part train 'sleep 600' 'replicas: 4}, ps: {command: sleep 600, resources: {cpu: 0.1}'; "
        "until grass job list | grep -q '5/5 running'; do sleep 0.1; done",
        printed=("5 processes of 5 tasks",),
    ),
    "docs/guide/jobs.md": Page(
        "echo > simulate.py; grass job start count.yml; part sweep 'exit 1' 'replicas: 2, restart: {policy: never}'",
        "grass job wait sweep || true",
        printed=("count",),
    ),
    "docs/guide/joining.md": Page(printed=("grass1.",)),
    "docs/guide/logs.md": Page(
        "part train 'echo loss $GRASS_INDEX; echo wrong >&2; exit $((GRASS_INDEX / 2))' 'replicas: 3'; "
        "part eval 'echo evaluated' 'replicas: 1'; grass job wait eval; grass job wait train || true",
        printed=("loss 2", "wrong", "evaluated", "seed 1", "node-agent"),
    ),
    "docs/guide/metrics.md": Page(printed=("grass_collector_up 1.0",)),
    "docs/guide/month.md": Page(
        printed=(
            "at step 30 (train.py:26)",
            "pipeline: FAILED, 1 failed, 1 succeeded, 1 stopped",
            "many: FAILED, 7 failed, 342 succeeded",
            "lr     0.3                              0.1",
        ),
    ),
    "docs/guide/queues.md": Page(),
    "docs/guide/report.md": Page("part train true 'replicas: 1'; grass job wait train"),
    "docs/guide/schedules.md": Page("grass schedule start nightly.yml", printed=("nightly", "PAUSED", "deleted")),
    "docs/guide/sharing.md": Page(printed=("train would wait", "no node matches its constraints")),
    "docs/guide/top.md": Page(printed=("local",)),
    "docs/guide/usage.md": Page("part train true 'replicas: 1'; grass job wait train", printed=("SUCCEEDED", "cpu")),
    "examples/array/README.md": Page(printed=("410001 to 420000",)),
    "examples/maro/README.md": Page(between="grass job wait MyJobName || true", printed=("MyScheduleName",)),
    "docs/guide/users.md": Page(
        "mkdir mnist voc; grass data push mnist data/shared/words", printed=("grass-login1.", "valid once, for 1d")
    ),
}
LONGER = {
    "examples/actor_learner/README.md": Page(printed=("mean return",)),
    "examples/digits/README.md": Page(printed=("test accuracy",)),
}
"""Pages that take minutes of a processor. The programs of these examples run in ``test_examples.py``, too."""
NEW_USER = {
    "docs/guide/getting-started.md": Page(
        "echo 'print(7)' > train.py; ln -s /bin/true simulate", printed=("good", "READY")
    ),
    "README.md": Page(printed=("hello", "accuracy")),
}
"""Pages that make their own cluster."""


def shell_blocks(page: str) -> list[tuple[str, str]]:
    """Return language and content of each block that runs."""
    return [(language, text) for mark, language, text in SHELL.findall((ROOT / page).read_text()) if not mark]


def test_every_block_of_the_documents_says_what_it_is_and_each_page_with_commands_is_run() -> None:
    fences = {path: re.findall(r"^ *```(.*)$", path.read_text(), re.MULTILINE) for path in DOCUMENTS}
    assert [(str(path), each) for path, found in fences.items() for each in found[::2] if each not in LANGUAGES] == []
    names = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
    assert {name for name in names if shell_blocks(name)} == {*PAGES, *LONGER, *NEW_USER}


def script(name: str, page: Page) -> str:
    """Return what runs the blocks of a page."""
    lines = [PARTS, page.before]
    for number, (language, text) in enumerate(shell_blocks(name)):
        lines.append(page.between if number else "")
        if text.startswith("#!"):  # a file, which Grass runs as a job
            lines.append(f"cat > script-{number} <<'END'\n{text}END\ngrass job start script-{number}")
        elif language == "console":
            lines += re.findall(r"^\$ (.*)$", text, re.MULTILINE)
        else:
            lines.append(text)
    return "\n".join(lines)


def run_page(name: str, page: Page, folder: Path, environment: dict[str, str]) -> None:
    """Run a page where its files are: examples, and each YAML file that the page shows, by the name in it."""
    (folder / "examples").symlink_to(ROOT / "examples")
    for text in re.findall(r"```yaml\n(.*?)```", (ROOT / name).read_text(), re.DOTALL):
        for found in re.findall(r"^name: (\S+)", text):
            (folder / f"{found}.yml").write_text(text)
    done = subprocess.run(
        ["bash", "-exo", "pipefail", "-c", script(name, page)],
        cwd=folder,
        env={
            **environment,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHON": sys.executable,
            "PRESS": str(ROOT / "tests/support/press.py"),
            "BROWSER": "true",
            "TERM": "xterm",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout
    assert [words for words in page.printed if words not in done.stdout] == [], done.stdout


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", [*PAGES, *(pytest.param(name, marks=pytest.mark.nightly) for name in LONGER)])
def test_the_commands_of_a_page_run_as_written(grass: Grass, tmp_path: Path, name: str) -> None:
    try:
        run_page(name, {**PAGES, **LONGER}[name], tmp_path, grass.environment)
    finally:
        for job in grass.json("job", "list"):
            grass("job", "stop", job["id"])
            grass("job", "wait", job["id"], "--timeout", "30")
        forget_schedules(grass)


def forget_schedules(grass: Grass) -> None:
    """Pages have schedules of the same name."""
    for schedule in grass.json("schedule", "list"):
        grass.good("schedule", "delete", schedule["name"])


def test_the_month_counts_its_commands() -> None:
    page = (ROOT / "docs/guide/month.md").read_text()
    promised = {title: int(count) for title, count in re.findall(r"^\| \[(.+)\]\(#.*\) \| (\d)", page, re.MULTILINE)}
    tasks = [part.partition("\n") for part in page.split("\n## ")[1:]]
    counted = {
        title: len(re.findall(r"(?:^|\|\| |^with )grass[ .]\w+", text, re.MULTILINE)) for title, _, text in tasks
    }
    assert promised == counted


IN_TASKS = {"docs/reference/membership-api.md": ('"generation":', "arrived")}


def test_the_blocks_for_tasks_run_in_tasks_as_written(grass: Grass, tmp_path: Path) -> None:
    require(shutil.which("curl") is not None, "curl")
    found = {str(path.relative_to(ROOT)): IN_A_TASK.findall(path.read_text()) for path in DOCUMENTS}
    assert {name for name, blocks in found.items() if blocks} == IN_TASKS.keys()
    for name, printed in IN_TASKS.items():
        lines = ["set -ex", 'export PYTHONPATH="$GRASS_LIBRARY/python"']
        for number, (language, text) in enumerate(found[name]):
            (tmp_path / f"{number}.{language}").write_text(text)
            lines.append(f"{'sh -e' if language == 'sh' else sys.executable} {tmp_path}/{number}.{language}")
        component = {"framework": "torch", "replicas": 2, "command": "\n".join(lines), "resources": {"cpu": 0.1}}
        job = tmp_path / "page.json"
        job.write_text(json.dumps({"name": "page", "components": {"worker": component}}))
        grass.good("job", "start", str(job))
        done = grass("job", "wait", "page", "--timeout", "60")
        said = grass.good("job", "logs", "page")
        assert done.returncode == 0, said
        assert [words for words in printed if words not in said] == [], said


# Job and schedule files

STAND_INS = ("train.py", "simulate", "search", "train", "report")
"""Programs of the reader, which print and succeed."""
FILES = {
    "README.md": [],  # examples/digits/job.yml
    "docs/guide/containers.md": ["QUEUED: needs 4GiB memory per task; the largest node has 2GiB"],
    "docs/guide/elastic.md": [],  # tests/integration/test_elastic_torch.py runs such a job with the real torchrun
    "docs/guide/failures.md": [],  # tests/unit/test_memory_growth.py has such tasks run out of memory
    "docs/guide/frameworks.md": [],  # test_elastic_torch.py, test_launchers.py and test_mars.py: with the real programs
    "docs/guide/jobs.md": ["FAILED", "SUCCEEDED", "SUCCEEDED", "RUNNING", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED"],
    "docs/guide/joining.md": [],  # a join file
    "docs/guide/kubernetes.md": [],  # tests/integration/test_kubernetes_node.py runs jobs in a namespace
    "docs/guide/logs.md": ["SUCCEEDED"],
    "docs/guide/month.md": [],  # its commands start them all
    "docs/guide/node-checks.md": [],  # tests/integration/test_cli.py starts a job with a check
    "docs/guide/notebooks.md": [],  # tests/integration/test_forward.py opens such pages
    "docs/guide/notifications.md": ["", "SUCCEEDED", "SUCCEEDED"],  # the first one would call example.org
    "docs/guide/schedules.md": ["SUCCEEDED", "SUCCEEDED"],
    "docs/guide/sharing.md": ["QUEUED: no node matches its constraints", "QUEUED: waits until job prepare succeeds"],
}
"""What becomes of the files of each page here, in their order: the state, and the reason of those that wait."""


def files_shown(page: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def test_each_page_with_files_is_known() -> None:
    pages = {str(path.relative_to(ROOT)) for path in DOCUMENTS if "```yaml\n" in path.read_text()}
    assert pages == FILES.keys()
    assert all(len(files_shown(page)) == len(found) for page, found in FILES.items() if found)


@pytest.mark.parametrize("page", [page for page, found in FILES.items() if found])
def test_the_files_of_a_page_are_started_as_written(grass: Grass, tmp_path: Path, page: str) -> None:
    for name in STAND_INS:
        (tmp_path / name).write_text(f"#!{sys.executable}\nprint(1)\n")
        (tmp_path / name).chmod(0o755)
    reader = Grass(grass.home)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    reader.environment.update(PATH=path, HF_TOKEN="of the reader")
    for number, (text, expected) in enumerate(zip(files_shown(page), FILES[page], strict=True)):
        file = tmp_path / f"{number}.yml"
        file.write_text(text)
        if not expected:
            continue
        if "\njobs:" in text or "\ncron:" in text:
            schedule = reader.json("schedule", "start", str(file))["name"]
            started = [schedule["id"] for schedule in reader.json("schedule", "show", schedule)["runs"]]
            started = started or [reader.good("schedule", "run-now", schedule).strip()]
        else:
            started = [reader.json("job", "start", str(file))["id"]]
        for job in started:
            try:
                became(reader, job, *expected.split(": "))
            finally:
                reader("job", "stop", job, "--grace", "0")
                reader("job", "wait", job)
    forget_schedules(reader)


def became(grass: Grass, job: str, state: str, reason: str = "") -> None:
    """Wait until the job has begun to wait for something, has begun to succeed, or has ended, as it should."""
    match state:
        case "QUEUED":
            wait_until(lambda: reason in grass.good("job", "why", job), what=f"{job} waits: {reason}")
        case "RUNNING":
            begun = lambda: grass.json("job", "show", job)["counts"].get("SUCCEEDED", 0) > 0  # noqa: E731
            wait_until(begun, what=f"{job} runs")
        case _:
            grass("job", "wait", job, "--timeout", "60")
            assert grass.json("job", "show", job)["state"] == state, grass.good("job", "logs", job)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "name",
    ["docs/guide/getting-started.md", pytest.param("README.md", marks=pytest.mark.nightly)],  # as scripts/demo does
)
def test_the_commands_for_a_new_user_run_as_written(tmp_path: Path, name: str) -> None:
    home = LocalCluster()
    try:
        run_page(name, NEW_USER[name], tmp_path, {**os.environ, "GRASS_HOME": str(home.home)})
    finally:
        home.end()
