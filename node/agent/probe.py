"""The probe of a node that joins: everything that it offers is tried before a job may rely on it.

It runs a task in each runtime (with a GPU, if the node offers one), writes a file into the share, and sends a block to
the log collector. The node-agent runs it before its loop, at each start until it passes once; the result is part of
every hello. Each failed check says what to do.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from grass.api.collector_link import collector_address
from grass.errors import GrassError
from grass.model.resources import DEVICE
from grass.network_address import network_address
from grass.node_config import NodeHome
from grass.system import clock
from grass.system.entropy import request_id
from grass.wire.hello import Probe, ProbeCheck
from grass.wire.log_block import PROBE_JOB, LogBlock
from node.agent.forward import Link, Signal
from node.agent.probe_record import passed, remember
from node.mounts import mount_point
from node.runtime.attempts import Folders
from node.runtime.protocol import Launch, Listed, Observed, Runtime, Start, Stop, Waiting
from node.runtime.registry import kind

JOB = PROBE_JOB
SECONDS = 30.0
"""Limit of each check; a machine that takes longer to start one task is unusable."""
_SPACE = ".probe"
"""Test file in the node's folder: it can be written only if the disk has space."""
TO_MOUNT = 10.0
"""Seconds that a known share may take to be mounted again, after a boot."""


def probe(config: NodeHome, gpus: Sequence[int], seconds: float = SECONDS, key: str = "") -> Probe:
    """Probe the node; return the recorded result if it passed before, its share is mounted, and no GPU is missing."""
    before = passed(config)
    if before is not None:
        gone = _unmounted(config, before.mount, min(seconds, TO_MOUNT))
        bad = [check for check in (gone, *_promised(config, gpus)) if check is not None and not check.ok]
        return Probe(False, tuple(bad)) if bad else before.probe
    collector = _collector(config, seconds, key)
    shared = config.share is not None and collector.ok
    checks = [_share(config, shared, seconds), collector, *_promised(config, gpus)]
    gpus = gpus if config.node.gpu is None else gpus[: _devices(config.node.gpu)]
    checks += [trial_task(name, config, gpus, seconds) for name in config.node.runtimes]
    result = Probe(all(check.ok for check in checks), tuple(checks))
    if result.passed:
        remember(config, result)
    return result


def _promised(config: NodeHome, gpus: Sequence[int]) -> list[ProbeCheck]:
    """Compare the GPUs with the number that the settings promise. No check if they promise none."""
    promised = _devices(config.node.gpu or 0)
    if not promised:
        return []
    found = f"its driver shows {len(gpus)} of the {promised} promised GPUs"
    if len(gpus) >= promised:
        return [ProbeCheck("gpu", True, f"its driver shows {len(gpus)} GPUs; {promised} were promised")]
    advice = "repair the driver until `nvidia-smi` shows them, or `grass leave` and join again with fewer (--gpu)"
    return [ProbeCheck("gpu", False, f"{found}; {advice}")]


