"""`grass image-node build` on Azure: an image of a node in which all is installed, so that joining installs nothing.

A machine is made as any node, prepared as by `grass node add` up to the step after which the cluster would know it,
stripped of all that is its own, and captured. It goes whatever happens; what a killed command left goes first with the
next one. Used by ``provisioner``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grass.azure.arm import Arm, failed, state_of
from grass.azure.finder import obstacles
from grass.azure.resources import FROM_TAG, SIZE_TAG, Kind, builder_name, image, images_of, is_ours, machine
from grass.errors import GrassError, InputError, NotFoundError
from grass.hosts import Host
from grass.manifest.on_premises import HostSettings
from grass.provision.azure import nodes
from grass.provision.azure.edges import Edges
from grass.provision.azure.look import addresses
from grass.provision.azure.making import Making, clear_machines
from grass.provision.azure.metering import look_later
from grass.provision.azure.record import Asked, Record, note
from grass.provision.filelock import cluster_lock
from grass.provision.on_premises.node_add import remember
from grass.provision.provisioner import NodeImage, Session

_USUAL = {"deallocate": 60.0, "generalize": 5.0}
_STRIP_SECONDS = 300.0
_STRIP = """
set -eu
export DEBIAN_FRONTEND=noninteractive
! command -v apt-get >/dev/null || apt-get clean
rm -rf /var/lib/grass/installed /var/lib/grass/clusters /var/lib/grass/nodes
! command -v cloud-init >/dev/null || cloud-init clean --logs --seed >/dev/null
rm -rf /var/lib/cloud/instances /var/lib/cloud/instance /var/lib/dhcp/* /var/lib/systemd/random-seed
! command -v waagent >/dev/null || waagent -force -deprovision >/dev/null 2>&1
if command -v journalctl >/dev/null; then journalctl --rotate --vacuum-size=1 >/dev/null 2>&1 || true; fi
find /var/log -type f -exec truncate -s 0 {} +
rm -rf /tmp/* /var/tmp/* /root/.ssh /root/.bash_history /home/*/.bash_history
rm -f /etc/ssh/ssh_host_* /home/*/.ssh/authorized_keys /var/lib/dbus/machine-id
: > /etc/machine-id
sync
"""
"""Removes what must not be the same on two machines, and keys and logs of this one. Host keys and the machine's id are
made again by the first boot."""


@dataclass(frozen=True)
class _Known:
    arm: Arm
    record: Record
    start: Asked


def build(
    session: Session,
    edges: Edges,
    size: str | None,
    prepare: Callable[[HostSettings], None],
    strip: Callable[[HostSettings], None],
) -> NodeImage:
    """Build an image for nodes of a size; None: the master's. ``prepare`` installs on a machine what a node needs;
    ``strip``: see ``strip_host``.

    Raises InputError: nothing was made. Whatever else it raises, the machine is gone, or named.
    """
    with cluster_lock(session.home, session.name):
        known = _look(session, edges, size)
        arm, record = known.arm, known.record
        builder, wanted = builder_name(session.name), _next_image(session.name, arm, record)
        _remove_machine(session, known, builder)
        note(session.folder, builder, known.start)
        try:
            made = _make(session, known, builder, edges)
            look_later(arm, nodes.record_of(session), session.folder, edges.wall(), {})  # it is paid from here on
            host = nodes.host_at(session, builder, made)
            edges.reach(host, session)
            prepare(host)
            strip(host)
            session.progress(f"machine {builder}: becomes the image {wanted}")
            path = record.site.path(Kind.MACHINE, builder)
            for verb, usual in _USUAL.items():
                arm.finish(arm.act(Kind.MACHINE, path, verb, f"machine {builder}"), f"{verb} {builder}", usual=usual)
            assert record.terms is not None
            thing = image(record.terms, record.site, wanted, builder, known.start.size, known.start.image)
            accepted = arm.put_new(thing.kind, thing.path, thing.body, thing.label)
            arm.finish(accepted, thing.label, usual=thing.kind.usual)
            if (there := arm.until_settled(thing.path, thing.kind, thing.label)) is None or state_of(there) == "Failed":
                raise failed(thing.label)
        finally:
            _remove_machine(session, known, builder)
            look_later(arm, nodes.record_of(session), session.folder, edges.wall(), {})
        return NodeImage(wanted, known.start.size, known.start.image)


def images(session: Session, edges: Edges) -> list[NodeImage]:
    """Return the images of the cluster, the oldest first."""
    record = nodes.record_of(session)
    return _images(edges.arm(record.endpoint, session), record)


def remove(session: Session, edges: Edges, name: str) -> None:
    """Remove an image. Nodes that were made from it stay. Raises NotFoundError, InputError: new nodes would need it."""
    with cluster_lock(session.home, session.name):
        record = nodes.record_of(session)
        arm = edges.arm(record.endpoint, session)
        if name not in {each.name for each in _images(arm, record)}:
            raise NotFoundError(f"image {name}: is none of this cluster; `grass image-node list` shows them")
        using = [size for size, start in (record.terms.sizes if record.terms else {}).items() if start.image == name]
        if using:
            raise InputError(f"image {name}: new nodes of {', '.join(using)} start from it, by `sizes` in the file")
        arm.delete(Kind.IMAGE, record.site.path(Kind.IMAGE, name), f"image {name}")


def strip_host(host: Host) -> None:
    """Remove what is a machine's own, also its keys: nobody logs in to it after that."""
    host.run(["sh", "-c", _STRIP], sudo=True, timeout=_STRIP_SECONDS).check()


def _look(session: Session, edges: Edges, size: str | None) -> _Known:
    record = nodes.record_of(session)
    assert record.terms is not None
    arm = edges.arm(record.endpoint, session)
    region, common = edges.region(arm, record), record.terms.machine
    named = nodes.named(region, size or common.size)
    found = region.sizes.get(named.lower())
    if found is None:
        raise InputError(f"Azure has no {named} in {region.name}")
    if problems := list(obstacles(found, region.quotas)):
        raise InputError("\n".join(problems))
    start = common.start_of(named, {})  # never from an image of Grass's: it would grow with each
    return _Known(arm, record, Asked(named, image=start.image, disk=start.disk))


def _make(session: Session, known: _Known, builder: str, edges: Edges) -> str:
    """Make the machine. Return its private address."""
    arm, record = known.arm, known.record
    assert record.terms is not None
    like = known.start.like(record.terms.machine)
    wanted = machine(record.terms, record.site, builder, like, public=False)

    def new(name: str) -> None:
        remember(session.name, session.client_dir, name, None)

    zones = {name: size.zones for name, size in edges.region(arm, record).sizes.items()}
    found = Making(arm, record.site, session.folder, zones, new, []).make([wanted])[builder]
    if isinstance(found, GrassError):
        raise found
    return addresses(arm, found, wanted.label)[1]


def _remove_machine(session: Session, known: _Known, builder: str) -> None:
    if builder not in nodes.record_of(session).machines:
        return
    if stays := clear_machines(known.arm, known.record.site, [builder]):
        text = "\n".join(stays.values())
        raise GrassError(f"machine {builder}: could not be removed, and may cost money; repeat the command\n{text}")
    remember(session.name, session.client_dir, builder, None)
    note(session.folder, builder, None)


def _next_image(cluster: str, arm: Arm, record: Record) -> str:
    there = {each.name for each in _images(arm, record)}
    return next(name for number in range(1, 10_000) if (name := f"{cluster}-node-{number}") not in there)


def _images(arm: Arm, record: Record) -> list[NodeImage]:
    listed = arm.list(images_of(record.site), Kind.IMAGE.version, "images")
    ours = [each for each in listed if is_ours(each, record.id) and state_of(each) != "Deleting"]
    found = [(int(name.rpartition("-")[2]), name) for each in ours if (name := str(each.get("name")))]
    tags = {str(each.get("name")): each.get("tags") or {} for each in ours}
    return [NodeImage(name, tags[name].get(SIZE_TAG, ""), tags[name].get(FROM_TAG, "")) for _, name in sorted(found)]
