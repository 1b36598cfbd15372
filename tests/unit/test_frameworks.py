from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from grass.errors import InputError
from grass.frameworks.arguments import VARIABLE, with_arguments
from grass.frameworks.registry import FRAMEWORKS, render
from grass.frameworks.seat import Seat, alias, member_of
from grass.manifest.framework_options import OPTIONS
from grass.model.framework import KINDS, Framework, FrameworkName, Option
from grass.wire.membership import Member, Membership


def members(component: str, count: int, **ports: int) -> tuple[Member, ...]:
    return tuple(
        Member(f"{component}.{count - 1 - rank}", 1, f"n{rank}", f"10.0.0.{rank + 1}", 2, rank, ports)
        for rank in range(count)
    )


def membership(component: str, count: int, **ports: int) -> Membership:
    return Membership(3, 7, count, 1, 4, 1, members(component, count, **ports))


def seat(
    name: FrameworkName,
    component: str = "worker",
    index: int = 0,
    options: Mapping[str, Option] | None = None,
    memberships: Mapping[str, Membership] | None = None,
    **more: object,
) -> Seat:
    found = Seat(
        job="train",
        job_id="train-1",
        component=component,
        index=index,
        attempt=1,
        address="10.0.0.9",
        framework=Framework(name, options or {}),
        folder="/jobs/train-1",
        scratch="/scratch",
        memberships={"worker": membership("worker", 3)} if memberships is None else memberships,
    )
    return replace(found, **more)  # type: ignore[arg-type]


def test_every_framework_has_a_kind_a_renderer_and_options_and_there_are_no_others() -> None:
    assert set(FRAMEWORKS) == set(KINDS) == set(OPTIONS) == set(FrameworkName)


@pytest.mark.parametrize(
    ("fact", "names"),
    [
        ("over_ssh", {"horovod", "openmpi", "mpich", "deepspeed"}),
        ("several", {"torchrun", "horovod", "openmpi", "mpich", "deepspeed", "dlrover"}),
        ("arguments", {"mars"}),
        ("size_at_start", {"torch", "tf"}),
        ("drains", {each.value for each in FrameworkName} - {"none"}),
    ],
)
def test_what_is_true_of_which_frameworks(fact: str, names: set[str]) -> None:
    assert {name.value for name, kind in KINDS.items() if getattr(kind, fact)} == names


@pytest.mark.parametrize("name", [name for name in FrameworkName if name is not FrameworkName.MARS])
def test_a_job_without_members_yet_can_be_rendered(name: FrameworkName) -> None:
    render(seat(name, memberships={}))


def test_torch_gets_its_rank_by_topology_and_not_its_index() -> None:
    env = render(seat(FrameworkName.TORCH, index=0)).env
    assert (env["RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"], env["MASTER_PORT"]) == ("2", "3", "10.0.0.1", "29500")
    ports = {"worker": membership("worker", 3, master=4321)}
    assert render(seat(FrameworkName.TORCH, memberships=ports)).env["MASTER_PORT"] == "4321"


def test_torchrun_is_configured_by_its_environment_alone() -> None:
    env = render(seat(FrameworkName.TORCHRUN, options={"slots": 4, "restarts": 9})).env
    assert env["PET_RDZV_BACKEND"] == "grass"
    assert (env["PET_NNODES"], env["PET_NPROC_PER_NODE"], env["GRASS_TORCHRUN_RESTARTS"]) == ("1:4", "4", "9")
    assert env["PYTHONPATH"] == "/jobs/train-1/library/python"
    assert env["PET_LOG_DIR"] == "/scratch", "a run leaves nothing in the /tmp of the node"


def test_an_ipv6_address_is_in_brackets_before_a_port() -> None:
    found = {"worker": Membership(1, 1, 1, 1, 1, 1, (Member("worker.0", 1, "n", "fd00::1", 1, 0, {"tf": 7000}),))}
    env = render(seat(FrameworkName.TF, memberships=found)).env
    assert json.loads(env["TF_CONFIG"])["cluster"] == {"worker": ["[fd00::1]:7000"]}


