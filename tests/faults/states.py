"""What is going on while a fault comes, in the order in which a round begins it: what lasts shortly comes last."""

from __future__ import annotations

import threading

from grass.errors import GrassError
from tests.faults import oracle, table
from tests.faults.moving import Pushed
from tests.faults.work import BEGINS_WITHIN, ENDS_WITHIN, Work
from tests.long.kill_matrix import patiently
from tests.support.waiting import wait_until

TASKS = 30
"""Of the job that starts."""
COMMANDS = 60
"""Lines of the open command, one in 0.1 s."""
TALK = """
import os, sys, time
def write(data):
    while data:
        try:
            data = data[os.write(1, data):]
        except OSError:
            time.sleep(0.05)
first = 0
while not os.path.exists(sys.argv[1]):
    write(b"".join(b"%08d %s\\n" % (number, b"x" * 90) for number in range(first, first + 100)))
    first += 100
    time.sleep(0.05)
write(b"end of %d\\n" % first)
"""
"""Prints 200 kB/s, and tries again when a write fails. Its sleep would fail under libfaketime, which tasks inherit."""


class Queued(Work):
    """A task waits for the only seat, which another one has until the fault is over."""

    def begin(self) -> None:
        seat = {"cpu": 0.01, **self.bed.seat}
        self.bed.start(f"holder-{self.name}", t=self.bed.component("exec sleep 600", resources=seat, grace="0s"))
        holder = f"holder-{self.name}"
        wait_until(lambda: self.bed.client.job(holder).state == "RUNNING", BEGINS_WITHIN, holder, 0.05)
        waits = self.bed.component(f"{self.mark}; exit 0", resources=seat)
        self.bed.start(self.name, priority=0, t=waits)  # what comes later need not wait behind it
        self.codes["t"] = [0]

    def end(self) -> None:
        if self.bed.lines_of(self.name):
            self.found.wrong.append("it began though the seat was taken")
        patiently(lambda: self.bed.client.stop(f"holder-{self.name}", grace=0))
        self.judge()


class Running(Work):
    def begin(self) -> None:
        self.start(t=self.bed.component(f"{self.until_enough}; exit $((3 + GRASS_INDEX))", 2))
        self.codes["t"] = [3, 4]
        self.wait_begun(2)

    def end(self) -> None:
        self.enough()
        self.judge()


class LogsFlowing(Work):
    def begin(self) -> None:
        enough = f"{self.bed.marks}/enough-{self.name}"
        talk = ["/bin/sh", "-c", f'{self.mark}; exec env -u LD_PRELOAD "$0" -S -c "$1" {enough}', self.bed.python, TALK]
        self.start(t=self.bed.component(talk))
        self.codes["t"] = [0]
        wait_until(lambda: next(iter(self.bed.client.logs(self.name)), None), BEGINS_WITHIN, "the first line", 0.05)

    def end(self) -> None:
        self.enough()
        self.judge()
        printed = self.printed()
        last = max((attempt for _, attempt in printed), default=0)
        if not last:
            self.found.wrong.append("nothing is in the log")
        for (_, attempt), lines in printed.items():
            numbers = [int(line[:8]) for line in lines if line[:8].isdigit()]
            end = lines[-1].removeprefix("end of ") if lines[-1].startswith("end") else ""
            if attempt == last and not end:
                self.found.wrong.append("the last line is missing")
            count = int(end) if end else max(numbers, default=-1) + 1
            missing, repeated = oracle.gaps(numbers, count)
            self.found.missing += missing
            self.found.repeated += repeated


