"""The start of containers: image, folders, container. In threads, because engine and share are slow at each step.

Used by ``runtime``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, Protocol

from grass.errors import ConflictError, GrassError, InputError, NotFoundError, UnreachableError
from grass.model.isolation import ContainerUser
from grass.model.key_text import job_of
from grass.model.reasons import Reason, ReasonCode
from grass.node_config import NodeHome
from grass.system import clock
from node.runtime.attempts import Folders
from node.runtime.docker import plan, share
from node.runtime.docker.container import Container
from node.runtime.docker.engine import Engine
from node.runtime.docker.engine_json import Answer, Request
from node.runtime.docker.kept_memory import KeptFolders
from node.runtime.isolation.share_folder import NO_ANSWER
from node.runtime.process.client import ask_account
from node.runtime.protocol import Launch, Waiting
from node.runtime.reactor import Reactor
from node.runtime.spawn import NOT_EXECUTABLE, NOT_FOUND, CannotStartError

_REMOVAL_PATIENCE = 10.0
"""Seconds that the removal of a container of the same name may take."""
_REMOVAL_PAUSE = 0.05


class ImageSource(Protocol):
    """What ``Starts`` needs of ``images.Images``. Called in threads."""

    def prepare(self, image: str, say: Callable[[str], None]) -> None:
        """Bring the image into the engine; ``say`` takes the progress.

        Raises UnreachableError: not now, try again. Other GrassErrors: the image is not available.
        """

    def gone(self, image: str) -> bool:
        """Note that the engine lacks the image. Return whether it was there before; then ``prepare`` loads it again."""

    def missing(self, image: str) -> GrassError:
        """Return the error for an image that the engine does not have."""


class LaterError(GrassError):
    """What the start needs is not available at the moment; the reason of the waiting task says so."""


Made = Answer | GrassError | None
"""The inspected running container; or the reason why there is none; or None: it was stopped before it was created."""


class Starts:
    """Starts containers, each in a thread. ``images`` None: only images that the engine has can be started."""

    def __init__(
        self,
        config: NodeHome,
        engine: Engine,
        folders: Folders,
        reactor: Reactor,
        images: ImageSource | None,
        kept: KeptFolders,
    ) -> None:
        self._config = config
        self._engine = engine
        self._folders = folders
        self._reactor = reactor
        self._images = images
        self._kept = kept
        self._cores = os.cpu_count() or 1
        node = config.node
        self._of_account = node.isolate is not None and node.containers.user is ContainerUser.ACCOUNT

    def begin(self, attempt: Container, launch: Launch | None, made: Callable[[Made], None]) -> None:
        """Start an attempt in a thread; ``made`` is called in the loop."""
        attempt.since = clock.steady()
        attempt.starting = True
        self._reactor.starters.ask(functools.partial(self._make, attempt, launch), made)

    def _make(self, attempt: Container, launch: Launch | None) -> Answer | None:
        """Create and start the container, in a thread. None: the attempt was stopped before."""
        if launch is None:
            raise InputError(f"the launch {attempt.launch} is not defined")
        name, image = plan.container_name(self._config.name, attempt.key), launch.image
        body = self._request(attempt, launch)
        self._make_folders(attempt.key, launch.keep)
        if self._config.node.isolate is not None:
            body = self._isolated(attempt, body, launch)
        self._prepare(attempt, image)
        if attempt.stopping:
            return None
        body = plan.over_image(body, launch, self._configuration(image))
        try:
            return self._run(attempt, name, body, image)
        except InputError:
            if not self._answers(attempt, body):
                raise
        return self._run(attempt, name, body, image)  # the share was away for a moment, or another error comes again

    def _run(self, attempt: Container, name: str, body: Request, image: str) -> Answer:
        made = self._created(attempt, name, body, image)
        try:
            self._engine.start(made)
            return self._engine.inspect(made)
        except GrassError:
            with suppress(GrassError):
                self._engine.remove(made)
            raise

    def _request(self, attempt: Container, launch: Launch) -> Request:
        assert attempt.start is not None
        scratch = self._folders.scratch(attempt.key)
        try:
            return plan.request(self._config, attempt.start, launch, scratch, self._cores)
        except OSError as error:
            self._wait_for_share(attempt, error)

    def _answers(self, attempt: Container, body: Request) -> bool:
        """Return whether the request mounts parts of the share, which may have gone since they were looked up; they are
        there now. Raises LaterError: the share does not answer."""
        folders = [each["Source"] for each in body["HostConfig"]["Mounts"] if each["Type"] == "bind"]
        found = [each for each in folders if Path(each).is_relative_to(self._config.data_dir)]
        for each in found:
            try:
                os.stat(each)  # noqa: PTH116 (as above)
            except OSError as error:
                if error.errno in NO_ANSWER:
                    self._wait_for_share(attempt, error)
        return bool(found)

    def _configuration(self, image: str) -> Answer:
        """Return how an image wants to be run; nothing if it was just removed."""
        with suppress(NotFoundError):
            return self._engine.image(image)["Config"] or {}
        return {}

    def _prepare(self, attempt: Container, image: str) -> None:
        if self._images is None:
            return
        try:
            self._images.prepare(image, functools.partial(self._say_waiting, attempt))
        except UnreachableError as error:
            if not attempt.stopping:
                self._say_waiting(attempt, f"{error}; trying again")
                raise LaterError from error
        if attempt.waited:
            attempt.prepared = clock.wall()

    def _created(self, attempt: Container, name: str, body: Request, image: str) -> str:
        """Create the container. If its image was removed since it was prepared, prepare it once more."""
        try:
            return self._create(name, body)
        except NotFoundError:
            if self._images is None:
                raise
            if not self._images.gone(image):
                raise self._images.missing(image) from None
        self._prepare(attempt, image)
        try:
            return self._create(name, body)
        except NotFoundError:
            raise self._images.missing(image) from None

    def _create(self, name: str, body: Request) -> str:
        """Create the container. If a lost start left one with the same name, remove that first."""
        deadline = clock.steady() + _REMOVAL_PATIENCE
        while True:
            try:
                return self._engine.create(name, body)
            except ConflictError:
                if clock.steady() > deadline:
                    raise
            self._remove_older(name)

    def _remove_older(self, name: str) -> None:
        try:
            labels = self._engine.inspect(name)["Config"]["Labels"] or {}
        except NotFoundError:
            return
        if any(labels.get(label) != value for label, value in (each.split("=", 1) for each in plan.mine(self._config))):
            raise InputError(f"the engine already has a container {name} that does not belong to this cluster")
        self._engine.remove(name)
        clock.sleep(_REMOVAL_PAUSE)

    def _make_folders(self, key: str, keep: int) -> None:
        """Create folders that any container user can write to. The folders above keep other users of the machine out.

        The shepherd makes the scratch folder of a container that runs under an account."""
        try:
            if not self._of_account:
                os.chmod(self._folders.make(key), 0o1777)  # noqa: PTH101, S103 # sticky, like /tmp
            os.makedirs(plan.addresses_folder(self._config, key), exist_ok=True)  # noqa: PTH103
        except OSError as error:
            raise InputError(f"cannot make its scratch folder: {error}") from error
        try:
            if keep:
                self._kept.make(key, keep)
        except OSError as error:
            raise InputError(f"cannot make the folder for its memory: {error}") from error

    def _isolated(self, attempt: Container, body: Request, launch: Launch) -> Request:
        """Make the folders of an isolated container; return its request with the rights that it has."""
        try:
            uid = None
            if self._of_account:
                uid = ask_account(self._config.socket("shepherd"), attempt.key, launch.user)
            group = os.stat(self._config.home).st_gid  # noqa: PTH116 (that of all accounts, as the shepherd has it)
            share.make_folders(self._config, launch, job_of(attempt.key))
        except UnreachableError as error:
            self._say_waiting(attempt, f"{error}; trying again", ReasonCode.RUNTIME)
            raise LaterError from error
        except CannotStartError as error:
            raise InputError(str(error)) from error
        except OSError as error:
            if error.errno in NO_ANSWER:
                self._wait_for_share(attempt, error)
            raise InputError(f"cannot make its folders: {error}") from error
        return plan.with_rights(body, uid, group)

    def _wait_for_share(self, attempt: Container, error: OSError) -> NoReturn:
        self._say_waiting(attempt, f"the share does not answer: {error}; trying again", ReasonCode.SHARE)
        raise LaterError from error

    def _say_waiting(self, attempt: Container, message: str, code: ReasonCode = ReasonCode.IMAGE) -> None:
        """Report why the attempt waits. Called in a thread. The attempt's time counts from its last wait."""
        attempt.since, attempt.waited = clock.steady(), True
        reason = Reason(code, message)
        self._reactor.starters.report(lambda: self._reactor.publish(Waiting(attempt.key, reason)))


def why_not(error: GrassError) -> tuple[int, Reason]:
    """Return the exit code that a shell would give an attempt that cannot start, and a reason with the message."""
    code = NOT_FOUND if isinstance(error, NotFoundError) else NOT_EXECUTABLE
    return code, Reason(ReasonCode.CANNOT_START, f"cannot start its container: {error}")
