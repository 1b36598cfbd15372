"""The shepherd and its guard as real processes, under the worst that can happen to them."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.model.reasons import Reason, ReasonCode
from grass.system import clock
from node.runtime import proc, system_v
from node.runtime.process.beside import Child
from node.runtime.process.client import ask
from node.runtime.protocol import Stop
from node.runtime.shepherd_messages import ListAttempts
from node.runtime.system_calls import number
from tests.support.needs import require
from tests.support.processes import alive
from tests.support.shepherd_run import ENV, ShepherdRun

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def shepherd() -> Iterator[ShepherdRun]:
    with ShepherdRun() as run:
        yield run


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def handles_sigterm(pid: int) -> bool:
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["SigCgt"], 16) & 1 << (signal.SIGTERM - 1))


def pid_in(path: Path, run: ShepherdRun) -> int:
    run.wait(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def test_a_task_ends_with_its_own_code_and_its_output_in_plain_files(shepherd: ShepherdRun) -> None:
    ended = shepherd.run(sh("echo out; echo err >&2; exit 7"))
    assert (ended.code, ended.signal, ended.reason) == (7, None, None)
    assert ended.sizes == {"stdout": 4, "stderr": 4}
    assert shepherd.stdout("j-1/c.0/1") == "out\n"
    assert ended.started is not None and ended.ended is not None and ended.started <= ended.ended


def test_a_task_runs_in_its_scratch_folder_with_nothing_inherited_but_its_environment(shepherd: ShepherdRun) -> None:
    shepherd.run(
        sh("pwd; cat; ls /proc/self/fd | wc -l; grep -E 'Sig(Blk|Ign)' /proc/self/status; env | sort"), A="b c"
    )
    cwd, descriptors, blocked, ignored, *env = shepherd.stdout("j-1/c.0/1").splitlines()
    scratch = str(shepherd.path("j-1/c.0/1", "scratch"))
    assert cwd == scratch
    assert int(descriptors) == 4  # 0, 1, 2 and the one that ls reads
    assert int(blocked.split()[1], 16) == 0
    assert int(ignored.split()[1], 16) & 0x7FFFFFFF == 0  # 32 and 33 belong to the C library and are as they were found
    assert set(env) - {"OLDPWD=", "_=/usr/bin/env"} == {
        "A=b c",
        f"PWD={scratch}",
        f"GRASS_SCRATCH={scratch}",
        f"PATH={ENV['PATH']}",
    }


def test_a_command_without_a_shell_has_the_variable_of_its_folder_too(shepherd: ShepherdRun) -> None:
    shepherd.run(["/usr/bin/env"], PWD="/elsewhere")
    assert f"PWD={shepherd.path('j-1/c.0/1', 'scratch')}" in shepherd.stdout("j-1/c.0/1").splitlines()


def test_a_task_that_dies_of_a_signal_says_which(shepherd: ShepherdRun) -> None:
    ended = shepherd.run(sh("kill -SEGV $$"))
    assert (ended.code, ended.signal) == (None, signal.SIGSEGV)


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["no-such-program"], 127, "not found in PATH"),
        (["/no/such/program"], 127, "command not found"),
        (["/etc/passwd"], 126, "permission denied"),
        (["/"], 126, "permission denied"),
        ([""], 127, "not found"),
        ([], 127, "empty"),
        (["/bin/sh", "a\0b"], 126, "null"),
        (["/bin/echo", "x" * (1 << 21)], 126, "too long"),
    ],
)
def test_what_cannot_be_started_says_why(shepherd: ShepherdRun, argv: list[str], code: int, words: str) -> None:
    ended = shepherd.run(argv)
    assert ended.code == code and ended.pid is None and ended.reason is not None
    assert ended.reason.code == "cannot-start"
    assert words in ended.reason.message


def test_a_missing_working_directory_and_a_missing_interpreter_are_named(shepherd: ShepherdRun) -> None:
    ended = shepherd.run(["/bin/true"], cwd="/no/such/folder")
    assert ended.code == 126 and ended.reason and "/no/such/folder" in ended.reason.message
    script = shepherd.folder / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o700)
    ended = shepherd.run([str(script)], key="j-1/c.0/2")
    assert ended.code == 126 and ended.reason and "interpreter" in ended.reason.message
    faults = {"carriage return": "#!/bin/sh\r\n", "byte order mark": "\ufeff#!/bin/sh\n"}
    for attempt, (said, content) in enumerate(faults.items(), 3):
        script.write_text(content, newline="")
        ended = shepherd.run([str(script)], key=f"j-1/c.0/{attempt}")
        assert ended.code == 126 and ended.reason and said in ended.reason.message


def test_stopping_gives_the_whole_group_its_grace_and_then_kills_it(shepherd: ShepherdRun) -> None:
    shepherd.connect()
    shepherd.launch("polite", sh("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done"))
    shepherd.launch("deaf", sh("trap '' TERM; (trap '' TERM; sleep 100) & echo $! > child; echo up; sleep 100"))
    shepherd.start("polite", "j-1/p.0/1")
    shepherd.start("deaf", "j-1/d.0/1")
    for key in ("j-1/p.0/1", "j-1/d.0/1"):
        shepherd.started(key)
        shepherd.wait(lambda key=key: "up" in shepherd.stdout(key))
    child = pid_in(shepherd.path("j-1/d.0/1", "scratch") / "child", shepherd)
    began = clock.steady()
    shepherd.runtime.stop([Stop("j-1/p.0/1", 20.0), Stop("j-1/d.0/1", 0.3, Reason(ReasonCode.TIMEOUT, "m"))])
    polite, deaf = shepherd.ended("j-1/p.0/1"), shepherd.ended("j-1/d.0/1")
    assert (polite.code, polite.stopping) == (3, True)
    assert (deaf.code, deaf.signal, deaf.reason) == (None, 9, Reason(ReasonCode.TIMEOUT, "m"))
    assert 0.3 <= clock.steady() - began < 5
    assert not alive(child)


def test_what_a_task_leaves_behind_is_ended_with_it(shepherd: ShepherdRun) -> None:
    """In its own group at once, also when it ignores TERM; in a session of its own within a second or so."""
    daemon = """
