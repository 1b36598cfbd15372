"""Copies files between this machine and the claim that is the share of a namespace, through a short-lived pod
(``carrier``): ``python -m node.runtime.kubernetes.transfer CLUSTER_JSON push|pull LOCAL REMOTE [--copy-links]
[--force]``.

Run by ``grass.provision.namespace_files``, with an absolute LOCAL. It prints how many bytes were copied, and how many
entries were left out; or a message, and ends with the exit code of its error.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, cast

from grass.errors import GrassError, InputError, NotFoundError, UnreachableError
from grass.files import paths
from grass.kubernetes import names
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.command import PodCommand
from grass.kubernetes.objects import ANY, POD, PODS
from grass.kubernetes.trial import check_claim, server_of
from grass.node_config import NodeHome
from grass.system import clock
from grass.system.entropy import request_id
from node.runtime.kubernetes import carrier
from node.runtime.kubernetes.carrier import Mounted
from node.runtime.kubernetes.judge import TASK, Ended, Runs, Waits, judge
from node.runtime.kubernetes.kind import place_of
from node.runtime.kubernetes.local_files import SizedTar, move, size_of
from node.runtime.kubernetes.unpacking import unpack

_START_SECONDS = 180.0
_GLANCE = 0.3
_LOOK_SECONDS = 30.0
_MOST_BYTES = 1 << 40
_AT_ONCE = {"gracePeriodSeconds": 0}


class Transfer:
    """Transfers to and from the share of one node. Each method returns bytes, and how many entries were left out."""

    def __init__(self, config: NodeHome, server: ApiServer) -> None:
        """Raises InputError: the node has no such share, or no image for the pod."""
        self._settings, self._place = config.namespace, place_of(config)
        self._server = server
        self._title = f"node {config.node.name}"
        if self._settings.claim is None:
            raise InputError(f"{self._title}: its pods have no share; add it with --claim to give them one")
        if self._settings.image is None:
            raise InputError(
                f"{self._title}: has no image for the pod that copies files; add it with --image, an image that has "
                "/bin/sh and tar"
            )

    def push(self, local: Path, remote: str, *, copy_links: bool) -> tuple[int, int]:
        """Send a folder's content into the folder ``remote``, or a file to ``remote`` or into ``remote/``."""
        if not local.exists():
            raise NotFoundError(f"{local}: not found on this machine")
        target = PurePosixPath(paths.to_write(remote))
        whole = local.is_dir() or remote.endswith("/")
        folder, name = (target, local.name) if whole else (target.parent, target.name)
        tar, mounted = SizedTar(local, name, copy_links=copy_links), carrier.to_send(_text(folder))
        with self._pod(mounted) as pod:
            argv = carrier.receive(mounted.path, tar.size)
            command = PodCommand(self._server, pod, TASK, argv, carrier.LIVES, given=True)
            with closing(command):
                with suppress(UnreachableError):  # its exit code says why it reads no more
                    tar.write(cast("IO[bytes]", command))
                code = command.code()
        if code is None:
            raise UnreachableError(f"push to {remote}: the connection was lost; the same command sends all again")
        if code:
            raise InputError(f"push to {remote}: {command.said or f'tar ended with exit code {code}'}")
        return tar.content, 0

    def pull(self, remote: str, local: Path, *, force: bool) -> tuple[int, int]:
        """Fetch a file, or the content of a folder. Raises ConflictError if files here would be changed; not with
        ``force``."""
        path = PurePosixPath(paths.to_read(remote))
        what = f"pull of {remote or 'the share'}"
        local = local.parent.resolve() / local.name  # a link at its end is replaced
        if not local.parent.is_dir():
            raise NotFoundError(f"{local.parent}: not found on this machine")
        with self._pod(None) as pod, tempfile.TemporaryDirectory(prefix=".grass-pull-", dir=local.parent) as draft:
            folder = self._is_folder(pod, path, what)
            at, name = (path, ".") if folder else (path.parent, path.name)
            argv = carrier.send(Mounted("", _text(at)).path, name)
            with closing(PodCommand(self._server, pod, TASK, argv, carrier.LIVES)) as command:
                left_out, code = _received(command, Path(draft), what)
            if code:
                raise InputError(
                    f"{what}: {command.said or f'tar ended with exit code {code}'}; nothing was changed here"
                )
            size = size_of(Path(draft))
            if folder:
                move(Path(draft), local, what, force=force)
            elif left_out:
                raise InputError(f"{what}: is neither a file nor a folder")
            else:
                move(Path(draft) / name, local / name if local.is_dir() else local, what, force=force)
        return size, left_out

    def _is_folder(self, pod: str, path: PurePosixPath, what: str) -> bool:
        with closing(PodCommand(self._server, pod, TASK, carrier.look(_text(path)), _LOOK_SECONDS)) as command:
            said = command.read()
            if why := carrier.trouble(command.code()):
                raise NotFoundError(f"{what}: {why}, in the share of {self._title}")
        return said.strip() == b"folder"

    @contextmanager
    def _pod(self, mounted: Mounted | None) -> Iterator[str]:
        """Yield the path of a pod that runs."""
        check_claim(self._server, self._settings)
        self._remove_ended()
        name = f"grass-files-{names.short(request_id())}"
        body = carrier.pod(self._place.cluster, self._place.node, name, self._settings, mounted)
        path = f"{self._place.path}/{name}"
        try:
            self._create(body)
            self._wait(path)
            yield path
        finally:
            with suppress(GrassError):  # it ends by itself
                self._server.delete(path, ANY, _AT_ONCE)

    def _create(self, body: dict[str, object]) -> None:
        try:
            self._server.post(self._place.path, body, ANY)
        except RefusedError as error:
            raise InputError(f"{self._title}: the pod that copies files is refused: {error}") from error

    def _wait(self, path: str) -> None:
        until = clock.steady() + _START_SECONDS
        while True:
            found = judge(self._server.get(path, POD))
            match found:
                case Runs():
                    return
                case Ended():
                    why = found.reason.message if found.reason else f"exit code {found.code}"
                    raise UnreachableError(f"{self._title}: the pod that copies files ended: {why}")
                case Waits():
                    if clock.steady() > until or found.patience == 0:
                        raise UnreachableError(
                            f"{self._title}: the pod that copies files does not start: {found.reason.message}"
                        )
            clock.sleep(_GLANCE)

    def _remove_ended(self) -> None:
        """Remove the pods of transfers that were killed, once they have ended."""
        selector = f"{names.selector(self._place.cluster, self._place.node)},{names.CARRIER}"
        for each in self._server.get(self._place.path, PODS, {"labelSelector": selector}).items:
            if each.status.phase in ("Succeeded", "Failed"):
                with suppress(RefusedError):  # somebody else has removed it
                    self._server.delete(f"{self._place.path}/{each.metadata.name}", ANY, _AT_ONCE)


