"""``cluster.json`` and ``secrets.json``: read as they were written, and refused by name if they are damaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grass.config import ClusterConfig, MasterConfig, NodeConfig, SambaConfig, Secrets
from grass.errors import UndecodableError


def written(folder: Path) -> ClusterConfig:
    config = ClusterConfig("c", "local", str(folder), "/run/c", samba=SambaConfig("h", 445))
    config = replace(
        config, node=NodeConfig(path=("rack1", "s1"), custom={"licence": 2}, runtimes=("process", "docker"))
    )
    config.save()
    Secrets({"api": "x"}, "token").save(folder)
    return config


def test_settings_are_read_as_they_were_written(tmp_path: Path) -> None:
    config = written(tmp_path)
    assert ClusterConfig.load(config.path) == config == ClusterConfig.parse(config.path.read_text())
    assert Secrets.load(tmp_path) == Secrets({"api": "x"}, "token")


def test_the_url_of_an_api_at_an_ipv6_address_has_brackets() -> None:
    assert MasterConfig(api_host="fd00::1", api_port=8440).url == "http://[fd00::1]:8440"


def test_what_is_wrong_in_a_file_of_settings_is_named_with_its_path(tmp_path: Path) -> None:
    config = written(tmp_path)
    config.path.write_text(config.path.read_text().replace('"licence": 2', '"licence": "two"'))
    with pytest.raises(UndecodableError, match=r"cluster.json: node.custom\[...\]: Expected int, got str"):
        ClusterConfig.load(config.path)
    (tmp_path / "secrets.json").write_text("{}")
    with pytest.raises(UndecodableError, match=r"secrets.json: Object missing required field redis"):
        Secrets.load(tmp_path)