def test_hosts_are_aliases_that_a_later_attempt_does_not_get_again() -> None:
    first, again = Member("worker.3", 1, "n", "a", 1, 0), Member("worker.3", 2, "n", "a", 1, 0)
    assert (alias(first), alias(again)) == ("worker-3-1", "worker-3-2")
    found = {"worker": Membership(1, 1, 1, 1, 1, 1, (again,))}
    assert member_of(found, "worker-3-2") == ("worker", again) == member_of(found, "worker.3")
    assert member_of(found, "worker-3-1") is None


def test_a_launcher_reaches_the_workers_and_not_itself() -> None:
    both = {"launcher": membership("launcher", 1), "worker": membership("worker", 2)}
    made = render(seat(FrameworkName.HOROVOD, "launcher", memberships=both))
    assert made.files["hosts"] == "worker-1-1:2\nworker-0-1:2\n"
    assert (made.env["GRASS_NP"], made.env["GRASS_MIN_NP"], made.env["GRASS_MAX_NP"]) == ("4", "2", "8")
    assert made.programs == ("ssh",)
    made = render(seat(FrameworkName.OPENMPI, "launcher", memberships=both, options={"slots": 1}))
    assert made.files["hosts"] == "worker-1-1 slots=1\nworker-0-1 slots=1\n"
    assert made.env["PRTE_MCA_plm_ssh_agent"] == made.env["OMPI_MCA_plm_rsh_agent"] == "/jobs/train-1/library/bin/ssh"
    assert made.env["TMPDIR"] == "/scratch"
    named = {"launcher": membership("launcher", 1), "node": membership("node", 1), "worker": membership("worker", 2)}
    made = render(seat(FrameworkName.MPICH, "launcher", memberships=named, options={"workers": "node"}))
    assert made.files["hosts"] == "node-0-1:2\n"
    assert render(seat(FrameworkName.DEEPSPEED, "launcher", memberships=both)).files["hosts"].endswith("slots=2\n")


def test_the_discovery_script_prints_the_hosts_that_the_file_has_now(tmp_path: Path) -> None:
    made = render(seat(FrameworkName.HOROVOD, folder=str(tmp_path / "it's here")))
    folder = tmp_path / "it's here" / "components" / "worker"
    folder.mkdir(parents=True)
    script = folder / "discover_hosts.sh"
    script.write_text(made.files["discover_hosts.sh"])
    script.chmod(0o755)
    for text in ("a:1\nb:2\n", "c:4\n", ""):
        (folder / "hosts").write_text(text)
        assert subprocess.run([script], capture_output=True, text=True, check=True).stdout == text


def test_tensorflow_sees_the_components_that_have_its_port() -> None:
    both = {"ps": membership("ps", 1, tf=5000), "worker": membership("worker", 2, tf=5001), "x": membership("x", 1)}
    config = json.loads(render(seat(FrameworkName.TF, index=0, memberships=both)).env["TF_CONFIG"])
    assert config == {
        "cluster": {"ps": ["10.0.0.1:5000"], "worker": ["10.0.0.1:5001", "10.0.0.2:5001"]},
        "task": {"type": "worker", "index": 1},
    }


def mars(component: str, **more: object) -> Seat:
    both = {"supervisor": membership("supervisor", 1, mars=7001, web=7005), "worker": membership("worker", 1)}
    more = {"memberships": both, "ports": {"mars": 7003, "web": 7005}, **more}
    return seat(FrameworkName.MARS, component, **more)  # type: ignore[arg-type]


def test_mars_gets_its_arguments_and_a_configuration() -> None:
    made = render(mars("supervisor"))
    assert made.arguments[:6] == ("-H", "10.0.0.9", "-p", "7003", "-w", "7005")
    options: dict[str, Option] = {
        "plasmaStore": "/dev/shm",
        "spillDirs": ("/spill/a", "/spill/b"),
        "workerCachePercentage": 50,
    }
    made = render(mars("worker", options=options, memory=1000, cpu=2500))
    assert made.arguments[4:] == (
        *("-s", "10.0.0.1:7001", "--n-cpu", "2", "--mem-bytes", "1000"),
        *("-f", "/jobs/train-1/components/worker/mars.yml"),
    )
    storage = json.loads(made.files["mars.yml"])["storage"]
    assert storage["plasma"] == {"plasma_directory": "/dev/shm", "store_memory": 500}
    sized = render(mars("worker", options={**options, "workerCacheSize": 77}, memory=1000))
    assert json.loads(sized.files["mars.yml"])["storage"]["plasma"]["store_memory"] == 77