def _received(command: PodCommand, folder: Path, what: str) -> tuple[int, int]:
    """Unpack what a command sends. Return how many entries were left out, and its exit code."""
    try:
        left_out = unpack(command, folder, _MOST_BYTES)
    except tarfile.TarError:
        left_out = 0
        if command.code() == 0:  # otherwise tar itself says what went wrong
            raise
    code = command.code()
    if code is None:
        raise UnreachableError(f"{what}: the connection was lost; nothing was changed here")
    return left_out, code


def _text(path: PurePosixPath) -> str:
    return "" if path == PurePosixPath() else str(path)


def main(config_path: str, direction: str, local: str, remote: str, *options: str) -> int:
    try:
        config = NodeHome.load(config_path)
        with closing(server_of(config.namespace)) as server:
            transfer = Transfer(config, server)
            if direction == "push":
                done = transfer.push(Path(local), remote, copy_links="--copy-links" in options)
            else:
                done = transfer.pull(remote, Path(local), force="--force" in options)
    except GrassError as error:
        print(error, file=sys.stderr)  # noqa: T201 (the caller shows it)
        return error.exit_code
    except (OSError, tarfile.TarError) as error:
        print(f"{direction} of {remote}: {error}", file=sys.stderr)  # noqa: T201 (as above)
        return 74
    except KeyboardInterrupt:
        return 130
    print(*done)  # noqa: T201 (the caller reads it)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
