"""The ``RuntimeKind`` of containers. The docker SDK is imported only when the engine is used.

Loaded by the registry, by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from grass.errors import GrassError, UnreachableError
from grass.files.rights import own_folders
from grass.model.runtime import RuntimeName
from grass.node_config import NodeHome
from node.runtime.docker.container_check import ContainerCheck
from node.runtime.docker.execution import ContainerExecution, running_container
from node.runtime.isolation.visible_files import PROBE_USER
from node.runtime.kind import Execution, RuntimeKind, SignedOff, Trial
from node.runtime.protocol import Launch
from node.runtime.reach import HostReach

if TYPE_CHECKING:
    from node.runtime.docker.runtime import DockerRuntime

_ADVICE = "exit code 2: containers cannot write to the share; 3: install the container toolkit of the GPU's vendor"


def _pid(config: NodeHome, key: str) -> int:
    from node.runtime.docker.engine import Engine

    with closing(Engine()) as engine:
        return int(running_container(engine, config, key)["State"]["Pid"])


class DockerKind:
    def version(self) -> str:
        from node.runtime.docker.engine import Engine

        with closing(Engine()) as engine:
            return engine.version()

    def open(self, config: NodeHome, share_is_mounted: Callable[[], bool], signed_off: SignedOff) -> DockerRuntime:
        from node.runtime.docker.engine import Engine
        from node.runtime.docker.images import Images
        from node.runtime.docker.runtime import DockerRuntime

        folder, state = config.data_dir / "images", config.node_dir / "images.json"
        images = Images(Engine(), folder, state, share_is_mounted=share_is_mounted, signed_off=signed_off)
        return DockerRuntime(config, Engine(), images)

    def execute(self, config: NodeHome, key: str, argv: list[str], size: tuple[int, int] | None) -> Execution:
        return ContainerExecution(config, key, argv, size)

    def reach(self, config: NodeHome, key: str) -> HostReach:
        return HostReach(config, key, _pid)

    def first_process(self, config: NodeHome, key: str) -> int:
        return _pid(config, key)

    def programs(self, config: NodeHome, image: str, wanted: Sequence[str]) -> tuple[str, ...] | None:
        from node.runtime.docker.engine import Engine
        from node.runtime.docker.image_programs import programs_of

        with closing(Engine()) as engine:
            return programs_of(engine, image, wanted, f"{config.name}.look")

    def inside(self, config: NodeHome, key: str, argv: list[str], launch: Launch) -> ContainerCheck:
        return ContainerCheck(config.name, key, argv, own_network=launch.container.network != "host")

    def sweep(self, config: NodeHome, *, remove: bool) -> None:
        from node.runtime.docker.sweep import sweep

        sweep(config, remove=remove)

    def trial(self, config: NodeHome, said: str, gpus: Sequence[int]) -> Trial:
        """Return a trial that also writes to the share from inside the container, as jobs will."""
        from node.runtime.docker import host_image
        from node.runtime.docker.engine import Engine
        from node.runtime.docker.runtime import DockerRuntime

        folder = f"{own_folders(PROBE_USER)[0]}/" if config.node.isolate else ""  # where tasks may write
        share = f"{folder}.probe-{config.node.name}-{said[:8]}"
        device = "; ls /dev/nvidia[0-9]* >/dev/null || exit 3" if gpus else ""
        script = f"echo {said}; echo {said} > $GRASS_DATA/{share} && rm $GRASS_DATA/{share} || exit 2{device}"
        try:
            with closing(Engine()) as engine:
                image = host_image.provide(engine)
        except GrassError as error:
            advice = "is the engine running, and is the user of the node-agent in its group (docker)?"
            raise UnreachableError(f"{error}; {advice}") from error
        launch = Launch(
            ["/bin/sh", "-c", script],
            {"GRASS_DATA": str(config.data_dir)},
            None,
            5.0,
            runtime=RuntimeName.DOCKER,
            image=image,
            container=host_image.container(),
            user=PROBE_USER,
        )
        allowed = replace(config, node=replace(config.node, mounts=("/",)))
        return Trial(DockerRuntime(allowed, Engine()), launch, _ADVICE)


KIND: RuntimeKind = DockerKind()
