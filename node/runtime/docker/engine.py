"""The container engine's API. The only module that imports the docker SDK. Safe for several threads.

Every call blocks. It raises UnreachableError when the engine does not answer (try again later), and NotFoundError,
ConflictError or InputError when the engine refuses. Used by this package.
"""

from __future__ import annotations

import json
import logging
import select
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import docker
from docker import errors

from grass.errors import ConflictError, InputError, NotFoundError, UnreachableError
from grass.system import clock
from node.runtime.docker.engine_json import Answer, Request
from node.runtime.docker.streams import EngineStream

SOCKET = "/var/run/docker.sock"
SECONDS = 60
"""Limit of a request; an engine that does not answer for longer counts as away."""
_END_SECONDS = 5.0
_PING_SECONDS = 0.5
"""An engine that is stopped by systemd may leave its socket open, and its successor answers a second later."""
_CONNECTIONS = 10

for noisy in ("docker", "urllib3"):
    logging.getLogger(noisy).setLevel(logging.WARNING)


_FOLDER = 1 << 31
"""Bit of a folder, in the engine's modes of files (Go's)."""


class Engine:
    """Calls to the engine of this machine.

    ``socket``: its unix socket. Connects with the first call.
    """

    def __init__(self, socket: str = SOCKET) -> None:
        self.socket = socket
        self._made: docker.APIClient | None = None

    @property
    def _client(self) -> docker.APIClient:
        made = self._made  # another thread may renew it at any moment
        if made is None:
            url = f"unix://{self.socket}"
            made = docker.APIClient(base_url=url, version="auto", timeout=SECONDS, max_pool_size=_CONNECTIONS)
            self._made = made
        return made

    def renew(self) -> None:
        """Negotiate the API's version again: another engine may answer now."""
        self.close()

    def close(self) -> None:
        made, self._made = self._made, None
        if made is not None:
            made.close()

    def version(self) -> str:
        with _translated():
            return str(self._client.version()["Version"])

    def ends(self) -> bool:
        """Return whether the engine takes no new connections, as one that is being stopped. Earlier ones still work."""
        try:
            stream = EngineStream(self.socket, "/_ping")
        except OSError:
            return True
        try:
            return not select.select([stream.fileno()], [], [], _PING_SECONDS)[0] or stream.read() is None
        finally:
            stream.close()

    # containers

    def create(self, name: str, config: Request) -> str:
        """Create a container and return its id. ``config``: the body of the request. NotFoundError: no such image."""
        with _translated():
            created: Answer = self._client.create_container_from_config(config, name)
            return str(created["Id"])

    def start(self, container: str) -> None:
        with _translated():
            self._client.start(container)

    def inspect(self, container: str) -> Answer:
        with _translated():
            found: Answer = self._client.inspect_container(container)
            return found

    def kill(self, container: str, number: int) -> None:
        """Send a signal. ConflictError: the container does not run."""
        with _translated():
            self._client.kill(container, number)

    def stop(self, container: str, grace: int) -> None:
        """Send TERM, and KILL after ``grace`` seconds; no error when it has ended or is gone."""
        try:
            with _translated():
                self._client.stop(container, timeout=grace)
        except (NotFoundError, ConflictError):
            return

    def remove(self, container: str) -> None:
        """Remove a container, running or not, with its anonymous volumes; no error when it does not exist."""
        try:
            with _translated():
                self._client.remove_container(container, v=True, force=True)
        except (NotFoundError, ConflictError):  # a conflict: it is being removed already
            return

    def containers(self, labels: Iterable[str]) -> list[Answer]:
        """Inspect all containers, running or not, that have all of these labels (``name=value``)."""
        with _translated():
            found = self._client.containers(all=True, filters={"label": list(labels)})
        inspected = []
        for each in found:
            try:
                inspected.append(self.inspect(each["Id"]))
            except NotFoundError:
                continue
        return inspected

    def run(self, config: Request) -> int:
        """Create a container, wait for its end and remove it. Return its exit code."""
        with _translated():
            made = str(self._client.create_container_from_config(config)["Id"])
            try:
                self._client.start(made)
                code: int = self._client.wait(made)["StatusCode"]
            finally:
                self._client.remove_container(made, force=True)
            return code

    # inside of a container

    def begin(self, container: str, argv: list[str], user: str = "") -> str:
        """Start a command in a running container and return its id. Its output is dropped.

        ``user`` empty: the user of the container.
        """
        with _translated():
            made = str(self._client.exec_create(container, argv, stdout=False, stderr=False, user=user)["Id"])
            self._client.exec_start(made, detach=True)
            return made

    def prepare(self, container: str, argv: list[str], *, tty: bool) -> str:
        """Prepare a command in a running container and return its id; ``streams.EngineTerminal`` starts it."""
        with _translated():
            made = self._client.exec_create(container, argv, stdin=True, stdout=True, stderr=True, tty=tty)
            return str(made["Id"])

    def resize_terminal(self, execution: str, rows: int, columns: int) -> None:
        with _translated():
            self._client.exec_resize(execution, height=rows, width=columns)

    def exit_code(self, execution: str) -> int:
        """Return the exit code of a command whose output has ended. The engine knows it a moment later; 255: it never
        did."""
        until = clock.steady() + _END_SECONDS
        while (code := self.execution(execution)["ExitCode"]) is None and clock.steady() < until:
            clock.sleep(0.01)
        return 255 if code is None else int(code)

    def execution(self, execution: str) -> Answer:
        with _translated():
            found: Answer = self._client.exec_inspect(execution)
            return found

    # images

    def has_program(self, container: str, path: str) -> bool:
        """Return whether a container, running or not, has an executable file, or a link, at this absolute path."""
        try:
            with _translated():
                content, found = self._client.get_archive(container, path)
                content.close()
        except NotFoundError:
            return False
        mode = int(found["mode"])
        return not mode & _FOLDER and bool(mode & 0o111)

    def image(self, name: str) -> Answer:
        """Inspect an image. NotFoundError: the engine has none with that name or id."""
        with _translated():
            found: Answer = self._client.inspect_image(name)
            return found

    def import_files(self, archive: bytes, name: str) -> None:
        """Create an image. ``archive``: a tar of all its files."""
        repository, _, tag = name.partition(":")
        with _translated():
            self._client.import_image_from_data(archive, repository=repository, tag=tag)

    def load(self, archive: Iterator[bytes]) -> None:
        """Load an image. ``archive``: the format of `docker save`. Raises InputError with the engine's message."""
        with _translated():
            for line in self._client.load_image(archive):
                if "error" in line:
                    raise InputError(f"the engine refuses the image: {line['error']}")

    def remove_image(self, name: str) -> None:
        """Remove an image. ConflictError: a container uses it."""
        with _translated():
            self._client.remove_image(name)

    def facts(self) -> Answer:
        """Return the engine's version, its folder (``DockerRootDir``) and runtimes, as `docker info` does."""
        with _translated():
            found: Answer = self._client.info()
            return found


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except errors.NotFound as error:
        raise NotFoundError(_text(error)) from error
    except errors.APIError as error:
        raise (ConflictError if error.status_code == 409 else InputError)(_text(error)) from error
    except (errors.DockerException, OSError, json.JSONDecodeError) as error:
        raise UnreachableError(f"the container engine does not answer: {error}") from error


def _text(error: errors.APIError) -> str:
    return str(error.explanation or error)
