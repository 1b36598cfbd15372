"""Files of the claim that is the share of a namespace, for `grass data push --node` and `pull --node`.

Used by ``data``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from grass.cli.invocation import Invocation
from grass.errors import InputError

if TYPE_CHECKING:
    from grass.node_config import NodeHome
    from grass.provision.namespace_files import Copied


def push(invocation: Invocation, node: str, local: Path, remote: str, *, copy_links: bool) -> int:
    """Send files; return their bytes."""
    from grass.provision import namespace_files

    return _told(invocation, node, lambda config: namespace_files.push(config, local, remote, copy_links=copy_links))


def pull(invocation: Invocation, node: str, remote: str, local: Path, *, force: bool) -> int:
    """Fetch files; return their bytes."""
    from grass.provision import namespace_files

    return _told(invocation, node, lambda config: namespace_files.pull(config, remote, local, force=force))


def _told(invocation: Invocation, node: str, copy: Callable[[NodeHome], Copied]) -> int:
    from grass.cli import provisioning
    from grass.provision.provisioner import CanReachShares

    provisioner = provisioning.of_cluster(invocation)
    if not isinstance(provisioner, CanReachShares):
        raise InputError("--node: the share of a namespace is reached from the machine of its cluster only")
    copied = copy(provisioner.namespace(node))
    if copied.left_out:
        invocation.output.note(f"{copied.left_out} are no files, or links that lead out of it; all others were copied")
    return copied.size
