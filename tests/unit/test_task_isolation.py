"""Isolation of users, as far as it is decided purely: the range of ids, the view, what speaks against a machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from grass.errors import InputError, ManifestError
from grass.manifest import read_document
from grass.manifest.isolation import IsolationSettings
from grass.manifest.join_file import Offer
from grass.manifest.on_premises import OnPremisesSettings
from grass.manifest.settings import parse_settings
from grass.model.isolation import UIDS, ContainerRights, ContainerUser, Isolation, UidRange, uid_range_problem
from grass.model.reasons import ReasonCode
from grass.model.runtime import RuntimeName
from grass.node_config import NodeConfig, NodeHome
from grass.provision.on_premises import node_design, node_paths, node_steps
from grass.provision.on_premises.facts import Facts, Python, parse
from grass.provision.on_premises.steps import Put, Run
from node.agent.conditions import without_isolation
from node.agent.environment import launch
from node.runtime.isolation.accounts import Accounts, comment
from node.runtime.isolation.share_folder import beside, make_of_user, make_writable
from node.runtime.isolation.visible_files import (
    HIDDEN,
    PROBE_USER,
    QUEUES,
    InShare,
    Job,
    Node,
    Shown,
    arguments,
    folders_of,
    is_closed,
    of_job,
    of_share,
    of_user,
    torn,
)
from node.runtime.spawn import CannotStartError
from tests.support.templates import template

FACTS = Facts(
    hostname="box",
    pythons=(Python((3, 11, 2), "/usr/bin/python3"),),
    systemd=True,
    packagers=("apt-get",),
    programs={"bwrap": "/usr/bin/bwrap"},
    accounts=(("root", 0, "root"), ("ops", 1000, "Ops,,,"), ("grass-u58000", 58_000, "Grass lab alice")),
)
PATHS = node_paths.of_root("lab", None)
NODE = Node("/srv/grass/lab", "/var/lib/grass/clusters/lab", "/run/grass/lab")
JOB = Job(
    own="/var/lib/grass/clusters/lab/node/attempts/j-1",
    read="/var/lib/grass/clusters/lab/node/jobs/j-1",
    tmp="/t/tmp",
    var_tmp="/t/var_tmp",
)
SEEN = InShare(("sets",), "/srv/grass/lab/jobs/j-1", ("/srv/grass/lab/jobs/j-0",))


def designed(
    facts: Facts = FACTS, offer: Offer | None = None, isolate: UidRange | None = UIDS
) -> node_design.NodeDesign:
    return node_design.design(facts, offer or Offer(), PATHS, served=False, joined=False, isolate=isolate)


def settings(*lines: str) -> str:
    return "\n".join(["mode: grass/on-premises", "name: lab", "master: {address: m1}", *lines])


@pytest.mark.parametrize(
    ("uids", "words"),
    [
        (UIDS, ""),
        (UidRange(300_000, 300_000), ""),
        (UidRange(58_001, 58_000), "is empty"),
        (UidRange(0, 2_000), "lower ids belong to the system"),
        (UidRange(999, 2_000), "lower ids belong to the system"),
        (UidRange(4_000_000_000, 4_000_000_001), "not within"),
        (UidRange(100_000, 300_000), "more than 100000 ids"),
        (UidRange(60_500, 60_600), "systemd uses"),
        (UidRange(65_534, 65_534), "systemd uses"),
    ],
)
def test_a_range_of_ids_holds_nothing_of_the_system(uids: UidRange, words: str) -> None:
    problem = uid_range_problem(uids)
    assert (words in problem) if words else not problem


def isolation_of(*lines: str) -> IsolationSettings:
    found = parse_settings(read_document(settings(*lines)))
    assert isinstance(found, OnPremisesSettings)
    return found.isolation


def test_settings_name_the_isolation_and_its_ids() -> None:
    assert isolation_of() == IsolationSettings(None, UIDS, ContainerRights(), False)
    found = isolation_of("isolation: user", "uids: 30000-30999")
    assert (found.kind, found.uids) == (Isolation.USER, UidRange(30_000, 30_999))
    found = isolation_of("containers: {user: image, capabilities: [chown, CAP_SETUID, CHOWN]}", "data: ro")
    assert found.containers == ContainerRights(ContainerUser.IMAGE, ("CHOWN", "SETUID"))
    assert found.read_only_data


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("isolation: users", 'isolation: must be one of none, user; got "users"'),
        ("uids: 58000", "uids: must be FIRST-LAST such as 58000-59999"),
        ("uids: 0-100", "uids: 0-100 is not within"),
        ("uids: [1, 2]", "uids: must be FIRST-LAST"),
        ("data: none", 'data: must be one of rw, ro; got "none"'),
        ("containers: {user: root}", "containers.user: must be one of account, image"),
        ("containers: {capabilities: [CHOWN]}", "containers.capabilities: requires `user: image`"),
        ("containers: {user: image, capabilities: [SYS_ADMIN]}", "containers.capabilities[0]: must be one of CHOWN, "),
    ],
)
def test_faulty_settings_are_named(line: str, words: str) -> None:
    with pytest.raises(ManifestError) as told:
        parse_settings(read_document(settings(line)))
    assert words in str(told.value)


@pytest.mark.parametrize("line", ["isolation: user", "uids: 30000-30999", "data: ro"])
def test_a_cluster_on_one_machine_says_that_tasks_run_as_its_user(line: str) -> None:
    with pytest.raises(ManifestError, match="on one machine, tasks run as you"):
        parse_settings(read_document(line))


def test_a_view_covers_what_belongs_to_grass_and_has_an_empty_folder_in_place_of_the_share() -> None:
    words = arguments(NODE)
    options = list(pairwise(words))
    for folder in (*HIDDEN, "/run"):
        covered = options.index(("--tmpfs", folder))
        later = [index for index, (option, path) in enumerate(options) if "bind" in option and path.startswith(folder)]
        assert all(index > covered for index in later)
    assert "--unshare-ipc" in words and ("--mqueue", QUEUES) in options
    assert "--mqueue" not in arguments(NODE._replace(queues=False))
    share = options.index(("--tmpfs", NODE.share))
    for name in ("logs", "images", "jobs", "data"):
        assert options.index(("--dir", f"{NODE.share}/{name}")) > share
    assert options.index(("--remount-ro", NODE.share)) > share
    assert not [word for word in words if word.startswith(NODE.home) or word.startswith(NODE.runtime_dir)]


def test_folders_above_a_share_inside_of_a_covered_folder_can_be_entered() -> None:
    words = arguments(NODE._replace(share="/var/lib/grass/clusters/lab/data"))
    made = [words[index + 1] for index, word in enumerate(words) if word == "--dir"]
    assert made[:2] == ["/var/lib/grass/clusters", "/var/lib/grass/clusters/lab"]


def test_a_job_sees_its_own_folders_and_reads_what_it_waited_for() -> None:
    shown = {each.target: each for each in of_job(NODE, JOB)}
    assert set(shown) == {"/tmp", "/var/tmp", JOB.own, JOB.read, "/run/grass/lab/tasks"}
    assert {each.target for each in shown.values() if each.read_only} == {JOB.read, "/run/grass/lab/tasks"}
    assert shown["/tmp"].source == "/t/tmp"
    sets = "/srv/grass/lab/sets"
    in_share = [(each.target, each.read_only) for each in of_share(NODE.share, SEEN)]
    assert in_share == [(sets, True), (SEEN.output, False), (SEEN.awaited[0], True)]
    assert [each.target for each in of_share(NODE.share, SEEN._replace(output=None, awaited=()))] == [sets]


def table(*mounts: tuple[str, str, str, str]) -> str:
    """Return a kernel's table of mounts: device, point, options and type of each."""
    lines = [
        f"{index} 1 {device} / {point} {how} - {kind} x rw" for index, (device, point, how, kind) in mounted(mounts)
    ]
    return "\n".join(lines)


