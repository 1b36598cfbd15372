"""`grass` in daily use, against a real local cluster: environments, options, lists, logs, several jobs at once."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from grass import __version__
from grass.cli.exits import Exit
from grass.model.daemons import SENDING_LOGS
from tests.integration.test_cli import PROGRAM, Grass, folder, grass, job_file, wait_for_line
from tests.support.waiting import wait_until

__all__ = ["folder", "grass"]


def in_shell(grass: Grass, arguments: list[str], **shell: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell with other variables."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        env={**grass.environment, **shell},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=40,
    )


def test_a_command_runs_with_the_path_and_the_named_variables_of_its_shell(grass: Grass, folder: Path) -> None:
    tool = folder / "only-here"
    tool.write_text("#!/bin/sh\necho $VIRTUAL_ENV $TOKEN ${OTHER-unset} $WORD\n")
    tool.chmod(0o755)
    shell = {"PATH": f"{folder}:{os.environ['PATH']}", "VIRTUAL_ENV": str(folder), "TOKEN": "t1", "OTHER": "o"}
    done = in_shell(grass, ["run", "--env", "TOKEN", "--env", "WORD=w", "--", "only-here"], **shell)
    assert (done.returncode, done.stdout) == (0, f"{folder} t1 unset w\n"), done.stderr
    assert in_shell(grass, ["run", "--env-all", "--", "only-here"], **shell).stdout == f"{folder} t1 o\n"
    missing = in_shell(grass, ["run", "--env", "NOT_SET_HERE", "--", "true"])
    assert missing.returncode == Exit.BAD_INPUT and "--env NOT_SET_HERE: is not set" in missing.stderr


def test_a_job_file_names_variables_of_the_shell(grass: Grass, folder: Path) -> None:
    file = job_file(folder, "inherits", "echo $TOKEN $WORD", "inherit_env: [TOKEN]", "env: {WORD: file}")
    assert in_shell(grass, ["job", "start", file, "--env", "WORD=line"], TOKEN="t2").returncode == 0
    grass.good("job", "wait", "inherits")
    assert grass.good("job", "logs", "inherits") == "t2 line\n"
    refused = grass("job", "start", file)
    assert refused.returncode == Exit.BAD_INPUT
    assert f"{file}: components.main.inherit_env[0]: TOKEN is not set" in refused.stderr


def test_grass_inside_a_task_finds_its_cluster(grass: Grass, folder: Path) -> None:
    inside = f"{sys.executable} -c 'from grass.cli.main import main; main()' job list -o quiet"
    started = grass.json("job", "start", job_file(folder, "inside", inside))
    grass.good("job", "wait", "inside")
    assert started["id"] in grass.good("job", "logs", "inside").split()


def test_a_command_takes_options_of_a_component(grass: Grass, folder: Path) -> None:
    (folder / "points.txt").write_text("one 1\n\ntwo 2\n")
    options = ["--cpu", "0.1", "--each-line", str(folder / "points.txt"), "--tag", "team=red", "--priority", "3"]
    done = grass("run", *options, "--name", "points", "--", "sh", "-c", "echo $GRASS_ENTRY $GRASS_REPLICAS")
    assert sorted(done.stdout.splitlines()) == ["main.0 | one 1 2", "main.1 | two 2 2"], done.stderr
    assert grass("run", "--array", "1-2", "--", "sh", "-c", "exit $((GRASS_ENTRY - 1))").returncode == 1
    two = grass.good("run", "--replicas", "2", "--cpu", "0.1", "--", "sh", "-c", "echo $GRASS_INDEX $GRASS_REPLICAS")
    assert sorted(two.splitlines()) == ["main.0 | 0 2", "main.1 | 1 2"]
    contained = grass("run", "--image", "none:1", "--cpu", "0.1", "--", "echo", "as a process")
    assert contained.stdout == "as a process\n" and "no node has a container engine" in contained.stderr
    waits = grass("run", "--gpu", "2", "--detach", "--", "true")
    assert waits.returncode == 0 and "needs 2 gpu per task; the largest node has 0" in waits.stderr
    grass.good("job", "stop", waits.stdout.split()[0])
    detached = grass.good("run", "-o", "quiet", "--detach", "--timeout", "1s", "--", "sleep", "100").strip()
    assert grass("job", "wait", detached).returncode == Exit.JOB_FAILED
    for wrong in (["--array", "3-1"], ["--tag", "x"], ["--array", "1", "--each-line", "f"], ["--each-json", "/none"]):
        refused = grass("run", *wrong, "--", "true")
        assert refused.returncode == Exit.BAD_INPUT and refused.stderr, wrong


def test_standard_input_reaches_the_command(grass: Grass) -> None:
    data = bytes(range(256)) * 500
    done = subprocess.run(
        [*PROGRAM, "run", "--stdin", "--", "cat"], env=grass.environment, input=data, capture_output=True, timeout=40
    )
    assert (done.returncode, done.stdout) == (0, data), done.stderr


def test_a_script_is_a_job_with_the_options_of_its_directives(grass: Grass, folder: Path) -> None:
    script = folder / "sweep.py"
    script.write_text(
        f"#!{sys.executable}\n#GRASS --cpu 0.1 --array 4,5 --env WORD=w\n"
        "import os\nprint(os.environ['WORD'], os.environ['GRASS_ENTRY'])\n"
    )
    second = job_file(folder, "beside", "echo entry $GRASS_ENTRY", "from: {array: '7'}")
    assert grass.good("job", "start", str(script), second, "-o", "quiet").count("\n") == 2
    grass.good("job", "wait", "sweep")
    assert sorted(grass.good("job", "logs", "sweep").splitlines()) == ["main.0 | w 4", "main.1 | w 5"]
    grass.good("job", "wait", "beside")
    assert grass.good("job", "logs", "beside") == "entry 7\n"
    script.write_text("#!/bin/sh\n#SBATCH --time=10\n#GRASS --cpu 0.1 --name slurms\ntrue\n#SBATCH -n 2\n")
    other = grass("job", "start", str(script))
    assert other.returncode == 0
    assert other.stderr == f"warning: {script}: #SBATCH lines are ignored; write these options into #GRASS lines\n"
    script.write_text("#!/bin/sh\n#GRASS --cpus 1\n")
    refused = grass("job", "start", str(script))
    assert refused.returncode == Exit.BAD_INPUT and f"{script}: #GRASS: No such option" in refused.stderr
    assert "the options are those of `grass run --help`" in refused.stderr and "job start --help" not in refused.stderr


def test_a_job_on_standard_input_is_started(grass: Grass, folder: Path) -> None:
    text = Path(job_file(folder, "piped", "echo piped")).read_text()
    for given in (text, "#!/bin/sh\n#GRASS --name piped --cpu 0.1\necho piped\n"):
        done = subprocess.run(
            [*PROGRAM, "job", "start", "-"],
            env=grass.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=40,
        )
        assert done.returncode == 0, done.stderr
        grass.good("job", "wait", "piped")
        assert grass.good("job", "logs", "piped") == "piped\n"


def test_lists_show_what_was_asked_for(grass: Grass) -> None:
    for name, code in (("list-a", 0), ("list-b", 1)):
        grass("run", "--name", name, "--tag", f"shade={name[-1]}", "--cpu", "0.1", "--", "sh", "-c", f"exit {code}")
    columns = ["--columns", "name,state,tasks,tags", "--sort", "-name"]
    assert grass.good("job", "list", "--name", "list-*", "--all", *columns).splitlines() == [
        "NAME    STATE      TASKS               TAGS",
        "list-b  FAILED     0/1 done, 1 failed  shade=b",
        "list-a  SUCCEEDED  1/1 done            shade=a",
    ]
    assert grass.good("ls", "--state", "failed", "--tag", "shade", "-o", "name") == "list-b\n"
    assert grass.good("job", "ls", "--tag", "shade=a", "-a", "--columns", "name", "-o", "csv") == "NAME\nlist-a\n"
    raw = ["--columns", "name,tasks,exit,started,memory", "-o", "csv"]
    header, line = grass.good("job", "ls", "--tag", "shade=b", "-a", *raw).splitlines()
    name, counts, code, started, *_ = next(csv.reader([line]))
    assert (header, name, json.loads(counts), code) == (
        "NAME,TASKS,EXIT,STARTED,PEAK MEMORY",
        "list-b",
        {"FAILED": 1},
        "1",
    )
    assert abs(float(started) - time.time()) < 300
    [task] = csv.DictReader(grass.good("job", "show", "list-b", "-o", "csv").splitlines())
    assert (task["task"], task["state"], task["exit_code"]) == ("main.0", "FAILED", "1")
    assert "no such active jobs" in grass.good("ps", "--tag", "shade=a")
    assert "state: FAILED" in grass.good("job", "list", "--name", "list-b", "-a", "-o", "yaml")
    shades = ["job", "list", "-a", "--tag", "shade", "-o", "name"]
    me = grass.json("job", "show", "list-a")["user"]
    assert grass.good(*shades, "--user", me, "--since", "1h", "--limit", "all") == "list-a\nlist-b\n"
    assert grass.good(*shades, "--limit", "1") == "list-b\n"
    assert grass.good(*shades, "--user", "nobody") == grass.good(*shades, "--since", "2100-01-01") == ""
    for wrong in (
        ["--columns", "nose"],
        ["--sort", "nose"],
        ["--state", "nose"],
        ["--since", "nose"],
        ["--limit", "nose"],
    ):
        assert grass("job", "list", *wrong).returncode == Exit.BAD_INPUT, wrong


def test_a_watched_list_follows_changes_and_colours_follow_the_terminal(grass: Grass) -> None:
    watching = grass.start(
        "job", "list", "--watch", "--name", "watched-*", "--all", "--columns", "name,state", "-o", "csv"
    )
    assert wait_for_line(watching, "NAME,STATE")
    grass("run", "--name", "watched-1", "--cpu", "0.1", "--", "true")
    assert wait_for_line(watching, "watched-1,SUCCEEDED")
    watching.terminate()
    watching.communicate(timeout=20)
    painted = in_colour(grass, "job", "list", "--all", "--name", "watched-1")
    assert "\x1b[32mSUCCEEDED\x1b[0m" in painted
    assert "\x1b[" not in grass.on_terminal(120, "job", "list", "--all", "--name", "watched-1")


def in_colour(grass: Grass, *arguments: str) -> str:
    grass.environment["NO_COLOR"] = ""
    try:
        return grass.on_terminal(120, *arguments)
    finally:
        del grass.environment["NO_COLOR"]


def test_logs_of_streams_failed_tasks_and_several_jobs(grass: Grass, folder: Path) -> None:
    command = "echo out $GRASS_INDEX; echo err $GRASS_INDEX >&2; exit $GRASS_INDEX"
    grass.good("job", "start", job_file(folder, "voices", command, "replicas: 2"))
    grass("job", "wait", "voices")
    assert sorted(grass.good("job", "logs", "voices", "--stream", "stderr").splitlines()) == [
        "main.0 | err 0",
        "main.1 | err 1",
    ]
    assert grass.good("logs", "voices", "--failed", "--stream", "stdout") == "main.1 | out 1\n"
    assert grass.good("logs", "voices", "--component", "main.0", "--stream", "stdout", "--tail", "1") == "out 0\n"
    grass("run", "--name", "other-voice", "--cpu", "0.1", "--", "echo", "hello")
    both = grass.good("job", "logs", "voices", "other-voice", "--stream", "stdout").splitlines()
    assert both[-1] == "other-voice:main.0 | hello" and "voices:main.1 | out 1" in both
    table = grass.good("job", "logs", "other-voice", "-o", "csv").splitlines()
    assert table[0] == "task,attempt,stream,time,text,newline,lost" and ",hello,true,0" in table[1]
    assert "text: hello\n" in grass.good("job", "logs", "other-voice", "-o", "yaml")
    absent = grass("job", "logs", "voices", "absent")
    assert absent.returncode == Exit.BAD_INPUT and absent.stdout == ""
    grass.good("run", "--detach", "--name", "waits", "--cpu", "1000", "--", "true")
    wait_until(lambda: "waits: QUEUED (" in grass("job", "logs", "waits").stderr, what="the reason")
    grass.good("job", "stop", "waits")


def test_the_shell_completes_components_and_tasks(grass: Grass, folder: Path) -> None:
    grass.good("job", "start", job_file(folder, "complete", "sleep 100", "replicas: 3"))
    tasks = {"main.0", "main.1", "main.2"}
    for words, expected in (
        ("grass job logs complete m", {"main"}),
        ("grass job logs complete main.", tasks),
        ("grass job logs complete --component main.", tasks),
        ("grass job stop complete main.", tasks),
        ("grass job stop complete main.0 mai", {"main"}),
        ("grass job exec complete.m", {f"complete.{task}" for task in tasks}),
    ):
        shell = {"_GRASS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        offered = in_shell(grass, [], **shell).stdout.split()
        assert {line.partition(",")[2] for line in offered} == expected, words
    grass.good("job", "stop", "complete", "--grace", "0")


def test_the_script_for_a_shell_completes_commands(grass: Grass) -> None:
    script = grass.good("completion", "bash")
    defined = subprocess.run(
        ["bash", "-c", 'eval "$1"; complete -p grass', "-", script], capture_output=True, text=True
    )
    assert defined.stdout == "complete -o nosort -F _grass_completion grass\n", defined.stderr


def test_a_job_changes_its_size_and_what_it_intends(grass: Grass, folder: Path) -> None:
    grass.good("job", "start", job_file(folder, "sizes", "sleep 100", "replicas: 1", "min: 1", "max: 3"))
    wait_until(lambda: grass.json("job", "show", "sizes")["counts"].get("RUNNING") == 1, what="sizes runs")
    assert grass.json("job", "scale", "sizes", "main", "+1", "--wait")["outcome"] == "DONE"
    assert sum(user["running"] for user in grass.json("shares")["users"]) >= 1
    assert grass.json("job", "restart", "sizes", "--reason", "new data", "--wait")["outcome"] == "DONE"
    assert grass.json("job", "suspend", "sizes", "--wait")["outcome"] == "DONE"
    assert grass.json("job", "show", "sizes")["state"] == "SUSPENDED"
    grass.good("job", "resume", "sizes")
    wait_until(lambda: grass.json("job", "show", "sizes")["counts"].get("RUNNING") == 2, what="sizes runs again")
    assert grass.json("job", "replace", "sizes.main.0")["kind"] == "replace"  # waits for another node
    kinds = [each["kind"] for each in grass.json("job", "operations", "sizes")]
    assert kinds == ["scale", "restart", "suspend", "resume", "replace"]
    refused = grass("job", "scale", "sizes", "main", "9")
    assert refused.returncode == Exit.BAD_INPUT and "must be at most `max`, which is 3" in refused.stderr
    grass.good("job", "stop", "sizes", "--grace", "0")


def test_the_role_and_the_key_of_a_user_change(grass: Grass, tmp_path: Path) -> None:
    person, elsewhere = Grass(tmp_path / "old"), Grass(tmp_path / "new")
    person.good("login", grass.json("user", "add", "rita")["invitation"])
    try:
        grass.good("user", "role", "rita", "viewer")
        assert person("run", "--", "true").returncode == Exit.NOT_ALLOWED
        grass.good("user", "disable", "rita")
        assert person("job", "list").returncode == Exit.NOT_ALLOWED
        grass.good("user", "enable", "rita")
        assert person("job", "list").returncode == 0
        invitation = grass.json("user", "rotate", "rita")["invitation"]
        assert person("job", "list").returncode == 0  # until the new key is there
        elsewhere.good("login", invitation)
        assert elsewhere("job", "list").returncode == 0
        assert person("job", "list").returncode == Exit.NOT_ALLOWED
    finally:
        grass("user", "remove", "rita")
    assert grass("user", "role", "rita", "admin").returncode == Exit.BAD_INPUT


def test_several_jobs_and_tagged_jobs_are_stopped_and_deleted_at_once(grass: Grass, folder: Path) -> None:
    for name in ("many-1", "many-2", "many-3"):
        grass.good("run", "--detach", "--name", name, "--tag", "set=many", "--cpu", "0.1", "--", "sleep", "100")
    stopped = grass("job", "stop", "many-1", "absent", "many-2", "--grace", "0")
    assert stopped.returncode == Exit.BAD_INPUT and "absent" in stopped.stderr
    states = {job["state"] for job in grass.json("job", "list", "--tag", "set=many")}
    assert states <= {"QUEUED", "RUNNING"}  # a wrong name stops nothing
    stopped = grass("job", "stop", "many-1", "many-2", "--grace", "0")
    assert [line.split()[0] for line in stopped.stdout.splitlines()] == ["many-1", "many-2"]
    for name in ("many-1", "many-2"):
        grass("job", "wait", name)  # until then they are active jobs with the tag, too
    assert [job["name"] for job in grass.json("job", "stop", "--tag", "set=many", "--grace", "0")] == ["many-3"]
    grass("job", "wait", "many-3")
    late = grass("job", "wait", "--tag", "set=many")
    assert (
        late.returncode == Exit.BAD_INPUT and "`grass job list --all --tag set=many` lists finished ones" in late.stderr
    )
    assert grass("job", "wait").returncode == Exit.BAD_INPUT
    grass.good("run", "--detach", "--name", "tagged", "--tag", "set=waited", "--cpu", "0.1", "--", "sleep", "100")
    assert grass("job", "wait", "--tag", "set=waited", "--timeout", "200ms").returncode == Exit.TIMED_OUT
    refused = grass("job", "delete", "many-1", "tagged")
    assert refused.returncode == Exit.BAD_INPUT and "job tagged: still active" in refused.stderr
    assert grass.json("job", "show", "many-1")["state"] == "STOPPED"  # nothing was deleted
    grass.good("job", "stop", "tagged", "--grace", "0")
    assert grass("job", "stop", "--tag", "set=many").returncode == Exit.BAD_INPUT
    assert grass("job", "delete").returncode == Exit.BAD_INPUT
    assert grass("job", "delete", "many-1", "--tag", "x").returncode == Exit.BAD_INPUT
    grass.good("job", "delete", "many-1", "many-2")
    assert [job["name"] for job in grass.json("job", "delete", "--tag", "set=many")] == ["many-3"]


def test_words_after_a_job_mean_its_parts_where_it_has_them(grass: Grass, folder: Path) -> None:
    grass.good("job", "start", job_file(folder, "parts", "sleep 100", "replicas: 2"))
    mixed = grass("job", "stop", "parts", "main.0", "other")
    assert mixed.returncode == Exit.BAD_INPUT and "job parts: has no other" in mixed.stderr
    for command in (("stop",), ("logs",)):
        wrong = grass("job", *command, "parts", "mian")
        assert wrong.returncode == Exit.BAD_INPUT
        assert wrong.stderr.startswith("error: mian: neither a component of job parts, which has main, nor a job")
    swapped = grass("job", "replace", "main.0", "parts")
    assert swapped.returncode == Exit.BAD_INPUT and "the job comes first: parts main.0" in swapped.stderr
    grass.good("job", "stop", "parts", "--grace", "0")


def test_a_job_shows_what_it_ran_and_how_it_differs_from_another_run(grass: Grass, folder: Path) -> None:
    ids = []
    for code in (0, 3):
        file = job_file(folder, "twice", f"exit {code}", "env: {API_TOKEN: hidden, STEP: 7}", "from: {entries: [x]}")
        ids.append(grass.json("job", "start", file)["id"])
        grass("job", "wait", "twice")
    page = grass.good("job", "show", "twice")
    for words in ("exit 3", "STEP=7", "API_TOKEN=[REDACTED]", "entry=x", "0.1 cpu"):
        assert words in page
    assert "hidden" not in page + grass.good("job", "show", "twice", "-o", "json")
    assert "hidden" not in grass.good("job", "show", "twice", "-o", "yaml")
    found = {row["path"]: (row["first"], row["second"]) for row in grass.json("job", "diff", *ids)}
    assert found["specification.components.main.command"] == ("exit 0", "exit 3")
    assert found["tasks.main.0.exit_code"] == (0, 3) and found["result.state"] == ("SUCCEEDED", "FAILED")
    software = grass.json("job", "show", ids[0])["tasks"][0]["software"]
    assert software == {"grass": __version__, "kernel": platform.release()}
    assert "no difference" in grass.good("job", "diff", ids[0], ids[0])
    assert grass("job", "diff", ids[0], "absent").returncode == Exit.BAD_INPUT


def test_runs_differ_by_the_files_that_their_commands_name(grass: Grass, folder: Path) -> None:
    share, script = grass.home / "clusters" / "local" / "data", folder / "step.sh"
    (share / "code").mkdir(parents=True)
    (share / "code" / "same.txt").write_text("same")
    ids = []
    for text in ("exit 0", "exit 0 # changed"):
        script.write_text(text)
        (share / "code" / "model.py").write_text(text)
        file = job_file(folder, "code", "sh step.sh; ls $GRASS_DATA/code ../outside $GRASS_DATA/../.. /etc/passwd")
        ids.append(grass.json("job", "start", file)["id"])
        grass("job", "wait", "code")
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in ("exit 0", "exit 0 # changed")]
    both = [f"sha256:{digest}" for digest in digests]
    found = {row["path"]: [row["first"], row["second"]] for row in grass.json("job", "diff", *ids)}
    files = {path: pair for path, pair in found.items() if path.startswith("specification.files")}
    assert files == {"specification.files.step.sh": both, "specification.files.$GRASS_DATA/code/model.py": both}
    shown = grass.json("job", "show", "code")["specification"]["files"]
    assert shown.keys() == {"step.sh", "$GRASS_DATA/code/model.py", "$GRASS_DATA/code/same.txt"}
    again = grass.json("job", "rerun", "code")["id"]
    grass("job", "wait", again)
    assert "$GRASS_DATA/code/model.py" in grass.json("job", "show", again)["specification"]["files"]


def test_tasks_that_meet_have_ranks_and_find_each_other(grass: Grass, folder: Path) -> None:
    program = (
        "import glob, grass, os, time; e = os.environ; found = grass.peers('main', count=3, timeout=20); "
        "print(e['RANK'], e['WORLD_SIZE'], e['LOCAL_RANK'], e['MASTER_ADDR'], "
        "int(e['MASTER_PORT']) == found[0].port, len(found), flush=True); "
        f"open('{folder}/met.' + e['RANK'], 'w'); "
        f"[time.sleep(0.05) for _ in range(400) if len(glob.glob('{folder}/met.*')) < 3]"
    )
    path = job_file(folder, "meet", "", "replicas: 3", "rendezvous: true")
    text = Path(path).read_text().replace('command: ""', f"command: [{sys.executable}, -c, {json.dumps(program)}]")
    Path(path).write_text(text)
    grass.good("job", "start", path)
    assert grass("job", "wait", "meet").returncode == 0, grass("job", "logs", "meet").stdout
    lines = sorted(grass.good("job", "logs", "meet").splitlines())
    assert lines == [f"main.{rank} | {rank} 3 0 127.0.0.1 True 3" for rank in range(3)]


def test_the_logs_of_all_daemons_are_in_one_place(grass: Grass) -> None:
    def entries(*arguments: str) -> list[Any]:
        return [json.loads(line) for line in grass.good("cluster", "logs", *arguments, "-o", "json").splitlines()]

    wait_until(lambda: {entry["daemon"] for entry in entries()} == set(SENDING_LOGS))
    assert {(entry["node"], entry["daemon"]) for entry in entries("--node", "local")} == {
        ("local", "node-agent"),
        ("local", "node-api-server"),
    }
    assert "started, version" in grass.good("cluster", "logs", "master-agent")
    for nothing in (("cluster", "logs", "--node", "nowhere"), ("events", "--node", "nowhere")):
        done = grass(*nothing)
        assert (done.returncode, done.stdout) == (0, "") and done.stderr.startswith("no such e")
    refused = grass("cluster", "logs", "redis")
    assert refused.returncode == Exit.BAD_INPUT and "node-agent" in refused.stderr


def test_the_table_of_a_sweep_and_why_some_of_its_tasks_failed(grass: Grass, folder: Path) -> None:
    program = "import os; assert os.environ['lr'] != '0.2', 'diverged'"
    (folder / "train.py").write_text(program)
    matrix = "matrix: {lr: [0.1, 0.2], seed: [1, 2]}"
    file = job_file(folder, "swept", f"{sys.executable} -S train.py", matrix)
    grass.good("job", "start", file)
    assert grass("job", "wait", "swept").returncode == 1
    cause = "AssertionError: diverged (train.py:1)"
    said = grass.good("job", "list", "--all", "--name", "swept")
    assert cause in said
    assert "lr=0.2" in grass.good("job", "why", "swept") and cause in grass.good("events", "--job", "swept")
    rows = grass.json("job", "results", "swept", "--by", "-lr")
    assert (0.2, cause) in [(row["lr"], row["cause"]) for row in rows if row["state"] == "FAILED"]
    table = grass.good("job", "results", "swept", "--columns", "task,lr,seed").split()
    assert table[:3] == ["TASK", "lr", "seed"] and table[3:6] == ["main.0", "0.1", "1"]
    said = grass.good("job", "compare", "swept.main.0", "swept.main.3")
    assert [line.split() for line in said.splitlines()[3:5]] == [["lr", "0.1", "0.2"], ["seed", "1", "2"]]
    refused = grass("job", "results", "swept", "--by", "nonsense")
    said = "column 'nonsense': no task has reported such a figure yet; use some of job, task, lr, seed"
    assert refused.returncode == Exit.BAD_INPUT and said in refused.stderr


def test_a_rerun_of_failed_tasks_has_the_results_and_the_output_of_all(grass: Grass, folder: Path) -> None:
    command = (
        "echo GRASS_METRIC loss=$lr; echo GRASS_METRIC loss=nan; echo GRASS_METRIC '{\"width\":'$lr'0}'; "
        'printf "%s\\n" \'GRASS_METRIC [{"name":"said","text":"a\\nb"},{"name":"cm","refused":"too large"}]\'; '
        "echo $lr > $GRASS_OUTPUT/$lr; echo $GRASS_JOB_ID > $GRASS_OUTPUT/last; "
        f"[ $lr != 2 ] || mkdir {folder}/second || exit 0; [ $lr != 2 ]"
    )
    grass.good("job", "start", job_file(folder, "mended", command, "matrix: {lr: [1, 2, 3]}"))
    assert grass("job", "wait", "mended").returncode == 1
    first = grass.json("job", "show", "mended")["id"]
    second = grass.good("job", "rerun", "mended", "--failed", "-o", "quiet").strip()
    grass.good("job", "wait", "mended")
    rows = grass.json("job", "results", "mended")
    assert all(row["loss"] == row["lr"] for row in rows), "at once, also what the monitor has not written yet"
    assert [(row["width"], row["loss:not_finite"]) for row in rows] == [(10, 1), (20, 1), (30, 1)]
    told = grass("job", "results", "mended")
    assert told.stdout.split()[:3] == ["TASK", "lr", "width"]
    assert "loss: 3 values were not finite (NaN or infinite)" in told.stderr
    media = grass("job", "results", "mended", "--media")
    assert media.stdout.count("a ⏎ b") == 3 and media.stderr.count("not kept: cm, step 0: too large") == 3
    of_one = grass.json("job", "results", "mended.main.1", "--media")
    assert [(row["task"], row["name"], row["step"], row["text"]) for row in of_one] == [("main.1", "said", 0, "a\nb")]
    assert "3 things that could not be kept" in " ".join(grass.good("job", "show", "mended").split())
    assert grass("job", "results", "mended", "--media", "--by", "loss").returncode == Exit.BAD_INPUT
    assert [row["output"] for row in rows] == [f"jobs/{run}" for run in (first, second, first)]
    assert all(row["state"] == "SUCCEEDED" and row["seconds"] is not None for row in rows)
    for _ in range(2):
        grass.good("job", "pull", "mended", "--to", str(folder / "pulled"))
        assert {path.name: path.read_text() for path in (folder / "pulled").iterdir()} == {
            "1": "1\n",
            "2": "2\n",
            "3": "3\n",
            "last": f"{second}\n",
        }


def test_a_backup_of_a_running_cluster_is_made_listed_and_verified_and_never_replaces_a_living_master(
    grass: Grass, folder: Path
) -> None:
    (folder / "passphrase").write_text("secret\n")
    to = str(folder / "backups")
    made = grass.json("backup", "--to", to, "--logs", "--keep", "1", "--passphrase-file", str(folder / "passphrase"))
    assert made["parts"] == ["state", "logs"] and made["removed"] == []
    assert [each["file"] for each in grass.json("backup", "list", to)] == [made["file"]]
    assert "whole; cluster local of" in grass.good(
        "backup", "verify", made["file"], "--passphrase-file", str(folder / "passphrase")
    )
    refused = grass("restore", made["file"], "--replace", "--passphrase-file", str(folder / "passphrase"))
    assert refused.returncode == Exit.BAD_INPUT and "cluster local: its master lives" in refused.stderr
    refused = grass("backup", "--to", to)
    assert refused.returncode == Exit.BAD_INPUT and "set GRASS_BACKUP_PASSPHRASE" in refused.stderr


def test_a_queue_is_filled_looked_at_kept_and_brought_back(grass: Grass) -> None:
    grass.good("queue", "create", "shards", "--lease", "30s", "--tries", "2")
    grass.good("queue", "put", "shards", "a", "b")
    grass.good("queue", "snapshot", "shards", "first")
    assert "shards" in grass.good("queue", "list")
    grass.good("queue", "put", "shards", "--named", "third=c")
    shown = grass.good("queue", "show", "shards")
    assert "third" in shown
    grass.good("queue", "restore", "shards", "first")
    assert "third" not in grass.good("queue", "show", "shards")
    grass.good("queue", "retry", "shards")
    grass.good("queue", "delete", "shards")
    refused = grass("queue", "show", "shards")
    assert refused.returncode == Exit.BAD_INPUT and "shards" in refused.stderr
