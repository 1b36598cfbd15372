"""Data is moved to the share while a fault comes, by the command that people use."""

from __future__ import annotations

import filecmp
import os
import subprocess
import tempfile
from pathlib import Path

from grass.cli.exits import Exit
from tests.faults.work import ENDS_WITHIN, Work

FILES, SIZE = 40, 1 << 20
FAILS_WITH = {Exit.UNREACHABLE, Exit.SYSTEM, Exit.JOB_FAILED}
"""What `grass data push` may end with. What it began may be repeated."""


class Pushed(Work):
    def begin(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="grass-faults-", dir="/tmp")
        source = Path(self._folder.name) / "source"
        source.mkdir()
        for number in range(FILES):
            (source / str(number)).write_bytes(os.urandom(SIZE))
        self._source = source
        self._push = self._grass("push", str(source), self._target)

    @property
    def _target(self) -> str:
        return f"data/shared/{self.bed.client.status().user}/{self.name}"

    def _grass(self, *words: str) -> subprocess.Popen[str]:
        return self.bed.grass("data", *words)

    def end(self) -> None:
        try:
            _, said = self._push.communicate(timeout=ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._push.kill()
            self._push.communicate()
            self.found.wrong.append("the push hangs")
            said = ""
        if self._push.returncode:
            self.found.calls = f"exit {self._push.returncode}: {said.strip()[-200:]}"
            if self._push.returncode not in FAILS_WITH or "Traceback" in said:
                self.found.wrong.append(f"the push ended with {self._push.returncode}: {said.strip()[-300:]}")
            self._must("push", str(self._source), self._target)
        copy = Path(self._folder.name) / "copy"
        self._must("pull", self._target, str(copy))
        names = [str(number) for number in range(FILES)]
        equal, *_ = filecmp.cmpfiles(self._source, copy, names, shallow=False)
        if len(equal) != FILES:
            self.found.wrong.append(f"{FILES - len(equal)} files differ")
        self._must("remove", "--recursive", self._target)
        self._folder.cleanup()

    def _must(self, *words: str) -> None:
        done = self._grass(*words)
        _, said = done.communicate(timeout=ENDS_WITHIN)
        if done.returncode:
            self.found.wrong.append(f"`grass data {words[0]}` after the fault: {said.strip()[-300:]}")