def mounted(mounts: Sequence[tuple[str, str, str, str]]) -> Iterator[tuple[int, tuple[str, str, str, str]]]:
    return iter(enumerate([("8:1", "/", "rw", "ext4"), ("0:50", "/s", "ro", "tmpfs"), *mounts]))


OWN, ALL, SHARED = (
    Shown("/s/data/ann", "/s/data/ann"),
    Shown("/s/all", "/s/all", True),
    Shown("/s/all/ann", "/s/all/ann"),
)
WHOLE = (
    ("0:60", "/s/data/ann", "rw,nosuid", "fuse.rclone"),
    ("0:60", "/s/all", "ro,nosuid", "fuse.rclone"),
    ("0:60", "/s/all/ann", "rw,nosuid", "fuse.rclone"),
)


def test_what_a_view_has_lost_is_seen_in_the_table_of_its_mounts() -> None:
    shown = [OWN, ALL, SHARED]
    assert torn(shown, table(*WHOLE), "0:60") == torn(shown, table(*WHOLE), "") == []
    assert torn(shown, table(*WHOLE[:2]), "0:60") == [SHARED]
    assert torn(shown, table(*WHOLE[1:]), "0:60") == [OWN]
    assert torn(shown, table(), "0:60") == shown
    assert torn(shown, table(*WHOLE), "0:61") == shown  # the share was mounted again
    again = (*WHOLE, ("0:61", "/s/data/ann", "rw", "fuse.rclone"))
    assert torn(shown, table(*again), "0:61") == [ALL, SHARED]
    writable = (WHOLE[0], ("0:60", "/s/all", "rw,nosuid", "fuse.rclone"), WHOLE[2])
    assert torn(shown, table(*writable), "0:60") == [ALL, SHARED]  # what is mounted in a folder goes with it


