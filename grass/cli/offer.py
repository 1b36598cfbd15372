"""Options of `grass join` and `grass node add` for the resources that a machine offers as a node.

Used by ``join`` and ``node_add``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from grass.cli.values import Quantity, Whole
from grass.errors import InputError
from grass.model.runtime import OF_MACHINES, RuntimeName

if TYPE_CHECKING:
    from grass.manifest.join_file import Offer

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--address",
        metavar="IP",
        help="Address of the node for other hosts. [default: the one that reaches the master]",
    ),
    click.option("--api-port", type=Whole(1, 65535), help="Port of the node's API. [default: 51813]"),
    click.option("--cpu", type=Quantity("cores", "cpu"), help="Offer at most this many cores."),
    click.option("--memory", type=Quantity("size", "memory"), help="Offer at most this much memory."),
    click.option("--gpu", type=Quantity("devices", "devices"), help="Offer at most this many GPUs; 0: none."),
    click.option("--labels", multiple=True, metavar="NAME=VALUE[,…]", help="Labels that jobs can ask for."),
    click.option("--topology", metavar="PATH", help="Position in the topology, such as rack1/switch3."),
    click.option(
        "--runtime",
        multiple=True,
        type=click.Choice(OF_MACHINES),
        help="Offer only this runtime; may be repeated.",
    ),
    click.option(
        "--mount", multiple=True, metavar="PATH", help="Let containers mount this folder of the node; may be repeated."
    ),
    click.option("--share", metavar="PATH", help="Folder where the share is mounted on the node already."),
    click.option("--no-install", is_flag=True, help="Do not install system packages; list what is missing."),
    click.option("--plan", is_flag=True, help="Print the steps without running them."),
)


def offer_options(function: Function) -> Function:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True)
class OfferOptions:
    """The options as they were given. None or empty: not given. Amounts as in ``Offer``."""

    address: str | None = None
    api_port: int | None = None
    cpu: int | None = None
    memory: int | None = None
    gpu: int | None = None
    labels: tuple[str, ...] = ()
    topology: str | None = None
    runtime: tuple[str, ...] = ()
    mount: tuple[str, ...] = ()
    share: str | None = None
    no_install: bool = False


_AS_GIVEN = ("address", "api_port", "cpu", "memory", "gpu")


def offered(base: Offer, given: OfferOptions) -> Offer:
    """Return ``base`` (from a file, or empty), overridden by the options ``given``. Raise InputError."""
    from grass.manifest import values
    from grass.manifest.placement import topology
    from grass.manifest.values import Wrong

    changes = {name: value for name in _AS_GIVEN if (value := getattr(given, name)) is not None}
    try:
        if given.labels:
            changes["labels"] = {**base.labels, **_labels(given.labels)}
        if given.topology:
            changes["topology"] = topology(given.topology)
        if given.runtime:
            changes["runtimes"] = tuple(RuntimeName(name) for name in given.runtime)
        if given.mount:
            changes["mounts"] = tuple(values.absolute_path(path) for path in given.mount)
        if given.share:
            changes["share"] = values.absolute_path(given.share)
    except Wrong as wrong:
        raise InputError(str(wrong)) from wrong
    return replace(base, install=base.install and not given.no_install, **changes)


def _labels(words: Sequence[str]) -> dict[str, str]:
    from grass.manifest.placement import label_name, node_label
    from grass.manifest.values import Wrong

    labels = {}
    for word in (part for text in words for part in text.split(",") if part):
        name, sign, value = word.partition("=")
        if not sign:
            raise Wrong(f"--labels: must be NAME=VALUE, got {word!r}")
        labels[label_name(name)] = node_label(name, value)
    return labels
