"""The Flask application of the master-api-server: all calls, and the few routes that are not sealed.

Used by ``server``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

from flask import Flask, Response, jsonify

from grass.config import ClusterConfig, Secrets
from grass.store.api_store import ApiStore
from grass.system import clock
from master.api import join_downloads, metrics
from master.api.authentication import Authenticator
from master.api.call import Api, WaitLimits
from master.api.direct_calls import Application
from master.api.feed import Feed
from master.api.large_logs import LargeLogs
from master.api.latencies import Latencies
from master.api.notices import Notices
from master.api.notices import add_route as add_notice
from master.api.pace import Pace
from master.api.queue_desk import Desk
from master.api.registry import add_calls
from master.api.turns import Turns, WaitingSlots

DEFAULT_WAIT_LIMITS = WaitLimits()


def create_app(
    config: ClusterConfig,
    store: ApiStore,
    *,
    wall: Callable[[], float] = clock.wall,
    waits: WaitLimits = DEFAULT_WAIT_LIMITS,
) -> Application:
    """Make the application. Raises NotFoundError if the master has no key. Call ``close_app`` when done with it."""
    authenticator = Authenticator(config.master_dir, store, wall())
    feed, slots = Feed(store, waits.poll), WaitingSlots(waits.waiting, waits.waiting_of_user)
    turns = Turns(waits.answered_of_user)
    desk = Desk(store, lambda: Secrets.load(config.home).node_token, wall, waits.poll)
    logs, notices = LargeLogs(config), Notices(config, authenticator)
    api = Api(config, store, authenticator, feed, slots, turns, Pace(), Latencies(), logs, desk, notices, wall, waits)
    app = Application()
    app.extensions["grass"] = api
    add_calls(app, api)
    join_downloads.add_routes(app, api)
    metrics.add_route(app, api)
    add_notice(app, notices)
    app.add_url_rule("/v1/health", "health", _health, provide_automatic_options=False)
    app.add_url_rule("/v1/openapi.json", "openapi", _openapi, provide_automatic_options=False)
    return app


def close_app(app: Flask) -> None:
    """End all waiting requests, and the threads."""
    api_of(app).feed.close()
    api_of(app).desk.close()


def api_of(app: Flask) -> Api:
    """Return what the application's handlers work with."""
    api: Api = app.extensions["grass"]
    return api


def _health() -> Response:
    return jsonify({})


def _openapi() -> Response:
    return Response(_openapi_text(), mimetype="application/json")


@cache
def _openapi_text() -> str:
    """Made once: anybody may ask for it, again and again."""
    from master.api.openapi import document

    return json.dumps(document())
