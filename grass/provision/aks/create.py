"""`grass create` of a cluster on Azure's Kubernetes: look, decide, start the master here, make what is missing there,
then make its namespace a node.

The master comes first: if it cannot be started, nothing is paid. Each step on Azure is one PUT with a fixed name, and
looks first at what is there. So the same command continues an interrupted one. Used by ``provisioner``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from grass.azure.aks import (
    KEPT_TAG,
    Terms,
    group,
    is_stopped,
    kubelet_of,
    kubernetes,
    registry,
    registry_host,
    right_to_pull,
    terms_of,
    updated,
)
from grass.azure.arm import Arm, failed, state_of
from grass.azure.faults import (
    AzureError,
    AzureForbiddenError,
    AzureLoginError,
    AzureSlowError,
    Fault,
)
from grass.azure.resources import WORDS, Kind, Wanted, is_ours
from grass.errors import ConflictError, GrassError, InputError
from grass.kubernetes.registry import RegistryLogin, docker_config
from grass.manifest.aks import CLAIM, PULL_SECRET, AksSettings
from grass.manifest.document import Document
from grass.manifest.namespaces import NamespaceSettings
from grass.provision.aks import objects
from grass.provision.aks.edges import Edges
from grass.provision.aks.look import Facts, alternatives, always, look
from grass.provision.aks.metering import look_later
from grass.provision.aks.plan import plan_lines, problems
from grass.provision.aks.power import kubeconfig, turn
from grass.provision.aks.record import KUBECONFIG, Pull, Record, load_record
from grass.provision.azure.ensuring import ensure
from grass.provision.azure.look import own_address, subscription_of
from grass.provision.azure.making import same
from grass.provision.azure.plan import alternatives_text, money
from grass.provision.filelock import cluster_lock
from grass.provision.provisioner import Created, RunsAlreadyError, Session
from grass.system.private_file import write_private

_REFUSALS = (AzureError, AzureForbiddenError, AzureLoginError)
_PRINCIPAL_SECONDS = 300.0
"""Until a new identity is known to all of Azure; after that, a Secret is used."""


@dataclass(frozen=True)
class _Known:
    """All that is gathered before the first change."""

    arm: Arm
    facts: Facts
    record: Record
    terms: Terms


def plan(settings: AksSettings, session: Session, edges: Edges) -> list[str]:
    """Return what ``create`` would make, leave and cost. Makes nothing. Raises InputError: it does not fit, with what
    does."""
    known = _look(settings, session, edges)
    _check(settings, known)
    return list(plan_lines(settings, known.terms, known.facts, known.record.id))


def create(settings: AksSettings, session: Session, edges: Edges) -> Created:
    """Make the cluster, or finish an interrupted call.

    Raises InputError: nothing was made; AzureError and others, whose text says what exists and what it costs.
    """
    with cluster_lock(session.home, session.name):
        known = _look(settings, session, edges)
        _check(settings, known)
    new = not session.folder.exists()
    with suppress(RunsAlreadyError):
        edges.local.create(settings)  # without the namespace, which is not there yet
    with _explained(settings, session, edges, known, new=new) as made, cluster_lock(session.home, session.name):
        record = load_record(session.folder) or known.record  # another command may have begun meanwhile
        known = replace(known, record=replace(record, terms=known.terms))
        known.record.save(session.folder)
        pull = _make(settings, session, edges, known, made)
    with _explained(settings, session, edges, known, new=False, made=made):
        return edges.local.create(replace(settings, namespaces=(_node(settings, session, pull),)))


def _look(settings: AksSettings, session: Session, edges: Edges) -> _Known:
    cloud, before = settings.cloud, load_record(session.folder)
    arm = edges.arm(cloud.endpoint, session)
    subscription = subscription_of(arm, cloud.subscription)
    record = before or Record(subscription.id, cloud.resource_group, cloud.location, edges.mark(), cloud.endpoint)
    fresh = (cloud.endpoint, subscription.id.lower(), cloud.resource_group.lower(), cloud.location)
    if (record.endpoint, record.subscription.lower(), record.group.lower(), record.location) != fresh:
        raise ConflictError(
            f"cluster {session.name}: exists in the group {record.group} in {record.location} of the subscription "
            f"{record.subscription}; `grass delete {session.name}` removes it, or choose another name"
        )
    sources = settings.sources or (f"{own_address(arm)}/32",)
    terms = terms_of(settings, sources, record.subscription)
    try:
        facts = look(terms, arm, subscription, cloud.resource_group)
    except AzureError as error:
        if before is None:
            raise InputError(str(error)) from error
        raise
    return _Known(arm, facts, record, terms)


def _check(settings: AksSettings, known: _Known) -> None:
    """Raises InputError, or GrassError if something exists already."""
    found = problems(settings, known.terms, known.facts, known.record.site)
    if not found:
        return
    text = "\n".join(found)
    if any(each.startswith("system.size") for each in found):
        fits = alternatives(known.facts.region, known.terms.system.size, known.arm, system=True)
        text = f"{text}\n{alternatives_text(fits)}"
    exists = [WORDS[kind] for kind, each in known.facts.found.items() if is_ours(each, known.record.id)]
    if exists:
        raise GrassError(f"{text}\n{_exists(settings, known, exists)}")
    raise InputError(text)


def _make(settings: AksSettings, session: Session, edges: Edges, known: _Known, made: list[str]) -> Pull:
    """Make what is missing on Azure and in Kubernetes. Return how images are pulled."""
    arm, record, terms = known.arm, known.record, known.terms
    site = record.site
    for namespace in known.facts.unregistered:
        arm.register(f"/subscriptions/{site.subscription}", namespace, namespace)
    ensure(arm, group(terms, site), site.id, made, use_existing=settings.cloud.use_existing_group)
    if terms.registry:
        wanted = registry(terms, site, password=record.pull is Pull.LOGIN)
        ensure(arm, wanted, site.id, made, use_existing=False)
    found = _kubernetes(arm, kubernetes(terms, site), site.id, made)
    look_later(arm, record, session, edges, known.facts.prices)
    login = _pull(arm, record, terms, found, session, made) if terms.registry else ""
    path = session.folder / KUBECONFIG
    write_private(path, kubeconfig(arm, record, terms, found))
    edges.provide(path, objects.Wanted(settings.node.namespace, settings.share, login), session.progress)
    if not terms.registry:
        return Pull.UNDECIDED
    after = load_record(session.folder)
    host = _host(arm, record, terms)
    session.progress(f"images: `az acr login -n {terms.registry}`, then `docker push {host}/NAME:TAG`")
    return after.pull if after is not None else Pull.UNDECIDED


def _kubernetes(arm: Arm, each: Wanted, id: str, made: list[str]) -> Document:
    """Return the cluster once Azure works on it no more. Make it, change it or start it if need be; once more if making
    it failed."""
    found = arm.until_settled(each.path, each.kind, each.label)
    if found is not None and not is_ours(found, id):
        raise ConflictError(f"{each.label}: exists, and Grass did not make it; choose another name")
    if found is not None:
        made.append(each.label)
        if is_stopped(found):
            found = turn(arm, each, on=True)
        if found["tags"].get(KEPT_TAG) != each.body["tags"][KEPT_TAG]:
            raise GrassError(f"{each.label}: exists with other settings, which it keeps; take them back in the file")
    for last in (False, True):
        if found is not None and state_of(found) == "Succeeded" and same(found, each):
            return found
        try:
            found = _put(arm, each, found, made)
        except AzureError as error:
            if last or each.label not in made or error.refusal.fault in (Fault.QUOTA, Fault.SIZE):
                raise
            arm.progress(f"{error}; trying once more")
            found = arm.until_settled(each.path, each.kind, each.label)
    if found is None or state_of(found) != "Succeeded":
        raise failed(each.label)
    return found


def _put(arm: Arm, each: Wanted, found: Document | None, made: list[str]) -> Document | None:
    if found is None:
        accepted = arm.put_new(each.kind, each.path, each.body, each.label)
        made.append(each.label)
    else:
        accepted = arm.put(each.kind, each.path, updated(found, each.body), each.label)
    arm.finish(accepted, each.label, usual=each.kind.usual)
    found = arm.until_settled(each.path, each.kind, each.label)
    if found is not None and state_of(found) != "Succeeded":
        raise failed(each.label)
    return found


def _pull(arm: Arm, record: Record, terms: Terms, found: Document, session: Session, made: list[str]) -> str:
    """Let the machines pull from the registry. Return docker's configuration for a Secret; empty: they may by right."""
    if record.pull is not Pull.LOGIN and _give_right(arm, record, terms, found):
        replace(record, pull=Pull.RIGHT).save(session.folder)
        return ""
    record = replace(record, pull=Pull.LOGIN)
    record.save(session.folder)
    wanted = registry(terms, record.site, password=True)
    ensure(arm, wanted, record.id, made, use_existing=False)
    reply = arm.act(Kind.REGISTRY, wanted.path, "listCredentials", wanted.label).content
    passwords = [each.get("value") for each in reply.get("passwords") or () if isinstance(each, dict)]
    if not passwords:
        raise GrassError(f"{wanted.label}: Azure gives no password for it; repeat the command")
    user = str(reply.get("username") or terms.registry)
    return docker_config(_host(arm, record, terms), RegistryLogin(user, str(passwords[0])))


