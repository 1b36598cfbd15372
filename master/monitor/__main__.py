"""``python -m master.monitor CLUSTER_JSON``: keeps usage histories, and serves the page ``/metrics``. Ends on SIGTERM.

The rest of the cluster works without it: histories have a gap of more than two minutes only if it is away for longer.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence

from grass.api.daemon_log import start_master_log
from grass.config import ClusterConfig, Secrets
from grass.errors import UnreachableError
from grass.store.connect import open_backend
from grass.store.finding_store import FindingStore
from grass.store.history_store import HistoryStore, Sampled
from grass.store.keys import Keys
from grass.store.previews import Previews
from grass.store.records import Records
from grass.store.tickets import Tickets
from grass.system import clock, process_memory
from grass.system.systemd import Notifier
from grass.wire.api_figures import ApiFigures
from grass.wire.job_record import JobRecord
from master.monitor.autoscaler import Autoscaler
from master.monitor.checks_before import ChecksBefore
from master.monitor.dlrover_checks import DlroverChecks
from master.monitor.hangs import Hangs
from master.monitor.kept_files import KeptFilesWatch
from master.monitor.monitor import EVERY, Monitor
from master.monitor.open_findings import OpenFindings
from master.monitor.page_server import PageServer
from master.monitor.slow_members import SlowTasks
from master.monitor.snapshot import collect
from master.monitor.waits import Waits

log = logging.getLogger("grass.monitor")


def main(path: str) -> int:
    config = ClusterConfig.load(path)
    start_master_log(config, "monitor")
    backend = open_backend(config, Secrets.load(config.home), "agent")
    keys = Keys(config.key_prefix)
    records, waits = Records(backend, keys), Waits()
    tickets = Tickets(backend, keys)
    findings, previews = OpenFindings(FindingStore(backend, keys)), Previews(backend, keys)
    hangs = Hangs(config, records, findings, tickets)
    slow = SlowTasks(records, findings, tickets, previews)
    faults = DlroverChecks(records, findings, tickets)
    history = HistoryStore(backend, keys)

    def taken(node: str, samples: Sequence[Sampled]) -> None:
        hangs.take(node, samples)
        slow.take(node, samples)
        faults.take(samples)

    monitor = Monitor(records, history, taken=taken)
    autoscaler = Autoscaler(records, history, tickets, previews)

    def page(figures: ApiFigures) -> bytes:
        from master.monitor.exposition import page as rendered

        nodes, newest = monitor.nodes.copy(), monitor.newest.copy()
        return rendered(collect(config, records, backend, keys, nodes, newest, waits, figures))

    kept = KeptFilesWatch(config, records, tickets)
    server = PageServer(config.socket("monitor"), page, kept.ask)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    process_memory.keep_imported()
    notifier = Notifier()
    notifier.ready()
    server.start()
    checks = ChecksBefore(config, records, tickets)
    ends = _Ends(records, waits, checks.take)
    of_jobs = [lambda: hangs.turn(monitor.nodes), slow.turn, faults.turn, ends.turn, checks.turn]
    turns = [monitor.turn, *of_jobs, kept.turn, autoscaler.turn]
    _run(turns, monitor.forget, notifier, stop)
    kept.close()
    hangs.close()
    server.stop()
    return 0


class _Ends:
    """Counts how long the jobs waited that ended since the monitor began, and hands their records on."""

    def __init__(self, records: Records, waits: Waits, taken: Callable[[Iterable[JobRecord]], None]) -> None:
        self._taken = taken
        self._records = records
        self._waits = waits
        self._last: str | None = None

    def turn(self) -> None:
        if self._last is None:
            self._last = self._records.last_end()
        news = self._records.wait_ends(self._last, 0)
        self._last = news.last
        for record in news.records.values():
            self._waits.add(record)
        self._taken(news.records.values())


def _run(
    turns: list[Callable[[], None]], forget: Callable[[], None], notifier: Notifier, stop: threading.Event
) -> None:
    """Run until ``stop``. While redis is away, wait. What cannot be processed is logged, and the monitor continues."""
    due, complained = clock.steady(), False
    while not stop.is_set():
        notifier.beat()
        try:
            for turn in turns:
                turn()
            complained = False
        except UnreachableError as error:
            if not complained:
                log.warning("%s; histories continue when the store answers", error)
            complained = True
        except Exception:  # the histories of the others, and the page, must go on
            log.exception("a turn of the monitor failed; it continues with the next one")
            forget()
        due = max(due + EVERY, clock.steady())
        stop.wait(max(0.0, due - clock.steady()) or EVERY)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