def test_a_view_with_the_share_itself_is_not_closed() -> None:
    assert is_closed("/s", table(*WHOLE))
    assert not is_closed("/s", table(("0:60", "/s", "ro", "fuse.rclone"), *WHOLE))
    assert not is_closed("/other", table(*WHOLE))


def test_names_beside_the_folders_of_users_are_shown_without_links(tmp_path: Path) -> None:
    for name in ("logs", "images", "jobs", "data", "sets", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "read-me").touch()
    (tmp_path / "link").symlink_to("data")
    assert beside(str(tmp_path)) == ("read-me", "sets")


def test_a_job_changes_the_folders_of_its_user_and_reads_that_of_all() -> None:
    data = "/srv/grass/lab/data"
    for read_only in (False, True):
        shown = of_share(NODE.share, InShare(data=of_user(NODE.share, "ann", data, read_only=read_only)))
        inside = [(each.target, each.read_only) for each in shown if each.target.startswith(data)]
        own = [] if read_only else [(f"{data}/shared/ann", False)]
        assert inside == [(f"{data}/ann", read_only), (f"{data}/shared", True), *own]
        assert all(each.source == each.target for each in shown if each.target.startswith(data))


def test_what_is_no_name_of_a_user_has_no_folder_and_the_trial_of_a_node_has_one() -> None:
    assert folders_of("/s", "ann") == ("/s/data/ann", "/s/data/shared/ann")
    for user in ("..", "", "a/b", "shared"):
        assert folders_of("/s", user) == ()
        assert of_user("/s", user, "/t", read_only=False) == (Shown("/s/data/shared", "/t/shared", True),)
    assert folders_of("/s", PROBE_USER) == ("/s/data/.probe",)
    assert of_user("/s", PROBE_USER, "/t", read_only=False) == (
        Shown("/s/data/.probe", "/t/.probe"),
        Shown("/s/data/shared", "/t/shared", True),
    )


