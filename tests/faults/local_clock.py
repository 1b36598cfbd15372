"""The wall clock of the daemons jumps, or runs fast, by libfaketime.

Not of redis, which does not start under it, nor of the API servers, where Python's own sleep fails under it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.faults.local_bed import LocalBed
from tests.support.needs import require
from tests.support.waiting import wait_until

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
FAKED = ("collector", "shepherd", "master-agent", "node-agent")
LASTS = 4.0


def prepare(bed: LocalBed) -> None:
    """Start these daemons again under libfaketime, which reads what to do to the clock from a file each time."""
    require(FAKETIME.exists(), "libfaketime", "apt-get install faketime")
    _offset(bed).write_text("+0\n")
    settings = (
        f'LD_PRELOAD="{FAKETIME}",FAKETIME_TIMESTAMP_FILE="{_offset(bed)}",FAKETIME_NO_CACHE="1",'
        'FAKETIME_DONT_FAKE_MONOTONIC="1",NO_FAKE_STAT="1"'
    )
    home = Path(bed.cluster.config.home)
    conf = home / "supervisord.conf"
    text = conf.read_text()
    for daemon in FAKED:
        text = text.replace(f"[program:{daemon}]\n", f"[program:{daemon}]\nenvironment={settings}\n")
    conf.write_text(f"{text}\n[supervisorctl]\nserverurl=unix://{bed.cluster.config.socket('supervisor')}\n")
    control = Path(sys.executable).with_name("supervisorctl")
    subprocess.run([control, "-c", conf, "update"], check=True, capture_output=True)
    wait_until(lambda: all(bed.cluster.pid(daemon) for daemon in FAKED), 20, "the daemons")


def shift(by: str, bed: LocalBed) -> float:
    """A job that runs meanwhile has the daemons' time; no daemon ends by it."""
    pids = {daemon: bed.cluster.pid(daemon) for daemon in FAKED}
    _offset(bed).write_text(f"{by}\n")
    name = f"meanwhile-{time.monotonic_ns()}"
    bed.start(name, t=bed.component("true"))
    view = bed.client.wait(name, timeout=10)
    jump = float(by.split()[0])
    assert view.state == "SUCCEEDED" and abs(view.ended - time.time() - jump) < 30, "the daemons' clock is another"
    time.sleep(LASTS)
    _offset(bed).write_text("+0\n")
    assert {daemon: bed.cluster.pid(daemon) for daemon in FAKED} == pids
    return time.monotonic()


def _offset(bed: LocalBed) -> Path:
    return bed.folder / "clock-offset"
