"""The credentials of a kubeconfig, read by the real program."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from grass.errors import InputError
from grass.kubernetes.credentials import Credentials, Login, shared_credential
from grass.kubernetes.trial import server_of
from grass.node_config import KubernetesConfig


def kubeconfig(path: Path, server: str) -> Login:
    """Write a kubeconfig in which a context has a server and a user with a token."""
    parts = {"clusters": {"cluster": {"server": server}}, "users": {"user": {"token": "t"}}}
    named = {kind: [{"name": "c", **part}] for kind, part in parts.items()}
    context = {"name": "c", "context": {"cluster": "c", "user": "c", "namespace": "lab"}}
    path.write_text(yaml.safe_dump({"current-context": "c", "contexts": [context], **named}))
    return Login(str(path), "c")


def test_those_who_ask_at_once_have_the_program_started_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    login = kubeconfig(tmp_path / "config", "https://one.test")
    found = shared_credential(login).current()
    assert (found.server, found.namespace, found.token) == ("https://one.test", "lab", "t")
    monkeypatch.setattr("sys.executable", "/nowhere")  # no program can be started now
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: id(shared_credential(login).current()), range(40))) == {id(found)}
    server_of(KubernetesConfig("lab", kubeconfig=login.kubeconfig, context="c")).close()


def test_what_could_not_be_read_is_read_again(tmp_path: Path) -> None:
    login = Login(str(tmp_path / "config"), "c")
    with pytest.raises(InputError, match="no such file"):
        shared_credential(login).current()
    kubeconfig(tmp_path / "config", "https://two.test")
    assert shared_credential(login).current().server == "https://two.test"


def test_an_error_or_a_log_shows_nothing_of_them_that_is_secret() -> None:
    assert "hidden" not in repr(Credentials("https://one.test", key="hidden-key", token="hidden-token"))
