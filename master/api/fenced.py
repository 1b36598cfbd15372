"""What a replaced master answers instead of all: the signed notice of the new one.

A master that stopped in good order has the notice in its folder. One that was lost and comes back is fenced through its
redis, which then refuses this server. The server asks the standby who is the master now. Used by ``direct_calls`` and
``server``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from werkzeug.wrappers import Response

from grass.api.join_client import ask_notice
from grass.api.notice import MEDIA_TYPE, MOVED, open_notice
from grass.errors import GrassError
from grass.store.redis_link import RefusedByStoreError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from master.api.call import Api
    from master.api.direct_calls import Application

_LOOK = 1.0

log = logging.getLogger("master.api")


def signpost(notice: str) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    """Return the application of a replaced master."""
    return lambda environ, start_response: Response(notice, MOVED, mimetype=MEDIA_TYPE)(environ, start_response)


def watch_fence(app: Application, api: Api, look: float = _LOOK) -> threading.Event:
    """Notice, in a thread, when the redis of this master refuses this server. Only a cluster with a standby needs it.
    Return an event that ends the thread."""
    stop = threading.Event()
    if api.config.standby is not None:
        asked = (app, api, api.config.standby.url, look, stop)
        threading.Thread(target=_watch, args=asked, name="fence", daemon=True).start()
    return stop


def _watch(app: Application, api: Api, other: str, look: float, stop: threading.Event) -> None:
    said = False
    while not stop.wait(look):
        try:
            api.store.horizon()
        except RefusedByStoreError:
            if not said:
                log.warning("redis refuses this server: another machine is the master now; clients are sent there")
            said, app.moved = True, app.moved or found_notice(api, other)
        except GrassError:
            continue  # it is away
        else:
            said, app.moved = False, ""


def found_notice(api: Api, url: str) -> str:
    """Return the notice of the master at ``url``; empty: no other master of this cluster answers there."""
    try:
        text = ask_notice(url)
        notice = open_notice(text, api.authenticator.key_id, api.config.name, api.notices.number())
    except GrassError:
        return ""
    return "" if set(notice.urls) & set(api.config.api_urls) else text
