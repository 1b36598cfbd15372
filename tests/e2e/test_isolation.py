"""`isolation: user` on hosts: each user's tasks under their own account, and what an attacker among them achieves."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from grass.api.client import Client
from grass.errors import NotAllowedError, UnreachableError, WaitTimeoutError
from tests.support import stolen_host
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster, holds, settings
from tests.support.three_nodes import BUSYBOX, finish, lines
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly  # tests/integration/test_isolated_tasks.py tries the same on one machine in each run

NODES = ("master", "n1")
DIGITS = Path(__file__).parents[2] / "examples" / "digits"
PROGRAM = Path(stolen_host.__file__)
UIDS = range(58_000, 60_000)
RIGHTS = "grep -E 'CapBnd|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\t'"
"""Says which capabilities a process may have at most: without NET_RAW, it hears nothing of the network."""


@pytest.fixture(scope="module")
def cluster(running_lab: SessionLab, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two users, and two nodes: one mounts the share, the other one is the master, which has it on its disk."""
    lab = running_lab
    for host in NODES:
        lab.reset(host)
    nodes = [{"address": lab.hosts[node].address, "name": node, "labels": {"host": node}} for node in NODES]
    folder = tmp_path_factory.mktemp("isolation")
    made = Cluster(lab, site, folder / "home", settings(lab, name="apart", isolation=None, nodes=nodes))
    made.created()
    pushed = made.grass("image", "push", "--file", str(lab.busybox_image_tar))
    assert pushed.returncode == 0, pushed.stderr
    yield made
    for host in NODES:
        lab.reset(host)


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.name, home=cluster.home) as client:
        yield client


