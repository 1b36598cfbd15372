"""The settings of a cluster on Azure: Grass's own file, and MARO's as it stands."""

from __future__ import annotations

import pytest

from grass.errors import ManifestError
from grass.manifest import read_document
from grass.manifest.azure import AzureSettings
from grass.manifest.azure_images import Start, obstacles_to, start_of
from grass.manifest.on_premises import ApiWay, Become
from grass.manifest.settings import parse_settings

OWN = "mode: grass/azure\nname: lab\ncloud: {location: West Europe}"
MARO = """
mode: grass/azure
name: myGrassCluster
cloud:
  resource_group: myResourceGroup
  subscription: mySubscription
  location: eastus
  default_username: ann
  default_public_key: "ssh-rsa AAAA ann@home"
user: {admin_id: admin}
master: {node_size: Standard_D2s_v3, redis: {port: 6380}, samba: {password: null}}
connection: {ssh: {port: 51811}, api_server: {port: 51812}}
"""


def read(text: str) -> AzureSettings:
    found = parse_settings(read_document(text))
    assert isinstance(found, AzureSettings)
    return found


def test_a_region_is_all_that_a_file_must_say() -> None:
    found = read(OWN)
    assert (found.cloud.location, found.cloud.resource_group) == ("westeurope", "grass-lab")
    assert (found.machine.size, found.api, found.master.login.become) == ("Standard_B2s", ApiWay.TUNNEL, Become.SUDO)


def test_maros_file_is_read_as_it_stands() -> None:
    found = read(MARO)
    assert (found.cloud.subscription, found.cloud.resource_group) == ("mySubscription", "myResourceGroup")
    assert (found.master.login.username, found.public_key, found.admin) == ("ann", "ssh-rsa AAAA", "admin")
    assert (found.machine.size, found.redis_port, found.task_redis) == ("Standard_D2s_v3", 6380, 6380)
    assert found.warnings == (
        "connection.ssh: ignored; SSH is on port 22",
        "connection.api_server: ignored; commands reach the API through SSH",
    )


def test_the_services_of_the_master_are_those_of_any_cluster_of_hosts() -> None:
    found = read(
        f"{OWN}\nmaster: {{size: Standard_D2s_v3, disk: 64GiB, zone: 2, api: {{port: 8000}}}}\nisolation: none"
    )
    assert (found.machine.disk, found.machine.zone, found.api_port) == (64, "2", 8000)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("nodes: [n1]", "nodes: not in the file on Azure: `grass node scale SIZE N` makes them"),
        ("ssh: {from: [0.0.0.0/0]}", "ssh.from[0]: must not be everywhere"),
        ("ssh: {from: [anywhere]}", "ssh.from[0]: must be IPv4 addresses"),
        ("ssh: {user: admin}", "ssh.user: must be another name than admin"),
        ("ssh: {port: 2222}", "ssh.port: has no meaning on Azure"),
        ("ssh: {public_key: abc}", "ssh.public_key: must be an SSH public key"),
        ("network: {range: 10.0.0.0/29}", "network.range: is too small: Azure keeps 5 of the 4 addresses of each half"),
        ("network: {range: 8.8.8.0/24}", "network.range: must be private addresses"),
        ("master: {disk: 10GiB}", "master.disk: must be whole GiB from 30GiB"),
        ("master: {image: ubuntu}", "master.image: must be PUBLISHER:OFFER:SKU:VERSION"),
        ("master: {size: Standard_NV4as_v4}", "master.size: Standard_NV4as_v4 has GPUs of AMD"),
        ("master: {size: Standard_NP10s}", "master.size: Standard_NP10s has FPGAs"),
        ("master: {size: Standard_NC4as_T4_v3, disk: 32GiB}", "needs a disk of at least 64GiB, got 32GiB"),
        ("sizes: {NC4as_T4_v3: {image: ubuntu}}", "sizes.NC4as_T4_v3.image: must be PUBLISHER:OFFER:SKU:VERSION"),
        ("sizes: {'a size': {disk: 64GiB}}", "must be a size such as Standard_D2s_v3"),
        (
            "autoscale: {sizes: {Standard_NV36ads_A10_v5: {max: 1}}}",
            "autoscale.sizes.Standard_NV36ads_A10_v5: Standard_NV36ads_A10_v5 needs NVIDIA's GRID driver",
        ),
        ("master: {sise: Standard_B2s}", "master.sise: unknown key; did you mean `size`?"),
    ],
)
def test_what_azure_would_refuse_is_refused_before_any_call(more: str, problem: str) -> None:
    with pytest.raises(ManifestError) as refused:
        read(f"{OWN}\n{more}")
    assert [str(each) for each in refused.value.problems if problem in str(each)]


def test_machines_with_gpus_start_from_an_image_with_the_driver_and_others_do_not() -> None:
    found = read(f"{OWN}\nsizes: {{NV36ads_A10_v5: {{image: 'a:b:c:1'}}, Standard_D8s_v3: {{disk: 64GiB}}}}")

    def start(size: str) -> tuple[str, int]:
        one = found.machine.start_of(size, found.sizes)
        return one.image.split(":")[1], one.disk

    assert start("Standard_NC4as_T4_v3") == start("Standard_ND96isr_H100_v5") == ("ubuntu-hpc", 128)
    assert start("Standard_D8s_v3") == ("ubuntu-24_04-lts", 64) and start("Standard_B2s") == ("ubuntu-24_04-lts", 32)
    assert start("standard_nv36ads_a10_v5") == ("b", 128)
    with_gpus = read(f"{OWN}\nmaster: {{size: Standard_NC4as_T4_v3, image: 'a:b:c:1', disk: 256GiB}}").machine
    assert with_gpus.start_of("Standard_B2s", {}).image.startswith("Canonical:"), "the master has another kind of size"
    assert with_gpus.start_of("Standard_NC8as_T4_v3", {}) == Start("a:b:c:1", 256)


def test_sizes_without_a_driver_of_nvidia_are_refused_with_the_reason() -> None:
    def why(size: str, image: str = "") -> str:
        return "; ".join(obstacles_to(size, start_of(size, Start(image))))

    assert why("Standard_NC24ads_A100_v4") == why("Standard_NC40ads_H100_v5") == why("Standard_D2s_v3") == ""
    for amd in ("ND96isr_MI300X_v5", "NV28adms_V710_v5", "NV4as_v4", "NG32ads_V620_v1"):
        assert why(amd := f"Standard_{amd}") == f"{amd} has GPUs of AMD, and Grass allocates those of NVIDIA"
        assert why(amd, "a:b:c:1") == why(amd)
    assert "name another `image` for it" in why("Standard_NV6ads_A10_v5")
    assert why("Standard_NV6ads_A10_v5", "a:b:c:1") == ""
    assert "has an Arm processor" in why("Standard_ND128isr_NDR_GB200_v6")


def test_a_file_without_a_region_or_with_a_name_that_azure_refuses_is_refused() -> None:
    with pytest.raises(ManifestError) as refused:
        read("mode: grass/azure\nname: my_lab")
    assert [each.path for each in refused.value.problems] == ["name", "cloud"]


def test_an_endpoint_without_tls_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"cloud\.endpoint: must be https://HOST"):
        read("mode: grass/azure\nname: lab\ncloud: {location: westeurope, endpoint: 'http://x'}")
