"""`grass node scale`, `grass stop`, `start` and `cost` of `mode: k8s/aks` on the double of Azure."""

from __future__ import annotations

from pathlib import Path

import pytest

from grass.azure.aks import pool_name
from grass.errors import ConflictError, InputError
from grass.provision.aks import scale
from grass.provision.aks.machines import Emptying, choose
from grass.provision.aks.provisioner import AksProvisioner
from grass.provision.provisioner import CanAddNodes, CanPowerNodes, RunsAlreadyError, ScaleRequest, Session, need
from tests.doubles.azure_aks import CLUSTER
from tests.doubles.azure_arm import Asked, RefusalError
from tests.support.aks_world import World


@pytest.fixture
def made(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create()
    return world


@pytest.mark.parametrize(
    ("size", "name"),
    [
        ("Standard_D8s_v5", "d8sv5"),
        ("Standard_NC24ads_A100_v4", "nc24adsaab57"),
        ("Standard_ND96asr_v4", "nd96asrv4"),
    ],
)
def test_a_pool_has_the_name_of_its_size_as_azure_wants_it(size: str, name: str) -> None:
    assert pool_name(size)[:8] == name[:8] and len(pool_name(size)) <= 12 and pool_name(size) == pool_name(size.upper())


def test_pools_come_from_nothing_grow_and_become_empty(made: World) -> None:
    assert made.scale(D8s_v5=1, Standard_E4s_v5=2).lines == (
        "pool d8sv5 has 1 machine of Standard_D8s_v5",
        "pool e4sv5 has 2 machines of Standard_E4s_v5",
    )
    assert made.aks.counts() == {"system": 1, "d8sv5": 1, "e4sv5": 2}
    assert made.scale(e4s_v5=0).lines == ("pool e4sv5 is empty",)
    assert made.aks.counts() == {"system": 1, "d8sv5": 1, "e4sv5": 0}


def test_the_number_is_the_total_so_the_same_command_asks_for_nothing(made: World) -> None:
    made.scale(D8s_v5=1)
    before = len(made.changes)
    made.scale(D8s_v5=1)
    made.scale(E4s_v5=0)
    assert len(made.changes) == before and "e4sv5" not in made.aks.counts()


def test_pools_are_changed_one_after_another(made: World) -> None:
    asked: list[str] = []

    def watch(one: Asked) -> None:
        if one.method == "PUT":
            assert made.aks.cluster().busy <= made.now
            asked.append(one.path)

    made.azure.refuse = watch
    made.scale(D8s_v5=1, E4s_v5=1)
    assert len(asked) == 2


def test_a_plan_has_figures_and_changes_nothing(made: World) -> None:
    before = len(made.changes)
    text = made.scale_plan(D8s_v5=1)
    assert "pool d8sv5: 0 → 1 machines of Standard_D8s_v5 (8 cores, 32 GiB)" in text
    assert "machines $0.4600/hour, $335.80/month" in text and "not paid while the cluster is stopped" in text
    assert "quota Quota standardDSv5Family: 16 of 20 cores are left; 8 after it" in text
    assert len(made.changes) == before
    made.scale(D8s_v5=1)
    assert "machines with the fewest tasks go, once these have ended" in made.scale_plan(D8s_v5=0)


def test_more_than_the_quota_is_refused_with_the_figure_before_anything_changes(made: World) -> None:
    before = len(made.changes)
    with pytest.raises(InputError, match=r"3 more Standard_D8s_v5 need 24 cores, but 16 of 20 are left of Quota cores"):
        made.scale(D8s_v5=3)
    assert len(made.changes) == before


def test_what_is_given_up_counts_for_the_rest(made: World) -> None:
    made.scale(D8s_v5=2)
    made.scale(E4s_v5=2, D8s_v5=1)
    assert made.aks.counts() == {"system": 1, "d8sv5": 1, "e4sv5": 2}


@pytest.mark.parametrize(
    ("wanted", "match"),
    [
        ({"Standard_X1": 1}, r"Azure has no Standard_X1 in westeurope\nthese fit"),
        ({"Standard_E8s_v5": 1}, "Standard_E8s_v5 is not offered to this subscription there"),
        ({"Standard_NV4as_v4": 1}, "has GPUs of AMD"),
        ({"D8s_v5": 1, "Standard_D8s_v5": 2}, "names a size twice"),
    ],
)
def test_a_size_that_cannot_be_had_is_refused(made: World, wanted: dict[str, int], match: str) -> None:
    with pytest.raises(InputError, match=match):
        made.scale(**wanted)


def test_spot_is_refused(made: World) -> None:
    with pytest.raises(InputError, match="--spot"):
        scale.scale(made.session, made.edges, ScaleRequest({"D8s_v5": 1}, spot=True))


def test_a_pool_keeps_its_zone(made: World) -> None:
    made.scale(zone="2", D8s_v5=1)
    made.scale(D8s_v5=2)
    assert made.aks.pools["lab-aks", "d8sv5"]["availabilityZones"] == ["2"] and made.aks.counts()["d8sv5"] == 2
    with pytest.raises(InputError, match="the pool d8sv5 was made in zone 2, and stays so"):
        made.scale(zone="1", D8s_v5=2)


def test_a_pool_of_somebody_else_is_left_alone(made: World) -> None:
    theirs = {
        "name": "d8sv5",
        "vmSize": "Standard_D8s_v5",
        "count": 1,
        "mode": "User",
        "provisioningState": "Succeeded",
    }
    made.aks.pools["lab-aks", "d8sv5"] = theirs
    with pytest.raises(ConflictError, match="pool d8sv5: exists, and Grass did not make it"):
        made.scale(D8s_v5=0)


def test_a_pool_that_failed_is_asked_for_once_more(made: World) -> None:
    made.aks.fail = ["InternalOperationError"]
    assert made.scale(D8s_v5=1).lines and made.aks.pools["lab-aks", "d8sv5"]["provisioningState"] == "Succeeded"


def test_without_capacity_the_others_are_made_and_the_reason_is_told(made: World) -> None:
    made.azure.without_capacity = {("Standard_D8s_v5", None)}
    found = made.scale(D8s_v5=1, E4s_v5=1)
    [failed] = found.nodes
    assert (failed.label, failed.code) == ("pool d8sv5", "azure-capacity") and "no such machine left" in str(
        failed.error
    )
    assert found.lines == ("pool e4sv5 has 1 machine of Standard_E4s_v5",)
    made.azure.without_capacity = set()
    assert made.scale(D8s_v5=1).nodes == ()


# machines that go


def test_machines_that_go_are_emptied_then_removed_by_name(made: World) -> None:
    made.scale(D8s_v5=2)
    request = ScaleRequest({"D8s_v5": 1}, patience=60.0, move=False)
    assert scale.scale(made.session, made.edges, request).nodes == ()
    assert made.emptied == [Emptying("d8sv5", 1, 60.0, False)] and made.aks.given_up == ["aks-d8sv5-0"]
    assert made.aks.counts()["d8sv5"] == 1 and not made.changes[-1].startswith("PUT")


def test_a_pool_whose_tasks_do_not_end_stays(made: World) -> None:
    made.scale(D8s_v5=1)
    made.busy = True
    [failed] = made.scale(D8s_v5=0).nodes
    assert failed.exit_code == 124 and made.aks.counts()["d8sv5"] == 1


def test_a_pool_that_keeps_its_machines_takes_pods_on_all_of_them(made: World) -> None:
    made.scale(D8s_v5=1)
    made.scale(D8s_v5=2)
    made.scale(D8s_v5=2)
    assert made.reopened == ["d8sv5", "d8sv5"]


def test_machines_that_kubernetes_does_not_know_are_azures_choice(made: World) -> None:
    made.scale(D8s_v5=2)
    made.known_machines = 1
    assert made.scale(D8s_v5=0).lines == ("pool d8sv5 is empty",)
    assert made.aks.given_up == [] and made.aks.counts()["d8sv5"] == 0


def test_those_that_take_no_pods_go_first_then_those_with_the_fewest_tasks() -> None:
    tasks = {"a": 0, "b": 2, "c": 1, "d": 5}
    assert choose(tasks, frozenset(), 2) == ["a", "c"]
    assert choose(tasks, frozenset(["d"]), 2) == ["d", "a"]
    assert choose(tasks, frozenset(), 9) == ["a", "c", "b", "d"]


# stop, start, cost


def test_stop_ends_what_is_here_then_the_machines_and_start_brings_both_back(made: World) -> None:
    made.aks.kubeconfig = "another address"
    assert made.stop() and not made.runs and made.aks.cluster().power == "Stopped"
    assert "its balancer, address and registry are still paid ($0.0369/hour" in made.said[-1]
    before = len(made.changes)
    assert not made.stop() and len(made.changes) == before
    made.start()
    assert made.runs and made.aks.cluster().power == "Running"
    assert (made.session.folder / "aks.kubeconfig").read_text() == "another address"
    with pytest.raises(RunsAlreadyError):
        made.start()


def test_a_stopped_cluster_is_not_scaled(made: World) -> None:
    made.stop()
    with pytest.raises(ConflictError, match="is stopped; `grass start lab` starts it"):
        made.scale(D8s_v5=1)


def test_costs_count_machines_while_they_are_on(made: World) -> None:
    made.scale(D8s_v5=2)
    begin = made.now
    made.now += 3600
    made.stop()
    made.now += 36000
    found = {one.name: one for one in made.costs().machines}
    pool = found["pool d8sv5"]
    assert (pool.state, pool.what, pool.hourly) == ("stopped", "2 × Standard_D8s_v5", 0)
    assert pool.hours == pytest.approx((made.now - 36000 - begin) / 3600, abs=0.01)
    assert pool.spent == pytest.approx(pool.hours * (0.92 + 2 * 2.4 / 730), rel=0.01)
    assert found["balancer"].hourly == pytest.approx(0.03) and found["registry"].hourly == pytest.approx(0.1666 / 24)
    assert found["control plane"].hourly == 0 and found["control plane"].state == "stopped"


def test_an_unknown_price_is_never_taken_for_nothing(made: World) -> None:
    del made.azure.prices["Standard_E4s_v5"]
    made.scale(E4s_v5=1)
    found = {one.name: one for one in made.costs().machines}
    assert (found["pool e4sv5"].hourly is None and not found["pool e4sv5"].whole) or found["pool e4sv5"].hours == 0


def test_a_cluster_that_was_not_made_completely_says_what_to_do(tmp_path: Path) -> None:
    world = World(tmp_path)

    def refuse(asked: Asked) -> None:
        if asked.method == "PUT" and CLUSTER in asked.path:
            raise RefusalError(409, "ScopeLocked")

    world.azure.refuse = refuse
    with pytest.raises(Exception, match="ScopeLocked"):
        world.create()
    for act in (lambda: world.scale(D8s_v5=1), world.costs, world.start):
        with pytest.raises(ConflictError, match="creating it was interrupted; repeat `grass create FILE`"):
            act()


def test_what_the_cluster_lacks_is_said_with_what_to_do(tmp_path: Path) -> None:
    provisioner = AksProvisioner(Session("lab", tmp_path, lambda _: None))
    with pytest.raises(InputError, match="`grass stop` turns all off"):
        need(provisioner, CanPowerNodes)
    with pytest.raises(InputError, match="`grass node scale SIZE N` gives it machines"):
        need(provisioner, CanAddNodes)
    with pytest.raises(InputError, match="backups of clusters of mode k8s/aks cannot be restored yet"):
        provisioner.back_up(tmp_path / "b", "secret", ())
    with pytest.raises(ConflictError, match="each boot would start machines that are paid"):
        provisioner.start_at_boot()
