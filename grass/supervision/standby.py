"""``python -m grass.supervision.standby CLUSTER_JSON``: the standby follows the master over one SSH connection.

The connection carries redis' replication, which is inside of TLS as well, and rsync, which reads users, keys,
certificates and settings every ``STATE_AGAIN`` seconds and logs every ``LOGS_AGAIN``. It proves the master by its
pinned host key: a certificate of the cluster, which every node has, would not. It notes when it last heard of the
master, for `grass cluster failover`. With a witness, ``candidate`` takes over by itself.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec

from grass.config import ClusterConfig, Secrets
from grass.errors import GrassError
from grass.network_address import host_and_port
from grass.store.connect import open_backend
from grass.store.keys import Keys
from grass.store.redis_backend import RedisBackend
from grass.supervision.candidate import FOLDER, Candidate
from grass.supervision.certificate_renewal import start_renewal
from grass.supervision.redis_watch import watch_redis
from grass.system import clock
from grass.system.atomic_file import replace_file
from grass.wire.codec import Form, encode

MARK = "standby.json"
"""File in the cluster's folder: this machine is a standby, and of whom."""
HEARD = "standby-heard"
"""File in the runtime folder, so that it is gone after a reboot: when the replica last had everything, and files came,
by this machine's clock since boot."""
STATE = ("cluster.json", "secrets.json", "master", "tls/ca.pem", "tls/ca.key", "redis/users.acl")
"""What is followed, in the cluster's folder."""
LOGS = "logs"
"""What is followed in the share, if the master's machine keeps it."""
STATE_AGAIN = 2.0
LOGS_AGAIN = 10.0
_LOOK = 0.25
_TURN = 0.02
_LONGEST = 3600.0
_ENDS = 1.0

log = logging.getLogger("grass.standby")


class Following(msgspec.Struct, frozen=True):
    """The master that this machine follows. ``address``, ``ssh_port``: of the master's sshd; ``redis``: host and port
    as seen from there. ``port``: of this machine, from which its replica reaches that. ``logs``: whether there are logs
    to follow."""

    address: str
    ssh_port: int
    redis: str
    port: int
    logs: bool


FOLLOWING: Form[Following] = Form(Following)


class Heard(msgspec.Struct, frozen=True):
    """Times at which the master was heard, by ``clock.steady``; 0: never since boot."""

    redis: float = 0.0
    state: float = 0.0


HEARD_FORM: Form[Heard] = Form(Heard)


def ssh(config: ClusterConfig, following: Following) -> list[str]:
    """Return the words before the destination and the command."""
    folder = Path(config.home) / FOLDER
    words = ["ssh", "-F", "/dev/null", "-i", str(folder / "key"), "-p", str(following.ssh_port), "-o", "BatchMode=yes"]
    words += ["-o", f"UserKnownHostsFile={folder / 'known_hosts'}", "-o", "GlobalKnownHostsFile=/dev/null"]
    words += ["-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", "-o", "ConnectTimeout=5"]
    words += ["-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3"]
    return [*words, "-o", f"ControlPath={config.socket('standby-ssh')}"]


