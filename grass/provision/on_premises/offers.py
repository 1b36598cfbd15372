"""Checks of an offer against the machine's resources and against its earlier offer. Pure.

Used by ``joining`` and ``node_design``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grass.errors import ConflictError
from grass.manifest.join_file import Offer
from grass.model.amounts import show_memory
from grass.model.resources import DEVICE
from grass.provision.on_premises.facts import Facts

_CHOSEN = ("api_port", "cpu", "memory", "gpu", "labels", "topology", "runtimes", "mounts", "share")
_SPELLED = {"runtimes": "runtime", "mounts": "mount"}


def beyond(facts: Facts, offer: Offer) -> Iterator[str]:
    """Yield offers that exceed the machine's resources. The node-agent checks the resources that are unknown here."""
    cure = "say less, or leave it out: then all is offered"
    if facts.cpus and offer.cpu is not None and offer.cpu > 1000 * facts.cpus:
        yield f"--cpu {offer.cpu / 1000:g}: this machine has {_counted(facts.cpus, 'core')}; {cure}"
    if facts.memory and offer.memory is not None and offer.memory > facts.memory:
        said, there = show_memory(offer.memory), show_memory(facts.memory)
        if said == there:
            said, there = f"{offer.memory}B", f"{facts.memory}B"
        yield f"--memory {said}: this machine has {there}; {cure}"
    known = facts.gpus is not None and not offer.gpu_of_size
    if known and offer.gpu is not None and offer.gpu > DEVICE * (facts.gpus or 0):
        yield f"--gpu {offer.gpu / DEVICE:g}: this machine has {_counted(facts.gpus or 0, 'GPU')}; {cure}"


def check_same(name: str, before: Offer, offer: Offer, *, address_chosen: bool) -> None:
    """Check that the offer is unchanged. Raises ConflictError: the node joined with another offer, ``before``.

    An address that was not chosen was detected. A different detected address is not a request for a change.
    """
    names = (*_CHOSEN, "address") if address_chosen else _CHOSEN
    told = [
        f"  - --{_SPELLED.get(each, each).replace('_', '-')}: joined with {_show(each, _value(before, each))}, "
        f"now {_show(each, _value(offer, each))}"
        for each in names
        if _value(before, each) != _value(offer, each)
    ]
    if told:
        raise ConflictError(
            "\n".join([f"{name} is already a node with another offer; nothing was changed:", *told])
            + f"\n  `grass node remove {name}` (or `grass leave` on it) first, or repeat the former offer"
        )


def _value(offer: Offer, name: str) -> Any:
    """Return the value for comparison. The order of runtimes and mounts makes no difference."""
    match name:
        case "runtimes":
            return sorted(runtime.value for runtime in offer.runtimes)
        case "mounts":
            return sorted(offer.mounts)
        case "topology":
            return list(offer.topology)
        case _:
            return getattr(offer, name)


def _counted(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count in (0, 1) else 's'}"


def _show(name: str, value: Any) -> str:
    if value is None:
        return "the cluster's" if name == "share" else "all"
    if name == "runtimes" and not value:
        return "what is there"
    if name in ("cpu", "gpu"):
        return f"{value / 1000:g}"
    if name == "memory":
        return show_memory(value)
    if isinstance(value, dict):
        return ",".join(f"{key}={value[key]}" for key in sorted(value)) or "none"
    if isinstance(value, list):
        return ("/" if name == "topology" else ",").join(value) or "none"
    return str(value)
