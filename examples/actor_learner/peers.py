"""Where the tasks of this job listen."""

import os
import time
from pathlib import Path


def find(component, port, patience=30.0):
    """Host and port of replica 0 of ``component``, from the lines `task host port name` that Grass keeps in a file.

    The file is replaced as tasks come and go, so it is read again until the line is there.
    """
    task = f"{os.environ['GRASS_JOB']}.{component}.0"
    until = time.monotonic() + patience
    while time.monotonic() < until:
        with Path(os.environ["GRASS_ADDRESSES"]).open() as file:
            for line in file:
                fields = line.split()
                if len(fields) == 4 and fields[0] == task and fields[3] == port:
                    return fields[1], int(fields[2])
        time.sleep(0.05)
    raise SystemExit(f"{task} has not published port {port!r} for {patience:.0f} s")
