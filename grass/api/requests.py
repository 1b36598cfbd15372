"""Requests to the API by path. What the parts of ``Client`` share.

Names that cannot be part of a path are refused here, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar
from urllib.parse import quote, unquote

from grass.api.transport import PlainData, Transport, with_query
from grass.errors import ChangeInterrupted, InputError, NotFoundError
from grass.wire.codec import Form

T = TypeVar("T")


class Requests:
    """The base class of the parts of ``Client``.

    ``_transport`` carries the requests. ``Client`` makes it.
    """

    _transport: Transport

    def _get(self, path: str, form: Form[T], **query: str | bool | float | None) -> T:
        return self._transport.read(form, "GET", with_query(path, query))

    def _post(self, path: str, body: PlainData, form: Form[T], *, interrupted: ChangeInterrupted | None = None) -> T:
        """``interrupted``: raised after Ctrl-C if the change may still be made. Default: says which change of what."""
        with after_ctrl_c(interrupted or _interrupted(path)):
            return self._transport.read(form, "POST", path, body)

    def _delete(self, path: str, form: Form[T]) -> T:
        with after_ctrl_c(_interrupted(f"{path}/delete")):
            return self._transport.read(form, "DELETE", path)


@contextmanager
def after_ctrl_c(interrupted: ChangeInterrupted) -> Iterator[None]:
    """Raise ``interrupted`` in place of the general ChangeInterrupted."""
    try:
        yield
    except ChangeInterrupted as general:
        raise interrupted from general


def _interrupted(path: str) -> ChangeInterrupted:
    """Return what Ctrl-C raises during a request to ``/v1/nodes/NAME/drain``, or another such path."""
    _, _, nouns, *rest = path.split("/")
    if len(rest) < 2:
        return ChangeInterrupted(f"{nouns}: interrupted; the request may still be carried out")
    what, name = f"{nouns[:-1]} {unquote(rest[0])}", rest[-1]
    where = f"`grass {nouns[:-1]} list`" if nouns in ("jobs", "nodes", "schedules", "users") else "`grass status`"
    return ChangeInterrupted(f"{what}: interrupted; the request ({name}) may still be carried out; see {where}")


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
