"""The bundle: the wheel of Grass in it, how it is made of cached wheels, and how it installs itself on a host."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from grass.provision.on_premises import bundle, bytecode, requirements
from grass.provision.on_premises.own_wheel import write_wheel
from grass.provision.on_premises.requirements import Target

_AGAIN = """
import sys
from grass.provision.on_premises.own_wheel import write_wheel
sys.stdout.buffer.write(write_wheel()[1])
"""


def test_an_installed_wheel_makes_the_same_wheel_again(tmp_path: Path) -> None:
    name, content = write_wheel()
    wheel, site = tmp_path / name, tmp_path / "site"
    wheel.write_bytes(content)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(site),
        str(wheel),
    ]
    subprocess.run(command, check=True, timeout=55)
    for part in (
        "grass/py.typed",
        "master/agent/__main__.py",
        "node/agent/__main__.py",
        "grass/assets/deploy/redis/redis.conf",
    ):
        assert (site / part).is_file()
    env = {**os.environ, "PYTHONPATH": str(site)}
    again = subprocess.run(
        [sys.executable, "-c", _AGAIN], cwd=tmp_path, env=env, capture_output=True, check=True, timeout=30
    )
    assert sha256(again.stdout).digest() == sha256(content).digest()


ANOTHER_PYTHON = "3.12" if sys.version_info[:2] == (3, 11) else "3.11"
"""Not the one that runs here: for it, no bytecode is made."""
HERE = Target(bytecode.PYTHON, os.uname().machine)
SOURCE = "import beta\nNAMES = frozenset({'a', 'b', 'c', 'd', 'e'})\ndef main():\n    print('first', beta.WORD)\n"


def small_wheel(folder: Path, source: str = SOURCE) -> Path:
    """Write a wheel that has what wheels may have: a command, a script, tests, a module among the data."""
    info = "alpha-1.0.dist-info"
    files = {
        "alpha/__init__.py": source,
        "alpha/broken.py": "this is no Python",
        "alpha/tests/test_alpha.py": "",
        "alpha-1.0.data/purelib/beta.py": "WORD = 'word'\n",
        "alpha-1.0.data/scripts/alpha-script": "#!python\nimport alpha; alpha.main()\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: alpha\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nalpha-command = alpha:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    path = folder / "alpha-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if "scripts" in name else 0o100600) << 16
            archive.writestr(entry, text)
    return path


def cached_wheels(cache: Path, target: Target) -> Path:
    """Make the folder in which the master's wheels are looked for."""
    needed = json.dumps([bundle.FORMAT, requirements.own(), str(target)]).encode()
    wheels = cache / "wheels" / f"{target.python}-{target.machine}-{sha256(needed).hexdigest()[:16]}"
    wheels.mkdir(parents=True)
    return wheels


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> bundle.Bundle:
    """A bundle of Grass and the small wheel, for the Python that runs here."""
    cache = tmp_path_factory.mktemp("cache")
    wheels = cached_wheels(cache, HERE)
    small_wheel(wheels)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), "installer"]
    subprocess.run(command, check=True, timeout=55)
    return bundle.make_bundle(HERE, cache, print, pythons=())


def install(made: bundle.Bundle, folder: Path, role: str = "master") -> subprocess.CompletedProcess[str]:
    with tarfile.open(made.tar) as tar:
        (folder / "install.py").write_bytes((tar.extractfile("install.py") or io.BytesIO()).read())
    command = [sys.executable, str(folder / "install.py"), str(made.tar), str(folder / "venv"), role]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=55)


def said(command: Path) -> str:
    return subprocess.run([command], capture_output=True, text=True, check=True, timeout=30).stdout