def _devices(thousandths: int) -> int:
    """Return the number of devices that hold so many thousandths, rounded up."""
    return -(-thousandths // DEVICE)


def _unmounted(config: NodeHome, point: str, seconds: float) -> ProbeCheck | None:
    """Wait until the share is mounted at ``point``; return a failed check if it is not.

    After a boot, a node may be up before the master. No task may use the empty folder below the mount point.
    """
    deadline = clock.steady() + seconds
    while mount_point(config.data_dir) != point:
        if clock.steady() > deadline:
            message = f"nothing is mounted at {point}, where the share was; is its server up, and reachable?"
            return ProbeCheck("share", False, message)
        clock.sleep(0.1)
    return None


def _share(config: NodeHome, logged: bool, seconds: float) -> ProbeCheck:
    """Write and read a file in the share, in a thread: a share whose server is away may never answer.

    ``logged``: the collector accepted a block, which it writes into the share. If that is visible here, the folder is
    the cluster's share and not an empty folder of this machine.
    """
    name, said = "share", request_id()
    path = config.data_dir / f".probe-{config.node.name}-{said[:8]}"
    until = clock.steady() + seconds

    def write_and_read() -> str:
        path.write_text(said)
        try:
            while logged and not _log(config).exists():
                if clock.steady() > until - seconds / 3:
                    return "another share"
                clock.sleep(0.1)
            return path.read_text()
        finally:
            path.unlink()

    try:
        read = within(seconds, write_and_read)
    except TimeoutError:
        return ProbeCheck(
            name, False, f"{path.parent} does not answer for {seconds:g} s; is its server up, and reachable?"
        )
    except OSError as error:
        advice = "mount the share there, and give the user of the node-agent write access"
        return ProbeCheck(name, False, f"cannot write, read and remove {path}: {error.strerror}; {advice}")
    if read != said:
        advice = "mount the cluster's share there, or name the folder where it is mounted"
        return ProbeCheck(
            name, False, f"{path.parent} is not the cluster's share: the collector's files are not in it; {advice}"
        )
    return ProbeCheck(name, True, f"{path.parent} can be written and read")


def _log(config: NodeHome) -> Path:
    """Return the file into which the collector writes the block of ``_collector``."""
    return config.logs_dir / JOB / f"{_component(config)}.0.jsonl"


def _component(config: NodeHome) -> str:
    return config.node.name.replace(".", "-")


def _collector(config: NodeHome, seconds: float, key: str) -> ProbeCheck:
    stop = Signal()
    address = collector_address(config)
    link = Link(address, stop.descriptor, config.node.name, key)
    tag = f"grass.{JOB}.{_component(config)}.0"
    block = LogBlock.of_data(1, "stdout", 0, clock.wall(), b"a node joins\n")
    deadline = clock.steady() + seconds
    try:
        while clock.steady() < deadline:
            if link.connected() and link.exchange([(tag, [block])]):
                return ProbeCheck("log collector", True, "it accepted a block")
            clock.sleep(0.1)
    finally:
        link.close()
        stop.close()
    endpoint = network_address(*address) if isinstance(address, tuple) else address
    advice = "is it running on the master, and does a firewall let this machine reach it?"
    return ProbeCheck("log collector", False, f"no log collector answered at {endpoint} for {seconds:g} s: {advice}")


def trial_task(name: str, config: NodeHome, gpus: Sequence[int], seconds: float) -> ProbeCheck:
    """Run a task in this runtime that prints a random text, and check its output and exit code."""
    said = request_id()
    try:
        _try_disk(config.node_dir)
    except OSError as error:
        message = f"cannot write in {config.node_dir}: {(error.strerror or '').lower()}; free space on its disk"
        return ProbeCheck(name, False, message)
    try:
        runtime, launch, advice = kind(name).trial(config, said, gpus)
    except GrassError as error:
        return ProbeCheck(name, False, str(error))
    key = f"{JOB}/{name}.0/1"
    output = Path(Folders(str(config.node_dir / "attempts")).path(key, "stdout"))
    try:
        ended = _run(runtime, Start(key, f"{JOB}/{name}", {}, {}, tuple(gpus[:1])), launch, seconds, output)
    finally:
        runtime.close()
    text = output.read_text(errors="replace") if output.exists() else ""
    output.unlink(missing_ok=True)
    if ended is None:
        return ProbeCheck(name, False, f"no task started and ended within {seconds:g} s: {advice}")
    if ended.code == 0 and text.startswith(said):
        return ProbeCheck(name, True, "a task ran" + (" and saw a GPU" if gpus else ""))
    how = ended.reason.message if ended.reason else f"it ended with {ended.code if ended.code is not None else -1}"
    return ProbeCheck(name, False, f"a trial task (`echo`) failed: {how}; {advice}")


def _try_disk(node_dir: Path) -> None:
    """Write a block there, because a trial task without space for its output only seems to hang. Raises OSError."""
    node_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    (node_dir / _SPACE).write_bytes(bytes(4096))
    (node_dir / _SPACE).unlink()


def _run(runtime: Runtime, start: Start, launch: Launch, seconds: float, output: Path) -> Observed | None:
    """Start one attempt and wait for its end; None: it did not end in time.

    If an earlier probe left an attempt with this key, that attempt is stopped and forgotten first, and its output is
    removed.
    """
    deadline = clock.steady() + seconds
    asked = False
    while clock.steady() < deadline:
        select.select([runtime], [], [], max(0.01, min(0.1, (runtime.due() or deadline) - clock.steady())))
        for each in runtime.receive():
            if isinstance(each, Waiting) or (isinstance(each, Observed) and each.key != start.key):
                continue
            known = each.attempts if isinstance(each, Listed) else [each]
            seen = next((attempt for attempt in known if attempt.key == start.key), None)
            if seen is not None and seen.ended is None:
                if not asked:
                    runtime.stop([Stop(start.key, 0.0)])
                continue
            runtime.forget([start.key])
            if asked and seen is not None:
                return seen
            asked = True
            output.unlink(missing_ok=True)
            runtime.define({start.launch: launch})
            runtime.start([start])
    return None


def within(seconds: float, work: Callable[[], str]) -> str:
    """Run ``work`` in a thread; return or raise its result, or raise TimeoutError. A hanging thread is left behind."""
    found: list[str | OSError] = []

    def run() -> None:
        try:
            found.append(work())
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=run, name="probe", daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        raise TimeoutError
    if isinstance(found[0], OSError):
        raise found[0]
    return found[0]