def test_a_supervisor_of_mars_looks_for_no_others_in_the_folder_for_temporary_files() -> None:
    assert render(mars("supervisor")).arguments[6:8] == ("-s", "10.0.0.1:7001")
    alone = mars("supervisor", address="10.0.0.1", ports={"mars": 7001, "web": 7005})
    assert render(alone).arguments[6:8] == ("-s", "")


def test_a_cache_of_mars_is_bounded_where_pyarrow_has_no_plasma_store() -> None:
    made = render(mars("worker", options={"workerCacheSize": 77}))
    assert json.loads(made.files["mars.yml"])["third_party_modules"] == ["grass_mars"]
    assert made.env["PYTHONPATH"] == "/jobs/train-1/library/python"
    plain = render(mars("worker"))
    assert json.loads(plain.files["mars.yml"])["storage"] == {"backends": ["shared_memory"]}
    assert "PYTHONPATH" not in plain.env and "third_party_modules" not in plain.files["mars.yml"]


@pytest.mark.parametrize(("version", "where"), [("0.10", "files"), ("0.6.11", "arguments")])
def test_without_a_memory_limit_the_cache_is_a_part_of_the_nodes_memory(version: str, where: str) -> None:
    both = {"supervisor": membership("supervisor", 1, mars=7001), "scheduler": membership("scheduler", 1, mars=7001)}
    made = render(mars("worker", options={"workerCachePercentage": 40, "version": version}, memberships=both))
    found = made.files["mars.yml"] if where == "files" else " ".join(made.arguments)
    assert ('"store_memory": "40%"' if where == "files" else "--cache-mem 40%") in found


def test_a_worker_of_mars_spills_into_folders_of_its_own() -> None:
    """Mars deletes the folders that it was given, with all that is in them."""
    made = render(mars("worker", options={"spillDirs": ("/spill/a", "/spill/b")}))
    assert made.env["MARS_SPILL_DIRS"] == "/spill/a/train-1-worker.0-1:/spill/b/train-1-worker.0-1"
    assert "disk" not in made.files["mars.yml"]  # Mars adds it with the variable


@pytest.mark.parametrize("version", ["0.10", "0.6.11"])
def test_mars_counts_the_memory_of_processes_only_where_it_sees_no_others(version: str) -> None:
    both = {"supervisor": membership("supervisor", 1, mars=7001), "scheduler": membership("scheduler", 1, mars=7001)}
    process = mars("worker", options={"version": version}, memberships=both)
    assert "MARS_USE_PROCESS_STAT" not in render(process).env
    assert render(replace(process, contained=True)).env["MARS_USE_PROCESS_STAT"] == "1"


