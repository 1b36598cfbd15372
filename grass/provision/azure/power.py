"""`grass node stop` and `grass node start` on Azure: machines are deallocated, so that only their disks are paid.

A node is drained before. That its machine is off on purpose is noted before Azure is asked, so a machine that does not
start again is never taken for one that failed to be made. Azure says how it ended. Used by ``provisioner``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from grass.azure.arm import Arm, Reply
from grass.azure.catalogue import Price
from grass.azure.faults import AzureCapacityError, AzureLoginError
from grass.azure.resources import WORDS, Kind
from grass.errors import GrassError, InputError
from grass.model.lifecycle import NodeState
from grass.provision.azure import metering
from grass.provision.azure.adopting import adopt
from grass.provision.azure.change import Member
from grass.provision.azure.edges import Edges
from grass.provision.azure.metering import OFF
from grass.provision.azure.nodes import record_of
from grass.provision.azure.plan import money
from grass.provision.azure.record import Record, note
from grass.provision.filelock import cluster_lock
from grass.provision.provisioner import Powered, Session

_USUAL = {"deallocate": 60.0, "start": 60.0}


@dataclass(frozen=True)
class Nodes:
    """What is asked of the cluster.

    ``members``: its nodes by name. ``drain``: empties nodes; returns why some are not empty. ``stopped``: notes that
    the machine of a node is off, with what follows. ``back``: waits until a node takes part again; ``open``: it was
    drained, and takes tasks again.
    """

    members: Callable[[], Mapping[str, Member]]
    drain: Callable[[Sequence[str]], Mapping[str, GrassError]]
    stopped: Callable[[str, str], None]
    back: Callable[[str, bool], None]


def stop(session: Session, edges: Edges, names: Sequence[str], nodes: Nodes) -> list[Powered]:
    """Drain nodes, then deallocate their machines. Raises InputError: nothing was changed."""
    with cluster_lock(session.home, session.name):
        record, arm = _open(session, edges, names)
        members = nodes.members()
        if strange := [name for name in names if name not in members or members[name].state is NodeState.JOINING]:
            named = ", ".join(strange)
            raise InputError(f"{named}: has not joined the cluster; `grass node remove` ends what it costs")
        there = [name for name in names if members[name].state is not NodeState.STOPPED]
        failed = dict(nodes.drain(there)) if there else {}
        ready = [name for name in names if name not in failed]
        for name in ready:
            note(session.folder, name, replace(record.machines[name], stopped=True))
        failed |= _all(arm, record, ready, "deallocate")
        power = metering.look(arm, record, session.folder, edges.wall(), {})
        ended = []
        for name in names:
            error, state = failed.get(name), power[name].state if name in power else "gone"
            if name in ready and state != OFF and error is None:
                error = GrassError(f"machine {name}: is {state}, not deallocated")
            if error is None:
                kept = _still_paid(session, name)
                nodes.stopped(name, f"deallocated; {kept}; `grass node start {name}` starts it")
                ended.append(Powered(name, kept))
            else:
                ended.append(_failed(name, error, _paid(session, name) if name in ready else ""))
        return ended


def start(session: Session, edges: Edges, names: Sequence[str], nodes: Nodes) -> list[Powered]:
    """Start machines, and wait until their nodes take part again. What finds no machine left stays STOPPED."""
    with cluster_lock(session.home, session.name):
        record, arm = _open(session, edges, names)
        members = nodes.members()
        failed = _all(arm, record, names, "start")
        power = metering.look(arm, record, session.folder, edges.wall(), {})
        ended = []
        for name in names:
            error = failed.get(name)
            if error is None:
                try:
                    drained = name in members and members[name].state is NodeState.STOPPED  # by whoever stopped it
                    nodes.back(name, record.machines[name].stopped or drained)
                    note(session.folder, name, replace(record.machines[name], stopped=False, operation=""))
                    ended.append(Powered(name))
                except GrassError as silent:
                    ended.append(_failed(name, silent, f"; its machine runs; {_boot_log(record, name)}"))
                continue
            more = ""
            if name in power and power[name].state == OFF:
                more = f"; {_still_paid(session, name)}; repeat `grass node start {name}` later"
                if isinstance(error, AzureCapacityError):
                    more += ", or `grass node scale` makes nodes of another size"
                if name in members and members[name].state is NodeState.STOPPED:
                    nodes.stopped(name, f"not started: {error}{more}")
            ended.append(_failed(name, error, more))
        return ended


def _open(session: Session, edges: Edges, names: Sequence[str]) -> tuple[Record, Arm]:
    record = record_of(session)
    arm = edges.arm(record.endpoint, session)
    if any(name not in record.machines for name in names):
        record = adopt(session, arm, record)
    known = record.nodes(session.name)
    if strange := [name for name in names if name not in known]:
        there = f"there are {', '.join(sorted(known))}" if known else "there is none; `grass node scale` makes them"
        raise InputError(f"{', '.join(strange)}: no node that Grass made on Azure; {there}")
    return record, arm


def _all(arm: Arm, record: Record, names: Sequence[str], verb: str) -> dict[str, GrassError]:
    """Do something to all machines at once. Return why it failed. Raises AzureLoginError: none of it can go on."""
    failed: dict[str, GrassError] = {}
    asked: dict[str, Reply] = {}
    for name in names:
        try:
            asked[name] = arm.act(Kind.MACHINE, record.site.path(Kind.MACHINE, name), verb, _label(name))
        except AzureLoginError:
            raise
        except GrassError as error:
            failed[name] = error
    for name, accepted in asked.items():
        try:
            arm.finish(accepted, f"{_label(name)}: {verb}", usual=_USUAL[verb])
        except AzureLoginError:
            raise
        except GrassError as error:
            failed[name] = error
    return failed


def _label(name: str) -> str:
    return f"{WORDS[Kind.MACHINE]} {name}"


def _still_paid(session: Session, name: str) -> str:
    ledger = metering.load(session.folder)
    disk = ledger.meters.get(f"{name}/disk") if ledger is not None else None
    return f"its disk is still paid ({money(Price(disk.hourly if disk else None))}), and its cores still use the quota"


def _paid(session: Session, name: str) -> str:
    ledger = metering.load(session.folder)
    machine = ledger.meters.get(f"{name}/machine") if ledger is not None else None
    cost = f" and costs {money(Price(machine.hourly))}" if machine is not None and machine.since is not None else ""
    return (
        f"; node {name} is drained, and its machine may still run{cost}; repeat `grass node stop {name}`, or "
        f"`grass node uncordon {name}` lets it take tasks again"
    )


def _boot_log(record: Record, name: str) -> str:
    return f"how it started is shown by `az vm boot-diagnostics get-boot-log -g {record.group} -n {name}`"


def _failed(name: str, error: GrassError, more: str) -> Powered:
    return Powered(name, error=f"{error}{more}", code=error.code, exit_code=error.exit_code)
