"""Define the command `grass node add`: several machines become nodes over SSH at once. Loaded by ``node``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from grass.cli import provisioning
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.node_text import node_list
from grass.cli.offer import OfferOptions, offer_options, offered
from grass.cli.output import Output, Result
from grass.errors import InputError
from grass.system import clock

if TYPE_CHECKING:
    from grass.manifest.namespaces import NamespaceSettings
    from grass.provision.provisioner import AddedNode

_FOR_MACHINES = ("address", "api_port", "topology", "runtime", "mount", "share", "no_install")
"""Options of an offer that say nothing about a namespace."""


@click.command(cls=Command)
@click.argument("hosts", nargs=-1, metavar="[USER@]HOST[:PORT]…")
@click.option("--kubernetes", metavar="[CONTEXT/]NAMESPACE", help="Add a namespace of Kubernetes instead of machines.")
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="Its kubeconfig. [default: kubectl's]")
@click.option("--image", metavar="IMAGE", help="Image of its tasks that name none.")
@click.option("--claim", metavar="NAME", help="PersistentVolumeClaim (ReadWriteMany) that is the share of its pods.")
@click.option(
    "--pull-secret",
    "pull_secrets",
    multiple=True,
    metavar="NAME",
    help="Secret of the namespace with which images are pulled; may be repeated.",
)
@click.option("--queue", metavar="NAME", help="Queue of Kueue or Volcano through which its pods go.")
@click.option("--registry", metavar="HOST[/PATH]", help="Registry of its images, for `grass image push --node`.")
@click.option("--registry-user", metavar="USER", help="User of that registry, if it wants a login.")
@click.option(
    "--serve",
    type=click.Choice(["pods", "anywhere", "off"]),
    help="Serve its TrainingJobs, MarsJobs and ElasticJobs: in pods only, or anywhere in the cluster.",
)
@click.option("--name", metavar="NAME", help="Name of the node, if only one is added. [default: the host name]")
@click.option("--key", type=click.Path(exists=True, dir_okay=False), help="Private key for SSH.")
@click.option("--become", type=click.Choice(["none", "sudo"]), help="How to become root. [default: as on the master]")
@offer_options
@pass_invocation
def add(
    invocation: Invocation,
    /,
    hosts: Sequence[str],
    kubernetes: str | None,
    kubeconfig: str | None,
    image: str | None,
    claim: str | None,
    pull_secrets: Sequence[str],
    queue: str | None,
    registry: str | None,
    registry_user: str | None,
    serve: str | None,
    name: str | None,
    key: str | None,
    become: str | None,
    plan: bool,
    **given: Any,
) -> int:
    """Add machines to the cluster as nodes, over SSH. Waits until the self-test of each has passed.

    After an interruption, run the same command again to continue. Passwords are asked for, or taken from
    GRASS_SSH_PASSWORD, GRASS_BECOME_PASSWORD and GRASS_REGISTRY_PASSWORD.
    """
    from grass.kubernetes.queues import queue_of
    from grass.manifest.join_file import Offer
    from grass.manifest.namespaces import NamespaceSettings
    from grass.model.namespace import Serve
    from grass.provision.provisioner import CanAddNodes, NodeRequest, need

    output = invocation.output
    if kubernetes is not None:
        from grass.provision.namespaces import namespace_of

        if hosts:
            raise InputError("give machines or --kubernetes, not both")
        for_machines = {"key": key, "become": become, **{each: given[each] for each in _FOR_MACHINES}}
        _refuse(for_machines, "only for machines; leave it out with --kubernetes")
        if registry is None and registry_user is not None:
            raise InputError("--registry-user: only with --registry")
        if registry_user is not None and (not registry_user or ":" in registry_user):
            raise InputError(f"--registry-user {registry_user!r}: is not the name of a user")
        context, namespace = namespace_of(kubernetes)
        queue_kind, queue_name = queue_of(queue) if queue is not None else ("", None)
        offer = offered(Offer(), OfferOptions(**given))
        wanted = NamespaceSettings(
            namespace,
            name or namespace,
            context=context,
            kubeconfig=kubeconfig,
            image=image,
            cpu=offer.cpu,
            memory=offer.memory,
            gpu=offer.gpu,
            claim=claim,
            queue=queue_name,
            queue_kind=queue_kind,
            pull_secrets=tuple(dict.fromkeys(pull_secrets)),
            registry=registry,
            registry_user=registry_user,
            serve=Serve(serve) if serve not in (None, "off") else None,
            labels=dict(offer.labels),
        )
        return _add_namespace(invocation, wanted, plan=plan, change=serve is not None)
    if not hosts:
        raise InputError("name a machine, [USER@]HOST[:PORT], or a namespace with --kubernetes")
    of_namespaces = {"kubeconfig": kubeconfig, "image": image, "claim": claim, "pull-secret": pull_secrets}
    of_namespaces |= {"queue": queue, "registry": registry, "registry-user": registry_user, "serve": serve}
    _refuse(of_namespaces, "only with --kubernetes")
    if name is not None and len(hosts) > 1:
        raise InputError("--name needs exactly one machine")
    offer = replace(offered(Offer(), OfferOptions(**given)), name=name)
    tell = (lambda line: output.raw(line + "\n")) if plan else None
    request = NodeRequest(tuple(hosts), offer, key, become, tell)
    provisioner = need(provisioning.of_cluster(invocation), CanAddNodes)
    return _report(output, provisioner.add_nodes(request, invocation.client()), plan)


def _refuse(options: Mapping[str, object], why: str) -> None:
    """Raise InputError if one of these options was given."""
    for name, value in options.items():
        if value:
            raise InputError(f"--{name.replace('_', '-')}: {why}")


def _add_namespace(invocation: Invocation, wanted: NamespaceSettings, *, plan: bool, change: bool) -> int:
    from grass.kubernetes.registry import host_of
    from grass.provision.namespaces import check_object_names, registry_login, requested
    from grass.provision.provisioner import CanAddNamespaces, need

    output = invocation.output
    check_object_names(wanted)
    if wanted.registry is not None:
        host_of(wanted.registry)  # only its error matters here
    login = None if plan else registry_login(wanted, provisioning.ask_password)
    tell = (lambda line: output.raw(line + "\n")) if plan else None
    request = requested(wanted, plan=tell, login=login, change=change)
    added = need(provisioning.of_cluster(invocation), CanAddNamespaces).add_namespace(request, invocation.client())
    if added is not None:
        output.show(Result([added], lambda width: node_list([added], clock.wall(), width), [added.name]))
    return 0


def _report(output: Output, results: Sequence[AddedNode], plan: bool) -> int:
    failed = [one for one in results if one.error is not None]
    for one in failed:
        text = str(one.error)
        output.error(f"{one.label}: {text.removeprefix(f'{one.label}: ')}" if len(results) > 1 else text, code=one.code)
    if not plan:
        views = [one.view for one in results if one.view is not None]
        if views:
            lines = partial(node_list, views, clock.wall())
            output.show(Result(views, lines, [view.name for view in views]))
    return max((one.exit_code for one in failed), default=0)