def test_an_old_mars_gets_the_arguments_of_its_own_programs() -> None:
    both = {"scheduler": membership("scheduler", 1, mars=7001), "worker": membership("worker", 1)}
    options: dict[str, Option] = {"version": "0.6.11", "spillDirs": ("/a", "/b"), "workerCacheSize": 9}
    old = seat(FrameworkName.MARS, "worker", options=options, memberships=both, ports={"mars": 7003})
    made = render(old)
    assert made.arguments == (
        *("-a", "10.0.0.9", "-p", "7003", "-s", "10.0.0.1:7001"),
        *("--cache-mem", "9", "--spill-dir", "/a/train-1-worker.0-1:/b/train-1-worker.0-1"),
    )
    assert not made.files and made.env["MARS_LOCK_FREE_FILEIO"] == "1"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ports": {}}, r"mars needs `ports: \[mars\]`"),
        ({"memberships": {}}, "no supervisor has an address yet"),
        ({"component": "other"}, "set `role`"),
    ],
)
def test_mars_says_what_it_lacks(change: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        render(replace(mars("worker"), **change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "command",
    [
        ("printf", "%s|", "a b", 'it"s $HOME'),
        """printf '%s|' "a b" 'it"s $HOME'""",
        ("/bin/sh", "-c", """printf '%s|' "a b" 'it"s $HOME'"""),
        f"""printf '%s|' "a b" 'it"s $HOME' ${VARIABLE} """,
    ],
)
def test_arguments_are_appended_to_any_form_of_command(command: str | tuple[str, ...]) -> None:
    argv = with_arguments(command)
    said = subprocess.run(argv, env={VARIABLE: "-p 'x'"}, capture_output=True, text=True, check=True).stdout
    expected = 'a b|it"s $HOME|-p|x|' if VARIABLE not in str(command) else "a b|it\"s $HOME|-p|'x'|"
    assert said == expected


def test_open_mpi_uses_the_network_of_the_tasks_and_no_bridge_of_containers() -> None:
    one = render(seat(FrameworkName.OPENMPI, memberships={}, address="127.0.0.1")).env
    assert one["OMPI_MCA_btl_tcp_if_include"] == one["OMPI_MCA_oob_tcp_if_include"] == "127.0.0.1/32"
    assert render(seat(FrameworkName.OPENMPI)).env["PRTE_MCA_prte_if_include"] == "10.0.0.0/28"  # .1 to .3, and .9
    for unknown in (seat(FrameworkName.OPENMPI, address="n1.lan"), seat(FrameworkName.OPENMPI, own_network=True)):
        assert not [name for name in render(unknown).env if "if_include" in name]


def test_the_evaluator_of_tensorflow_is_not_in_its_cluster() -> None:
    both = {"worker": membership("worker", 1, tf=5001), "evaluator": membership("evaluator", 1, tf=5002)}
    config = json.loads(render(seat(FrameworkName.TF, "evaluator", memberships=both)).env["TF_CONFIG"])
    assert config == {"cluster": {"worker": ["10.0.0.1:5001"]}, "task": {"type": "evaluator", "index": 0}}


def test_dlrover_knows_an_attempt_by_its_node_id_and_the_master_by_a_file() -> None:
    found = {"worker": membership("worker", 2), "dlrover-master": membership("dlrover-master", 1, dlrover=7000)}
    made = render(seat(FrameworkName.DLROVER, index=1, attempt=3, options={"slots": 4}, memberships=found))
    assert (made.env["NODE_RANK"], made.env["NODE_ID"], made.env["NODE_NUM"], made.env["NODE_TYPE"]) == (
        *("1", "2000001"),
        *("2", "worker"),
    )
    assert (made.env["PET_NNODES"], made.env["PET_NPROC_PER_NODE"], made.env["PET_MAX_RESTARTS"]) == ("1:4", "4", "3")
    assert made.files == {"master": "10.0.0.1 7000\n"}
    assert made.env["GRASS_DLROVER_MASTER"] == "/jobs/train-1/components/worker/master"
    assert render(seat(FrameworkName.DLROVER)).files == {"master": ""}, "the master does not run yet"


def test_the_master_of_dlrover_knows_the_members_by_kind_in_order_of_rank() -> None:
    found = {"trainer": membership("trainer", 2), "ps": membership("ps", 1)}
    options: dict[str, Option] = {"role": "dlrover-master", "worker": "trainer"}
    made = render(seat(FrameworkName.DLROVER, "dlrover-master", options=options, memberships=found))
    groups = json.loads(made.files["members.json"])
    assert groups["worker"] == {"members": [[1, 1, "10.0.0.1"], [0, 1, "10.0.0.2"]], "desired": 2, "min": 1}
    assert list(groups) == ["worker", "ps"]
    assert made.env["GRASS_DLROVER_ADDRESS"] == "10.0.0.9"
    assert made.env["PYTHONPATH"] == "/jobs/train-1/library/python"


def test_a_task_of_dlrover_with_a_port_for_it_gets_tf_config() -> None:
    found = {"ps": membership("ps", 1, tf=7000), "worker": membership("worker", 1, tf=7001)}
    made = render(seat(FrameworkName.DLROVER, "ps", memberships=found, ports={"tf": 7000}))
    cluster = {"ps": ["10.0.0.1:7000"], "worker": ["10.0.0.1:7001"]}
    assert json.loads(made.env["TF_CONFIG"])["cluster"] == cluster
    assert made.env["NODE_TYPE"] == "ps"
    assert "TF_CONFIG" not in render(seat(FrameworkName.DLROVER, "ps", memberships=found)).env