def _host(arm: Arm, record: Record, terms: Terms) -> str:
    each = registry(terms, record.site, password=False)
    return registry_host(terms.registry, arm.find(each.path, each.kind.version, each.label))


def _give_right(arm: Arm, record: Record, terms: Terms, found: Document) -> bool:
    """Return whether the machines may pull. Who may give no rights, or waits too long for them, uses a Secret."""
    principal = kubelet_of(found)
    if not principal:
        return False
    wanted = right_to_pull(terms, record.site, principal)
    try:
        arm.request(
            "PUT", arm.url(wanted.path, wanted.kind.version), wanted.label, wanted.body, most=_PRINCIPAL_SECONDS
        )
    except AzureForbiddenError as error:
        why = str(error)
    except AzureSlowError as error:
        why = str(error)
    except AzureError as error:
        if error.refusal.fault is Fault.THERE:
            return True
        raise
    else:
        return True
    arm.progress(
        f"{why}; so images are pulled with a Secret, whose password opens the registry to all who read it. With the "
        "role User Access Administrator, delete the cluster and create it again"
    )
    return False


def _node(settings: AksSettings, session: Session, pull: Pull) -> NamespaceSettings:
    secrets = (PULL_SECRET,) if pull is Pull.LOGIN else ()
    return replace(
        settings.node,
        kubeconfig=str(session.folder / KUBECONFIG),
        claim=CLAIM if settings.share else None,
        pull_secrets=(*settings.node.pull_secrets, *secrets),
    )


@contextmanager
def _explained(
    settings: AksSettings, session: Session, edges: Edges, known: _Known, *, new: bool, made: list[str] | None = None
) -> Iterator[list[str]]:
    """Add to an error what exists and what it costs. If nothing does, it is an InputError, and no folder is left."""
    done = made or []
    try:
        yield done
    except GrassError as error:
        if not done and isinstance(error, _REFUSALS):
            if new:
                edges.local.delete()
            if isinstance(error, AzureError):
                raise InputError(str(error)) from error
        else:
            error.args = (f"{error}\n{_exists(settings, known, done)}",)
        raise
    except KeyboardInterrupt:
        session.progress(_exists(settings, known, done))
        raise


def _exists(settings: AksSettings, known: _Known, made: list[str]) -> str:
    there = ", ".join(made) or "perhaps what was asked for last"
    price = money(always(known.facts.prices, known.terms.system.count))
    return (
        f"exists on Azure: {there} (in all {price}); `grass create FILE` continues, "
        f"`grass delete {settings.name}` removes it"
    )
