"""``cluster.json`` and ``secrets.json``: read as they were written, and refused by name if they are damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grass.config import ClusterConfig, MasterConfig, NodePolicy, SambaConfig, Secrets, check_writer
from grass.errors import NewerVersionError, UndecodableError
from grass.model.isolation import ContainerRights, ContainerUser, UidRange
from grass.node_config import NodeConfig, NodeHome, load_master, own_node
from grass.provision import layout, local
from grass.provision.on_premises import facts
from grass.wire.version import FORMAT, REVISION


def written(folder: Path) -> NodeHome:
    node = NodeConfig(path=("rack1", "s1"), custom={"licence": 2}, runtimes=("process", "docker"))
    master = MasterConfig(own_node="local")
    config = NodeHome("c", "local", str(folder), "/run/c", samba=SambaConfig("h", 445), master=master, node=node)
    config.save()
    Secrets({"api": "x"}, "token").save(folder)
    return config


def test_settings_are_read_as_they_were_written(tmp_path: Path) -> None:
    config = written(tmp_path)
    assert NodeHome.load(config.path) == config == NodeHome.parse(config.path.read_text())
    assert Secrets.load(tmp_path) == Secrets({"api": "x"}, "token")


def test_the_url_of_an_api_at_an_ipv6_address_has_brackets() -> None:
    assert MasterConfig(api_host="fd00::1", api_port=8440).url == "http://[fd00::1]:8440"


def test_what_is_wrong_in_a_file_of_settings_is_named_with_its_path(tmp_path: Path) -> None:
    config = written(tmp_path)
    config.path.write_text(config.path.read_text().replace('"licence": 2', '"licence": "two"'))
    with pytest.raises(UndecodableError, match=r"cluster.json: node.custom\[...\]: Expected int, got str"):
        NodeHome.load(config.path)
    (tmp_path / "secrets.json").write_text("{}")
    with pytest.raises(UndecodableError, match=r"secrets.json: Object missing required field redis"):
        Secrets.load(tmp_path)


def by_a_later_grass(config: ClusterConfig, **numbers: int) -> str:
    """Return the file as a later Grass writes it, with a setting that this one does not know."""
    config.save()
    content = json.loads(config.path.read_text())
    content["written"] |= {"version": "0.9.0", **numbers}
    text = json.dumps({**content, "seals": True})
    config.path.write_text(text)
    return text


def test_a_daemon_refuses_settings_in_a_format_that_a_newer_grass_wrote(tmp_path: Path) -> None:
    config = written(tmp_path)
    by_a_later_grass(config, format=FORMAT + 1)
    with pytest.raises(NewerVersionError, match=r"cluster.json: written by a newer Grass .*Grass 0.9.0, format 3"):
        NodeHome.load(config.path)
    by_a_later_grass(config, revision=REVISION + 1)
    assert NodeHome.load(config.path) == config, "what is only added does no harm to who reads"


@pytest.mark.parametrize("newer", ["format", "protocol", "revision"])
def test_create_writes_nothing_over_a_cluster_of_a_newer_grass(tmp_path: Path, newer: str) -> None:
    folder = tmp_path / "clusters" / "local"
    folder.mkdir(parents=True)
    text = by_a_later_grass(ClusterConfig("local", "local", str(folder), "/run/c"), **{newer: 9})
    said: list[str] = []
    with pytest.raises(NewerVersionError, match=r"cluster local: written by a newer Grass .* Go on with Grass 0.9.0"):
        local.create(home=tmp_path, progress=said.append)
    assert [path.name for path in folder.iterdir()] == ["cluster.json"] and said == []
    assert (folder / "cluster.json").read_text() == text
    with pytest.raises(NewerVersionError, match="cluster local: written by a newer Grass"):
        facts.parse(f"@config\n{text}\n@end\n", "local")  # a master, before anything is changed there


def test_the_policy_for_nodes_of_a_master_of_before_format_2_is_kept(tmp_path: Path) -> None:
    policy = NodePolicy(
        reserve={"cpu": 500},
        low_disk=1 << 30,
        topology_command=("/where",),
        isolate=UidRange(2000, 3000),
        containers=ContainerRights(ContainerUser.IMAGE, ("CHOWN",)),
        read_only_data=True,
    )
    master = ClusterConfig("c", "local", str(tmp_path), "/run/c", master=MasterConfig(node_policy=policy))
    master.save()
    content = json.loads(master.path.read_text())
    assert "node" not in content and content["written"]["format"] == 2
    content["node"] = content["master"].pop("node_policy") | {"name": "", "address": "10.0.0.1"}
    for written in ({}, {"written": content["written"] | {"format": 1}}):
        before = {name: value for name, value in content.items() if name != "written"} | written
        master.path.write_text(json.dumps(before))
        assert ClusterConfig.load(master.path) == layout.existing(tmp_path) == master
        assert facts.parse(f"@config\n{json.dumps(before)}\n@end\n", "c").config == master
    layout.existing(tmp_path).save()
    assert "node" not in json.loads(master.path.read_text()) and ClusterConfig.load(master.path) == master


def test_a_master_that_is_a_node_is_never_written_without_it(tmp_path: Path) -> None:
    config = written(tmp_path)
    assert own_node(load_master(config.path)) == config
    with pytest.raises(AssertionError, match="the node would be lost"):
        ClusterConfig.load(config.path).save()
    assert NodeHome.load(config.path) == config


def test_settings_of_before_revision_1_and_of_this_version_are_written_anew(tmp_path: Path) -> None:
    config = written(tmp_path)
    check_writer("c", config.path.read_text())
    content = json.loads(config.path.read_text())
    assert content.pop("written")["revision"] == REVISION
    config.path.write_text(json.dumps(content))
    assert layout.existing(tmp_path) == config
