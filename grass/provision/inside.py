"""Cluster whose master is a pod of its one namespace of Kubernetes. Made by ``registry``.

This machine keeps the user's keys, the way to the API, and ``nodes/NAME/cluster.json``: where the cluster is, as its
agent would need it here. Everything else is in the namespace: ``inside_objects`` has the objects, ``inside_master``
runs in the pod.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from grass.api import keyring
from grass.api.pod_tunnel import PodWay, tunnel_of
from grass.errors import ConflictError, GrassError, InputError, NotAllowedError, NotFoundError, UnreachableError
from grass.kubernetes import names
from grass.kubernetes.api import PLAIN_MERGE, ApiServer, RefusedError
from grass.kubernetes.command import PodCommand
from grass.kubernetes.objects import ANY, CLAIM, OBJECT, OBJECTS, POD, Metadata
from grass.kubernetes.trial import check_rights, check_version, server_of
from grass.lines import lines_of
from grass.manifest.inside import InsideSettings
from grass.mode_file import write_mode
from grass.model.mode import KUBERNETES_INSIDE
from grass.node_config import KubernetesConfig, NodeHome
from grass.provision import file_namespaces, layout, stopping
from grass.provision import inside_objects as made
from grass.provision.filelock import cluster_lock
from grass.provision.inside_master import SHOWN, Shown
from grass.provision.inside_objects import Given, Master
from grass.provision.namespace_findings import namespace_findings
from grass.provision.namespaces import node_config, pods_stay, requested, wait_ready
from grass.provision.pod_start import wait_started
from grass.provision.provisioner import (
    CanCreate,
    CanKeepVolume,
    CanPlan,
    ClusterStatus,
    Created,
    Deleted,
    Finding,
    Session,
)
from grass.system import clock
from grass.system.entropy import request_id
from grass.system.tree_removal import remove_tree
from grass.wire.codec import indented

_SECONDS = 30.0
"""Limit of a command in the pod."""
_END_SECONDS = 90.0
"""Seconds for the master's pod to end, which has 60."""
_READY_SECONDS = 120.0
_GLANCE = 0.3
_STATEFUL_SET = "StatefulSet"


