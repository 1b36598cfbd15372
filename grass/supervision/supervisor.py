"""Client of a cluster's `supervisord`, over its unix socket. Used by this package and ``grass.provision``."""

from __future__ import annotations

import http.client
import socket
import subprocess
import xmlrpc.client
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

from grass.config import ClusterConfig
from grass.errors import GrassError
from grass.model.daemons import DaemonState
from grass.system import clock, own_program
from grass.system.environment import inherited_environment
from grass.system.systemd import SILENCE

_PATIENCE = 5.0
_DOWN = frozenset({"STOPPED", "FATAL", None})
"""States of a daemon that is left alone. None: there is no such daemon."""


class CannotSuperviseError(GrassError):
    """supervisord did not start; the message holds its output."""


class Supervisor:
    """The supervisord of one cluster. Every call raises OSError while supervisord does not answer."""

    def __init__(self, config: ClusterConfig) -> None:
        self._socket = config.socket("supervisor")
        self._notify = config.socket("notify")
        self._conf = Path(config.home) / "supervisord.conf"

    def answers(self) -> bool:
        try:
            self.pid()
        except OSError:
            return False
        return True

    def pid(self) -> int:
        return int(self._ask("getPID"))

    def daemons(self) -> list[DaemonState]:
        return [
            DaemonState(info["name"], info["pid"] or None, info["statename"], info["start"] if info["pid"] else None)
            for info in self._ask("getAllProcessInfo")
        ]

    def start_daemon(self, name: str) -> None:
        self._tell("startProcess", name, False)

    def stop_daemon(self, name: str) -> None:
        """Stop a daemon with TERM, then with KILL after its grace period; supervisord does not restart it."""
        self._tell("stopProcess", name, False)

    def end_daemon(self, name: str, seconds: float) -> None:
        """Stop a daemon, and return once it has ended and is not started again. TimeoutError after ``seconds``.

        supervisord cannot stop one that has just ended by itself: it starts that first.
        """
        until = clock.steady() + seconds
        while (state := {each.name: each.state for each in self.daemons()}.get(name)) not in _DOWN:
            if clock.steady() > until:
                raise TimeoutError(f"{name} does not end; it is {state}")
            if state != "STOPPING":
                self.stop_daemon(name)
            clock.sleep(0.01)

    def reload(self) -> None:
        """Start the daemons that are new in its configuration, and end those that are gone from it.

        What is written otherwise, such as the path of another Python, holds from the next start: tasks run meanwhile.
        """
        added, _, removed = self._ask("reloadConfig")[0]
        for name in removed:
            self._tell("stopProcessGroup", name)
            self._tell("removeProcessGroup", name)
        for name in added:
            self._tell("addProcessGroup", name)

    def start(self) -> None:
        """Start supervisord, and return when it listens. It then starts all daemons at once.

        A supervisord that is killed meanwhile raises no error here.
        """
        self._socket.unlink(missing_ok=True)
        done = subprocess.run(
            own_program.command("supervisor.supervisord", "-c", str(self._conf)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**own_program.environment(inherited_environment()), **self._listens()},
            cwd="/",
            start_new_session=True,
            check=False,
        )
        if done.returncode > 0:
            raise CannotSuperviseError(
                f"cannot start supervisord with {self._conf}: {(done.stderr or done.stdout).strip()}"
            )
        with suppress(OSError):  # killed meanwhile: the caller notices, because it waits for the cluster
            self._wake()

    def _listens(self) -> dict[str, str]:
        """Return the environment for signs of life, as of systemd: daemons send them to the watchdog in supervisord."""
        return {"NOTIFY_SOCKET": str(self._notify), "WATCHDOG_USEC": str(int(SILENCE * 1e6))}

    def shutdown(self) -> None:
        self._ask("shutdown")

    def _wake(self) -> None:
        """Wake supervisord with a call. It handles its children at an event, or once a second."""
        self._ask("getState")

    def _ask(self, method: str) -> Any:
        try:
            return self._call(method)
        except xmlrpc.client.Fault as fault:
            raise OSError(f"supervisord refuses, because it shuts down: {fault.faultString}") from fault

    def _tell(self, method: str, *arguments: Any) -> None:
        try:
            self._call(method, *arguments)
        except xmlrpc.client.Fault:
            return  # the daemon is in that state already
        self._wake()

    def _call(self, method: str, *arguments: Any) -> Any:
        connection = _UnixConnection(str(self._socket))
        try:
            request = xmlrpc.client.dumps(arguments, f"supervisor.{method}")
            connection.request("POST", "/RPC2", request, {"Content-Type": "text/xml"})
            reply = connection.getresponse()
            (value,), _ = xmlrpc.client.loads(reply.read())
        except (http.client.HTTPException, ExpatError, ValueError) as error:
            raise OSError(f"supervisord sent an invalid reply: {error}") from error
        finally:
            connection.close()
        return value


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(self._path)
        except OSError:
            self.sock.close()
            raise
