"""The container engine, asked by its API. The only module that imports the docker SDK.

Every call blocks, and raises UnreachableError when the engine does not answer (ask again), NotFoundError, ConflictError
or InputError when it refuses. May be used by several threads.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import docker
from docker import errors

from grass import clock
from grass.errors import ConflictError, GrassError, InputError, NotFoundError, UnreachableError
from node.runtime.docker.engine_json import Answer, Request
from node.runtime.docker.streams import EngineStream

SOCKET = "/var/run/docker.sock"
SECONDS = 60
"""Until an engine that takes a request and does not answer counts as away."""
_END_SECONDS = 5.0
_CONNECTIONS = 10

for noisy in ("docker", "urllib3"):
    logging.getLogger(noisy).setLevel(logging.WARNING)


class Engine:
    """``socket``: its unix socket. Nothing is asked before the first call."""

    def __init__(self, socket: str = SOCKET) -> None:
        self.socket = socket
        self._made: docker.APIClient | None = None

    @property
    def _client(self) -> docker.APIClient:
        if self._made is None:
            url = f"unix://{self.socket}"
            self._made = docker.APIClient(base_url=url, version="auto", timeout=SECONDS, max_pool_size=_CONNECTIONS)
        return self._made

    def renew(self) -> None:
        """Another engine may answer from now on: agree on the version of the API again."""
        self.close()

    def close(self) -> None:
        made, self._made = self._made, None
        if made is not None:
            made.close()

    # containers

    def create(self, name: str, config: Request) -> str:
        """Its id. ``config``: the body of the engine's request. NotFoundError: the image is not there."""
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
        """ConflictError: it does not run."""
        with _translated():
            self._client.kill(container, number)

    def stop(self, container: str, grace: int) -> None:
        """TERM, and KILL after ``grace`` seconds; no error when it has ended or is gone."""
        try:
            with _translated():
                self._client.stop(container, timeout=grace)
        except (NotFoundError, ConflictError):
            return

    def remove(self, container: str) -> None:
        """Whether it runs or not, with its anonymous volumes; no error when it is not there."""
        try:
            with _translated():
                self._client.remove_container(container, v=True, force=True)
        except (NotFoundError, ConflictError):  # a conflict: it is being removed already
            return

    def containers(self, labels: Iterable[str]) -> list[Answer]:
        """Running or not, those with all of these labels (``name=value``); as `inspect` gives them."""
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
        """Make a container, wait for its end, remove it; its exit code."""
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
        """The id of a command that runs in a running container from now on; what it prints is dropped.

        ``user``: empty: as whom the container itself runs.
        """
        with _translated():
            made = str(self._client.exec_create(container, argv, stdout=False, stderr=False, user=user)["Id"])
            self._client.exec_start(made, detach=True)
            return made

    def prepare(self, container: str, argv: list[str], *, tty: bool) -> str:
        """The id of a command that is to run in a running container; ``streams.EngineTerminal`` starts it."""
        with _translated():
            made = self._client.exec_create(container, argv, stdin=True, stdout=True, stderr=True, tty=tty)
            return str(made["Id"])

    def resize_terminal(self, execution: str, rows: int, columns: int) -> None:
        with _translated():
            self._client.exec_resize(execution, height=rows, width=columns)

    def exit_code(self, execution: str) -> int:
        """Of a command whose output has ended: the engine hears of its end a moment later. 255: it never did."""
        until = clock.steady() + _END_SECONDS
        while (code := self.execution(execution)["ExitCode"]) is None and clock.steady() < until:
            clock.sleep(0.01)
        return 255 if code is None else int(code)

    def execution(self, execution: str) -> Answer:
        with _translated():
            found: Answer = self._client.exec_inspect(execution)
            return found

    # images

    def image(self, name: str) -> Answer:
        """NotFoundError: the engine has none of that name or id."""
        with _translated():
            found: Answer = self._client.inspect_image(name)
            return found

    def import_files(self, archive: bytes, name: str) -> None:
        """``archive``: a tar of all files of the image."""
        repository, _, tag = name.partition(":")
        with _translated():
            self._client.import_image_from_data(archive, repository=repository, tag=tag)

    def load(self, archive: Iterator[bytes]) -> None:
        """``archive``: what `docker save` writes. Raises InputError with what the engine says of a bad one."""
        with _translated():
            for line in self._client.load_image(archive):
                if "error" in line:
                    raise InputError(f"the engine does not take the image: {line['error']}")

    def remove_image(self, name: str) -> None:
        """ConflictError: a container uses it."""
        with _translated():
            self._client.remove_image(name)

    def facts(self) -> Answer:
        """Version, where images lie (``DockerRootDir``), runtimes; see `docker info`."""
        with _translated():
            found: Answer = self._client.info()
            return found


def answers(socket: str = SOCKET) -> bool:
    """Whether there is an engine at all."""
    try:
        EngineStream(socket, "/_ping").close()
    except OSError:
        return False
    engine = Engine(socket)
    try:
        return bool(engine.facts())
    except GrassError:
        return False
    finally:
        engine.close()


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