class ExecOpen(Work):
    """A command prints beside a task. Whoever called it gets all of it with the exit code, or an error."""

    def begin(self) -> None:
        self.start(t=self.bed.component(self.until_enough))
        self.codes["t"] = [0]
        self.wait_begun(1)
        wait_until(lambda: self.bed.client.tasks(self.name)[0].state == "RUNNING", BEGINS_WITHIN, "RUNNING", 0.05)
        self._said, self._error, self._code = b"", "", None
        self._first = threading.Event()
        self._thread = threading.Thread(target=self._call, daemon=True)
        self._thread.start()
        assert self._first.wait(BEGINS_WITHIN), self._error

    def _call(self) -> None:
        script = f"i=0; while [ $i -lt {COMMANDS} ]; do echo $i; i=$((i+1)); sleep 0.1; done; exit 9"
        try:
            done = self.bed.client.execute(self.name, "t.0", ["sh", "-c", script])
            for _, data in done.output():
                self._said += data
                self._first.set()
            self._code = done.code
        except GrassError as error:
            self._error = str(error)
        finally:
            self._first.set()

    def end(self) -> None:
        self._thread.join(ENDS_WITHIN)
        if self._thread.is_alive():
            self.found.wrong.append("the command hangs")
        whole = self._said == b"".join(b"%d\n" % number for number in range(COMMANDS))
        if self._error or self._code != 9:
            self.found.calls = self._error or f"exit code {self._code}"
        elif not whole:
            self.found.wrong.append(f"the command ended well with other output: {self._said!r}")
        self.enough()
        self.judge()


class Scaling(Work):
    """New tasks run but are not ready yet; they become so after the fault."""

    def begin(self) -> None:
        ready = {"command": ["test", "-e", f"{self.bed.marks}/ready-{self.name}"]}
        part = self.bed.component(self.until_enough, 2, min=1, max=4, framework="none", ready=ready)
        self.start(t={**part, "restart": "on-failure"})
        self.wait_begun(2)
        self._operation = self.bed.client.scale(self.name, "t", 4, deadline=60.0).id
        self.wait_begun(4)

    def end(self) -> None:
        self.bed.write(f"ready-{self.name}")
        done = patiently(lambda: self.bed.client.wait_for_operation(self.name, self._operation, ENDS_WITHIN))
        size = 4 if done.outcome == "DONE" else 2
        if done.outcome not in ("DONE", "ROLLED_BACK", "TIMED_OUT"):
            self.found.wrong.append(f"the operation is {done.outcome}: {done.message}")
        self.codes["t"] = [0] * size
        self.enough()
        self.judge()


class ImageLoading(Work):
    def begin(self) -> None:
        self.bed.forget_image()
        self.start(t=self.bed.component("exit 0", image=self.bed.image, runtime="docker"))
        self.codes["t"] = [0]

        def loads() -> bool:
            [task] = self.bed.client.tasks(self.name)
            return task.attempt > 0

        wait_until(loads, BEGINS_WITHIN, "the node", 0.02)

    def end(self) -> None:
        self.judge()


class Stopping(Work):
    """The tasks need 1.5 s after TERM, and end with a code of their own."""

    def begin(self) -> None:
        part = self.bed.component(f"trap 'sleep 1.5; exit 5' TERM; {self.until_enough}", 2, grace="20s")
        self.start(t=part)
        self.wait_begun(2)
        self.bed.client.stop(self.name)

    def end(self) -> None:
        self.judge("STOPPED")


class Starting(Work):
    """Some of the tasks have begun. They end by themselves, each with a code of its own."""

    def begin(self) -> None:
        ends = "echo task $GRASS_INDEX; sleep $((GRASS_INDEX % 3)); exit $((GRASS_INDEX % 3))"
        self.start(t=self.bed.component(f"{self.mark}; {ends}", TASKS, resources={"cpu": 0.001, "memory": "4MiB"}))
        self.codes["t"] = [index % 3 for index in range(TASKS)]
        self.wait_begun(TASKS // 3)

    def end(self) -> None:
        self.judge()
        last = {task.task: task.attempt for task in patiently(lambda: self.bed.client.tasks(self.name))}
        printed = self.printed()
        said = [int(line.split()[1]) for task, attempt in last.items() for line in printed.get((task, attempt), [])]
        missing, repeated = oracle.gaps(sorted(said), TASKS)
        self.found.missing += missing
        self.found.repeated += repeated


STATES: dict[str, type[Work]] = {
    table.QUEUED: Queued,
    table.RUNNING: Running,
    table.LOGS: LogsFlowing,
    table.SCALING: Scaling,
    table.EXEC: ExecOpen,
    table.IMAGE: ImageLoading,
    table.PUSH: Pushed,
    table.STOPPING: Stopping,
    table.STARTING: Starting,
}
