"""Resources of this machine: the defaults of a local node. Used by ``doctor``, ``layout`` and ``local``."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import threading
from pathlib import Path

import psutil

from grass.errors import InputError
from grass.manifest.local_settings import OfferedResources
from grass.model.resources import DEVICE, Resources
from grass.system.usable_resources import usable_cpu, usable_memory

_DRIVER = 10.0
"""Seconds for the driver to count its devices. One that was asleep takes some."""


def offered(wish: OfferedResources) -> Resources:
    """Return the resources in the settings. Each missing resource defaults to all that the machine has."""
    return Resources(
        cpu=usable_cpu() if wish.cpu is None else wish.cpu,
        memory=usable_memory() if wish.memory is None else wish.memory,
        gpu=gpus() if wish.gpu is None else wish.gpu,
    )


def gpus() -> int:
    """Return the thousandths of GPUs that this process can see; in a container, only the passed devices count.

    The driver's library counts them where it works; otherwise the devices in ``/dev`` count.
    """
    known, _ = nvml_devices()
    if known is None:
        known = sum(re.fullmatch(r"nvidia\d+", path.name) is not None for path in Path("/dev").iterdir())
    return DEVICE * known


def nvml_devices() -> tuple[int | None, str]:
    """Return how many devices NVML counts; None, and why: it cannot. A call to a lost driver may never return."""
    found: list[tuple[int | None, str]] = []
    asking = threading.Thread(target=lambda: found.append(_ask_nvml()), daemon=True)
    asking.start()
    asking.join(_DRIVER)
    return found[0] if found else (None, "the driver does not answer")


def _ask_nvml() -> tuple[int | None, str]:
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return None, str(error)
    count = ctypes.c_uint()
    if code := nvml.nvmlInit_v2():
        return None, f"code {code}"
    code = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    nvml.nvmlShutdown()
    return (None, f"code {code}") if code else (count.value, "")


PROCESSES = 64
"""Processes and threads for a cluster: an idle one has 36; each call, command beside a task and task has its own."""


def spare_processes() -> int | None:
    """Return how many more processes and threads this user may start (``ulimit -u``); None: no limit."""
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if limit == resource.RLIM_INFINITY or os.getuid() == 0:
        return None
    return limit - sum(_threads(process) for process in psutil.process_iter())


def _threads(process: psutil.Process) -> int:
    try:
        return int(process.num_threads()) if process.uids().real == os.getuid() else 0
    except psutil.Error:
        return 0


def check_processes() -> None:
    """Check the limit of processes. Raises InputError, naming the limit.

    Without this check, daemons that cannot be forked would be missing without an error.
    """
    spare = spare_processes()
    if spare is not None and spare < PROCESSES:
        raise InputError(
            f"this user may start only {max(0, spare)} more processes and threads, and a cluster needs {PROCESSES}; "
            f"raise `ulimit -u` (now {resource.getrlimit(resource.RLIMIT_NPROC)[0]}), or end some"
        )
