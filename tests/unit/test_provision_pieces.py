"""The parts of a local cluster's making that can be looked at one by one."""

from __future__ import annotations

import configparser
import multiprocessing
import os
import resource
import shlex
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from supervisor.options import ServerOptions

from grass.config import ClusterConfig, RedisConfig
from grass.errors import ConflictError, InputError, NotFoundError
from grass.manifest.local_settings import LocalSettings, OfferedResources, PortSettings, RedisSettings
from grass.model.daemons import DAEMONS, REDIS
from grass.node_config import NodeHome, own_node
from grass.provision import daemons, layout, local, machine, ports, runtime_folder
from grass.provision.doctor import doctor
from grass.provision.filelock import cluster_lock
from grass.supervision import processes
from grass.supervision.supervisor_watch import wait_until_gone
from grass.system.environment import inherited_environment
from tests.support.local_cluster import daemon_states
from tests.support.needs import require_root


def config_in(home: Path, **settings: object) -> NodeHome:
    config = own_node(layout.design(LocalSettings(**settings), home, None))  # type: ignore[arg-type]
    assert config is not None, "this machine is a node"
    return config


# settings → configuration


def test_what_the_settings_leave_open_is_chosen_and_stays_so(tmp_path: Path) -> None:
    first = config_in(tmp_path)
    assert first.master.api_port != first.node.api_port
    assert min(first.master.api_port, first.node.api_port) >= ports.LOWEST
    again = own_node(layout.design(LocalSettings(parallel_level=3), tmp_path, first))
    assert again is not None
    assert (again.master.api_port, again.node.api_port) == (first.master.api_port, first.node.api_port)
    assert again.master.parallel_level == 3


def test_ports_and_resources_that_the_settings_name_are_taken(tmp_path: Path) -> None:
    config = config_in(tmp_path, ports=PortSettings(api=62001), resources=OfferedResources(cpu=1500, memory=1 << 30))
    assert (config.master.api_port, config.node.cpu, config.node.memory) == (62001, 1500, 1 << 30)
    assert config.node.api_port not in (0, 62001)


def test_two_clusters_choose_different_ports() -> None:
    one, two = config_in(Path("/home/ann/.grass/clusters/one")), config_in(Path("/home/ann/.grass/clusters/two"))
    assert not {one.master.api_port, one.node.api_port} & {two.master.api_port, two.node.api_port}


def test_supervisord_reads_its_configuration_wherever_the_cluster_lies(tmp_path: Path) -> None:
    home = tmp_path / "50% of $it's, mine %(x)s"
    home.mkdir()
    (home / "log").mkdir()
    conf = home / "supervisord.conf"
    conf.write_text(daemons.supervisord_conf(config_in(home), [], 0o022))
    options = ServerOptions()
    options.realize(["-c", str(conf)])
    logs = {
        program.name: program.stdout_logfile
        for group in options.process_group_configs
        for program in group.process_configs
    }
    assert logs["shepherd"] == str(home / "log" / "shepherd.log")


def test_another_redis_is_refused_because_the_state_is_in_the_old_one(tmp_path: Path) -> None:
    before = config_in(tmp_path)
    own = RedisSettings(embedded=False, host="localhost", port=7000)
    with pytest.raises(ConflictError, match="its state is in another redis"):
        layout.design(LocalSettings(redis=own), tmp_path, before)


