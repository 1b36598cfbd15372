"""An installed wheel carries all it needs: built here, and first on the path of a process outside the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
SOURCES = ("grass", "master", "node", "deploy", "examples")
FILES = ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that the checkout stays as it is."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        shutil.copytree(CHECKOUT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(CHECKOUT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, done.stderr
    [built] = out.glob("grass_cluster-*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(wheel)]
    subprocess.run(command, check=True, timeout=55)
    return folder


def run(site: Path, *arguments: str) -> str:
    """Python with the wheel in front of everything, and without the checkout."""
    env = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=site, env=env, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_has_the_units_the_templates_the_examples_and_the_licence(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tracked = [path for top in ("deploy", "examples") for path in (CHECKOUT / top).rglob("*") if path.is_file()]
    expected = {f"grass/assets/{path.relative_to(CHECKOUT)}" for path in tracked if "__pycache__" not in path.parts}
    expected |= {f"grass/assets/templates/{path.name}" for path in (CHECKOUT / "grass/assets/templates").iterdir()}
    assert expected <= names
    assert any(name.endswith("/LICENSE") for name in names)
    assert "grass/py.typed" in names
    assert not [name for name in names if name.startswith("tests/")]


def test_an_installed_grass_finds_its_files_without_the_checkout(site: Path) -> None:
    ask = "import grass, grass.assets as s; print(grass.__file__, s.asset('deploy/redis'), s.asset('examples'))"
    module, *found = run(site, "-c", ask).split()
    assert module.startswith(str(site))
    assert all(path.startswith(str(site)) and Path(path).exists() for path in found)


def test_an_installed_grass_prints_its_templates(site: Path) -> None:
    assert (
        run(site, str(site / "bin" / "grass"), "template", "job")
        == (CHECKOUT / "grass" / "assets" / "templates" / "job.yml").read_text()
    )
