"""``python -m node.share_mount``: mount the share of a cluster through FUSE, and watch over it, until SIGTERM.

Run as root by ``grass-share-fuse@.service``, on nodes whose kernel has no cifs. rclone does the work. This program adds

- that a mount outlives its server: each new mount is put on top of the one before, which is never taken away. A
  container has the mount of the time when it started, and receives only what is mounted on top of that; without it,
  the container would keep a dead mount for ever.
- that a mount which hangs although its server answers, or whose rclone failed inside, is ended within a minute. systemd
  then starts the next one.

It never unmounts the folder of the share: after its end, whoever uses the share gets an error (ENOTCONN) until the next
start. Leaving the cluster takes the mounts away (``grass.provision.on_premises.removal``).
"""

from __future__ import annotations

import argparse
import logging
import pwd
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grass import clock
from grass.entropy import request_id
from grass.systemd import Notifier
from node.mounts import detach, mount_point, mounts, stack

START = 25.0
"""Seconds within which rclone has to mount."""
TURN = 5.0
"""Seconds between two looks at the mount."""
HUNG = 30.0
"""Seconds without an answer after which the mount hangs: more than rclone itself waits for its server, with retries."""
CONNECT = 5.0
"""Seconds that the server may take to accept a connection."""
END = 3.0
"""Seconds that rclone may take to end after TERM."""
DEEPEST = 100
"""Mounts on top of one another at most. Then all are taken away, and the containers from before lose the share."""

ENCODING = "Slash,LtGt,DoubleQuote,Colon,Question,Asterisk,Pipe,BackSlash,Ctl,InvalidUtf8"
"""rclone's default without Dot, RightPeriod and RightSpace: with these, rclone 1.60 takes the share's own folder ``.``
for a name to be encoded, and makes a folder that is called U+FF0E."""

_FAILED_INSIDE = b"panic in handler"

log = logging.getLogger("node.share_mount")


@dataclass(frozen=True)
class Share:
    """``name`` of the share on the server ``host``:``port``. ``folder``: where it is wanted. ``credentials``: rclone's
    configuration, with a remote called ``grass``. ``stage``: a folder of its own, where rclone mounts.
    ``user``: whose all files are."""

    name: str
    host: str
    port: int
    folder: str
    credentials: str
    cache: str
    stage: str
    user: str


def command(share: Share) -> list[str]:
    """The argv of rclone, which must not tell systemd that it is ready.

    Whoever uses a share that is away gets an error after a while (short timeouts, few retries). A file that another
    node changed meanwhile is no error: the last one to close it wins (``--ignore-size``; otherwise rclone removes it).
    """
    account = pwd.getpwnam(share.user)
    return [
        *("env", "--unset=NOTIFY_SOCKET", "rclone", "mount", f"grass:{share.name}", share.stage),
        *("--config", share.credentials, "--cache-dir", share.cache, "--allow-other"),
        *("--uid", str(account.pw_uid), "--gid", str(account.pw_gid)),
        *("--file-perms", "0775", "--umask", "002", "--smb-encoding", ENCODING),
        *("--vfs-cache-mode", "writes", "--vfs-write-back", "0s", "--vfs-cache-max-age", "1m"),
        *("--ignore-size", "--ignore-checksum", "--dir-cache-time", "1s", "--attr-timeout", "1s"),
        *("--poll-interval", "0", "--contimeout", "5s", "--timeout", "15s", "--smb-idle-timeout", "5s"),
        *("--retries", "1", "--low-level-retries", "2", "--log-level", "NOTICE"),
    ]


class Look:
    """Asks the mount for a file that is not there, in a thread of its own, because a hung mount may never answer."""

    def __init__(self, folder: str) -> None:
        self.since = clock.steady()
        self.answered = threading.Event()
        self._path = Path(folder) / f".grass-{request_id()[:12]}"
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        with suppress(OSError):  # an error is an answer
            self._path.lstat()
        self.answered.set()


def accepts(host: str, port: int, seconds: float = CONNECT) -> bool:
    try:
        socket.create_connection((host, port), seconds).close()
    except OSError:
        return False
    return True


def put_on_top(stage: str, folder: str) -> None:
    """Show the mount at ``stage`` at ``folder``, and there only."""
    if sum(each.point == folder for each in mounts()) >= DEEPEST:
        while any(each.point == folder for each in mounts()):
            detach(folder)
    stack(stage, folder)
    detach(stage)


def until(deadline: float, met: Callable[[], bool]) -> bool:
    while not met():
        if clock.steady() > deadline:
            return False
        clock.sleep(0.05)
    return True


class Rclone:
    """The process. ``over`` is set, with ``why``, when it is of no more use: it ended, or failed inside.

    rclone 1.60 goes on after a failure inside (the server refused to close a file), and whoever uses that file hangs.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self.over = threading.Event()
        self.why = ""
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Pass on what it says, until it has ended."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
            if _FAILED_INSIDE in line:
                self._set_over("rclone failed inside")
        self._set_over(f"rclone ended with {self._process.wait()}")

    def _set_over(self, why: str) -> None:
        self.why = self.why or why
        self.over.set()

    def end(self) -> None:
        self._process.terminate()
        self._reader.join(END)
        if self._reader.is_alive():
            self._process.kill()
            self._reader.join()


def watch(share: Share, rclone: Rclone, beat: Callable[[], None], turn: float, hung: float) -> str:
    """Return why the mount must be made anew, once that is so."""
    look = Look(share.folder)
    while True:
        beat()
        if rclone.over.wait(turn):
            return rclone.why
        if look.answered.is_set():
            look = Look(share.folder)
        elif clock.steady() - look.since > hung and accepts(share.host, share.port):
            return f"the mount did not answer for {hung:g} s, although its server does"


def serve(share: Share, notifier: Notifier, turn: float = TURN, hung: float = HUNG) -> int:
    """Mount, and watch until the mount must be made anew: 1."""
    stage = Path(share.stage)
    if mount_point(stage) == share.stage:
        detach(share.stage)  # left by one that was killed
    stage.mkdir(exist_ok=True)
    rclone = Rclone(command(share))
    try:
        mounted = until(clock.steady() + START, lambda: rclone.over.is_set() or mount_point(stage) == share.stage)
        if not mounted or rclone.over.is_set():
            log.error("%s: not mounted; rclone ended, or took more than %g s", share.folder, START)
            return 1
        put_on_top(share.stage, share.folder)
        notifier.ready()
        why = watch(share, rclone, notifier.beat, turn, hung)
        log.error("%s: %s; systemd mounts it again", share.folder, why)
        return 1
    finally:
        rclone.end()


def main(argv: Sequence[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(prog="node.share_mount")
    for option in ("name", "host", "folder", "credentials", "cache", "stage", "user"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--hung", type=float, default=HUNG, help="seconds without an answer")
    given = vars(parser.parse_args(argv))
    hung = given.pop("hung")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    return serve(Share(**given), Notifier(), min(TURN, hung), hung)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