import os
os.setsid()
open("daemon", "w").write(f"{os.getpid()}\\n")
os.execvp("sleep", ["sleep", "100"])
"""
    child = "(trap '' TERM; sleep 100) & echo $! > child"
    ended = shepherd.run(
        sh(f'{child}; "$PYTHON" -c "$DAEMON" & until [ -s daemon ]; do :; done; exit 4'),
        PYTHON=sys.executable,
        DAEMON=daemon,
    )
    scratch = shepherd.path("j-1/c.0/1", "scratch")
    assert ended.code == 4
    assert not alive(pid_in(scratch / "child", shepherd))
    stray = pid_in(scratch / "daemon", shepherd)
    shepherd.wait(lambda: not alive(stray), 5)


def test_shared_memory_of_a_killed_task_is_removed_and_that_of_others_is_not(shepherd: ShepherdRun) -> None:
    script = """
import mmap, os, sys, time
for name in sys.argv[1:]:
    with open(f"/dev/shm/{name}", "w+b") as file:
        file.truncate(4096)
        kept = mmap.mmap(file.fileno(), 4096)
print("up", flush=True)
time.sleep(100)
"""
    other = Path(f"/dev/shm/grass-test-other-{os.getpid()}")
    other.write_bytes(b"x")
    name = f"grass-test-{os.getpid()}"
    try:
        shepherd.connect()
        shepherd.launch("s", [sys.executable, "-c", script, name])
        shepherd.start("s", "j-1/s.0/1")
        shepherd.started("j-1/s.0/1")
        shepherd.wait(lambda: "up" in shepherd.stdout("j-1/s.0/1"))
        shepherd.runtime.stop([Stop("j-1/s.0/1", 0.0)])
        shepherd.ended("j-1/s.0/1")
        assert not Path("/dev/shm", name).exists()
        assert other.exists()
    finally:
        other.unlink()


def test_shared_memory_of_a_task_that_crashes_at_once_is_removed(shepherd: ShepherdRun) -> None:
    script = """
import mmap, os, sys, time
with open(f"/dev/shm/{sys.argv[1]}", "w+b") as file:
    file.truncate(4096)
    kept = mmap.mmap(file.fileno(), 4096)
