"""A program that writes the wall clock to a file: the task of the latency benches, for Grass and its peers alike.

Compiled from C where there is a compiler, without shared libraries if that can be (its first instruction would come
half a millisecond later, after the loader's); else `date` from a shell. Wall clocks may be compared here, because
everything happens on one machine.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (count > 2) usleep(1000 * atoi(arguments[2]));
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    FILE *file = fopen(arguments[1], "w");
    if (!file) return 1;
    fprintf(file, "%lld.%09ld\n", (long long)now.tv_sec, now.tv_nsec);
    return fclose(file) ? 1 : 0;
}
"""


class Stamper:
    """``command(path, delay)``: an argv that writes the time to ``path`` after ``delay`` milliseconds."""

    def __init__(self, folder: Path) -> None:
        self.program: Path | None = None
        if compiler := shutil.which("cc"):
            self.program = folder / "stamp"
            source = folder / "stamp.c"
            source.write_text(_SOURCE)
            command = [compiler, "-O2", "-o", str(self.program), str(source)]
            if subprocess.run([*command, "-static"], stderr=subprocess.DEVNULL).returncode:
                subprocess.run(command, check=True)

    def command(self, path: Path, delay: int = 0) -> list[str]:
        if self.program is not None:
            return [str(self.program), str(path), str(delay)]
        return ["/bin/sh", "-c", f"sleep {delay / 1000}; exec date +%s.%N >'{path}'"]
