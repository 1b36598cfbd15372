"""Makes machines on Azure, all at once: asks for those that are missing, then waits for each.

A machine is never asked for twice while it is there. One that failed is removed with its card, address and disk, and
tried once in another zone if Azure had none left. Used by ``create`` and ``nodes``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from grass.azure.arm import ENDED, Arm, failed, operation_url, state_of
from grass.azure.faults import AzureCapacityError, AzureError, AzureSlowError, Fault
from grass.azure.resources import BODY_TAG, Kind, Site, Wanted, in_zone, is_ours
from grass.errors import ConflictError, GrassError
from grass.manifest.document import Document
from grass.provision.azure.clear import OF_MACHINE, Item, clear
from grass.provision.azure.record import Asked, load_record, note

Ended = dict[str, Document | GrassError]
"""By name: the machine, or why there is none."""


class Making:
    """Machines of one cluster.

    ``folder``: of the cluster, with its record. ``zones``: of each size, those in which the subscription may have it.
    ``new``: called before a machine is asked for, so that what was known of an earlier one is forgotten. ``made``: gets
    what is the cluster's, once Azure accepted it.
    """

    def __init__(
        self,
        arm: Arm,
        site: Site,
        folder: Path,
        zones: Mapping[str, Sequence[str]],
        new: Callable[[str], None],
        made: list[str],
    ) -> None:
        self._arm = arm
        self._site = site
        self._folder = folder
        self._zones = zones
        self._new = new
        self._made = made

    def make(self, machines: Sequence[Wanted]) -> Ended:
        """Make the machines that are missing. Raises what ends all of them: no login, no right, no answer."""
        ended: Ended = {}
        absent, broken, waiting = [], [], []
        for each in machines:
            found = self._found(each)
            if found is None:
                absent.append(each)
            elif not is_ours(found, self._site.id):
                text = "exists, and Grass did not make it; choose another name"
                ended[each.name] = ConflictError(f"{each.label}: {text}")
            elif state_of(found) == "Succeeded" or self._noted(each).stopped:
                self._made.append(each.label)
                ended[each.name] = found if same(found, each) else _other(each)
            elif state_of(found) in ("Failed", "Canceled"):
                broken.append(each)
            else:
                self._made.append(each.label)
                waiting.append(each)
        self._remove(broken)
        self._round([*absent, *broken], waiting, ended)
        again = self._elsewhere(machines, ended)
        self._round(again, [], ended)
        return ended

    def _found(self, each: Wanted) -> Document | None:
        found = self._arm.find(each.path, each.kind.version, each.label)
        if found is None or state_of(found) in ENDED or self._noted(each).stopped:
            return found
        if state_of(found) == "Deleting":
            return self._arm.until_settled(each.path, each.kind, f"{each.label}, which is being deleted")
        # without its operation, only its end says how it went
        return found if self._noted(each).operation else self._arm.until_settled(each.path, each.kind, each.label)

    def _round(self, absent: Sequence[Wanted], waiting: Sequence[Wanted], ended: Ended) -> None:
        """Ask for the absent ones, then wait for all. Remove those that failed."""
        asked, bad = list(waiting), []
        for each in absent:
            try:
                self._ask(each)
                asked.append(each)
            except AzureError as error:
                ended[each.name] = error
                bad.append(each)
        begin = self._arm.clock.steady()
        for each in asked:
            try:
                ended[each.name] = self._settled(each, begin)
            except AzureSlowError as error:
                ended[each.name] = error
            except AzureError as error:
                ended[each.name] = error
                bad.append(each)
        self._remove(bad)

    def _ask(self, each: Wanted) -> None:
        self._new(each.name)
        accepted = self._arm.put_new(each.kind, each.path, each.body, each.label)
        self._made.append(each.label)
        note(self._folder, each.name, replace(self._noted(each), operation=operation_url(accepted)))

    def _settled(self, each: Wanted, begin: float) -> Document:
        """Return a machine once Azure works on it no more. Raises AzureError: it failed."""
        unsure, operation = False, self._noted(each).operation
        try:
            if operation:
                self._arm.follow(operation, each.label, usual=each.kind.usual, since=begin)
        except AzureError as error:
            if error.refusal.fault is not Fault.UNSURE:
                raise
            unsure = True
            self._arm.progress(f"{error}; trying SSH")
        found = self._arm.until_settled(each.path, each.kind, each.label)
        if found is None or (state_of(found) != "Succeeded" and not unsure):
            raise failed(each.label)
        return found

    def _noted(self, each: Wanted) -> Asked:
        record = load_record(self._folder)
        size = str(each.body["properties"]["hardwareProfile"]["vmSize"])  # of the master
        return (record and record.machines.get(each.name)) or Asked(size)

    def _elsewhere(self, machines: Sequence[Wanted], ended: Ended) -> list[Wanted]:
        """Return the machines that are tried once in another zone, because Azure had none left."""
        again = []
        for each in machines:
            error, noted = ended[each.name], self._noted(each)
            tried = (each.body.get("zones") or [""])[0]
            zone = next((zone for zone in self._zones.get(noted.size.lower(), ()) if zone != tried), None)
            if isinstance(error, AzureCapacityError) and zone is not None:
                self._arm.progress(f"{error}; trying zone {zone}")
                note(self._folder, each.name, replace(noted, zone=zone, operation=""))
                again.append(in_zone(each, zone))
        return again

    def _remove(self, machines: Sequence[Wanted]) -> None:
        """Remove machines that Azure failed to make, with disk, card and address. What was refused does not exist."""
        there = {}
        for each in machines:
            found = self._arm.find(each.path, each.kind.version, each.label)
            if found is not None and state_of(found) != "Succeeded":
                self._arm.progress(f"{each.label}: Azure failed to make it; removing it")
                there[each.name] = each.label
        if there and (stays := clear_machines(self._arm, self._site, there)):
            raise GrassError("\n".join(["a machine that failed could not be removed:", *stays.values()]))
        for label in there.values():
            if label in self._made:
                self._made.remove(label)


def clear_machines(arm: Arm, site: Site, machines: Collection[str]) -> dict[str, str]:
    """Remove machines with what Azure made along with them. Return what stays, with the reason."""
    fixed = [Item(Kind.MACHINE, name, site.path(Kind.MACHINE, name)) for name in machines]
    return clear(arm, site, fixed, OF_MACHINE, machines)


def same(found: Document, each: Wanted) -> bool:
    tags = found.get("tags")
    return isinstance(tags, dict) and tags.get(BODY_TAG) == each.body["tags"][BODY_TAG]


def _other(each: Wanted) -> GrassError:
    return GrassError(
        f"{each.label}: exists with other settings of `master` or `ssh`, which a machine keeps; take them back in the "
        "file, or remove it first"
    )