def test_folders_of_a_user_are_made_for_the_group_and_that_of_all_is_not(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for _ in range(2):
        make_of_user(str(tmp_path), folders_of(str(tmp_path), "ann"))
        modes = {name: (tmp_path / "data" / name).stat().st_mode & 0o777 for name in ("ann", "shared", "shared/ann")}
        assert modes == {"ann": 0o775, "shared": 0o755, "shared/ann": 0o775}
    with pytest.raises(FileNotFoundError):  # where the share is not mounted, nothing is made
        make_of_user(str(tmp_path / "away"), folders_of(str(tmp_path / "away"), "ann"))


def test_a_machine_with_bubblewrap_and_a_free_range_is_fit() -> None:
    design = designed()
    assert (design.packages, design.isolate) == ((), UIDS)
    steps = node_steps.unit_step(PATHS, isolated=True).actions
    [put] = [action for action in steps if isinstance(action, Put) and action.target.endswith("isolated.conf")]
    assert put.target == "/etc/systemd/system/grass-shepherd@lab.service.d/isolated.conf"
    assert "/etc/systemd/system/grass-shepherd@lab.service.d" in node_steps.made(FACTS, design, PATHS).folders


def test_a_node_gets_the_command_grass_on_path_where_no_other_program_has_its_name() -> None:
    steps = node_steps.before_claim(designed(), PATHS, ["http://m1:51812"], "0" * 64)
    [step] = [step for step in steps if step.name == "make `grass` a command there"]
    assert step.actions == (Run(("ln", "-s", "/opt/grass/venv/bin/grass", "/usr/local/bin/grass")),)
    assert "/usr/local/bin/grass" in node_steps.made(FACTS, designed(), PATHS).files
    taken = replace(FACTS, paths=frozenset({"/usr/local/bin/grass"}))
    assert "/usr/local/bin/grass" not in node_steps.made(taken, designed(taken), PATHS).files


def test_a_node_with_an_engine_offers_isolated_containers() -> None:
    engine = replace(FACTS, docker="20.10", programs={**FACTS.programs, "docker": "/usr/bin/docker"})
    assert designed(engine).runtimes == (RuntimeName.PROCESS, RuntimeName.DOCKER)
    assert designed(engine, Offer(runtimes=(RuntimeName.PROCESS,))).runtimes == (RuntimeName.PROCESS,)


def test_bubblewrap_is_installed_or_named() -> None:
    bare = replace(FACTS, programs={})
    assert designed(bare).packages == ("bubblewrap",)
    assert designed(bare, isolate=None).packages == ()
    with pytest.raises(InputError, match="missing: bubblewrap; and installing is forbidden") as refused:
        designed(bare, Offer(install=False))
    assert refused.value.exit_code == 2
    reason = without_isolation("/nonexistent")
    assert reason is not None and reason.code is ReasonCode.RUNTIME
    assert "install the package bubblewrap" in reason.message


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"accounts": (("eve", 58_123, "Eve"),)}, r"accounts .* in the range 58000-59999 of `uids`: eve \(58123\)"),
        ({"subuids": (("ops", 50_000, 65_536),)}, "overlaps the subordinate ids of ops in /etc/subuid"),
    ],
)
def test_ids_that_others_use_are_refused_by_name(more: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        designed(replace(FACTS, **more))  # type: ignore[arg-type]
    assert "nothing was changed" in str(refused.value) and "uids: FIRST-LAST" in str(refused.value)


def test_a_node_without_root_cannot_isolate() -> None:
    rootless = node_paths.of_user("lab", "ops", "ops", "/home/ops", "/run/user/1000")
    facts = replace(FACTS, user="ops")
    with pytest.raises(InputError, match="needs root on its nodes; leave out --rootless, or make the cluster with"):
        node_design.design(facts, Offer(), rootless, served=False, joined=False, isolate=UIDS)


@pytest.mark.parametrize(("kernel", "fit"), [("5.3.0-1-amd64", True), ("6.1.0", True), ("4.18.0-553.el8", False)])
def test_a_kernel_that_cannot_move_mounts_is_refused(kernel: str, fit: bool) -> None:
    facts = replace(FACTS, kernel=kernel)
    if fit:
        assert designed(facts).isolate == UIDS
        return
    with pytest.raises(InputError, match=r"needs Linux 5\.3 or newer, it has 4\.18"):
        designed(facts)


def test_facts_list_accounts_and_subordinate_ids() -> None:
    found = parse("@accounts\nroot:x:0:0:root:/root:/bin/sh\nbroken\n@subuids\nops:100000:65536\n@end\n")
    assert (found.accounts, found.subuids) == ((("root", 0, "root"),), (("ops", 100_000, 65_536),))


@pytest.mark.parametrize("user", ["", "a b", "a:b", "a,b", "a\nb"])
def test_a_user_whose_name_cannot_be_told_apart_gets_no_account(user: str) -> None:
    with pytest.raises(CannotStartError, match=f"^{re.escape(repr(user))} cannot have an account"):
        Accounts("lab", UidRange(2_000_000, 2_000_001), 0).account_of(user)


def test_no_account_is_made_outside_of_a_sound_range() -> None:
    assert comment("lab", "Mallory.2nd") == "Grass lab Mallory.2nd"
    with pytest.raises(ValueError, match="belong to the system"):
        Accounts("lab", UidRange(0, 10), 0)


def test_an_isolated_process_gets_its_user_and_nothing_of_the_daemons_account() -> None:
    task = template(user="ann", awaited={"a": "j-0"})
    base = {"PATH": "/bin", "HOME": "/var/lib/grass", "USER": "grass"}
    config = NodeHome("lab", "grass/on-premises", "/h", "/r", node=NodeConfig())
    plain = launch(config, task, base)
    assert (plain.user, plain.awaited, plain.env["HOME"]) == ("", (), "/var/lib/grass")
    isolated = launch(replace(config, node=NodeConfig(isolate=UIDS)), task, base)
    assert (isolated.user, isolated.awaited) == ("ann", ("j-0",))
    assert isolated.env["PATH"] == "/bin" and not {"HOME", "USER"} & set(isolated.env)


def test_a_folder_for_tasks_is_made_once_and_also_in_a_share_without_modes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, mode: int) -> None:
        raise PermissionError(f"{path}: this file system has no modes")

    mine, theirs = tmp_path / "mine", tmp_path / "of-the-master"
    theirs.mkdir()
    theirs.chmod(0o700)
    for folder in (mine, mine, theirs):
        make_writable(str(folder))
    assert [each.stat().st_mode & 0o777 for each in (mine, theirs)] == [0o775, 0o700]
    monkeypatch.setattr(os, "chmod", refuse)
    make_writable(str(tmp_path / "without-modes"))
    assert (tmp_path / "without-modes").is_dir()
