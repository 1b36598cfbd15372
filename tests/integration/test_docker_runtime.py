"""The docker runtime against a real engine: what a container is given, how it ends, and what outlives whom."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import docker
import pytest

from grass.errors import GrassError, NotFoundError
from grass.model.job import Mount
from grass.model.reasons import ReasonCode
from grass.system import clock
from node.runtime.docker.container_check import ContainerCheck
from node.runtime.docker.engine import Engine
from node.runtime.docker.image_programs import programs_of
from node.runtime.docker.plan import container_name, takeover
from node.runtime.protocol import Stop
from tests.support.docker_run import ONE, DockerRun
from tests.support.engine import IMAGE, OwnEngine, image_files, require_bridge, require_engine
from tests.support.example_run import free_port
from tests.support.hung_mount import hung_mount

pytestmark = pytest.mark.timeout(120)
TWO = "j-1/c.1/1"


@pytest.fixture
def run() -> Iterator[DockerRun]:
    require_engine()
    with DockerRun() as run:
        yield run


def test_every_byte_that_a_container_prints_is_in_its_files(run: DockerRun) -> None:
    noise = os.urandom(300_000)
    (run.config.data_dir / "noise").write_bytes(noise)
    ended = run.run("cat $GRASS_DATA/noise; printf end >&2", container={"data": "/share"})
    assert (ended.code, ended.sizes) == (0, {"stdout": 300_000, "stderr": 3})
    assert run.path("stdout").read_bytes() == noise and run.path("stderr").read_bytes() == b"end"


def test_a_container_sees_the_share_its_scratch_and_the_addresses_as_any_user(run: DockerRun) -> None:
    addresses = run.config.node_dir / "jobs" / "j-1"
    addresses.mkdir(parents=True)
    (addresses / "addresses").write_text("j.c.0 127.0.0.1 4000\n")
    script = f"cat {addresses}/addresses; id -u; echo here > $GRASS_SCRATCH/f; echo x > {addresses}/f || echo no"
    run.run(script, container={"user": "1234"})
    assert run.stdout() == "j.c.0 127.0.0.1 4000\n1234\nno\n"
    assert (run.path("scratch") / "f").read_text() == "here\n"


def test_a_container_without_a_shell_has_the_variable_of_its_folder(run: DockerRun) -> None:
    run.run(["env"], defaults={"OMP_NUM_THREADS": "2"})
    assert {"PWD=/", "OMP_NUM_THREADS=2"} <= set(run.stdout().splitlines())


def test_programs_of_an_image_are_found_by_its_path_without_starting_anything(run: DockerRun) -> None:
    def found(image: str) -> tuple[str, ...] | None:
        return programs_of(engine, image, ("sh", "mpirun", "busybox", "bin"), "grass-test.look")

    with closing(docker.APIClient()) as client, closing(Engine()) as engine:
        assert found(IMAGE) == ("sh", "busybox")
        try:
            for tag, changes in (("path", ["ENV PATH=/opt/none:/"]), ("entry", ["ENTRYPOINT /bin/sh"])):
                client.import_image_from_data(image_files(), "grass-test-look", tag, changes)
            engine.create("grass-test.look", {"Image": IMAGE, "Cmd": ["true"]})  # as a look that was killed leaves it
            assert found("grass-test-look:path") == () and found("grass-test-look:entry") is None
        finally:
            for tag in ("path", "entry"):
                engine.remove_image(f"grass-test-look:{tag}")
        with pytest.raises(NotFoundError):
            found("grass-test-look:path")
        assert not client.containers(all=True, filters={"name": "grass-test.look"})


@pytest.mark.needs_root
def test_containers_that_wait_for_the_share_can_be_stopped_and_start_once_it_is_back(run: DockerRun) -> None:
    mounts = {"mounts": (Mount("/sets", "/dst", shared=True),)}
    with hung_mount(run.config.data_dir) as share:
        run.start("true", container=mounts)
        run.start("true", TWO, container=mounts)
        run.runtime.stop([Stop(TWO, 0.0)])
        share.die()
        run.ended(TWO)
        run.wait(lambda: ONE in [each.key for each in run.waiting if each.reason.code is ReasonCode.SHARE])
    assert run.ended().code == 0


class TakesTheShareAway:
    """Images that are there; while the first one is brought, the share goes away."""

    def __init__(self) -> None:
        self.mounted = ExitStack()
        self.folder: Path | None = None

    def prepare(self, image: str, say: Callable[[str], None]) -> None:
        if self.folder is not None:
            self.mounted.enter_context(hung_mount(self.folder)).die()
            self.folder = None

    def gone(self, image: str) -> bool:
        return False

    def missing(self, image: str) -> GrassError:
        return NotFoundError(image)


def test_a_container_whose_share_goes_while_its_image_is_brought_waits_for_it() -> None:
    require_engine()
    images = TakesTheShareAway()
    with DockerRun(images=images) as run, images.mounted:
        images.folder = run.config.data_dir
        run.start("true")
        run.wait(lambda: ONE in [each.key for each in run.waiting if each.reason.code is ReasonCode.SHARE])
        images.mounted.close()
        assert run.ended().code == 0


NET_RAW, SYS_ADMIN, MKNOD, CHOWN = 13, 21, 27, 0


def test_root_in_a_container_has_few_rights_and_cannot_change_images_and_logs_of_others(run: DockerRun) -> None:
    for name in ("images", "logs", "sets"):
        (run.config.data_dir / name).mkdir(parents=True)
    (run.config.data_dir / "images" / "index.json").write_text("{}")
    script = (
        "grep -E 'CapEff|NoNewPrivs' /proc/self/status; cat /share/images/index.json; "
        "for each in images/index.json images/x logs/x; do echo evil > /share/$each || echo refused; done; "
        "rm -r /share/images || echo refused; echo mine > /share/sets/x; chown 7 /share/sets/x"
    )
    run.run(script, container={"data": "/share"})
    capabilities, no_new, *rest = run.stdout().split("\n")
    mask = int(capabilities.split()[1], 16)
    assert not any(mask >> number & 1 for number in (NET_RAW, SYS_ADMIN, MKNOD))
    assert mask >> CHOWN & 1
    assert no_new.split() == ["NoNewPrivs:", "1"]
    assert rest == ["{}refused", "refused", "refused", "refused", ""]
    assert (run.config.data_dir / "images" / "index.json").read_text() == "{}"
    assert (run.config.data_dir / "sets" / "x").read_text() == "mine\n"
    [made] = run.containers()
    assert made["HostConfig"]["PidsLimit"] == 16_384


def test_limits_are_the_engines(run: DockerRun) -> None:
    script = "ulimit -n; df -k /dev/shm | tr -s ' ' | head -n 2; while :; do sleep 1; done"
    container = {"ulimits": {"nofile": 321}, "shm": 8 << 20}
    run.start(script, cpu=500, memory=64 << 20, container=container)
    run.runs()
    run.wait(lambda: "8192" in run.stdout())
    assert run.stdout().startswith("321\n")
    [made] = run.containers()
    host = made["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (500_000_000, 64 << 20, 64 << 20)
    assert (host["NetworkMode"], host["Init"], host["RestartPolicy"]["Name"]) == ("host", True, "no")
    assert made["Config"]["Labels"]["grass.attempt"] == ONE and made["Config"]["Labels"]["grass.task"] == "c.0"


def test_who_needs_more_memory_than_its_limit_is_told_so(run: DockerRun) -> None:
    ended = run.run(["dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=5"], memory=32 << 20)
    assert ended.signal == signal.SIGKILL and ended.code is None
    assert ended.reason and "more memory than its limit of 32MiB" in ended.reason.message


@pytest.mark.parametrize(
    "adopted",
    [
        False,
        pytest.param(True, marks=pytest.mark.nightly),  # in every run, one that the node-agent started itself
    ],
)
def test_a_fork_bomb_that_never_gives_up_is_killed_and_told_so(adopted: bool) -> None:
    """``adopted``: another node-agent takes over meanwhile, as after the end of the first."""
    require_engine()
    with DockerRun(mounts=("/usr",)) as run:
        of_host = {"/usr": "/usr", "/usr/lib": "/lib", "/usr/lib64": "/lib64"}  # perl, and what it is linked with
        mounts = tuple(Mount(source, target, True) for source, target in of_host.items() if Path(source).is_dir())
        wait = "until [ -e $GRASS_SCRATCH/go ]; do sleep 0.05; done"
        run.start(f"{wait}; exec perl -e 'fork while 1'", container={"mounts": mounts})
        run.runs()
        [made] = run.containers()
        subprocess.run(["docker", "update", "--pids-limit", "100", made["Id"]], check=True, stdout=subprocess.DEVNULL)
        (run.path("scratch") / "go").touch()
        if adopted:
            run.reconnect()
        ended = run.ended()
        assert ended.signal == signal.SIGKILL and ended.reason is not None
        assert "reached its limit of 16,384 processes, and went on trying to start more" in ended.reason.message


def test_an_entrypoint_comes_before_the_command(run: DockerRun) -> None:
    run.run(["b"], container={"entrypoint": ("/bin/echo", "a")})
    assert run.stdout() == "a b\n"


def test_paths_of_the_host_are_mounted_only_where_that_is_allowed() -> None:
    require_engine()
    with DockerRun(mounts=("/usr/share",)) as run:
        mount = Mount("/usr/share/../share/doc", "/doc", read_only=True)
        run.run("ls /doc | head -n 1; echo x > /doc/x || echo no", container={"mounts": (mount,)})
        assert run.stdout().endswith("no\n") and len(run.stdout().splitlines()) == 2
        for source in ("/usr/share/../../etc", "/etc", "/usr"):
            refused = run.run("true", f"j-1/c.{len(source)}/1", container={"mounts": (Mount(source, "/x"),)})
            assert refused.code == 126 and refused.reason and refused.reason.code == "cannot-start"
            assert source in refused.reason.message and "/usr/share" in refused.reason.message


def test_what_cannot_start_says_why_and_leaves_no_container(run: DockerRun) -> None:
    missing = run.run("true", image="no-such-image:1")
    assert missing.code == 127 and missing.reason and "no-such-image:1" in missing.reason.message
    gone = run.run("true", "j-1/c.1/1", container={"mounts": (Mount("/nowhere", "/x"),)})
    assert gone.reason and gone.reason.code == "cannot-start"
    unknown = run.run(["no-such-program"], "j-1/c.2/1")
    assert unknown.code == 127 and unknown.reason and "no-such-program" in unknown.reason.message
    gpu = run.run("true", "j-1/c.3/1", gpus=(0,))
    assert gpu.reason and gpu.reason.code == "cannot-start" and "gpu" in gpu.reason.message
    run.runtime.forget(["j-1/c.2/1"])
    run.wait(lambda: not run.containers())


def test_what_a_container_left_as_root_can_be_given_to_the_agents_user(run: DockerRun) -> None:
    run.run("mkdir $GRASS_SCRATCH/d; touch $GRASS_SCRATCH/d/f")
    body = takeover(run.config, IMAGE, str(run.path("scratch")), 1234, 1234)
    assert run.engine.run(body) == 0
    assert (run.path("scratch") / "d" / "f").stat().st_uid == 1234
    assert len(run.containers()) == 1


def test_a_port_with_a_name_is_published_on_a_bridge(run: DockerRun) -> None:
    require_bridge()
    port = free_port()
    run.start(f"while :; do echo hi | nc -l -p {port}; done", ports={"web": port}, container={"network": "bridge"})
    run.runs()
    run.wait(lambda: _answer(port) == b"hi\n")


def _answer(port: int) -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            return connection.recv(10)
    except OSError:
        return b""


def test_others_containers_are_not_touched_even_if_they_have_the_name(run: DockerRun) -> None:
    run.listed()
    body = {"Image": IMAGE, "Cmd": ["sleep", "100"], "Labels": {"grass.cluster": "another"}}
    foreign = run.engine.create(container_name(run.config.name, ONE), body)
    try:
        refused = run.run("true")
        assert refused.reason and "does not belong to this cluster" in refused.reason.message
        run.runtime.forget([ONE])
        run.cut()
        run.listed()
        assert run.known == {} and run.engine.inspect(foreign)["State"]["Status"] == "created"
    finally:
        run.engine.remove(foreign)


def test_a_new_agent_finds_what_runs_and_repeats_no_output(run: DockerRun) -> None:
    wait = "[ $i -ne 10 ] || until [ -e $GRASS_SCRATCH/on ]; do sleep 0.02; done"
    run.start(f"i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); sleep 0.02; {wait}; done; exit 7")
    before = run.runs()
    run.wait(lambda: run.path("stdout").exists() and "line 5" in run.stdout())
    run.reconnect()
    adopted = run.known[ONE]
    assert (adopted.pid, adopted.ended) == (before.pid, None)
    begun = clock.steady() - clock.wall() + (adopted.started or 0)  # the first agent counts what the engine needs, too
    assert abs((adopted.since or 0) - begun) < 2 and (before.since or 0) < begun
    (run.path("scratch") / "on").touch()
    ended = run.ended()
    assert ended.code == 7
    assert run.stdout().splitlines() == [f"line {number}" for number in range(60)]


def test_what_ended_while_no_agent_was_there_is_reported_with_its_output(run: DockerRun) -> None:
    run.start("until [ -e $GRASS_SCRATCH/go ]; do sleep 0.05; done; echo done; exit 5")
    run.runs()
    run.runtime.close()
    (run.path("scratch") / "go").touch()
    [made] = run.containers()
    wait = subprocess.run(["docker", "wait", made["Id"]], capture_output=True, text=True, check=True)
    assert wait.stdout.strip() == "5"
    run.runtime = run._runtime()
    run.lists = 0
    ended = run.ended()
    assert (ended.code, run.stdout(), ended.sizes) == (5, "done\n", {"stdout": 5, "stderr": 0})
    run.runtime.forget([ONE])
    run.wait(lambda: not run.containers())


def test_a_container_that_was_made_and_never_started_does_not_exist_for_anybody(run: DockerRun) -> None:
    labels = {"grass.cluster": run.config.name, "grass.node": "local", "grass.attempt": ONE, "grass.launch": "j-1/c"}
    run.engine.create(container_name(run.config.name, ONE), {"Image": IMAGE, "Cmd": ["true"], "Labels": labels})
    run.listed()
    assert run.known == {}
    run.wait(lambda: not run.containers())
    assert run.run("exit 3").code == 3


def test_a_container_that_somebody_removes_has_ended_unseen(run: DockerRun) -> None:
    run.start("sleep 100")
    run.runs()
    run.engine.remove(container_name(run.config.name, ONE))
    ended = run.ended()
    assert ended.reason and ended.reason.code in ("exit-unknown",)
    assert (ended.code, ended.signal) == (None, None)


def test_one_told_to_stop_while_it_starts_is_stopped(run: DockerRun) -> None:
    run.start("exec sleep 100")
    run.runtime.stop([Stop(ONE, 5.0)])
    ended = run.ended()
    ran = ended.pid is not None  # or it was told before there was a container
    assert ended.stopping and ended.signal == (signal.SIGTERM if ran else None)
    with pytest.raises(NotFoundError):
        run.runtime.forget([ONE])
        run.wait(lambda: not run.containers())
        run.engine.inspect(container_name(run.config.name, ONE))


def _logged(engine: OwnEngine, container: str) -> list[str]:
    """What the engine itself has of a container's output."""
    client = docker.APIClient(base_url=f"unix://{engine.socket}")
    try:
        return bytes(client.logs(container)).decode().splitlines()
    finally:
        client.close()


