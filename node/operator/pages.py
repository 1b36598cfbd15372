"""Publishes the pages of MarsJobs in one namespace, by objects that ``page`` builds. Used by ``loop``.

What cannot be published keeps no job and no status back: it is tried again later.
"""

from __future__ import annotations

import msgspec

from grass.errors import ConflictError
from grass.kubernetes.api import PLAIN_MERGE, ApiServer, RefusedError
from grass.kubernetes.custom_resources import Resource
from grass.kubernetes.objects import ANY, Fields
from grass.manifest.document import Document
from grass.wire.codec import Form
from node.operator import page

AGAIN = 30.0
"""Seconds after which a page is tried again whose objects the server refused."""


class _Owner(Fields, frozen=True):
    uid: str = ""


class _Metadata(Fields, frozen=True, rename="camel"):
    owner_references: list[_Owner] = msgspec.field(default_factory=list)


class _Owned(Fields, frozen=True):
    metadata: _Metadata


_OWNED: Form[_Owned] = Form(_Owned)


class Pages:
    """The pages of one namespace."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self._server = server
        self._namespace = namespace

    def publish(self, resource: Resource, job_id: str, web: page.Web, port: int) -> None:
        """Make the Service and the Ingress, or change them. ``port``: of the page, in the pod.

        Raises RefusedError, NotAllowedError: the server refuses one; ConflictError: somebody else has one of that name.
        """
        service = page.service(resource, job_id, web.component, port)
        self._put(page.SERVICES, service, resource.metadata.uid)
        self._put(page.INGRESSES, page.ingress(resource), resource.metadata.uid)

    def _put(self, path: str, body: Document, owner: str) -> None:
        path = path.format(self._namespace)
        try:
            self._server.post(path, body, ANY)
            return
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
        name = body["metadata"]["name"]
        # changes nothing: Grass asks for no right to get these objects
        found = self._server.patch(f"{path}/{name}", {"metadata": {}}, _OWNED, PLAIN_MERGE)
        if all(each.uid != owner for each in found.metadata.owner_references):
            raise ConflictError(f"{body['kind']} {name} belongs to somebody else; delete it, then it is made again")
        self._server.patch(f"{path}/{name}", body, ANY, PLAIN_MERGE)