@pytest.fixture(scope="module")
def theirs(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The same cluster on the machine of a second user, with a name that no account of a system could have."""
    added = cluster.grass("user", "add", "Mallory.2nd", "-o", "json")
    assert added.returncode == 0, added.stderr
    invitation = json.loads(added.stdout)["invitation"]
    theirs = Cluster(cluster.lab, cluster.site, tmp_path_factory.mktemp("other"), cluster.settings)
    done = theirs.grass("login", invitation)
    assert done.returncode == 0, done.stderr
    return theirs


@pytest.fixture(scope="module")
def other(theirs: Cluster) -> Iterator[Client]:
    with Client(theirs.name, home=theirs.home) as client:
        yield client


def said(client: Client, name: str, script: str, node: str) -> list[str]:
    """Run a script as a process on a node; return what it printed, with its exit code last."""
    part = {"command": f"exec 2>&1; {script}; echo code $?", "cwd": "/", "where": {"host": node}}
    client.start({"name": name, "components": {"t": part}})
    try:
        view = client.wait(name, timeout=60)
    except WaitTimeoutError as late:
        raise AssertionError(f"{late}: {client.tasks(name)}; {client.why(name)}") from late
    assert view.state == "SUCCEEDED", (view, client.why(name))
    return lines(client, name)["t.0", 1]


@pytest.mark.parametrize("node", NODES)
def test_a_task_runs_under_an_account_of_its_user_and_uses_the_share(
    admin: Client, cluster: Cluster, node: str, tmp_path: Path
) -> None:
    mine = f"data/shared/{admin.status().user}"
    script = f"id -u; id -Gn; echo result > $GRASS_OUTPUT/found; echo all > $GRASS_DATA/{mine}/from-$GRASS_NODE; whoami"
    printed = said(admin, f"who-{node}", script, node)
    assert len(printed) == 4, printed
    uid, groups, name, code = printed
    assert int(uid) in UIDS and (groups, name, code) == ("grass", f"grass-u{uid}", "code 0")
    assert f"grass-u{uid}" in cluster.lab.hosts[node].sh("getent passwd")
    pulled = cluster.grass("job", "pull", f"who-{node}", "--to", str(tmp_path / "out"))
    assert pulled.returncode == 0 and (tmp_path / "out" / "found").read_text() == "result\n", pulled.stderr
    done = cluster.grass("data", "remove", f"{mine}/from-{node}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("node", NODES)
def test_an_attacker_among_the_users_gets_nothing(admin: Client, other: Client, cluster: Cluster, node: str) -> None:
    part = {"command": "echo secret > $HOME/s; echo secret > $GRASS_OUTPUT/s; echo up; sleep 600", "cwd": "/"}
    job = {"name": f"victim-{node}", "components": {"t": {**part, "where": {"host": node}}}}
    admin.start(job)
    wait_until(lambda: bool(lines(admin, job["name"])), 60, "the victim")
    [task] = admin.tasks(job["name"])
    victim, job_id = task.pid, admin.job(str(job["name"])).id
    home = "/var/lib/grass/nodes/apart" if node == "master" else "/var/lib/grass/clusters/apart"
    tries = {
        "own output": "touch $GRASS_OUTPUT/mine",
        "node secrets": f"cat {home}/secrets.json",
        "master secrets": "cat /var/lib/grass/clusters/apart/secrets.json",
        "share credentials": "cat /etc/grass/apart.share.conf",
        "other scratch": f"cat {home}/node/attempts/{job_id}/*/s",
        "other output": f"ls {home}/node/attempts/{job_id}",
        "other job folder": f"cat $GRASS_DATA/jobs/{job_id}/s",
        "logs": f"cat $GRASS_DATA/logs/{job_id}/*",
        "write images": "touch $GRASS_DATA/images/x",
        "read images": "ls $GRASS_DATA/images/index.json",
        "beside data": "touch $GRASS_DATA/x || mkdir $GRASS_DATA/y",
        "docker": "ls /run/docker.sock || docker ps",
        "shepherd": "ls /run/grass/apart/shepherd.sock",
        "environment": f"cat /proc/{victim}/environ",
        "command line": f"cat /proc/{victim}/cmdline",
        "kill": f"kill -9 {victim}",
        "uncover": "umount /var/lib/grass || umount -l /run || su -c id </dev/null || sudo -n true",
    }
    script = "; ".join(f"( {attack} ) >/dev/null 2>&1 && echo '{name}'" for name, attack in tries.items())
    assert said(other, f"evil-{node}", script, node) == ["own output", "code 1"]
    admin.stop(job["name"])
    assert admin.wait(job["name"], timeout=30).state == "STOPPED"


@pytest.mark.parametrize("node", NODES)
def test_a_user_reads_what_another_one_shares_and_changes_nothing_of_it(
    admin: Client, other: Client, node: str
) -> None:
    user = admin.status().user
    file, mine = f"$GRASS_DATA/data/shared/{user}/prize-{node}", "$GRASS_DATA/data/shared/Mallory.2nd"
    assert said(admin, f"shares-{node}", f"umask 0; echo prize > {file}", node) == ["code 0"]
    tries = {
        "own": f"touch {mine}/x && rm {mine}/x",
        "change": f"echo x >> {file} || truncate -s 0 {file}",
        "remove": f"rm {file} || mv {file} {file}.old || mv {file} {mine}/taken",
        "link": f"ln {file} {mine}/hard || touch {file}.new",
        "folder of another": f"mv $GRASS_DATA/data/shared/{user} {mine}/theirs || mkdir $GRASS_DATA/data/shared/new",
        "folder of all": "touch $GRASS_DATA/data/shared/new",
    }
    script = "; ".join(f"( {attack} ) >/dev/null 2>&1 && echo '{name}'" for name, attack in tries.items())
    assert said(other, f"vandal-{node}", f"{script}; cat {file}", node) == ["own", "prize", "code 0"]
    assert said(admin, f"still-{node}", f"cat {file}; rm {file}", node) == ["prize", "code 0"]


LOOK = """
until [ -e $GRASS_DATA/data/Mallory.2nd/enough-$NAME ]; do
    { ls $GRASS_DATA $GRASS_DATA/data $GRASS_DATA/jobs $GRASS_DATA/logs
      cat $GRASS_DATA/data/$VICTIM/prey $GRASS_DATA/jobs/$PREY/prey; } 2>/dev/null | sort -u > $HOME/now
    cat $HOME/now >> $HOME/seen
    for each in $GRASS_OUTPUT $GRASS_DATA/data/Mallory.2nd $GRASS_DATA/data/shared/Mallory.2nd; do
        date +%s.%N > $each/beat-$PART 2>/dev/null || echo lost >> $HOME/seen
    done
    sleep 0.2
done
sort -u $HOME/seen
"""
"""Prints all names and secrets that it has ever seen, and `lost` if it could not write at some time."""


def interrupt(lab: SessionLab, outage: str) -> None:
    """Take the share from n1 for 4 s, for 40 s, or for a reboot of the master."""
    match outage:
        case "samba":
            lab.hosts["master"].sh("systemctl stop grass-samba@apart; sleep 4; systemctl start grass-samba@apart")
        case "cut":
            lab.hosts["n1"].cut()
            time.sleep(40)
            lab.hosts["n1"].heal()
        case _:
            lab.hosts["master"].reboot()


def started(client: Client, job: dict[str, Any]) -> bool:
    with suppress(UnreachableError):  # the master still boots
        client.start(job)
        return True
    return False


@pytest.mark.parametrize("outage", ["samba", "cut", "reboot"])
def test_while_the_share_is_away_nothing_opens_and_afterwards_all_is_written_again(
    admin: Client, other: Client, cluster: Cluster, outage: str
) -> None:
    """A process and a container of a user look around meanwhile."""
    lab, user, share = cluster.lab, admin.status().user, "/srv/grass/apart"
    prey = f"echo secret | tee $GRASS_OUTPUT/prey $GRASS_DATA/data/{user}/prey"
    assert said(admin, f"prey-{outage}", prey, "n1") == ["secret", "code 0"]
    env = {"NAME": outage, "VICTIM": str(user), "PREY": admin.job(f"prey-{outage}").id}
    part = {"command": LOOK, "where": {"host": "n1"}, "resources": {"cpu": 0.1}}
    parts = {
        "p": {**part, "cwd": "/", "env": {**env, "PART": "p"}},
        "c": {**part, "env": {**env, "PART": "c"}, "image": BUSYBOX, "runtime": "docker"},
    }
    other.start({"name": f"away-{outage}", "components": parts, "success": ["p", "c"]})
    job_id = other.job(f"away-{outage}").id
    beats = [
        f"{share}/{folder}/beat-{part}"
        for folder in (f"jobs/{job_id}", "data/Mallory.2nd", "data/shared/Mallory.2nd")
        for part in parts
    ]

    def fresh() -> bool:
        """Return whether all these were written within two seconds."""
        done = lab.hosts["master"].attempt("sh", "-c", f"date +%s; stat -c %Y {' '.join(beats)}")
        now, *written = map(int, done.stdout.split() or [0])
        return done.code == 0 and len(written) == len(beats) and min(written) >= now - 2

    wait_until(fresh, 60, "the first writes")
    interrupt(lab, outage)
    after = {**part, "command": "ls $GRASS_DATA/data $GRASS_DATA/jobs; touch $GRASS_OUTPUT/x && echo wrote", "cwd": "/"}
    wait_until(lambda: started(other, {"name": f"after-{outage}", "components": {"t": after}}), 60, "the API")
    wait_until(fresh, 90, "writes after the share is back")
    lab.hosts["master"].sh(f"touch {share}/data/Mallory.2nd/enough-{outage}")
    assert other.wait(f"away-{outage}", timeout=60).state == "SUCCEEDED", other.tasks(f"away-{outage}")
    printed = lines(other, f"away-{outage}")
    allowed = {"data", "jobs", "logs", "images", "Mallory.2nd", "shared", job_id}
    for name in parts:
        assert {line for line in printed[f"{name}.0", 1] if not line.startswith("/")} <= allowed | {"", "lost"}, printed
    if outage == "cut":  # a shorter one may only make it wait
        assert all("the share did not answer" in str(task.reason) for task in other.tasks(f"away-{outage}"))
    assert other.wait(f"after-{outage}", timeout=60).state == "SUCCEEDED"
    assert {*lines(other, f"after-{outage}")["t.0", 1]} <= allowed - {job_id} | {
        other.job(f"after-{outage}").id,
        "wrote",
        "",
        *(f"{share}/{name}:" for name in ("data", "jobs")),
    }


def test_links_that_a_task_makes_on_the_master_lead_to_no_file_of_others_on_a_node(
    admin: Client, other: Client
) -> None:
    """The server of the share follows links, with all its rights, for the node that asks."""
    user, mine = admin.status().user, "$GRASS_DATA/data/Mallory.2nd/links"
    share = "echo secret > $GRASS_DATA/data/$U/of-admin; echo prize > $GRASS_DATA/data/shared/$U/of-admin"
    assert said(admin, "plants", f"U={user}; umask 0; {share}; echo out > $GRASS_OUTPUT/out", "n1") == ["code 0"]
    job_id = admin.job("plants").id
    leads = {"data": f"data/{user}", "shared": f"data/shared/{user}", "job": f"jobs/{job_id}", "logs": "logs"}
    links = "; ".join(f"ln -s ../../../{target} {mine}/to-{name}" for name, target in leads.items())
    made = f"mkdir {mine}; echo own > {mine}/own; ln -s own {mine}/to-own; {links}"
    assert said(other, "links", made, "master") == ["code 0"]
    tries = {
        "own": f"cat {mine}/own",
        "read": f"cat {mine}/to-data/of-admin || ls {mine}/to-data/",
        "change": f"echo x >> {mine}/to-shared/of-admin || echo x > {mine}/to-shared/new",
        "remove": f"rm {mine}/to-shared/of-admin || mv {mine}/to-shared/of-admin {mine}/taken",
        "output": f"cat {mine}/to-job/out || touch {mine}/to-job/new",
        "logs": f"ls {mine}/to-logs/{job_id}",
    }
    script = "; ".join(f"( {attack} ) >/dev/null 2>&1 && echo '{name}'" for name, attack in tries.items())
    assert said(other, "follows", f"{script}; ls {mine}", "n1") == ["own", "own", "code 0"]
    assert said(admin, "plants-2", f"cat $GRASS_DATA/data/shared/{user}/of-admin", "n1") == ["prize", "code 0"]


def test_names_that_differ_in_case_are_two_files_on_a_node(admin: Client, cluster: Cluster) -> None:
    """Otherwise a user Shared would write in data/shared, and Ann would read what is of ann."""
    mine = f"$GRASS_DATA/data/{admin.status().user}"
    script = (
        f"cd {mine}; echo 1 > case; echo 2 > Case; mkdir Deep deep; cat case Case; ls -d ?ase ?eep; rm -r ?ase ?eep"
    )
    assert said(admin, "cases", script, "n1") == ["1", "2", "Case", "Deep", "case", "deep", "code 0"]


def test_a_container_has_the_rights_of_its_user_and_sees_no_other_job(
    admin: Client, other: Client, cluster: Cluster
) -> None:
    shared = f"data/shared/{admin.status().user}/boxed"
    script = f"umask 0; echo secret > $GRASS_OUTPUT/s; echo prize > $GRASS_DATA/{shared}"
    assert said(admin, "prey", script, "n1") == ["code 0"]
    prey = admin.job("prey").id
    tries = {
        "own output": "echo found > $GRASS_OUTPUT/found",
        "own scratch": "touch $HOME/x",
        "data": "echo all > $GRASS_DATA/$MINE/from-box && cat /all/$MINE/from-box",
        "folder of all": "touch $GRASS_DATA/data/shared/x || mkdir /all/data/shared/y || rmdir /all/$MINE",
        "of another": f"rm $GRASS_DATA/{shared} || echo x >> /all/{shared} || mv /all/{shared} /all/$MINE/taken",
        "beside data": "touch $GRASS_DATA/x || touch /all/x",
        "other job folder": f"cat $GRASS_DATA/jobs/{prey}/s || cat /all/jobs/{prey}/s",
        "logs": f"ls $GRASS_DATA/logs/{prey} || ls /all/logs/{prey}",
        "images": "ls $GRASS_DATA/images/index.json || ls /all/images/index.json || touch /all/images/x",
        "uncover": "umount $GRASS_DATA/jobs || umount -l /all",
    }
    script = "; ".join(f"( {attack} ) >/dev/null 2>&1 && echo '{name}'" for name, attack in tries.items())
    part = {
        "command": f"id -u; {RIGHTS}; {script}; cat $GRASS_DATA/{shared}",
        "env": {"MINE": "data/shared/Mallory.2nd"},
        "image": BUSYBOX,
        "runtime": "docker",
        "container": {"mounts": [{"source": "/", "target": "/all", "shared": True}]},
        "where": {"host": "n1"},
    }
    other.start({"name": "boxed", "components": {"t": part}})
    view = other.wait("boxed", timeout=60)
    assert view.state == "SUCCEEDED", (view, other.why("boxed"))
    uid, *rights = lines(other, "boxed")["t.0", 1]
    rights, printed = rights[:3], rights[3:]
    assert int(uid) in UIDS and rights == ["CapBnd:0000000000000000", "NoNewPrivs:1", "Seccomp:2"]
    assert printed == ["own output", "own scratch", "data", "prize"]
    refused = {**part, "container": {"user": "0"}}
    other.start({"name": "root", "components": {"t": refused}})
    assert other.wait("root", timeout=60).state == "FAILED"
    assert "under the account of their user, not as 0" in str(other.tasks("root"))


def test_a_second_user_brings_files_to_a_job_and_fetches_its_output_with_their_own_key(
    cluster: Cluster, admin: Client, theirs: Cluster, other: Client, tmp_path: Path
) -> None:
    (tmp_path / "input").write_text("brought\n")
    mine = "data/Mallory.2nd"
    pushed = theirs.grass("data", "push", str(tmp_path / "input"), f"{mine}/input")
    assert pushed.returncode == 0, pushed.stderr
    script = f"cat $GRASS_DATA/{mine}/input; echo made > $GRASS_DATA/{mine}/made && echo result > $GRASS_OUTPUT/found"
    assert said(other, "errand", script, "n1") == ["brought", "code 0"]
    for what, path in (("job pull errand --to", "found"), (f"data pull {mine}", "made")):
        pulled = theirs.grass(*what.split(), str(tmp_path / "out"))
        assert pulled.returncode == 0 and (tmp_path / "out" / path).exists(), pulled.stderr
    admins = cluster.grass("data", "push", str(tmp_path / "input"), "data/admins/input")
    assert admins.returncode == 0, admins.stderr
    for words, verb in (
        (("pull", "data/admins", str(tmp_path / "no")), "reads"),
        (("push", str(tmp_path / "input"), "mnist/input"), "changes files in"),
        (("push", str(tmp_path / "input"), "data/shared/input"), "changes files in"),
    ):
        refused = theirs.grass("data", *words)
        assert refused.returncode != 0 and f"user Mallory.2nd {verb} {mine}/" in refused.stderr, refused.stderr
    done = cluster.grass("user", "disable", "Mallory.2nd")
    assert done.returncode == 0, done.stderr
    assert theirs.grass("data", "list", mine).returncode == 3
    admin.enable_user("Mallory.2nd")
    assert "input" in theirs.grass("data", "list", mine).stdout


def test_the_key_of_a_user_opens_nothing_of_another_one_and_nothing_of_administrators(
    admin: Client, other: Client
) -> None:
    part = {"command": "echo secret; exec sleep 600", "cwd": "/", "where": {"host": "n1"}}
    admin.start({"name": "private", "components": {"t": part}})
    wait_until(lambda: bool(lines(admin, "private")), 60, "the victim")
    user = str(admin.status().user)
    tries: dict[str, Callable[[], object]] = {
        "see": lambda: other.job("private"),
        "read its tasks": lambda: other.tasks("private"),
        "read its file": lambda: other.job_file("private"),
        "read its log": lambda: list(other.logs("private")),
        "run a command": lambda: other.execute("private", "t.0", ["true"]),
        "open a page": lambda: other.forward("private", "t"),
        "stop": lambda: other.stop("private"),
        "delete": lambda: other.delete("private"),
        "replace its image": lambda: other.sign_off_image(BUSYBOX, "0" * 64),
        "remove its image": lambda: other.forget_image(BUSYBOX),
        "list users": other.users,
        "invite": lambda: other.add_user("accomplice", "admin"),
        "become administrator": lambda: other.set_user_role("Mallory.2nd", "admin"),
        "take over another's account": lambda: other.rotate_user(user),
        "disable another": lambda: other.disable_user(user),
        "make a token": lambda: other.join_token("n9"),
        "list tokens": other.join_tokens,
        "remove a node": lambda: other.remove_node("n1", force=True),
        "cordon a node": lambda: other.cordon("n1"),
    }

    def state() -> object:
        return admin.users(), [(node.name, node.state) for node in admin.nodes()]

    before = state()
    for attempt in tries.values():
        with pytest.raises(NotAllowedError):
            attempt()
    assert "private" not in [job.name for job in other.jobs(all=True)]
    assert state() == before
    assert lines(admin, "private")["t.0", 1] == ["secret"]
    admin.stop("private")
    assert admin.wait("private", timeout=30).state == "STOPPED"


def test_commands_and_checks_beside_a_task_are_in_its_view(admin: Client) -> None:
    part = {
        "command": "echo note > /tmp/note; echo up; until [ -e $HOME/enough ]; do sleep 0.1; done; cat /tmp/from",
        "ready": {"command": "test -e /tmp/note && test ! -e /var/lib/grass/clusters/apart/secrets.json"},
        "where": {"host": "n1"},
    }
    admin.start({"name": "beside", "components": {"t": part}})
    wait_until(lambda: admin.tasks("beside")[0].ready, 60, "its readiness")
    done = admin.execute("beside", "t.0", ["sh", "-c", "cat /tmp/note; id -u; echo exec > /tmp/from; exit 5"])
    printed = b"".join(data for _, data in done.output()).split()
    assert printed[0] == b"note" and int(printed[1]) in UIDS and done.code == 5
    assert finish(admin, "beside").state == "SUCCEEDED"
    assert lines(admin, "beside")["t.0", 1] == ["up", "exec"]


def test_status_says_that_users_are_isolated(cluster: Cluster) -> None:
    assert "user: tasks run under an account of their user" in cluster.grass("status").stdout


def test_a_range_with_an_account_of_the_machine_is_refused_and_leaving_removes_the_accounts(cluster: Cluster) -> None:
    lab = cluster.lab
    lab.hosts["n2"].sh("useradd --uid 58500 --no-create-home somebody")
    try:
        refused = cluster.grass("node", "add", f"ops@{lab.hosts['n2'].address}")
        assert refused.returncode == 2 and "somebody (58500)" in refused.stderr, refused
        assert "nothing was changed" in refused.stderr
        assert lab.hosts["n2"].attempt("test", "-e", "/var/lib/grass").code != 0
    finally:
        lab.hosts["n2"].sh("userdel somebody")
    removed = cluster.grass("node", "remove", "--drain", "n1", "--yes")
    try:
        assert removed.returncode == 0, removed.stderr
        left = [line for line in holds(lab, "n1") if "grass" in line.lower() and "grass-admin" not in line]
        assert not left, left
    finally:
        cluster.created()  # n1 joins again: other tests need it


def test_two_users_learn_the_digits_at_once_and_neither_sees_files_of_the_other(
    cluster: Cluster, admin: Client, theirs: Cluster, other: Client, tmp_path: Path
) -> None:
    image = cluster.grass("image", "push", "--file", str(cluster.lab.image_with("digits", "numpy", "scikit-learn")))
    assert image.returncode == 0, image.stderr
    people = {str(client.status().user): (machine, client) for machine, client in ((cluster, admin), (theirs, other))}
    for user, (machine, client) in people.items():
        sent = machine.grass("data", "push", str(DIGITS), f"data/{user}/digits")
        assert sent.returncode == 0, sent.stderr
        client.start(digits(user))
    ids = {user: client.job(f"digits-{user}").id for user, (_, client) in people.items()}
    for user, (machine, client) in people.items():
        view = client.wait(f"digits-{user}", timeout=400)
        assert view.state == "SUCCEEDED", (view, client.tasks(f"digits-{user}"))
        printed = lines(client, f"digits-{user}")
        assert "test accuracy" in "\n".join(printed["server.0", 1])
        assert set(printed["look.0", 1]) <= {f"/data/data/{user}", "/data/data/shared", f"/data/jobs/{ids[user]}"}
        assert f"/data/data/{user}" in printed["look.0", 1] and f"/data/jobs/{ids[user]}" in printed["look.0", 1]
        pulled = machine.grass("job", "pull", f"digits-{user}", "--to", str(tmp_path / user))
        assert pulled.returncode == 0 and (tmp_path / user / "model.npz").exists(), pulled.stderr
    [(first, _), (second, (machine, client))] = people.items()
    for path in (f"data/{first}/digits", f"jobs/{ids[first]}"):
        refused = machine.grass("data", "pull", path, str(tmp_path / "no"))
        assert refused.returncode != 0 and not (tmp_path / "no").exists(), (second, refused)
    theirs_are = f"$GRASS_DATA/data/{first}/digits/model.py $GRASS_DATA/jobs/{ids[first]}/model.npz"
    assert said(client, "peek", f"exec 2>/dev/null; cat {theirs_are}", "n1") == ["code 1"]


def digits(user: str) -> dict[str, Any]:
    """Return the example, from the user's own folder, for two workers, with a task that lists what it sees."""
    job: dict[str, Any] = yaml.safe_load((DIGITS / "job-containers.yml").read_text())
    parts = job["components"]
    for name in ("server", "worker"):
        parts[name]["command"] = ["python3", f"/data/data/{user}/digits/{name}.py"]
    parts["server"]["env"]["WORKERS"] = "2"
    parts["worker"] = {key: value for key, value in parts["worker"].items() if key != "spread"} | {"replicas": 2}
    listed = "exec 2>/dev/null; ls -d /data/data/* /data/jobs/* /data/logs/* /data/images/*; true"
    parts["look"] = {**parts["server"], "command": ["sh", "-c", listed]}
    parts["look"] = {key: parts["look"][key] for key in ("image", "command", "container")} | {"resources": {"cpu": 0.1}}
    return {**job, "name": f"digits-{user}", "components": parts, "success": ["worker", "look"]}


FORKS = """exec python3 -ISc '
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
'"""
"""Each process forks for ever, also while that fails: it ends only when it is killed."""
MEMORY = {"forks": "4GiB"}
"""A process takes some 200 KiB of the kernel's memory. With less, the limit of memory would end the bomb."""
BOMBS = {
    "files": "mkdir $GRASS_OUTPUT/d; i=0; while : > $GRASS_OUTPUT/d/$i; do i=$((i+1)); done",
    "lines": "seq 20000000; sleep 600",
    "forks": FORKS,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_of_one_user_delays_no_start_of_another(
    admin: Client, other: Client, cluster: Cluster, bomb: str
) -> None:
    small = {"cwd": "/", "where": {"host": "n1"}, "resources": {"cpu": 0.02, "memory": "256MiB"}}
    part = {**small, "command": f"echo up; exec 2>/dev/null; {BOMBS[bomb]}", "grace": "1s"}
    part["resources"] = {"cpu": 0.02, "memory": MEMORY.get(bomb, "256MiB")}
    part["restart"] = {"limit": "unlimited", "backoff": "100ms"}  # a bomb that is killed comes again
    other.start({"name": f"bomb-{bomb}", "components": {"t": part}})
    try:
        wait_until(lambda: bool(other.tasks(f"bomb-{bomb}")[0].started), 60, "the bomb")
    except AssertionError as late:
        raise AssertionError(f"{late}: {other.why(f'bomb-{bomb}')}") from late
    seconds, names = [], [f"beside-{bomb}-{number}" for number in range(100)]
    for name in names:
        begun = time.monotonic()
        admin.start({"name": name, "components": {"t": {**small, "command": "echo whole"}}})
        seconds.append(time.monotonic() - begun)
    for name in names:
        assert admin.wait(name, timeout=120).state == "SUCCEEDED", admin.why(name)
        assert lines(admin, name)["t.0", 1] == ["whole"]
    assert other.job(f"bomb-{bomb}").state == "RUNNING"  # it went on all the time
    assert sorted(seconds)[-2] < 1, seconds  # the 99th of 100
    ends = [str(attempt.reason) for attempt in other.attempts(f"bomb-{bomb}")[:-1]]
    assert bool(ends) == (bomb == "forks") and all("reached its limit of 8,192 processes" in end for end in ends), ends
    other.stop(f"bomb-{bomb}")
    assert other.wait(f"bomb-{bomb}", timeout=60).state == "STOPPED"
    left = "ps -eo user:32 --no-headers | grep ^grass-u || true"
    wait_until(lambda: not cluster.lab.hosts["n1"].sh(left), 10, "the end of all its processes")


def test_root_on_a_node_harms_no_other_node_with_all_that_is_in_its_folder(admin: Client, cluster: Cluster) -> None:
    lab, home = cluster.lab, "/var/lib/grass/clusters/apart"
    part = {"command": "echo honest; exec sleep 600", "cwd": "/", "where": {"host": "master"}}
    admin.start({"name": "robbed", "components": {"t": part}})
    wait_until(lambda: bool(lines(admin, "robbed")), 60, "the victim")
    address = lab.hosts["master"].address
    there = [f"{home}/cluster.json", f"http://{address}:51812", f"master={address}:51813", admin.job("robbed").id]
    done = lab.hosts["n1"].run("/opt/grass/venv/bin/python", "-", *there, text_in=PROGRAM.read_text())
    found = json.loads(done.stdout)
    assert found.pop("read its own orders") == stolen_host.DONE  # so that this can fail
    assert found.pop("forge a line of a task of another node") in ("sent", stolen_host.REFUSED)
    assert len(found) > 10 and set(found.values()) == {stolen_host.REFUSED}, found
    live = admin.execute("robbed", "t.0", ["sh", "-c", "exit 3"])
    assert not list(live.output()) and live.code == 3  # the other node works as before
    assert lines(admin, "robbed")["t.0", 1] == ["honest"]
    admin.stop("robbed")
    assert admin.wait("robbed", timeout=30).state == "STOPPED"


@pytest.mark.parametrize("node", NODES)
def test_a_task_has_the_limits_that_it_asked_for(admin: Client, node: str) -> None:
    show = "grep -E ':(memory|pids|cpu):' /proc/self/cgroup"
    grow = "python3 -c 'x = bytearray(200 << 20); print(len(x))'"
    part = {"command": f"exec 2>&1; {show}; {grow}", "cwd": "/", "where": {"host": node}}
    admin.start({"name": f"hog-{node}", "components": {"t": {**part, "resources": {"memory": "64MiB"}}}})
    view = admin.wait(f"hog-{node}", timeout=60)
    [task] = admin.tasks(f"hog-{node}")
    [*groups, last] = lines(admin, f"hog-{node}")["t.0", 1]
    assert view.state == "FAILED" and last == "Killed", (task, groups, last)
    assert "the kernel killed a process of it that used more memory than its limit of 64MiB" in task.reason.message
    assert len(groups) == 3 and all("/grass-shepherd@apart.service/" in group for group in groups), groups