LINES = "i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); sleep 0.02; done; exit 7"


@pytest.mark.parametrize("kill", [True, False])
def test_containers_that_outlive_their_engine_go_on_and_lose_no_line(kill: bool) -> None:
    require_engine()
    with OwnEngine(live_restore=True) as engine, DockerRun(engine.socket) as run:
        run.start(LINES.replace("400", "100"))
        before = run.runs()
        run.wait(lambda: run.path("stdout").exists() and "line 5" in run.stdout())
        engine.end(kill=kill)
        engine.start()
        run.wait(lambda: run.lists > 1)
        assert run.known[ONE].ended is not None or run.known[ONE].pid == before.pid
        assert (run.ended().code, run.ended().reason) == (7, None)
        lines = [f"line {number}" for number in range(100)]
        if kill:  # an engine that is killed may never again log what such a container prints; all that it has is ours
            lines = _logged(engine, container_name(run.config.name, ONE))
        assert run.stdout().splitlines() == lines


@pytest.mark.parametrize(("kill", "waits"), [(False, False), (True, False), (True, True)])
def test_containers_that_end_with_their_engine_are_not_to_blame(kill: bool, waits: bool) -> None:
    """``waits``: connections to the engine wait for it, as with systemd's socket."""
    require_engine()
    with OwnEngine(live_restore=False) as engine, DockerRun(engine.socket) as run:
        assert run.run("exit 3", "j-1/c.3/1").code == 3
        run.door.waits = waits
        run.start("trap 'exit 0' TERM; sleep 100 & wait")
        run.start(LINES, "j-1/c.1/1")
        run.runs()
        run.wait(lambda: run.path("stdout", "j-1/c.1/1").exists() and "line 5" in run.stdout("j-1/c.1/1"))
        engine.end(kill=kill)
        starting = threading.Thread(target=engine.start)  # what the runtime asks meanwhile may wait for the engine
        starting.start()
        other = run.ended("j-1/c.1/1")
        lines = run.stdout("j-1/c.1/1").splitlines()
        for each in (run.ended(), other):
            assert (each.code, each.reason and each.reason.code) == (None, ReasonCode.NODE_STOPPED)
        assert len(lines) < 400
        assert lines == [f"line {number}" for number in range(len(lines))]
        run.wait(lambda: run.lists > 1)
        starting.join()
        assert run.run("exit 3", "j-1/c.2/1").code == 3


