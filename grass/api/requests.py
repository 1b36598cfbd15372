"""Requests to the API by path. What the parts of ``ApiClient`` share.

Names that cannot be part of a path are refused here, before anything is sent.
"""

from __future__ import annotations

from urllib.parse import quote

from grass.api.transport import Transport, View, with_query
from grass.errors import InputError, NotFoundError


class Requests:
    """The base class of the parts of ``ApiClient``.

    ``_transport`` carries the requests. ``ApiClient`` makes it.
    """

    _transport: Transport

    def _get(self, path: str, **query: str | bool | float | None) -> View:
        answer: View = self._transport.call("GET", with_query(path, query))
        return answer

    def _post(self, path: str, body: View) -> View:
        answer: View = self._transport.call("POST", path, body)
        return answer

    def _delete(self, path: str) -> View:
        answer: View = self._transport.call("DELETE", path)
        return answer


def path_of(noun: str, name: str, *rest: str) -> str:
    """Return the path of one object, such as ``/v1/jobs/NAME/wait``. ``rest`` is quoted already."""
    return "/".join(["/v1", noun, quoted(noun[:-1], name), *rest])


def quoted(what: str, name: str) -> str:
    """Return a name as a part of a path. Raises InputError or NotFoundError, which call it a ``what``."""
    if not isinstance(name, str):
        raise InputError(f"the name of a {what} must be text, got {name!r}")
    try:
        text = quote(name, safe="")
    except UnicodeEncodeError:  # a command line that is not UTF-8
        text = ""
    if not text or "/" in name:
        raise NotFoundError(f"no {what} {name!r}: this is not a valid name")
    return text