time.sleep(1)
os.kill(os.getpid(), 9)
"""
    name = f"grass-test-crash-{os.getpid()}"
    assert shepherd.run([sys.executable, "-c", script, name]).signal == 9
    shepherd.wait(lambda: not Path("/dev/shm", name).exists(), 5)


def test_a_segment_of_system_v_goes_with_its_attempt_and_that_of_another_program_stays(shepherd: ShepherdRun) -> None:
    make = "import ctypes, os; print(ctypes.CDLL(None).shmget(0, 4096, 0o1600), flush=True)"
    other = int(subprocess.run([sys.executable, "-c", make], capture_output=True, text=True, check=True).stdout)
    try:
        assert shepherd.run([sys.executable, "-c", f"{make}; os.kill(os.getpid(), 9)"]).signal == 9
        made = [int(shepherd.stdout("j-1/c.0/1"))]
        child = f"{sys.executable} -c '{make}; import time; time.sleep(60)'"
        shepherd.launch("child", ["/bin/sh", "-c", f"{child}; exit 3"])
        shepherd.start("child", "j-1/s.0/1")
        shepherd.started("j-1/s.0/1")
        shepherd.wait(lambda: "\n" in shepherd.stdout("j-1/s.0/1"))
        made.append(int(shepherd.stdout("j-1/s.0/1")))
        assert {segment.number for segment in system_v.segments()} >= {other, made[1]}
        shepherd.runtime.stop([Stop("j-1/s.0/1", 0.0)])
        shepherd.ended("j-1/s.0/1")
        shepherd.wait(lambda: not {segment.number for segment in system_v.segments()}.intersection(made), 5)
        assert other in {segment.number for segment in system_v.segments()}
    finally:
        ctypes.CDLL(None).shmctl(other, 0, None)


def test_no_task_possesses_the_session_keyring_of_the_shepherd_or_of_another_task(shepherd: ShepherdRun) -> None:
    look = f"import ctypes; print(ctypes.CDLL(None).syscall({number('keyctl')}, 0, -3, 0), flush=True)"
    own = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.strip()
    require(own != "-1", "keys of the kernel")
    shepherd.connect()
    shepherd.launch("k", [sys.executable, "-c", f"{look}; import time; time.sleep(60)"])
    keys = ["j-1/k.0/1", "j-1/k.1/1"]
    shepherd.start("k", *keys)
    for key in keys:
        shepherd.started(key)
        shepherd.wait(lambda key=key: "\n" in shepherd.stdout(key))
    seen = [own, *(shepherd.stdout(key).strip() for key in keys), *(beside(shepherd, keys[0], look) for _ in range(2))]
    assert "-1" not in seen and len(set(seen)) == 5
    shepherd.runtime.stop([Stop(key, 0.0) for key in keys])
    for key in keys:
        shepherd.ended(key)


def beside(shepherd: ShepherdRun, key: str, script: str) -> str:
    """Return what a command prints that the node's API runs beside a task."""
    reader, writer = os.pipe()
    pid = shepherd.known[key].pid
    assert pid is not None
    command = Child(pid, [sys.executable, "-c", script], {}, [writer] * 3, False)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        printed = pipe.read().strip()
    assert command.code() == 0
    command.close()
    return printed


def test_an_attempt_is_never_started_again_and_its_end_is_kept_until_it_is_forgotten(shepherd: ShepherdRun) -> None:
    shepherd.run(sh("echo once; exit 5"))
    shepherd.start("j-1/c.0/1", "j-1/c.0/1")
    listed = ask(shepherd.config.socket("shepherd"), ListAttempts())
    assert [(seen.key, seen.code) for seen in listed] == [("j-1/c.0/1", 5)]
    assert shepherd.stdout("j-1/c.0/1") == "once\n"
    shepherd.runtime.forget(["j-1/c.0/1"])
    shepherd.wait(lambda: ask(shepherd.config.socket("shepherd"), ListAttempts()) == [])


def test_kill_9_of_the_shepherd_loses_no_exit_code_and_runs_nothing_twice(shepherd: ShepherdRun) -> None:
    """50 tasks, of which some end before, some while there is no shepherd, some after."""
    shepherd.connect()
    keys = [f"j-1/c.{index}/1" for index in range(50)]
    for index, key in enumerate(keys):
        wait = 0.01 * (index % 50)
        shepherd.launch(key, sh(f"echo run; sleep {wait}; exit {index + 1}"))
        shepherd.start(key, key)
    shepherd.wait(lambda: all(key in shepherd.known and shepherd.known[key].pid for key in keys))
    for _ in range(3):
        shepherd.kill_shepherd()
        shepherd.relist()
    for index, key in enumerate(keys):
        ended = shepherd.ended(key)
        assert (ended.code, ended.signal, ended.reason) == (index + 1, None, None), key
        assert shepherd.stdout(key) == "run\n"