class InsideProvisioner(CanCreate[InsideSettings], CanPlan[InsideSettings], CanKeepVolume):
    def __init__(self, session: Session) -> None:
        self._session = session
        self._keep = True

    def plan(self, settings: InsideSettings) -> list[str]:
        wanted = settings.namespaces[0]
        node = requested(wanted, plan=lambda _: None).settings
        key = {"kty": "RSA", "n": "the public key of this user", "e": "AQAB"}
        master = _master(settings, replace(node, cluster_id="ID"), key)
        lines = [
            f"# cluster {settings.name}: its master is the pod {made.pod_name(settings.name)} in the namespace "
            f"{wanted.namespace},",
            f"# which is its node {wanted.name}. These objects are made there. ID is a random number.",
            "# Beside the rights in the Role, which nobody may give without having them, who makes them needs there:",
        ]
        lines += [f"#   {' '.join(rule.verbs)} {rule.resource}" for rule in made.RIGHTS]
        for number, each in enumerate(made.objects(master)):
            lines += [*(["---"] if number else []), *lines_of(indented(each))]
        return lines

    def create(self, settings: InsideSettings) -> Created:
        session = self._session
        with cluster_lock(session.home, session.name):
            node = self._look(settings)
            with closing(server_of(node.namespace)) as server:
                master = _master(settings, node.namespace, keyring.user_key(session.client_dir))
                done = sum([self._provide(server, each) for each in made.objects(master)])
                remove_others(server, master, session.progress)
                session.progress(f"waiting for the pod {made.pod_name(settings.name)}")
                wait_started(server, node.namespace.namespace, master.name)
                shown = _shown_once_ready(server, node)
            self._sign_in(master, shown)
        self._wait(node.node.name)
        profile = keyring.load_profile(session.client_dir)
        total = len(made.objects(master))
        return Created(settings.name, settings.mode, str(session.folder), profile.url, done, total - done)

    def keep_volume(self, *, keep: bool) -> None:
        self._keep = keep

    def delete(self, *, force: bool, packages: bool) -> Deleted:
        """Delete the cluster. ``force``: do not wait for a pod on a machine that does not answer."""
        session, left = self._session, dict[str, str]()
        with cluster_lock(session.home, session.name):
            node = self._known()
            if node is not None:
                with closing(server_of(node.namespace)) as server:
                    try:
                        left = self._remove(server, node, node.namespace, force=force)
                    except RefusedError as error:
                        wrong = NotAllowedError if error.http == 403 else UnreachableError
                        raise wrong(f"the API server refuses: {error}; the same command goes on") from error
            remove_tree(session.folder)
        return Deleted(left)

    def status(self) -> ClusterStatus:
        node = self._known()
        if node is None:
            raise NotFoundError(f"cluster {self._session.name}: was not created completely; run `grass create` again")
        url = keyring.load_profile(self._session.client_dir).url
        try:
            with closing(server_of(node.namespace)) as server:
                shown = _shown(server, node)
        except GrassError as error:
            return ClusterStatus(url, (), (f"pod {made.pod_name(node.name)}: {error}",))
        return ClusterStatus(url, shown.daemons, shown.problems)

    def findings(self) -> list[Finding]:
        node, name = self._known(), self._session.name
        if node is None:
            again = f"`grass create` finishes it, `grass delete {name}` removes it"
            return [Finding(f"cluster {name}", False, "creating it was interrupted", again)]
        return list(namespace_findings([node.node]))

    def refusal(self, capability: object) -> str:
        return f"cluster {self._session.name}: its master is in Kubernetes, and its one node is the namespace there"

    def namespace(self, name: str) -> NodeHome:
        node = self._known()
        if node is None or node.node.name != name:
            raise NotFoundError(f"node {name}: is no namespace of Kubernetes of cluster {self._session.name}")
        return node

    def _known(self) -> NodeHome | None:
        found = sorted((self._session.folder / "nodes").glob("*/cluster.json"))
        return NodeHome.load(found[0]) if found else None

    def _look(self, settings: InsideSettings) -> NodeHome:
        """Return the node, noted on this machine once all looks have succeeded. Changes nothing in the namespace.

        Raises what ``namespaces.look`` raises.
        """
        before, wanted = self._known(), settings.namespaces[0]
        if before is not None:
            known = before.namespace
            if (known.namespace, before.node.name) != (wanted.namespace, wanted.name):
                raise ConflictError(
                    f"{wanted.path}: cluster {settings.name} is in the namespace {known.namespace}, as node "
                    f"{before.node.name}; `grass delete {settings.name}` removes it"
                )
            kept = replace(
                wanted,
                context=wanted.context or known.context,  # which one is current may have changed
                kubeconfig=wanted.kubeconfig or known.kubeconfig,
            )
            request = requested(kept)
        else:
            request = file_namespaces.looked_at([wanted], self._session.ask)[wanted.name]
        node = request.settings
        with closing(server_of(node)) as server:
            check_version(server)
            check_rights(server, node, made.RIGHTS)
            before_id = before.namespace.cluster_id if before else ""
            cluster_id = before_id or kept_id(server, settings.name, node.namespace)
            known = replace(node, cluster_id=cluster_id or request_id())
            if not before_id:
                _try(server, _master(settings, known, {}))
        home = self._session.folder / "nodes" / wanted.name
        own = NodeHome(
            name=settings.name,
            mode=KUBERNETES_INSIDE,
            home=str(home),
            runtime_dir=str(home),
            node=node_config(request, known, address="127.0.0.1", api_port=0),
        )
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_mode(self._session.folder, settings.mode)
        own.save()
        return own

    def _provide(self, server: ApiServer, body: dict[str, object]) -> bool:
        """Make an object, or change it. Return whether it is new or another one now."""
        kind, path = str(body["kind"]), made.collection(body)
        metadata = body["metadata"]
        assert isinstance(metadata, dict)
        title = f"{kind} {metadata['name']} in namespace {metadata['namespace']}"
        try:
            server.post(path, body, OBJECT)
            self._session.progress(f"made {title}")
            return True
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise _refused(title, error) from error
        one = f"{path}/{metadata['name']}"
        before = server.get(one, OBJECT).metadata
        if before.labels.get(names.CLUSTER) != metadata["labels"][names.CLUSTER]:
            raise ConflictError(f"{title}: exists, and is of somebody else; choose another name for the cluster")
        try:
            after = server.patch(one, made.change_of(body), OBJECT, PLAIN_MERGE).metadata
        except RefusedError as error:
            raise _refused(title, error) from error
        return after.resource_version != before.resource_version

    def _sign_in(self, master: Master, shown: Shown) -> None:
        """Write the profile: who this user is, and the way to the API."""
        client, address = self._session.client_dir, master.inside.address
        key = keyring.user_key(client)
        way = PodWay(
            made.path_of(made.CORE, "pods", master.node.namespace, made.pod_name(master.cluster)),
            master.node.kubeconfig,
            master.node.context,
        )
        profile = keyring.Profile(
            master.cluster,
            address or f"http://127.0.0.1:{made.API_PORT}",
            master.given.user,
            str(key["kid"]),
            None if address else tunnel_of(way),
        )
        keyring.save_profile(client, profile, shown.key)

    def _wait(self, node: str) -> None:
        from grass.api.client import Client

        with Client(self._session.name, home=self._session.home) as client:
            wait_ready(node, client)

    def _remove(self, server: ApiServer, node: NodeHome, settings: KubernetesConfig, *, force: bool) -> dict[str, str]:
        """Remove the objects, by label: the master first, so that it makes nothing anew; then the pods of tasks."""
        say, left = self._session.progress, dict[str, str]()
        query = _query(settings.cluster_id, node.name)
        for kind in made.KINDS:
            _remove_kind(server, kind, settings.namespace, query, say)
            if kind == _STATEFUL_SET and not _ended(server, node.name, settings.namespace) and not force:
                name = made.pod_name(node.name)
                raise UnreachableError(f"pod {name}: does not end; its machine may be away; `--force` goes on")
        say(f"ending the tasks in namespace {settings.namespace}")
        if not stopping.end_containers(node, forever=True):
            if not force:
                raise pods_stay(settings.namespace, "see above")
            left[f"namespace {settings.namespace}"] = "pods of tasks may be left"
        path = made.path_of(*made.CLAIMS, settings.namespace)
        for each in server.get(path, OBJECTS, query).items:
            if self._keep:
                left[f"claim {each.metadata.name}"] = (
                    "it keeps jobs and logs; `grass create` with the same file goes on with it; "
                    f"`kubectl delete pvc {each.metadata.name} -n {settings.namespace}` removes it"
                )
            else:
                _delete(server, path, each.metadata)
                say(f"removed the claim {each.metadata.name}")
        return left


