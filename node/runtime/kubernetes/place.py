"""Where the pods of a node are. Used by this package."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """Where pods are: the id of the Grass ``cluster``, its ``node``, the namespace, and where what they print
    (``folder``) and the files that they write (``output``) go on this machine."""

    cluster: str
    node: str
    namespace: str
    folder: str
    output: str

    @property
    def path(self) -> str:
        """The path of the pods in the API."""
        return f"/api/v1/namespaces/{self.namespace}/pods"
