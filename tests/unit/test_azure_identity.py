"""The identity of the master's machine: made, taken away, and what the master then does by itself beside the user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grass.api.keyring import load_profile
from grass.azure.autoscale import Need
from grass.azure.faults import AzureForbiddenError
from grass.config import ClusterConfig
from grass.errors import GrassError, ManifestError, UnreachableError
from grass.files.key import key_pair
from grass.model.lifecycle import NodeState
from grass.provision.azure import autoscaler, nodes, on_master
from grass.provision.azure.adopting import adopt
from grass.provision.azure.autoscaler import Autoscaler, NodeNow
from grass.provision.azure.change import Member
from grass.provision.azure.record import load_record
from grass.provision.azure.setup import SETUP, Setup
from grass.provision.on_premises.machines import load_machines
from grass.provision.provisioner import ScaleRequest
from tests.doubles.azure_arm import IDENTITY_TOKEN, PRINCIPAL, SUBSCRIPTION, VM
from tests.support.azure_world import World, settings
from tests.support.rsa_keys import write_key
from tests.unit.test_azure_autoscaler import CORE

RULES = {"on_master": True, "sizes": {"Standard_B2s": {"max": 2, "idle": "10m"}}}
COMMAND = (
    f"az role assignment create --assignee-object-id {PRINCIPAL} --assignee-principal-type ServicePrincipal "
    f"--role 'Virtual Machine Contributor' --scope /subscriptions/{SUBSCRIPTION}/resourceGroups/grass-lab"
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "user")
    world.azure.limits |= {"cores": 20, "standardBSFamily": 20}
    return world


def identity(world: World, name: str) -> Any:
    [machine] = [each for each in world.azure.of(VM) if each.name == name]
    return machine.body.get("identity", {}).get("type")


def test_only_the_master_gets_an_identity_and_the_command_for_its_right_is_printed(world: World) -> None:
    assert COMMAND.replace(PRINCIPAL, "ID") in "\n".join(world.plan(autoscale=RULES))
    assert world.azure.of(VM) == []
    world.create(autoscale=RULES)
    world.scale(Standard_B2s=1)
    assert (identity(world, "lab-master"), identity(world, "lab-b2s-1")) == ("SystemAssigned", None)
    assert sum(COMMAND in line for line in world.said) == 1
    world.azure.roles.add("grass-lab")
    world.create(autoscale=RULES)
    assert sum(COMMAND in line for line in world.said) == 1, "it has the role, so nothing is to be done"


def test_without_the_key_there_is_no_identity(world: World) -> None:
    world.create(autoscale={"sizes": RULES["sizes"]})
    assert identity(world, "lab-master") is None and world.autoscaler == ""
    assert not any("role assignment" in line for line in world.said)


def test_a_master_that_exists_gets_it_and_loses_it(world: World) -> None:
    world.create()
    world.create(autoscale=RULES)
    assert identity(world, "lab-master") == "SystemAssigned"
    assert SETUP.decode(world.autoscaler).principal == PRINCIPAL
    asked = len(world.azure.asked)
    world.create(autoscale=RULES)
    assert {each.method for each in world.azure.asked[asked:]} == {"GET"}
    world.create()
    assert identity(world, "lab-master") == "None" and world.autoscaler == ""


@pytest.mark.parametrize(
    ("isolation", "what"),
    [
        ({"isolation": "none"}, "`isolation: user`"),
        ({"containers": {"user": "image"}}, "`containers: {user: account}`"),
    ],
)
def test_where_tasks_may_be_root_there_is_none(isolation: dict[str, Any], what: str) -> None:
    with pytest.raises(ManifestError, match=f"autoscale.on_master: needs {what}".replace("{", r"\{")):
        settings(autoscale=RULES, **isolation)


class Master:
    """The autoscaler on the master of ``world``, as a client of the cluster and of Azure of its own."""

    def __init__(self, world: World, folder: Path) -> None:
        self.user = world
        self.setup: Setup = SETUP.decode(world.autoscaler)
        self.waiting = 0
        home = folder / "cluster"
        (home / "master").mkdir(parents=True, exist_ok=True)
        (home / "master" / "key.pub.json").write_text("{}")
        self.config = ClusterConfig("lab", "grass/azure", str(home), str(folder / "run"))
        self.admitted: list[str] = []
        self.home, self.memory = folder / "autoscaler", folder / "memory"
        if not (self.memory / "user.pem").exists():
            write_key(self.memory / "user.pem", "autoscaler")
        on_master.prepare(self.config, self.setup, self.home, self.memory, self.admitted.append)
        self.world = World(self.home, of=world, token=IDENTITY_TOKEN)
        object.__setattr__(self.world.edges, "region", lambda _, __: self.setup.region)
        mine, session = self.world, self.world.session
        self.scaler = Autoscaler(
            self.setup.policy,
            self.setup.kind_of,
            autoscaler.World(
                machines=lambda: adopt(
                    session, mine.edges.arm(self.setup.record.endpoint, session), nodes.record_of(session)
                ).nodes("lab"),
                nodes=lambda: {
                    name: NodeNow(each.state, each.tasks, True, None) for name, each in mine.members.items()
                },
                needs=lambda: [Need("job train", CORE, self.waiting)] if self.waiting else [],
                costs=mine.costs,
                start=lambda names: list(mine.start(*names).values()),
                stop=lambda names: list(mine.stop(*names).values()),
                scale=lambda rule, total: nodes.scale(
                    session, mine.edges, ScaleRequest({rule.size: total}, spot=rule.spot), mine._cluster()
                ),
                say=mine.said.append,
                steady=lambda: world.now,
                wall=mine.edges.wall,
            ),
            session.folder,
        )

    def look(self, later: float = 15.0) -> None:
        self.scaler.look()
        self.user.now += later


@pytest.fixture
def master(world: World, tmp_path: Path) -> Master:
    world.create(autoscale=RULES)
    return Master(world, tmp_path / "master")


def test_without_its_role_the_master_says_what_gives_it_and_begins_by_itself_once_it_is_there(master: Master) -> None:
    told: list[str] = []
    master.waiting = 1

    class EnoughError(Exception):
        pass

    def sleep(seconds: float) -> None:
        if "grass-lab" in master.user.azure.roles:
            raise EnoughError
        master.user.azure.roles.add("grass-lab")

    with pytest.raises(EnoughError):
        on_master.go_on(master.look, told.append, master.setup, sleep)
    assert len(told) == 1 and "AuthorizationFailed" in told[0] and told[0].endswith(f"runs this once: {COMMAND}")
    assert master.user.members["lab-b2s-1"].state is NodeState.READY


def test_what_the_master_makes_the_user_finds_and_what_the_user_makes_the_master_stops(master: Master) -> None:
    user, azure = master.user, master.user.azure
    azure.roles.add("grass-lab")
    master.waiting = 1
    master.look()
    keys = azure.of(VM)[1].body["properties"]["osProfile"]["linuxConfiguration"]["ssh"]["publicKeys"]
    assert [each["keyData"] for each in keys] == [user_key(user), key_pair(master.memory / "azure_key")]
    assert [host.through for host in master.world.joined] == [None], "the master reaches it without a way between"
    master.waiting = 0
    user.scale(Standard_B2s=2)
    assert "lab-b2s-1: found on Azure" in user.said
    assert sorted(user.members) == ["lab-b2s-1", "lab-b2s-2"] and len(azure.of(VM)) == 3, "none is made twice"
    master.look(700.0)
    master.look()
    assert {each.name: each.power for each in azure.of(VM)} == {
        "lab-master": "running",
        "lab-b2s-1": "deallocated",
        "lab-b2s-2": "deallocated",
    }
    assert user.start("lab-b2s-1")["lab-b2s-1"].error is None
    assert {one.name for one in user.costs().machines} == {"lab-master", "lab-b2s-1", "lab-b2s-2"}
    user.delete()
    assert azure.empty()


def user_key(world: World) -> str:
    record = load_record(world.session.folder)
    assert record is not None and record.terms is not None
    return record.terms.key


def test_a_quota_that_the_master_cannot_see_is_said_by_azure(master: Master) -> None:
    master.user.azure.roles.add("grass-lab")
    master.user.azure.limits["cores"] = 2
    master.waiting = 1
    master.look()
    assert len(master.user.azure.of(VM)) == 1 and any("OperationNotAllowed" in line for line in master.world.said)
    assert master.scaler.blocked, "it is tried again later"


def test_the_masters_money_is_counted_without_a_right_on_the_subscription(master: Master) -> None:
    master.user.azure.roles.add("grass-lab")
    master.waiting = 1
    master.look(3600.0)
    costs = {one.name: one for one in master.world.costs().machines}
    assert costs["lab-b2s-1"].state == "running" and costs["lab-b2s-1"].hourly is not None
    asked = [each.path for each in master.user.azure.asked if each.query.get("$expand") == "instanceView"]
    assert any(path.endswith("/lab-b2s-1") for path in asked)


def test_nothing_secret_of_the_master_is_on_a_disk(master: Master) -> None:
    folder = master.home / "clusters" / "lab"
    assert (folder / "client").readlink() == master.memory
    on_disk = [path for path in master.home.rglob("*") if path.is_file() and "client" not in path.parts]
    assert on_disk and not any(b"PRIVATE" in path.read_bytes() for path in on_disk)
    assert b"PRIVATE" in (master.memory / "azure_key").read_bytes()
    assert load_profile(master.memory).user == "grass-autoscaler"
    assert "d" not in json.loads(master.admitted[0]), "the public half alone"
    machines = load_machines("lab", master.home)
    assert machines is not None and machines.master.address == "localhost"


def test_after_a_restart_it_knows_what_it_stopped_and_has_its_keys(master: Master, tmp_path: Path) -> None:
    master.user.azure.roles.add("grass-lab")
    master.waiting = 1
    master.look()
    master.waiting = 0
    master.look(700.0)
    master.look()
    key = (master.memory / "azure_key").read_bytes()
    again = Master(master.user, tmp_path / "master")
    record = load_record(again.world.session.folder)
    assert record is not None and record.machines["lab-b2s-1"].stopped
    assert (again.memory / "azure_key").read_bytes() == key


def test_whatever_ends_a_look_is_told_and_it_goes_on(master: Master) -> None:
    told: list[str] = []
    errors = iter([UnreachableError("away"), GrassError("odd"), AzureForbiddenError("no right")])

    def look() -> None:
        raise next(errors)

    with pytest.raises(StopIteration):
        on_master.go_on(look, told.append, master.setup, lambda seconds: None)
    assert told[:2] == ["away", "odd"] and COMMAND in told[2]


def test_a_machine_of_another_cluster_is_not_adopted(master: Master) -> None:
    user = master.user
    user.azure.roles.add("grass-lab")
    body = {"location": "westeurope", "tags": {}, "properties": {"hardwareProfile": {"vmSize": "Standard_B2s"}}}
    user.azure.add(VM, "grass-lab", "strange", body)
    user.members["strange"] = Member(NodeState.READY)
    record = nodes.record_of(user.session)
    assert "strange" not in adopt(user.session, user.edges.arm(record.endpoint, user.session), record).machines