def test_a_taken_port_is_named_with_its_key_and_its_holder(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config = config_in(tmp_path, ports=PortSettings(api=port))
        with pytest.raises(ConflictError, match=rf"port {port}, the `api` port .* is taken by .*pid {os.getpid()}"):
            layout.check_ports(config)


def test_the_node_offers_no_more_than_the_machine_has() -> None:
    offered = machine.offered(OfferedResources())
    assert 0 < offered.cpu <= (os.cpu_count() or 1) * 1000
    assert offered.memory > 1 << 20


# folders


def test_sockets_lie_in_the_clusters_folder_while_their_paths_are_short_enough(tmp_path: Path) -> None:
    short, long = Path("/h/clusters/local"), Path("/" + "x" * 100)
    assert runtime_folder.choose(short) == short / "run"
    chosen = runtime_folder.choose(long)
    assert chosen.parent == Path("/tmp") and str(os.getuid()) in chosen.name
    assert runtime_folder.choose(long) == chosen != runtime_folder.choose(Path("/" + "y" * 100))


@pytest.mark.parametrize("trap", ["link", "open to others", "file"])
def test_a_folder_for_sockets_that_somebody_else_prepared_is_refused(tmp_path: Path, trap: str) -> None:
    folder = tmp_path / "sockets"
    match trap:
        case "link":
            (tmp_path / "elsewhere").mkdir(mode=0o700)
            folder.symlink_to(tmp_path / "elsewhere")
        case "open to others":
            folder.mkdir()
            folder.chmod(0o777)
        case "file":
            folder.touch(0o600)
    with pytest.raises(runtime_folder.UnsafeFolderError, match="must be a folder that only you can enter"):
        runtime_folder.make(folder)


def test_removing_the_folder_for_sockets_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    runtime_folder.remove(tmp_path / "link")
    assert (tmp_path / "precious").is_dir()


# supervisord.conf


def programs(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(inline_comment_prefixes=(";", "#"))
    parser.read_string(text)
    return {name.partition(":")[2]: dict(parser[name]) for name in parser.sections() if name.startswith("program:")}


def test_supervisord_runs_every_daemon_with_the_configuration_as_only_argument(tmp_path: Path) -> None:
    config = config_in(tmp_path / "100 % sure; it's fine")
    found = programs(daemons.supervisord_conf(config, ["/bin/redis-server", "/x/redis.conf"], 0o022))
    assert list(found) == daemons.names(config)
    for name, module in ((each.name, each.module) for each in DAEMONS):
        assert shlex.split(found[name]["command"])[-3:] == ["-m", module, str(config.path)]
        assert (found[name]["startsecs"], found[name]["autorestart"]) == ("0", "true")


def test_the_daemons_of_a_namespace_are_supervised_and_counted_under_its_name(tmp_path: Path) -> None:
    config = config_in(tmp_path / "home")
    own = replace(config, home=str(Path(config.home) / "nodes" / "pods"), node=replace(config.node, name="pods"))
    Path(own.home).mkdir(parents=True)
    own.save()
    found = programs(daemons.supervisord_conf(config, ["/bin/redis-server"], 0o022))
    assert list(found) == daemons.names(config)
    assert list(found)[-2:] == ["node-agent@pods", "node-api-server@pods"]
    assert shlex.split(found["node-agent@pods"]["command"])[-3:] == ["-m", "node.agent", str(own.path)]


def test_a_redis_of_your_own_is_not_supervised(tmp_path: Path) -> None:
    config = config_in(tmp_path, redis=RedisSettings(embedded=False, host="h", port=1))
    assert "redis" not in programs(daemons.supervisord_conf(config, [], 0o022))


def test_secrets_are_neither_in_the_environment_nor_in_what_others_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2")
    assert "MY_TOKEN" not in inherited_environment() and "PATH" in inherited_environment()
    home = tmp_path / "home" / "clusters" / "c"
    config = replace(config_in(home), runtime_dir=str(home / "run"))  # below /tmp, it would stay there
    layout.make_folders(config)
    secrets = layout.make_secrets(config, None)
    layout.make_redis(config, secrets)
    layout.make_keys(config)
    words = [*secrets.redis.values(), secrets.node_token]
    share = {config.data_dir, config.data_dir / "jobs"}  # for containers; nobody else gets past the folders above
    for path in set((tmp_path / "home").rglob("*")) - share:
        if path.is_dir() or any(word in path.read_text() for word in words) or path.suffix == ".pem":
            assert path.stat().st_mode & 0o077 == 0, path
    text = daemons.supervisord_conf(config, [], 0o022)
    assert not any(word in text for word in words)


def test_making_a_cluster_twice_keeps_its_secrets_and_keys(tmp_path: Path) -> None:
    config = replace(config_in(tmp_path), runtime_dir=str(tmp_path / "run"))
    layout.make_folders(config)
    first = layout.make_secrets(config, None)
    layout.make_keys(config)
    pem = (tmp_path / "client" / "user.pem").read_text()
    assert layout.make_secrets(config, None) == first
    layout.make_keys(config)
    assert (tmp_path / "client" / "user.pem").read_text() == pem


def test_a_password_for_your_own_redis_serves_all_daemons_and_stays(tmp_path: Path) -> None:
    config = ClusterConfig("c", "local", str(tmp_path), str(tmp_path / "run"), RedisConfig(False, None, "h", 1))
    layout.make_folders(config)
    assert set(layout.make_secrets(config, "s3cret").redis.values()) == {"s3cret"}
    assert set(layout.make_secrets(config, None).redis.values()) == {"s3cret"}


# processes


def test_only_a_process_that_names_this_cluster_belongs_to_it(tmp_path: Path) -> None:
    assert processes.of_cluster(config_in(tmp_path)) == []
    assert processes.tasks_of(config_in(tmp_path)) == []


def test_a_supervisor_is_recognized_from_the_moment_it_begins(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    words = ["sh", "-c", "read x", "supervisor.supervisord", str(Path(config.home) / "supervisord.conf")]
    for _ in range(20):  # /proc shows no command line for most of them at first
        with subprocess.Popen(words, stdin=subprocess.PIPE) as beginning:
            assert processes.is_supervisor(beginning.pid, config)
            assert beginning.stdin is not None
            beginning.stdin.close()


def test_redis_is_recognized_while_it_reads_its_configuration_in_another_folder(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    words = ["/opt/valkey-server", "-c", "read x", str(Path(config.home) / "redis" / "redis.conf")]
    with subprocess.Popen(words, executable="/bin/sh", stdin=subprocess.PIPE, cwd="/") as beginning:
        assert [(each.name, each.pid) for each in processes.of_cluster(config)] == [(REDIS, beginning.pid)]
        assert beginning.stdin is not None
        beginning.stdin.close()


# the lock


def test_the_second_of_two_commands_waits_for_the_first_and_no_file_is_left(tmp_path: Path) -> None:
    order: list[str] = []
    inside = threading.Event()

    def first() -> None:
        with cluster_lock(tmp_path, "c"):
            inside.set()
            waits.wait(30)
            order.append("first")

    waits = threading.Event()
    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(30)
    with pytest.raises(ConflictError, match="another grass command"), cluster_lock(tmp_path, "c", patience=0.05):
        pass
    waits.set()
    with cluster_lock(tmp_path, "c", patience=5):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


def _hold_and_die(home: Path) -> None:
    with cluster_lock(home, "c"):
        os._exit(9)


def test_a_command_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_hold_and_die, args=(tmp_path,))
    process.start()
    process.join()
    process.close()
    with cluster_lock(tmp_path, "c", patience=1):
        pass


# doctor


def test_the_doctor_looks_at_everything_and_says_what_to_do(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    findings = {finding.name: finding for finding in doctor(tmp_path)}
    assert {"python", "redis", "GRASS_HOME", "sockets", "disk", "shared memory", "clock", "gpu"} <= set(findings)
    assert findings["python"].ok and findings["redis"].ok
    assert not findings["GRASS_HOME"].ok and findings["GRASS_HOME"].fix == f"chmod 700 {tmp_path}"
    assert all(finding.fix for finding in findings.values() if not finding.ok)


def test_the_doctor_knows_a_cluster_whose_making_was_interrupted(tmp_path: Path) -> None:
    (tmp_path / "clusters" / "half").mkdir(parents=True)
    [finding] = [finding for finding in doctor(tmp_path) if finding.name == "cluster half"]
    assert not finding.ok and "interrupted" in finding.message


def test_the_doctor_goes_on_after_what_it_cannot_check(tmp_path: Path) -> None:
    for name, text in (("broken", "{}"), ("corrupt", '{"name": 5}'), ("half", "")):
        (tmp_path / "clusters" / name).mkdir(parents=True)
        (tmp_path / "clusters" / name / "cluster.json").write_text(text)
    found = {finding.name: finding.message for finding in doctor(tmp_path) if not finding.ok}
    assert {"cluster broken", "cluster corrupt", "cluster half"} <= set(found)
    assert found["cluster broken"].startswith("cannot be checked: ")


def test_the_doctor_names_the_folder_in_which_a_home_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()  # also root cannot make a folder in it
    found = {finding.name: finding.message for finding in doctor(tmp_path / "file" / "home") if not finding.ok}
    assert found["GRASS_HOME"].endswith(f"it cannot be made: {tmp_path / 'file'} is not writable for this user")


def test_a_machine_without_an_ipv4_loopback_is_told_so(tmp_path: Path) -> None:
    require_root()
    with pytest.raises(InputError, match=r"192\.0\.2\.1 is not an address of this machine"):
        ports.available("192.0.2.1", 1)
    script = (
        "from pathlib import Path; from grass.provision import doctor, local; import sys; home = Path(sys.argv[1])\n"
    )
    script += "print([one.message for one in doctor.doctor(home) if one.name == 'loopback' and not one.ok])\n"
    script += "local.create(home=home, progress=lambda _: None)"
    words = ["unshare", "--net", sys.executable, "-c", script, str(tmp_path / "home")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "127.0.0.1 does not work here" in done.stdout
    assert "InputError: 127.0.0.1 does not work here: set the loopback up" in done.stderr


def test_a_limit_of_processes_that_leaves_no_room_for_the_daemons_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    monkeypatch.setattr(os, "getuid", lambda: 65534)  # root is not limited
    try:
        resource.setrlimit(resource.RLIMIT_NPROC, (5, before[1]))
        with pytest.raises(InputError, match=r"a cluster needs 64; raise `ulimit -u` \(now 5\)"):
            machine.check_processes()
        room = machine.spare_processes()
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, before)
    assert room is not None and room <= 5


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "clusters").touch()
    with pytest.raises(
        InputError, match=r"cannot write .*/clusters.*: .*; set GRASS_HOME to a folder that you can write to"
    ):
        layout.make_folders(config_in(tmp_path / "clusters" / "c"))


def test_what_a_task_made_unreadable_is_removed_and_what_it_linked_to_is_not(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o755)
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "file").touch()
    (tree / "link").symlink_to(precious)
    (tree / "a" / "b").chmod(0o000)
    (tree / "a").chmod(0o500)
    local._remove_tree(tree)
    assert not tree.exists()
    assert precious.stat().st_mode & 0o777 == 0o755


def test_a_home_that_cannot_be_written_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="set GRASS_HOME"), cluster_lock(tmp_path / "file" / "home", "c"):
        pass


def test_a_home_that_supervisord_could_not_read_back_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="choose another GRASS_HOME"):
        daemons.supervisord_conf(config_in(tmp_path / "a ;b"), [], 0o022)


@pytest.mark.parametrize("name", ["../precious", "..", ".", "", "/etc", "link", "missing"])
def test_deleting_something_that_is_no_clusters_name_touches_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(NotFoundError):
        local.delete(name, home=tmp_path, progress=lambda _: None)
    with pytest.raises(NotFoundError):
        daemon_states(name, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clusters", "precious"]


def test_a_daemon_whose_supervisord_ended_before_it_looked_notices_that_at_once(tmp_path: Path) -> None:
    """The parent of this process is no supervisord, as the parent of such a daemon is not. That parent never ends."""
    config = ClusterConfig("c", "local", str(tmp_path), str(tmp_path))
    found: list[str] = []
    watch = threading.Thread(target=lambda: found.append(wait_until_gone(config, first=False)), daemon=True)
    watch.start()
    watch.join(20)
    assert found == ["supervisord was gone before this daemon looked"]