def remove_others(server: ApiServer, master: Master, say: Callable[[str], None]) -> None:
    """Remove what is not wanted any more: an Ingress that the file does not ask for."""
    query = _query(master.cluster_id, master.cluster)
    wanted = {each["kind"] for each in made.objects(master)}
    for kind in made.KINDS:
        if kind not in wanted:
            _remove_kind(server, kind, master.node.namespace, query, say)


def _query(cluster_id: str, cluster: str) -> dict[str, str]:
    return {"labelSelector": f"{names.CLUSTER}={names.short(cluster_id)},{names.MASTER}={cluster}"}


def _remove_kind(
    server: ApiServer, kind: str, namespace: str, query: dict[str, str], say: Callable[[str], None]
) -> None:
    path = made.path_of(*made.KINDS[kind], namespace)
    for each in server.get(path, OBJECTS, query).items:
        _delete(server, path, each.metadata)
        say(f"removed {kind} {each.metadata.name}")


def _master(settings: InsideSettings, node: KubernetesConfig, key: keyring.Jwk) -> Master:
    given = Given(settings.document, node.cluster_id, layout.user_name(), key)
    return Master(settings.name, node.cluster_id, settings.inside, node, given)


def kept_id(server: ApiServer, cluster: str, namespace: str) -> str:
    """Return the id of a cluster whose volume was kept; empty: there is none. Raises ConflictError: the cluster is
    there already, and was created elsewhere."""
    name = made.object_name(cluster)
    if server.find(made.path_of(*made.KINDS[_STATEFUL_SET], namespace, name), OBJECT) is not None:
        raise ConflictError(
            f"cluster {cluster}: StatefulSet {name} is in the namespace {namespace} already, from another machine or "
            "user; choose another name"
        )
    claim = server.find(made.path_of(*made.CLAIMS, namespace, made.claim_name(cluster)), CLAIM)
    if claim is None:
        return ""
    found = claim.metadata.labels.get(names.CLUSTER_ID)
    if not found:
        raise ConflictError(f"claim {claim.metadata.name}: is of somebody else; choose another name for the cluster")
    return found