def test_kill_9_in_the_middle_of_spawning_leaves_each_attempt_run_at_most_once_and_known(shepherd: ShepherdRun) -> None:
    """Whoever wants the ones that were not reached asks again, as the node-agent does; all end exactly once."""
    shepherd.connect()
    shepherd.launch("t", sh("echo run; exit 9"))
    keys = [f"j-1/c.{index}/1" for index in range(300)]
    shepherd.start("t", *keys)
    for pause in (0.05, 0.06, 0.07):
        deadline = time.monotonic() + pause
        shepherd.wait(lambda deadline=deadline: time.monotonic() > deadline)
        shepherd.kill_shepherd()
        shepherd.relist()
        shepherd.start("t", *[key for key in keys if key not in shepherd.known])
    for key in keys:
        ended = shepherd.ended(key)
        assert (ended.code, ended.signal, ended.reason) == (9, None, None), key
        assert shepherd.stdout(key) == "run\n"


def test_kill_9_of_the_guard_changes_nothing_and_the_next_guard_takes_over_later(shepherd: ShepherdRun) -> None:
    shepherd.connect()
    shepherd.launch("t", sh("sleep 0.5; exit 11"))
    shepherd.launch("long", sh("until [ -e go ]; do sleep 0.01; done; exit 12"))
    shepherd.start("t", "j-1/a.0/1")
    shepherd.start("long", "j-1/b.0/1")
    shepherd.started("j-1/b.0/1")
    old = shepherd.shepherd_pid()
    shepherd.kill_guard()
    shepherd.start_daemon()
    assert shepherd.ended("j-1/a.0/1").code == 11
    pidfd = os.pidfd_open(old)
    os.kill(old, signal.SIGKILL)
    shepherd.relist()
    os.close(pidfd)
    assert shepherd.shepherd_pid() != old
    (shepherd.path("j-1/b.0/1", "scratch") / "go").touch()
    assert shepherd.ended("j-1/b.0/1").code == 12  # from its pidfd: it was never a child of the new guard


def test_a_guard_that_waits_for_the_old_shepherd_passes_sigterm_on(shepherd: ShepherdRun) -> None:
    shepherd.connect()
    shepherd.launch("t", sh("exec sleep 100"))
    shepherd.start("t", "j-1/a.0/1")
    task = shepherd.started("j-1/a.0/1").pid
    assert task
    shepherd.kill_guard()
    shepherd.start_daemon()
    shepherd.wait(lambda: handles_sigterm(shepherd.guard_pid()))
    shepherd.end_daemon()
    assert not alive(task)
    shepherd.start_daemon()
    shepherd.relist()
    ended = shepherd.known["j-1/a.0/1"]
    assert (ended.signal, ended.reason and ended.reason.code) == (signal.SIGTERM, ReasonCode.NODE_STOPPED)


def test_kill_9_of_guard_and_shepherd_together_is_truthful_about_what_nobody_saw(shepherd: ShepherdRun) -> None:
    shepherd.connect()
    shepherd.launch("gone", sh("sleep 100"))
    shepherd.launch("stays", sh("until [ -e go ]; do sleep 0.01; done; exit 21"))
    shepherd.start("gone", "j-1/a.0/1")
    shepherd.start("stays", "j-1/b.0/1")
    gone, stays = shepherd.started("j-1/a.0/1").pid, shepherd.started("j-1/b.0/1").pid
    assert gone and stays
    pid = shepherd.shepherd_pid()
    shepherd.kill_guard()
    os.kill(pid, signal.SIGKILL)
    os.killpg(gone, signal.SIGKILL)
    shepherd.wait(lambda: not alive(gone) and not alive(pid))
    shepherd.wait(lambda: proc.stat(gone) is None, 30)
    shepherd.start_daemon()
    shepherd.relist()
    ended = shepherd.ended("j-1/a.0/1")
    assert (ended.code, ended.signal) == (None, None)
    assert ended.reason is not None and ended.reason.code == "exit-unknown"
    (shepherd.path("j-1/b.0/1", "scratch") / "go").touch()
    assert shepherd.ended("j-1/b.0/1").code == 21


