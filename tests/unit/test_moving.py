"""A move of the master: which machines are refused, what puts the state in place, and what is remembered here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grass.config import ClusterConfig, RedisConfig
from grass.errors import ConflictError, InputError
from grass.manifest.on_premises import HostSettings, Login
from grass.provision.on_premises.copying import check_space
from grass.provision.on_premises.handover import Handed
from grass.provision.on_premises.masters import Masters, load_masters
from grass.provision.on_premises.mirror import Entry, Listing
from grass.provision.on_premises.move_checks import check_target
from grass.provision.on_premises.moved_in import MovedIn, put_in_place
from grass.provision.on_premises.old_master import Found
from grass.provision.on_premises.record import Made
from grass.supervision import predecessor
from tests.unit.test_restore_on_host import FACTS
from tests.unit.test_restore_target import tree, write

NOT_YET = Handed()
OLD, NEW = HostSettings("10.0.0.10", Login("ops", password="secret")), HostSettings("10.0.0.20")


def check(found: Found, handed: Handed = NOT_YET, *, node: bool = False) -> None:
    facts = replace(FACTS, records={"lab+node": Made()} if node else {})
    check_target("m2", "lab", facts, found, "key", handed)


def test_a_machine_that_cannot_become_the_master_is_refused() -> None:
    with pytest.raises(InputError, match="m2: is a node of cluster lab; run `grass node drain "):
        check(Found(), node=True)
    with pytest.raises(ConflictError, match="is the master of another cluster lab"):
        check(Found(key="other"), Handed(new="m2", id="1"))
    with pytest.raises(ConflictError, match="is the master of cluster lab already"):
        check(Found(lives=True, state=True, key="key"))
    with pytest.raises(ConflictError, match="has a state of cluster lab that nobody moved away"):
        check(Found(state=True, key="key"))


def test_a_new_machine_a_former_master_and_one_that_was_taken_over_already_are_accepted() -> None:
    check(Found())
    check(Found(state=True, key="key", replaced_by="10.0.0.10"))
    check(Found(state=True, interrupted=True))
    check(Found(lives=True, state=True, key="key"), Handed(new="10.0.0.20", id="1"))


def test_a_disk_on_which_too_little_space_would_be_left_is_refused() -> None:
    wanted, has = Listing({"a": Entry("f", size=5 << 30)}, 0), Listing({"a": Entry("f", size=3 << 30)}, 3 << 30)
    check_space("m2", wanted, has)
    with pytest.raises(ConflictError, match="m2: 2GiB have to be copied there, and 2GiB are free"):
        check_space("m2", wanted, Listing(has.entries, 2 << 30))


def moved(tmp_path: Path, id: str = "one") -> MovedIn:
    """Return the input for what lies in ``staged``: the files of the old master, which had one before itself."""
    staged = write(tmp_path / ".move-lab", "new", "secrets.json", "redis/x", "master/key.pem")
    (staged / "predecessor").write_text("10.0.0.1:6379\n10.0.0.20:6379\n")
    redis = RedisConfig(host="10.0.0.20", port=6379)
    config = ClusterConfig("lab", "grass/on-premises", str(tmp_path / "lab"), "/run/lab", redis=redis)
    return MovedIn(str(staged), config, id, "10.0.0.10:6379")


def test_the_state_that_was_copied_comes_in_place_of_what_a_former_master_left(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "lab", "old", "cluster.json", "redis/y", "replaced-by", "moved-to", "moved-as", "started", "made"
    )
    asked = moved(tmp_path)
    put_in_place(asked)
    found = {name: text for name, text in tree(folder).items() if not name.startswith("replaced-1")}
    assert ClusterConfig.load(folder / "cluster.json") == asked.config
    del found["cluster.json"]
    predecessors = "10.0.0.1:6379\n10.0.0.10:6379\n"
    state = dict.fromkeys(("secrets.json", "redis/x", "master/key.pem"), "new")
    assert found == {**state, "master/moves": "1\n", "moved-from": "one", "predecessor": predecessors}
    write(folder, "written since", "redis/x")
    put_in_place(moved(tmp_path))  # the same move: the new master has gone on
    assert (folder / "redis/x").read_text() == "written since"


def test_a_placement_that_was_cut_off_is_finished_by_the_next(tmp_path: Path) -> None:
    asked = moved(tmp_path)
    folder = write(tmp_path / "lab", "", "restoring")
    (tmp_path / ".move-lab" / "secrets.json").rename(folder / "secrets.json")
    put_in_place(asked)
    assert (folder / "secrets.json").read_text() == "new" and not (folder / "restoring").exists()
    assert predecessor.listed(folder) == ("10.0.0.1:6379", "10.0.0.10:6379")


def test_nothing_is_changed_if_nothing_was_copied(tmp_path: Path) -> None:
    folder = write(tmp_path / "lab", "old", "cluster.json", "replaced-by")
    asked = moved(tmp_path)
    (tmp_path / ".move-lab" / "secrets.json").unlink()
    with pytest.raises(InputError, match="run the same command again"):
        put_in_place(asked)
    assert tree(folder) == {"cluster.json": "old", "replaced-by": "old"}


def test_masters_that_are_not_fenced_are_remembered_without_passwords(tmp_path: Path) -> None:
    assert load_masters(tmp_path) == Masters()
    masters = Masters("10.0.0.20:6379").with_old(OLD, "10.0.0.10:6379").with_old(NEW, "10.0.0.20:6379")
    replace(masters, moving=NEW.address, term=2, restoring="5a").save(tmp_path)
    assert "secret" not in (tmp_path / "masters.json").read_text()
    found = load_masters(tmp_path)
    assert [each.redis for each in found.old] == ["10.0.0.10:6379", "10.0.0.20:6379"] and found.term == 2
    assert found.with_old(OLD, "other:1") == found
    assert found.without("10.0.0.10").old == found.old[1:]
