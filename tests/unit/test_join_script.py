"""`join.py`, which runs on machines that have no Grass yet."""

from __future__ import annotations

import base64
import importlib.util
import json
import shutil
import tarfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grass.api.invitation import parse_token
from grass.assets import asset
from grass.config import Secrets
from tests.support.api_world import api_world
from tests.support.waiting import wait_until


@pytest.fixture
def script() -> Any:
    spec = importlib.util.spec_from_file_location("join_script", str(asset("on_premises/join.py")))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("goes", [False, True])
def test_a_second_installation_waits_and_finds_a_folder(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], goes: bool
) -> None:
    folder, over = tmp_path / "grass", threading.Event()

    def second() -> bool:
        with script.alone(folder):
            return over.is_set() and folder.is_dir()

    said: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        with script.alone(folder):
            other: Future[bool] = pool.submit(second)
            wait_until(lambda: said.append(capsys.readouterr().err) or "waiting for another" in "".join(said))
            if goes:
                shutil.rmtree(folder)
            over.set()
        assert other.result(20)


def test_a_token_that_the_master_does_not_know_is_refused_before_anything_is_made(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with api_world(tmp_path) as world:
        Secrets({"api": "x"}, "master-secret").save(world.config.home)
        object.__setattr__(world.app.extensions["grass"], "config", world.config)  # the port is known now
        true = parse_token(world.client("root").join_token().token)
        words = ["--rootless", "--install-only", "--url", f"http://127.0.0.1:{world.port}", "--bundle", "0" * 64]
        with pytest.raises(script.Failed, match=r"does not know this join token;.*nothing was installed") as refused:
            script.main(["--token", replace(true, secret="forged").token(), *words])
        assert refused.value.code == 2 and not (tmp_path / "home").exists()
        with pytest.raises(
            script.Failed, match="another bundle than the one in the token"
        ):  # it is good, and asked for next
            script.main(["--token", true.token(), *words])
        (tmp_path / "join.yml").write_text(f"mode: grass/on-premises\ntoken: {true.token()}  # within an hour\n")
        with pytest.raises(script.Failed, match="another bundle than the one in the token"):
            script.main([str(tmp_path / "join.yml"), *words])


@pytest.mark.parametrize(
    ("name", "text", "token"),
    [
        ("a.yml", "master: {address: m}\ntoken: 'grass1.abc-_'\n", "grass1.abc-_"),
        ("a.json", '{"mode": "grass/on-premises",\n "token": "grass1.abc"}', "grass1.abc"),
        ("a.json", '{"mode":"x","token":"grass1.abc"}', "grass1.abc"),
        ("a.yaml", "# token: grass1.old\nnode: {name: token}\n", ""),
        ("a.yml", "other_token: grass1.abc\n", ""),
    ],
)
def test_the_token_in_a_join_file_is_found_before_there_is_a_parser(
    script: Any, tmp_path: Path, name: str, text: str, token: str
) -> None:
    (tmp_path / name).write_text(text)
    assert script.token_in_file(["--name", "n1", str(tmp_path / name)]) == token
    if not token:
        with pytest.raises(script.Failed, match="neither --token nor `token:` in a join file"):
            script.main([str(tmp_path / name)])


def test_a_join_file_that_is_not_there_is_named(script: Any, tmp_path: Path) -> None:
    with pytest.raises(script.Failed, match=r"away\.yml: cannot be read: .*No such file"):
        script.main([str(tmp_path / "away.yml")])


@pytest.mark.parametrize("url", ["file:///etc", "ftp://10.0.0.1", "10.0.0.1:8080"])
def test_a_token_that_names_anything_but_a_web_server_is_refused(script: Any, url: str) -> None:
    wire = json.dumps({"api": ["http://10.0.0.1:8080", url], "bundle": "0" * 64, "secret": "s"})
    with pytest.raises(script.Failed, match="this is not a join token"):
        script.opened("grass1." + base64.urlsafe_b64encode(wire.encode()).decode().rstrip("="))


def test_a_bundle_of_another_version_is_told(script: Any, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bundle.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("pip-26.3-py3-none-any.whl"))
    with pytest.raises(script.Failed, match=r"cannot install itself: the master has another version of Grass"):
        script.unpack(tmp_path / "bundle.tar", tmp_path, tmp_path / "venv")
    assert not (tmp_path / "venv").exists()
