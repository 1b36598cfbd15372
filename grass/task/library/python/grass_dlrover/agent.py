"""Runs DLRover's client in a task: ``dlrover-run`` of Grass starts the stock one.

``python3 -m grass_dlrover.agent COMMAND`` does the same for another command that has DLRover's client in it.

The client knows its master by one address, for as long as it runs. So a relay on this machine has that address, and
passes each connection on to where the master is now. A released task ends with 0.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import threading
import time

from grass_membership import Api, ApiError

from grass_dlrover import VERSION
from grass_dlrover.keeping import UID

PATIENCE = 50.0
"""Seconds for which a connection waits for a master that is away. DLRover's client then tries again, ten times."""
GLANCE = 0.2
FORWARDED = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2")
MISSING, REFUSED = 127, 64
"""Exit codes: there is no DLRover, as of a shell; and it is another version, which another attempt cannot change."""
_ASKS = "import importlib.metadata as m; print(m.version('dlrover'))"


class Relay:
    """``target``: the file with host and port of the master, which the node replaces when it moves."""

    def __init__(self, target):
        self._target = pathlib.Path(target)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]

    def start(self):
        threading.Thread(target=self._accept, name="grass-relay", daemon=True).start()

    def _accept(self):
        while True:
            near, _ = self._listener.accept()
            threading.Thread(target=self._pass_on, args=(near,), daemon=True).start()

    def _pass_on(self, near):
        with near:
            far = self._connected()
            if far is None:
                return
            with far, contextlib.suppress(OSError):
                _splice(near, far)

    def _connected(self):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(OSError, ValueError):
                host, port = self._target.read_text().split()
                return socket.create_connection((host, int(port)), timeout=5)
            time.sleep(GLANCE)
        return None


def _splice(near, far):
    """Pass on what both say, until one of them has nothing more to say to the other."""
    far.settimeout(None)
    others = {near: far, far: near}
    while True:
        for each in select.select([near, far], [], [])[0]:
            data = each.recv(1 << 16)
            if not data:
                return
            others[each].sendall(data)


def stock_command(program, arguments, path, own):
    """Return (command, its Python) of the stock program. ``program``: empty: the command is in ``arguments``.

    ``own``: the program of Grass of the same name. In a container it is where pip puts the stock one.
    """
    if not program:
        return list(arguments), None
    for folder in path.split(os.pathsep):
        found = pathlib.Path(folder or ".", program)
        if os.access(found, os.X_OK) and found.is_file() and not _same(found, pathlib.Path(own)):
            with found.open("rb") as file:
                first = file.readline(4096)
            if first.startswith(b"#!"):
                return [str(found), *arguments], first[2:].decode(errors="replace").split()
            return [str(found), *arguments], None
    return ["python3", "-m", "dlrover.trainer.torch.main", *arguments], ["python3"]


def _same(found, own):
    return found.resolve() == own.resolve() or found.read_bytes() == own.read_bytes()


def wrong_version(python):
    """Return (exit code, why) if this Python has not the DLRover whose messages the master knows; otherwise None."""
    try:
        found = subprocess.run([*python, "-c", _ASKS], capture_output=True, text=True, check=False)
    except OSError as error:
        return MISSING, "dlrover-run: cannot ask %s for its DLRover: %s" % (python[0], error)
    version = found.stdout.strip()
    if found.returncode or not version:
        return MISSING, "dlrover-run: %s has no package dlrover; install dlrover==%s" % (python[0], VERSION)
    if version != VERSION:
        known = "framework dlrover of Grass knows the messages of %s only" % VERSION
        return REFUSED, "dlrover-run: %s has DLRover %s; %s; install dlrover==%s" % (python[0], version, known, VERSION)
    return None


def run(program, arguments):
    """Run the command, and return its exit code."""
    command, python = stock_command(program, arguments, os.environ.get("PATH", os.defpath), sys.argv[0])
    if python is not None:
        wrong = wrong_version(python)
        if wrong is not None:
            print(wrong[1], file=sys.stderr, flush=True)  # noqa: T201
            return wrong[0]
    api = Api()
    relay = Relay(os.environ["GRASS_DLROVER_MASTER"])
    relay.start()
    env = {**os.environ, "DLROVER_MASTER_ADDR": relay.address, "JOB_UID": _uid(api)}
    child = subprocess.Popen(command, env=env)
    for name in FORWARDED:
        signal.signal(getattr(signal, "SIG" + name), lambda number, _: child.send_signal(number))
    released = threading.Event()
    threading.Thread(target=_watch, args=(api, child, released), daemon=True).start()
    code = child.wait()
    if released.is_set():
        return 0
    return code if code >= 0 else 128 - code


def _watch(api, child, released):
    """End the command once this task is released: it is no member any more."""
    generation = -1
    while child.poll() is None:
        try:
            pulse = api.pulse(generation, 30)
        except (OSError, ApiError):
            time.sleep(1)
            continue
        generation = pulse["generation"]
        if pulse["released"]:
            released.set()
            child.terminate()
            return


def _uid(api):
    """Return the secret of the job, which its master makes when it starts."""
    said, revision = False, ""
    while True:
        with contextlib.suppress(OSError, ApiError):
            value, revision = api.get(UID, revision, 5)
            if value:
                return value
            if not said:
                print("waiting for the master of DLRover's client", flush=True)  # noqa: T201
            said = True
        time.sleep(GLANCE)


if __name__ == "__main__":
    sys.exit(run("", sys.argv[1:]))
