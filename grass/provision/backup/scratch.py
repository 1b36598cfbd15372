"""A redis for a copy of a cluster's keys, which ends with this process, however that ends. Used by ``making`` and
``unpacking``."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grass.errors import UnreachableError
from grass.lines import lines_of
from grass.provision import runtime_folder
from grass.store import embedded
from grass.store.redis_copy import CannotCopyError, CopyServer, configuration
from grass.system import clock

_PATIENCE = 600.0
_PR_SET_PDEATHSIG = 1


@contextmanager
def loaded(folder: Path, program: embedded.Server | None = None) -> Iterator[CopyServer]:
    """Load ``folder/dump.rdb`` into a server of its own for the block. ``program``: by default that of clusters here.

    Raises CannotCopyError: it cannot be loaded.
    """
    found = program or embedded.find_server()
    name = "redis.sock"
    short = len(os.fsencode(folder / name)) <= runtime_folder.LONGEST_SOCKET
    sockets = folder if short else Path(tempfile.mkdtemp(prefix="grass-copy-"))
    conf, log = folder / "copy.conf", folder / "copy.log"
    conf.write_text(configuration(folder, sockets / name, found.version))
    server = CopyServer(unix_socket_path=str(sockets / name))
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(found.path), str(conf)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                preexec_fn=_end_with_parent,
            )
        try:
            _wait(process, server, log)
            yield server
        finally:
            process.terminate()
            process.wait()
    finally:
        server.close()
        if not short:
            shutil.rmtree(sockets, ignore_errors=True)
        for path in (conf, log, folder / name):
            path.unlink(missing_ok=True)


def _wait(process: subprocess.Popen[bytes], server: CopyServer, log: Path) -> None:
    until = clock.steady() + _PATIENCE
    while True:
        try:
            server.ping()
            return
        except UnreachableError as error:
            if process.poll() is not None or clock.steady() > until:
                said = [line for line in lines_of(log.read_text(errors="replace")) if " # " in line]
                why = said[0].partition(" # ")[2] if said else str(error)
                raise CannotCopyError(f"redis cannot load the copy of the keys: {why}") from error
        clock.sleep(0.01)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