def test_a_check_that_hangs_in_a_container_is_given_up_in_time_and_not_begun_twice(run: DockerRun) -> None:
    def inside(*argv: str) -> ContainerCheck:
        return ContainerCheck(run.config.name, ONE, list(argv))

    def try_it(check: ContainerCheck, seconds: float = 10, cancelled: bool = False) -> str:
        return check.failure(seconds, lambda: cancelled)

    run.start("until [ -e /tmp/over ]; do sleep 0.1; done; cat /tmp/begun")
    run.runs()
    hangs = inside("sh", "-c", "echo once >> /tmp/begun; until [ -e /tmp/on ]; do sleep 0.1; done")
    for _ in range(2):
        assert try_it(hangs, 0.3) == "its check did not end within 0.3 s"
    assert try_it(hangs, 60, cancelled=True) == "its check did not end within 60 s"
    assert try_it(inside("touch", "/tmp/on")) == ""
    assert try_it(hangs) == ""
    assert try_it(inside("sh", "-c", "exit 3")) == "its check ended with exit code 3"
    assert "no-such-command" in try_it(inside("no-such-command"))
    assert try_it(inside("touch", "/tmp/over")) == ""
    run.ended()
    assert run.stdout() == "once\n"
    assert "cannot run in the container" in try_it(hangs)
