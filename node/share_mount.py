"""``python -m node.share_mount``: mount the cluster's share through FUSE, and watch the mount, until SIGTERM.

``grass-share-fuse@.service`` runs it as root, on nodes whose kernel has no cifs. rclone does the work. This program
adds four things:

- Containers survive a restart of rclone. A container keeps the mount that existed when it started, and receives only
  what is mounted on top of that. So each new mount goes on top of the old one, which is never unmounted.
- A mount that hangs although its server answers, or whose rclone failed internally, is ended within a minute. systemd
  then starts the next one.
- A file that was closed while the server was away is sent when it is back (``unsent_files``).
- Isolated containers get the folders of the new mount in place of those of the old one (``share_rebinding``).

It never unmounts the share's folder. After its end, programs that use the share get an error (ENOTCONN) until the next
start. Leaving the cluster removes the mounts (``grass.provision.on_premises.removal``).
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

from grass.system import clock
from grass.system.entropy import request_id
from grass.system.systemd import Notifier
from node.mounts import LISTING_KEPT, detach, mount_point, mounts, stack
from node.unsent_files import UnsentFiles

START = 25.0
"""Seconds that rclone may take to mount."""
TURN = 5.0
"""Seconds between two checks of the mount."""
HUNG = 30.0
"""Seconds without an answer after which the mount counts as hung: longer than rclone's own waits with retries."""
CONNECT = 5.0
"""Seconds that the server may take to accept a connection."""
END = 3.0
"""Seconds that rclone may take to end after TERM."""
DEEPEST = 100
"""Most mounts on top of each other. Then all are detached, and containers that are older lose the share."""

ENCODING = "Slash,LtGt,DoubleQuote,Colon,Question,Asterisk,Pipe,BackSlash,Ctl,InvalidUtf8"
"""rclone's default without Dot, RightPeriod and RightSpace. With these three, rclone 1.60 encodes the name of the
share's own folder ``.`` and creates a folder named U+FF0E."""

_FAILED_INSIDE = b"panic in handler"

log = logging.getLogger("node.share_mount")


@dataclass(frozen=True)
class Share:
    """The share ``name`` on the server ``host``:``port``.

    ``folder``: where the share is to be mounted. ``credentials``: rclone's configuration, with a remote called
    ``grass``. ``stage``: a folder of its own, where rclone mounts first. ``user``: the owner of all files.
    """

    name: str
    host: str
    port: int
    folder: str
    credentials: str
    cache: str
    stage: str
    user: str


def command(share: Share) -> list[str]:
    """Return the command line of rclone. It must not report to systemd, so ``NOTIFY_SOCKET`` is unset.

    Timeouts are short and retries few: programs get an error after a while when the server is away. A file that another
    node changed meanwhile is not an error: the last one to close it wins (with ``--ignore-size``; otherwise rclone
    removes the file). A file is sent once, when it is closed.
    """
    account = pwd.getpwnam(share.user)
    return [
        *("env", "--unset=NOTIFY_SOCKET", "rclone", "mount", f"grass:{share.name}", share.stage),
        *("--config", share.credentials, "--cache-dir", share.cache, "--allow-other"),
        *("--uid", str(account.pw_uid), "--gid", str(account.pw_gid)),
        *("--file-perms", "0775", "--umask", "002", "--smb-encoding", ENCODING),
        *("--vfs-cache-mode", "writes", "--vfs-write-back", "0s", "--vfs-cache-max-age", "1m"),
        *("--ignore-size", "--ignore-checksum", "--dir-cache-time", f"{LISTING_KEPT:g}s", "--attr-timeout", "1s"),
        *("--poll-interval", "0", "--contimeout", "5s", "--timeout", "15s", "--smb-idle-timeout", "5s"),
        *("--retries", "1", "--low-level-retries", "2", "--log-level", "NOTICE"),
    ]


class MountCheck:
    """Ask the mount for a file that does not exist, in a thread of its own: a hung mount may never answer."""

    def __init__(self, folder: str) -> None:
        self.answered = threading.Event()
        self._path = Path(folder) / f".grass-{request_id()[:12]}"
        threading.Thread(target=self._ask, daemon=True).start()

    def _ask(self) -> None:
        with suppress(OSError):  # an error is an answer
            self._path.lstat()
        self.answered.set()


def accepts(host: str, port: int, seconds: float = CONNECT) -> bool:
    """Return whether a server accepts a TCP connection."""
    try:
        socket.create_connection((host, port), seconds).close()
    except OSError:
        return False
    return True


def put_on_top(stage: str, folder: str) -> None:
    """Move the mount from ``stage`` to ``folder``, on top of the mounts there."""
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
    """The process. ``over`` is set, with the reason in ``why``, when it ended or failed internally.

    rclone 1.60 goes on after an internal failure (the server refused to close a file). Programs that use the file hang.
    """

    def __init__(self, argv: Sequence[str], unsent: UnsentFiles) -> None:
        self.unsent = unsent
        self.over = threading.Event()
        self.why = ""
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Copy its messages to stderr until it ends."""
        assert self._process.stderr is not None
        with self._process.stderr as said:
            for line in said:
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()
                self.unsent.note(line)
                if _FAILED_INSIDE in line:
                    self._set_over("rclone failed internally")
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
    """Wait until the mount must be replaced, and return why.

    Each turn without an answer adds ``turn`` to the silence, however long it took: while the whole machine stood still,
    the mount had no chance to answer. A server that is away ends the silence: once it is back, the mount has time to
    connect again. A mount that is replaced takes the files away that programs have open.
    """
    check, silence = MountCheck(share.folder), 0.0
    while True:
        beat()
        if rclone.over.wait(turn):
            return rclone.why
        if check.answered.is_set():
            rclone.unsent.send()
            check, silence = MountCheck(share.folder), 0.0
            continue
        silence = silence + turn if accepts(share.host, share.port) else 0.0
        if silence >= hung:
            return f"the mount did not answer for {hung:g} s, although its server does"


def show_again(folder: str) -> None:
    """Show the present mount to who has folders of an earlier one. Begins again if its program is killed."""
    command = [sys.executable, "-m", "node.share_rebinding", folder]
    while subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode:
        clock.sleep(TURN)


def serve(share: Share, notifier: Notifier, turn: float = TURN, hung: float = HUNG) -> int:
    """Mount, and watch until the mount must be replaced. Return the exit code: 1."""
    stage = Path(share.stage)
    if mount_point(stage) == share.stage:
        detach(share.stage)  # left by an earlier run that was killed
    stage.mkdir(exist_ok=True)
    rclone = Rclone(command(share), UnsentFiles(Path(share.cache), share.name, Path(share.folder)))
    try:
        mounted = until(clock.steady() + START, lambda: rclone.over.is_set() or mount_point(stage) == share.stage)
        if not mounted or rclone.over.is_set():
            log.error("%s: not mounted; rclone ended, or took more than %g s", share.folder, START)
            return 1
        put_on_top(share.stage, share.folder)
        notifier.ready()
        threading.Thread(target=show_again, args=(share.folder,), daemon=True).start()  # its program ends with this one
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
    return serve(Share(**given), Notifier(), min(TURN, hung / 4), hung)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