def test_a_bundle_installs_itself_with_bytecode_that_is_used(made: bundle.Bundle, tmp_path: Path) -> None:
    done = install(made, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["install.py", "venv"]
    scripts = tmp_path / "venv" / "bin"
    [site] = (tmp_path / "venv" / "lib").glob("python3*/site-packages")
    assert (scripts / "grass").read_text().startswith(f"#!{scripts}/python\n")
    for name in ("alpha-command", "alpha-script"):
        assert said(scripts / name) == "first word\n" and (scripts / name).stat().st_mode & 0o777 == 0o755
    (site / "alpha" / "__init__.py").write_text(SOURCE.replace("first", "edited"))
    assert said(scripts / "alpha-command") == "first word\n"  # the source is not even looked at
    sources = {path for path in site.rglob("*.py") if path.name != "broken.py"}
    assert {path.parent.parent / f"{path.name.partition('.')[0]}.py" for path in site.rglob("*.pyc")} == sources
    assert not (site / "alpha" / "tests").exists() and not list(site.glob("installer*"))
    assert {path.stat().st_mode & 0o777 for path in site.rglob("*") if path.is_file()} == {0o644}
    for record in site.glob("*.dist-info/RECORD"):
        for name, digest, size in csv.reader(record.read_text().splitlines()):
            content = (site / name).read_bytes()
            if digest and name != "alpha/__init__.py":
                hashed = base64.urlsafe_b64encode(sha256(content).digest()).decode().rstrip("=")
                assert (digest, int(size)) == (f"sha256={hashed}", len(content)), name


def changed(made: bundle.Bundle, folder: Path, change: Callable[[dict[str, Any]], None]) -> bundle.Bundle:
    """Return the bundle without the wheel of Grass, which takes long to compile, and with other contents."""
    path = folder / "bundle.tar"
    with tarfile.open(made.tar) as old, tarfile.open(path, "w") as new:
        for entry in old:
            if "grass_cluster" in entry.name:
                continue
            content = (old.extractfile(entry) or io.BytesIO()).read()
            if entry.name == bundle.CONTENTS:
                contents = json.loads(content)
                contents["master"] = [name for name in contents["master"] if "grass_cluster" not in name]
                change(contents)
                content = json.dumps(contents).encode()
            entry.size = len(content)
            new.addfile(entry, io.BytesIO(content))
    return bundle.Bundle(path, "", HERE)


def test_a_host_with_another_python_compiles_by_itself(made: bundle.Bundle, tmp_path: Path) -> None:
    done = install(changed(made, tmp_path, lambda it: it["bytecode"].update(magic="00000000")), tmp_path)
    assert done.returncode == 0, done.stderr
    assert said(tmp_path / "venv" / "bin" / "alpha-command") == "first word\n"
    [site] = (tmp_path / "venv" / "lib").glob("python3*/site-packages")
    [compiled] = (site / "alpha" / "__pycache__").glob("__init__.*.pyc")
    assert compiled.read_bytes()[4:8] == bytes(4)  # not the bundle's: Python compares it with the source
    (site / "alpha" / "__init__.py").write_text(SOURCE.replace("first", "now edited"))
    assert said(tmp_path / "venv" / "bin" / "alpha-command") == "now edited word\n"


def test_a_machine_without_packages_gets_nothing(made: bundle.Bundle, tmp_path: Path) -> None:
    other = changed(made, tmp_path, lambda it: it.update(nodes={"3.99-vax-glibc": []}))
    done = install(other, tmp_path, "node")
    assert done.returncode == 2 and "only for 3.99-vax-glibc; nothing was installed" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle.tar", "install.py"]


def test_bytecode_is_made_once_for_each_wheel_and_always_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    wheel, other = small_wheel(tmp_path), small_wheel(tmp_path / "other", "import alpha")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "elsewhere"))
    first = bytecode.archives([wheel], tmp_path / "one")[f"{wheel.name}.{bytecode.TAG}.zip"]
    inode, content = first.stat().st_ino, first.read_bytes()
    bytecode.archives([other, wheel], tmp_path / "one")
    assert first.stat().st_ino == inode and len(list((tmp_path / "one").iterdir())) == 2
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    [again] = bytecode.archives([wheel], tmp_path / "two").values()
    assert again.read_bytes() == content
    with zipfile.ZipFile(first) as archive:
        assert archive.namelist() == [
            f"__pycache__/beta.{bytecode.TAG}.pyc",
            f"alpha/__pycache__/__init__.{bytecode.TAG}.pyc",
        ]


def test_a_bundle_is_made_of_cached_wheels_without_asking_anybody(tmp_path: Path) -> None:
    target = Target(ANOTHER_PYTHON, "x86_64", ("glibc", (2, 36)))
    wheels = cached_wheels(tmp_path, target)
    (wheels / "other-1.0-py3-none-any.whl").write_bytes(b"a wheel")
    said: list[str] = []
    first = bundle.make_bundle(target, tmp_path, said.append, pythons=())
    assert said == []
    assert first.digest == sha256(first.tar.read_bytes()).hexdigest() == json.loads(first.description())["digest"]
    with tarfile.open(first.tar) as tar:
        assert [name.partition("-")[0] for name in tar.getnames()] == [
            "wheels.json",
            "install.py",
            "grass_cluster",
            "other",
        ]
    (wheels / "other-1.0-py3-none-any.whl").write_bytes(b"another")
    assert bundle.make_bundle(target, tmp_path, said.append, pythons=()).digest != first.digest


def test_two_commands_that_need_the_same_packages_fetch_them_once(tmp_path: Path) -> None:
    target = Target(ANOTHER_PYTHON, "x86_64", ("glibc", (2, 36)))
    said: list[str] = []
    with ThreadPoolExecutor() as pool:
        made = [pool.submit(bundle.make_bundle, target, tmp_path, said.append, pythons=()) for _ in range(2)]
        first, second = (one.result() for one in made)
    assert first.digest == second.digest
    assert said == [f"fetching the packages that Grass needs for {target}"]
    assert [path for folder in ("wheels", "bundles") for path in (tmp_path / folder).glob(".*")] == []
