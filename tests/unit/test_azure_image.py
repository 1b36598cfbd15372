"""`grass image-node` on the double of Azure: an image is made of a machine that is gone then; nodes start from it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from grass.errors import GrassError, InputError, ManifestError, NotFoundError
from grass.provision.azure import node_image
from tests.doubles.azure_arm import DISK, IMAGE, NIC, VM
from tests.support.azure_world import World, settings

B2S = "Standard_B2s"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.azure.limits |= {"cores": 20, "standardBSFamily": 20}
    world.create()
    return world


def machines(world: World) -> list[str]:
    return sorted(thing.name for thing in world.azure.of(VM))


def test_an_image_is_made_of_a_machine_that_is_gone_then(world: World) -> None:
    made = world.build_image()
    assert (made.name, made.size, made.made_from) == ("lab-node-1", B2S, "Canonical:ubuntu-24_04-lts:server:latest")
    [host] = world.prepared
    assert world.stripped == [host] and host.name == "lab-image-builder" and host.through is not None
    assert machines(world) == ["lab-master"] and len(world.azure.of(NIC)) == len(world.azure.of(DISK)) == 1
    [thing] = world.azure.of(IMAGE)
    assert thing.body["tags"]["grass-cluster"] == "lab"
    assert [each.name for each in node_image.images(world.session, world.edges)] == ["lab-node-1"]
    assert world.build_image().name == "lab-node-2"
    assert "lab-image-builder" in {one.name for one in world.costs().machines}, "what it cost is counted"
    world.delete()
    assert world.azure.empty()


def test_nodes_of_the_file_start_from_it_and_a_machine_that_exists_keeps_its_own(world: World) -> None:
    world.scale(Standard_B2s=1)
    name = world.build_image().name
    world.create(sizes={B2S: {"image": name}})
    assert all(one.error is None for one in world.scale(Standard_B2s=2).nodes)
    used = {
        thing.name: thing.body["properties"]["storageProfile"]["imageReference"]
        for thing in world.azure.of(VM)
        if "b2s" in thing.name
    }
    assert used["lab-b2s-1"]["offer"] == "ubuntu-24_04-lts" and used["lab-b2s-2"]["id"].endswith(f"/images/{name}")
    assert machines(world) == ["lab-b2s-1", "lab-b2s-2", "lab-master"], "the builder never counts as a node"
    with pytest.raises(InputError, match=f"new nodes of {B2S.lower()} start from it"):
        node_image.remove(world.session, world.edges, name)
    with pytest.raises(NotFoundError, match="image lab-node-7: is none of this cluster"):
        node_image.remove(world.session, world.edges, "lab-node-7")
    world.create()
    node_image.remove(world.session, world.edges, name)
    assert node_image.images(world.session, world.edges) == [] and world.azure.of(IMAGE) == []


def test_a_size_that_does_not_fit_is_refused_before_anything_is_made(world: World) -> None:
    before = world.changes
    with pytest.raises(InputError, match="Standard_D8s_v3 needs 8 cores, but 0 of 0 are left"):
        world.build_image("D8s_v3")
    assert world.changes == before


def test_whatever_fails_the_machine_is_gone(world: World) -> None:
    def fail(_: object) -> None:
        raise GrassError("apt has no packages")

    with pytest.raises(GrassError, match="apt has no packages"):
        node_image.build(world.session, world.edges, None, fail, world.stripped.append)
    with pytest.raises(KeyboardInterrupt):
        node_image.build(world.session, world.edges, None, _interrupt, world.stripped.append)
    assert machines(world) == ["lab-master"] and world.azure.of(IMAGE) == []
    assert len(world.azure.of(NIC)) == len(world.azure.of(DISK)) == 1
    assert world.build_image().name == "lab-node-1"


def _interrupt(_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("image", ["lab", "Lab node 1", "a:b:c", "../lab-node-1"])
def test_another_text_is_no_image(image: str) -> None:
    with pytest.raises(ManifestError, match=r"or an image of `grass image-node list`, got"):
        settings(sizes={B2S: {"image": image}})


def test_the_master_starts_from_no_image_of_its_own_nodes() -> None:
    with pytest.raises(ManifestError, match=r"master\.image: must be PUBLISHER:OFFER:SKU:VERSION"):
        settings(master={"image": "lab-node-1"})


def test_what_strips_a_machine_is_a_sound_script() -> None:
    checked = subprocess.run(["sh", "-n"], input=node_image._STRIP, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
