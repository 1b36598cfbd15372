"""Fetches what tasks in pods wrote to ``GRASS_OUTPUT`` into the folders of their jobs in the share, in threads.

The files of an ended task are read with ``tar`` in the container that keeps them (``keeper``), unpacked into a folder
apart, and moved into the job's folder once they are complete. What has become of them is noted in a file before the
keeper is let go, so that an agent that is started in the middle does the rest, or does it again. Nothing waits for
ever: what cannot be fetched is given up, and the log of the task says so. Used by ``runtime``.
"""

from __future__ import annotations

import functools
import logging
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from grass.backoff import Backoff
from grass.errors import ConflictError, GrassError, InputError, NotAllowedError, NotFoundError, UnreachableError
from grass.kubernetes import names
from grass.kubernetes.api import ApiServer
from grass.kubernetes.command import PodCommand
from grass.kubernetes.objects import Pod
from grass.model.key_text import job_of
from grass.system import clock
from grass.system.atomic_file import replace_file
from node.runtime.attempts import Folders
from node.runtime.kubernetes import keeper
from node.runtime.kubernetes.place import Place
from node.runtime.kubernetes.unpacking import merge, unpack
from node.runtime.reactor import Reactor
from node.runtime.workers import Workers

AT_ONCE = 6
"""Tasks whose files are fetched at once."""
MOST_BYTES = 32 << 30
TRANSFER_SECONDS = 1800.0
"""The most of one task, and how long that may take."""
PATIENCE = 120.0
"""Seconds for which it is tried again while the server does not answer, or the share cannot be written."""
_FIRST_RETRY, _LONGEST_RETRY = 0.5, 10.0
_SIGNAL_SECONDS = 10.0

log = logging.getLogger(__name__)


class Outputs:
    """``fetch`` and ``signal`` return at once; their results come in the loop."""

    def __init__(self, api: ApiServer, place: Place, reactor: Reactor, *, in_share: bool = False) -> None:
        """``in_share``: tasks write into the share of the namespace, so that nothing is fetched."""
        self._api = api
        self._in_share = in_share
        self._place = place
        self._folders = Folders(place.folder)
        self._parent = Path(place.output)
        self._drafts = self._parent / f".pods-{names.short(f'{place.cluster} {place.node}')}"
        """Where files are unpacked: beside the folders of jobs, so that they can be renamed into them."""
        self._reactor = reactor
        shutil.rmtree(self._drafts, ignore_errors=True)  # what an earlier agent began is begun again
        self._workers = Workers(AT_ONCE, lambda: reactor.post(self._workers.handle))
        self._stopping = threading.Event()
        self._open: set[PodCommand] = set()

    def fetch(self, key: str, pod: Pod, then: Callable[[str], None]) -> None:
        """``then`` gets why the files, or some of them, were not kept; empty if they were."""

        def fetched(result: str | GrassError) -> None:
            then(str(result))
            if keeper.is_there(pod) and not self._stopping.is_set():
                self._workers.ask(functools.partial(self._run, pod, keeper.let_go()), lambda _: None)

        self._workers.ask(functools.partial(self._fetch, key, pod), fetched)

    def signal(self, pod: Pod, name: str, then: Callable[[bool | GrassError], None]) -> None:
        """Send the signal ``name`` to the task of a pod. ``then`` gets whether it was sent, or UnreachableError."""
        argv = keeper.signals(pod, name)
        if argv is None:
            then(False)
        else:
            self._reactor.errands.ask(functools.partial(self._run, pod, argv), then)

    def stop(self, seconds: float) -> None:
        """End the threads; the next agent does what was not done."""
        self._stopping.set()
        for each in list(self._open):
            each.close()
        self._workers.close(clock.steady() + seconds)

    def _fetch(self, key: str, pod: Pod) -> str:
        if self._in_share:
            return ""
        record = Path(self._folders.path(key, "output"))
        with suppress(OSError):
            return record.read_text()
        if keeper.was_let_go(pod):
            return ""
        why = keeper.trouble(pod) or self._persist(key, pod)
        if self._stopping.is_set():
            return why
        with suppress(OSError):
            record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(record, why)
        return why

    def _persist(self, key: str, pod: Pod) -> str:
        """Try until it is done, or given up."""
        retry, until = Backoff(_FIRST_RETRY, _LONGEST_RETRY), clock.steady() + PATIENCE
        while True:
            try:
                return self._transfer(key, pod)
            except (NotFoundError, ConflictError, NotAllowedError, InputError) as error:
                return str(error)
            except (GrassError, tarfile.TarError, OSError, EOFError, LookupError, ValueError) as error:
                if self._stopping.is_set() or clock.steady() > until:
                    return str(error)
                log.info("%s: its files cannot be fetched now (%s); trying again", key, error)
            self._stopping.wait(retry.next())

    def _transfer(self, key: str, pod: Pod) -> str:
        """Fetch all once. Return why some were left out. Raises GrassError, tarfile.TarError, OSError."""
        draft = self._drafts / pod.metadata.uid
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700, parents=True)
        try:
            command = PodCommand(self._api, self._path(pod), keeper.KEEPER, keeper.tar(), TRANSFER_SECONDS)
            with closing(command), self._stoppable(command):
                left_out, code = _unpacked(command, draft)
            if code and not any(draft.iterdir()):
                return command.said or f"tar ended with exit code {code}"
            merge(draft, self._parent, job_of(key))
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        if code:
            return f"some are missing: {command.said}"
        return f"{left_out} are no files, or links that lead out of it; all others were kept" if left_out else ""

    @contextmanager
    def _stoppable(self, command: PodCommand) -> Iterator[None]:
        self._open.add(command)
        try:
            if self._stopping.is_set():
                raise UnreachableError("the agent ends")
            yield
        finally:
            self._open.discard(command)

    def _run(self, pod: Pod, argv: list[str]) -> bool:
        """Run a command in the keeper; return whether it ended well. Raises GrassError."""
        command = PodCommand(self._api, self._path(pod), keeper.KEEPER, argv, _SIGNAL_SECONDS)
        with closing(command):
            code = command.code()
        if code is None:
            raise UnreachableError("the connection was lost")
        if code:
            log.info("pod %s: a command in it ended with exit code %s: %s", pod.metadata.name, code, command.said)
        return code == 0

    def _path(self, pod: Pod) -> str:
        return f"{self._place.path}/{pod.metadata.name}"


def _unpacked(command: PodCommand, folder: Path) -> tuple[int, int]:
    """Return how many entries were left out, and the exit code of tar. Raises as ``unpack``, or UnreachableError."""
    begun = clock.steady()
    try:
        left_out = unpack(command, folder, MOST_BYTES)
    except tarfile.TarError:
        if not command.code():  # otherwise tar itself says what went wrong
            raise
        left_out = 0
    code = command.code()
    if code is not None:
        return left_out, code
    if clock.steady() - begun >= TRANSFER_SECONDS:
        raise InputError(f"they did not arrive within {TRANSFER_SECONDS:g} s")
    raise UnreachableError("the connection was lost")