def test_a_stop_that_was_begun_is_finished_by_the_next_shepherd(shepherd: ShepherdRun) -> None:
    shepherd.connect()
    shepherd.launch("deaf", sh("trap '' TERM; echo up; while :; do sleep 0.05; done"))
    shepherd.start("deaf", "j-1/d.0/1")
    shepherd.started("j-1/d.0/1")
    shepherd.wait(lambda: "up" in shepherd.stdout("j-1/d.0/1"))
    shepherd.runtime.stop([Stop("j-1/d.0/1", 0.5)])
    shepherd.wait(lambda: ask(shepherd.config.socket("shepherd"), ListAttempts())[0].stopping)
    shepherd.kill_shepherd()
    shepherd.relist()
    assert shepherd.ended("j-1/d.0/1").signal == 9


def test_after_a_reboot_what_had_not_ended_is_reported_so_and_the_rest_is_kept() -> None:
    run = ShepherdRun()
    run.config.node_dir.mkdir()
    entries = [
        ["life", "another boot", 1],
        ["s", "j-1/a.0/1", os.getpid(), 1.0, 2.0, 3.0, "j-1/a"],
        ["s", "j-1/b.0/1", os.getpid(), 1.0, 2.0, 3.0, "j-1/b"],
        ["e", "j-1/b.0/1", 6, None, None, 4.0, {"stdout": 1, "stderr": 2}],
        ["i", "j-1/c.0/1"],
    ]
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    (run.config.node_dir / "shepherd.journal").write_text(lines + '["s", "j-1/c')  # torn by the power cut
    with run:
        run.connect()
        codes = {key: (seen.code, seen.reason and seen.reason.code) for key, seen in run.known.items()}
        assert codes == {
            "j-1/a.0/1": (None, "node-rebooted"),
            "j-1/b.0/1": (6, None),
            "j-1/c.0/1": (None, "node-rebooted"),
        }


def test_sigterm_ends_every_task_and_what_it_learned_is_there_after_the_next_start(shepherd: ShepherdRun) -> None:
    shepherd.connect()
    shepherd.launch("t", sh("trap 'exit 33' TERM; echo up; while :; do sleep 0.01; done"))
    shepherd.start("t", "j-1/c.0/1")
    shepherd.started("j-1/c.0/1")
    shepherd.wait(lambda: "up" in shepherd.stdout("j-1/c.0/1"))
    shepherd.end_daemon()
    shepherd.start_daemon()
    shepherd.relist()
    assert shepherd.known["j-1/c.0/1"].code == 33


def test_the_journal_stays_short(shepherd: ShepherdRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was forgotten is left out when it is rewritten: at each start, and when it has grown long."""
    shepherd.connect()
    shepherd.launch("t", ["/bin/true"])
    keys = [f"j-1/c.{index}/1" for index in range(100)]
    shepherd.start("t", *keys)
    for key in keys:
        shepherd.ended(key)
    shepherd.runtime.forget(keys[1:])
    shepherd.wait(lambda: len(ask(shepherd.config.socket("shepherd"), ListAttempts())) == 1)
    shepherd.kill_shepherd()
    shepherd.relist()
    assert list(shepherd.known) == keys[:1]
    assert (shepherd.config.node_dir / "shepherd.journal").stat().st_size < 1000


@pytest.mark.nightly  # ``test_node_agent`` has as many in every run
def test_5000_tiny_tasks(shepherd: ShepherdRun, capsys: pytest.CaptureFixture[str]) -> None:
    shepherd.connect()
    shepherd.launch("t", ["/bin/true"])
    keys = [f"j-1/c.{index}/1" for index in range(5000)]
    began = clock.steady()
    shepherd.start("t", *keys)
    shepherd.wait(lambda: len(shepherd.ends) == len(keys), 60)
    seconds = clock.steady() - began
    assert {ended.code for ends in shepherd.ends.values() for ended in ends} == {0}
    with capsys.disabled():
        print(f"\nthe shepherd alone: {len(keys) / seconds:.0f} tasks/s")
