"""The wheel of Grass that a bundle holds: the same from a checkout and from an installed wheel, and pip takes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from grass.provision.on_premises import bundle, requirements
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
        "grass/share/deploy/redis/redis.conf",
    ):
        assert (site / part).is_file()
    env = {**os.environ, "PYTHONPATH": str(site)}
    again = subprocess.run(
        [sys.executable, "-c", _AGAIN], cwd=tmp_path, env=env, capture_output=True, check=True, timeout=30
    )
    assert sha256(again.stdout).digest() == sha256(content).digest()


def test_a_bundle_is_made_of_cached_wheels_without_asking_anybody(tmp_path: Path) -> None:
    target = Target("3.11", "x86_64", ("glibc", (2, 36)))
    needed = json.dumps([bundle.FORMAT, requirements.own(), str(target)]).encode()
    wheels = tmp_path / "wheels" / f"3.11-x86_64-{sha256(needed).hexdigest()[:16]}"
    wheels.mkdir(parents=True)
    (wheels / "other-1.0-py3-none-any.whl").write_bytes(b"a wheel")
    said: list[str] = []
    first = bundle.make_bundle(target, tmp_path, said.append, pythons=())
    assert said == []
    assert first.digest == sha256(first.tar.read_bytes()).hexdigest() == json.loads(first.description())["digest"]
    with tarfile.open(first.tar) as tar:
        assert [name.partition("-")[0] for name in tar.getnames()] == ["wheels.json", "grass_cluster", "other"]
    (wheels / "other-1.0-py3-none-any.whl").write_bytes(b"another")
    assert bundle.make_bundle(target, tmp_path, said.append, pythons=()).digest != first.digest


def test_two_commands_that_need_the_same_packages_fetch_them_once(tmp_path: Path) -> None:
    target = Target("3.11", "x86_64", ("glibc", (2, 36)))
    said: list[str] = []
    with ThreadPoolExecutor() as pool:
        made = [pool.submit(bundle.make_bundle, target, tmp_path, said.append, pythons=()) for _ in range(2)]
        first, second = (one.result() for one in made)
    assert first.digest == second.digest
    assert said == [f"fetching the packages that Grass needs for {target}"]
    assert [path for folder in ("wheels", "bundles") for path in (tmp_path / folder).glob(".*")] == []