def _try(server: ApiServer, master: Master) -> None:
    """Let the server check the master's pod. Raises InputError."""
    try:
        server.post(made.path_of(made.CORE, "pods", master.node.namespace), made.pod(master), ANY, {"dryRun": "All"})
    except RefusedError as error:
        if error.http == 403 and "exceeded quota" in str(error):
            raise InputError(f"inside.resources: the namespace has no room for the master: {error}") from error
        raise InputError(f"the master's pod is refused: {error}") from error


def _refused(title: str, error: RefusedError) -> GrassError:
    return (NotAllowedError if error.http == 403 else InputError)(f"{title}: the API server refuses: {error}")


def _shown(server: ApiServer, node: NodeHome) -> Shown:
    """Ask the program in the pod. Raises NotFoundError, ConflictError, UnreachableError."""
    path = made.path_of(made.CORE, "pods", node.namespace.namespace, made.pod_name(node.name))
    argv = ["python3", "-m", made.PROGRAM, "show", node.name]
    with closing(PodCommand(server, path, made.CONTAINER, argv, _SECONDS)) as command:
        text = b"".join(iter(command.read, b""))
        if command.code() != 0:
            raise UnreachableError(command.said or "the connection was lost")
    return SHOWN.decode(text)


def _shown_once_ready(server: ApiServer, node: NodeHome) -> Shown:
    """The API of a new cluster answers before its first node is there, and its administrator is registered last."""
    until = clock.steady() + _READY_SECONDS
    while True:
        try:
            shown = _shown(server, node)
            if shown.ready:
                return shown
            why = "its namespace has not become a node"
        except (NotFoundError, ConflictError, UnreachableError) as error:
            why = str(error)
        if clock.steady() > until:
            raise UnreachableError(
                f"pod {made.pod_name(node.name)}: works, but {why}; `kubectl logs` says more, and the same command "
                "waits on"
            )
        clock.sleep(_GLANCE)


def _delete(server: ApiServer, path: str, metadata: Metadata) -> None:
    try:
        server.delete(f"{path}/{metadata.name}", ANY, {"preconditions": {"uid": metadata.uid}})
    except RefusedError as error:
        if error.http not in (404, 409):
            raise


def _ended(server: ApiServer, cluster: str, namespace: str) -> bool:
    path, until = made.path_of(made.CORE, "pods", namespace, made.pod_name(cluster)), clock.steady() + _END_SECONDS
    while server.find(path, POD) is not None:
        if clock.steady() > until:
            return False
        clock.sleep(_GLANCE)
    return True
