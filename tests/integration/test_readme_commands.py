"""The two commands of the README, from a clean clone: what a new user does first."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.model.daemons import SUPERVISOR
from grass.provision import daemons
from tests.support.local_cluster import LocalCluster
from tests.support.needs import missing, require

CHECKOUT = Path(__file__).parents[2]
LEAST_ACCURACY = 0.93

pytestmark = pytest.mark.timeout(900)


def system_python() -> str:
    """One that other users can run, too, and that can make virtual environments; else the one of this run."""
    for candidate in ("/usr/bin/python3", sys.executable):
        check = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))"
        if Path(candidate).exists() and subprocess.run([candidate, "-c", check], check=False).returncode == 0:
            return candidate
    return sys.executable


@pytest.fixture(scope="module")
def clone() -> Iterator[Path]:
    """Of what is committed, where others can read it; its ``.venv`` is made by the first script that runs."""
    require(shutil.which("git") is not None and (CHECKOUT / ".git").exists(), "git, and a checkout of it")
    folder = Path(tempfile.mkdtemp(prefix="grass-clone-", dir="/tmp"))
    folder.chmod(0o755)
    git = ["git", "-c", "safe.directory=*", "clone", "--quiet", str(CHECKOUT), str(folder / "grass")]
    try:
        subprocess.run(git, check=True, timeout=60)
        yield folder / "grass"
    finally:
        shutil.rmtree(folder)


def run(clone: Path, *command: str, user: str | None = None, home: Path | None = None) -> str:
    """As a fresh shell does. Returns what it printed; fails with it when it did not end well."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    kept |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    env = kept | {"PYTHON": system_python()} | ({"HOME": str(home)} if home else {})
    done = subprocess.run(
        command,
        cwd=clone,
        env=env,
        user=user,
        extra_groups=None if user is None else [],
        stdout=-1,
        stderr=-2,
        check=False,
    )
    text = done.stdout.decode()
    assert done.returncode == 0, text
    return text


def check_demo(text: str) -> None:
    [accuracy] = re.findall(r"accuracy[ :=]+([01]\.\d+)", text)[-1:]
    assert float(accuracy) >= LEAST_ACCURACY
    for command in (
        "grass create",
        "grass job start",
        "grass job logs",
        "grass job show",
        "grass status",
        "grass delete",
    ):
        assert f"$ {command}" in text
    assert "SUCCEEDED" in text


def left_behind() -> list[str]:
    return [path for path in os.listdir("/tmp") if path.startswith("grass-demo.")]


@pytest.fixture(scope="module")
def ordinary(clone: Path) -> str:
    """The name of a user who is not root and can run the clone's Python."""
    run(clone, "scripts/setup-venv", "--demo")
    try:
        subprocess.run([clone / ".venv" / "bin" / "python", "-c", ""], user="nobody", check=True)
    except (PermissionError, subprocess.CalledProcessError):
        missing("a Python that other users can run", system_python())
    (clone.parent / "home").mkdir(mode=0o700)
    # as if this user had made the clone: else each of the demo's processes would compile Grass and its packages anew
    subprocess.run(["chown", "-R", "nobody", clone.parent], check=True)
    return "nobody"


@pytest.mark.nightly  # the next one does all of this in every run
def test_the_demo_works_and_leaves_nothing(clone: Path) -> None:
    before = left_behind()
    check_demo(run(clone, "scripts/demo"))
    assert left_behind() == before


@pytest.mark.needs_root
def test_the_demo_works_again_for_an_ordinary_user_beside_a_cluster_of_the_same_name(
    clone: Path, ordinary: str, cluster: LocalCluster
) -> None:
    before = left_behind()
    assert cluster.settings.name == "local"  # as the demo's
    text = run(clone, "scripts/demo", user=ordinary, home=clone.parent / "home")
    assert "setting up .venv" not in text
    check_demo(text)
    status = text.partition("$ grass status\n")[2].partition("$ ")[0]
    states = re.findall(r"^(\S+) +\d+ +([A-Z]+) ", status, re.MULTILINE)
    assert states == [(name, "RUNNING") for name in (SUPERVISOR, *daemons.names(cluster.config))], text
    assert left_behind() == before
    assert set(cluster.states().values()) == {"RUNNING"}


@pytest.mark.nightly
def test_the_test_command_says_what_it_does_and_ends_with_the_summary(clone: Path) -> None:
    """One small file of tests: the command with all of them is what is running just now."""
    if (CHECKOUT / ".mypy_cache").exists():
        shutil.copytree(CHECKOUT / ".mypy_cache", clone / ".mypy_cache")
    text = run(clone, "scripts/test", "tests/unit/test_deploy.py")
    assert "== checks" in text and "== every test" in text
    assert re.search(r"\d+ passed.* in ", text.strip().splitlines()[-1])
