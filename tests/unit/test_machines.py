"""How the machines of a cluster are remembered by whoever set them up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from grass.manifest.on_premises import HostSettings, Login
from grass.provision.on_premises.machines import KNOWN_HOSTS, Machines, load_machines
from grass.provision.on_premises.node_add import remember

PINNED = """\
10.0.0.1 ssh-ed25519 AAAA
10.0.0.2 ssh-ed25519 BBBB
[10.0.0.2]:2222 ssh-ed25519 CCCC
10.0.0.20 ssh-ed25519 DDDD
"""


def host(address: str, port: int = 22) -> HostSettings:
    return HostSettings(address=address, login=Login(username="ops", port=port))


def client_folder(home: Path, **nodes: HostSettings) -> Path:
    folder = home / "clusters" / "lab" / "client"
    folder.mkdir(parents=True)
    Machines(host("10.0.0.1"), nodes).save(folder)
    (folder / KNOWN_HOSTS).write_text(PINNED)
    return folder


def test_the_key_of_a_machine_that_left_is_forgotten_with_it(tmp_path: Path) -> None:
    """It may come back installed anew, with another key."""
    folder = client_folder(tmp_path, n2=host("10.0.0.2"), n3=host("10.0.0.2", 2222))
    remember("lab", folder, "n2", None)
    assert (folder / KNOWN_HOSTS).read_text() == PINNED.replace("10.0.0.2 ssh-ed25519 BBBB\n", "")
    known = load_machines("lab", tmp_path)
    assert known is not None and list(known.nodes) == ["n3"]


def test_the_masters_key_stays_when_the_node_on_its_machine_leaves(tmp_path: Path) -> None:
    folder = client_folder(tmp_path, own=replace(host("10.0.0.1"), name="own"))
    remember("lab", folder, "own", None)
    assert (folder / KNOWN_HOSTS).read_text() == PINNED