def pull(
    config: ClusterConfig, following: Following, paths: Sequence[str], target: Path, seconds: float = _LONGEST
) -> str:
    """Bring ``STATE`` or ``LOGS`` into a folder. Return what went wrong; empty: nothing."""
    sources = [f"{'' if number else _login(following)}:{path}" for number, path in enumerate(paths)]
    shell = " ".join(ssh(config, following))
    command = ["rsync", "--recursive", "--links", "--perms", "--times", "--relative", "--delete", "--delay-updates"]
    try:
        done = subprocess.run(
            [*command, "-e", shell, *sources, f"{target}/"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"rsync ended with {done.returncode}"


def _login(following: Following) -> str:
    host = f"[{following.address}]" if ":" in following.address else following.address
    return f"grass@{host}"


class Follower:
    def __init__(self, config: ClusterConfig, following: Following) -> None:
        self._config, self._following = config, following
        self._heard = Heard()
        self._lock = threading.Lock()
        self._may_follow = threading.Event()
        self._may_follow.set()
        self._connection: subprocess.Popen[str] | None = None
        self._whole_since = ""

    def run(self) -> None:
        candidate = Candidate(self._config, self)
        works = (("link", self._link), ("state", self._state), ("logs", self._logs), ("candidate", candidate.run))
        for name, work in works:
            threading.Thread(target=work, name=name, daemon=True).start()
        self._listen()

    def _link(self) -> None:
        """Keep the connection up: it forwards the replica's port to the master's redis."""
        port, there = self._following.port, self._following.redis
        words = ["-N", "-M", "-o", "ExitOnForwardFailure=yes", "-L", f"127.0.0.1:{port}:{there}"]
        said = ""
        while True:
            self._may_follow.wait()
            command = [*ssh(self._config, self._following), *words, f"grass@{self._following.address}"]
            with subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            ) as ran:
                self._connection = ran
                if not self._may_follow.is_set():
                    ran.terminate()
                _, err = ran.communicate()
            why = err.strip() or f"ssh ended with {ran.returncode}"
            if why != said:
                log.warning("the master is away; trying again: %s", why)
            said = why
            clock.sleep(1)

    @property
    def heard_at(self) -> float:
        """When the replica last had everything; 0: not since this daemon started."""
        return self._heard.redis

    @property
    def whole_since(self) -> str:
        return self._whole_since

    def leave(self) -> None:
        """End the connection. The replica confirms nothing any more when this returns."""
        self._may_follow.clear()
        ran = self._connection
        if ran is None:
            return
        ran.terminate()  # ssh removes its control socket then
        try:
            ran.wait(_ENDS)
        except subprocess.TimeoutExpired:
            ran.kill()
            ran.wait()

    def follow(self) -> None:
        self._may_follow.set()

    def _state(self) -> None:
        self._again(STATE, Path(self._config.home) / FOLDER / "master", STATE_AGAIN)

    def _logs(self) -> None:
        if self._following.logs:
            self._again((LOGS,), self._config.data_dir, LOGS_AGAIN)

    def _again(self, paths: Sequence[str], target: Path, seconds: float) -> None:
        said = ""
        while True:
            began = clock.steady()
            why = pull(self._config, self._following, paths, target)
            if why and why != said:
                log.warning("cannot read %s of the master; trying again: %s", paths[0], why)
            elif not why and paths is STATE:
                self._note(state=began)
            said = why
            clock.sleep(seconds)

    def _listen(self) -> None:
        """Note since when the replica has everything: the moment before the master was asked how far it is, once the
        replica is as far. Two clocks are never compared."""
        secrets = Secrets.load(self._config.home)
        way = replace(self._config.redis, embedded=False, socket=None, host="127.0.0.1", port=self._following.port)
        there = replace(self._config, redis=way)
        while True:
            try:
                with (
                    closing(open_backend(self._config, secrets, "admin")) as own,
                    closing(open_backend(there, secrets, "admin")) as master,
                ):
                    while True:
                        self._catch_up(own, master)
            except GrassError as error:
                log.debug("%s", error)
                clock.sleep(1)

    def _catch_up(self, own: RedisBackend, master: RedisBackend) -> None:
        asked = clock.steady()
        offset = master.replication().offset
        while own.replication().offset < offset:
            clock.sleep(_TURN)
        self._note(redis=asked)
        if own.get(Keys(self._config.key_prefix).format) is not None and not own.writes_first_log():
            self._whole_since = own.run_id()
        clock.sleep(_LOOK)

    def _note(self, **times: float) -> None:
        with self._lock:
            self._heard = msgspec.structs.replace(self._heard, **times)
            replace_file(self._config.socket("x").parent / HEARD, encode(self._heard))


def main(path: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    config = ClusterConfig.load(path)
    following = FOLLOWING.decode((Path(config.home) / MARK).read_bytes())
    host_and_port(following.redis)
    watch_redis(config)
    start_renewal(config)
    Follower(config, following).run()


if __name__ == "__main__":
    main(sys.argv[1])
