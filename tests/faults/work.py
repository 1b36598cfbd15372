"""One thing that is going on while a fault comes: a job, what it should come to, and what came of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.faults import oracle
from tests.faults.bed import Bed
from tests.faults.promise import Found
from tests.long.kill_matrix import patiently, whole_log
from tests.support.waiting import wait_until

BEGINS_WITHIN = ENDS_WITHIN = 90.0


@dataclass
class Work(ABC):
    """``name``: of its job. ``codes``: component → exit code of each of its tasks, by index."""

    bed: Bed
    name: str
    codes: dict[str, list[int]] = field(default_factory=dict)
    found: Found = field(default_factory=Found)

    @abstractmethod
    def begin(self) -> None:
        """Bring the state about; return in the middle of it."""

    @abstractmethod
    def end(self) -> None:
        """After the fault: let it end, and note in ``found`` what is wrong."""

    @property
    def until_enough(self) -> str:
        """A script that counts in the marks until it has had enough."""
        key, marks = "$GRASS_COMPONENT.$GRASS_INDEX/$GRASS_ATTEMPT", self.bed.marks
        loop = f'echo "{key} $$ $n" >> {marks}/{self.name}; n=$((n+1)); sleep 0.1'
        return f"umask 0; n=0; until [ -e {marks}/enough-{self.name} ]; do {loop}; done"

    @property
    def mark(self) -> str:
        """A script that marks the attempt once."""
        return f'umask 0; echo "$GRASS_COMPONENT.$GRASS_INDEX/$GRASS_ATTEMPT $$ 0" >> {self.bed.marks}/{self.name}'

    def start(self, **components: Any) -> None:
        self.bed.start(self.name, **components)

    def wait_begun(self, count: int) -> None:
        def here() -> bool:
            return len(oracle.begun(self.bed.lines_of(self.name))) >= count

        try:
            wait_until(here, BEGINS_WITHIN, f"{count} tasks of {self.name}", 0.05)
        except AssertionError as late:
            client = self.bed.client
            said = [line.text for line in client.logs(self.name)][-3:]
            raise AssertionError(f"{late}: {client.tasks(self.name)}; {client.why(self.name)}; {said}") from late

    def enough(self) -> None:
        self.bed.write(f"enough-{self.name}")

    def judge(self, state: str | None = None) -> None:
        """Wait for the end of the job; compare its end, its tasks and its marks."""
        client = self.bed.client
        view = patiently(lambda: client.wait(self.name, timeout=ENDS_WITHIN))
        wanted = state or ("FAILED" if any(code for codes in self.codes.values() for code in codes) else "SUCCEEDED")
        if view.state != wanted:
            self.found.wrong.append(f"the job is {view.state}, not {wanted}: {view.reason}")
        tasks = patiently(lambda: client.tasks(self.name))
        self.found.again += sum(task.attempt > 1 for task in tasks)
        known = {(task.component, task.index): task for task in tasks}
        for part, codes in self.codes.items():
            for index, code in enumerate(codes):
                task = known.get((part, index))
                if task is None or task.exit_code != code:
                    self.found.wrong.append(f"{part}.{index} did not end with {code}: {task}")
        self.found.wrong += oracle.run_twice(self.bed.lines_of(self.name))

    def printed(self) -> dict[tuple[str, int], list[str]]:
        """Return the log: (task, attempt) → lines."""
        whole_log(self.bed.client, self.name)
        found: dict[tuple[str, int], list[str]] = defaultdict(list)
        for line in patiently(lambda: list(self.bed.client.logs(self.name))):
            found[line.task, line.attempt].append(line.text)
        return found
