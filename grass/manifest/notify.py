"""Reads ``on_end`` of a job file and ``notify`` of a settings file. Used by ``native`` and ``cluster_settings``."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.values import Wrong, show, text
from grass.model.event_kind import EventKind
from grass.model.lifecycle import JobState
from grass.model.notify import DEFAULT_KINDS, Notify, OnEnd

MOST_URL = 2_000
MOST_SECRET = 1_000
_URL = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[1-9][0-9]{0,4})?([/?][^\s#]*)?")
_KINDS = frozenset(kind.value for kind in EventKind)


def read_on_end(fields: Fields) -> OnEnd | None:
    """Read what happens at the end of a job; None: nothing."""
    section = fields.section("on_end")
    if section is None:
        return None
    found = OnEnd(
        webhook=section.read("webhook", webhook, None),
        secret=section.read("secret", secret, None),
        command=section.read("command", values.command, None),
        states=_states(section),
    )
    if section.intact and found.webhook is None and found.command is None:
        fields.problems.add(section.path, "must have `webhook` or `command`")
    if section.intact and found.secret is not None and found.webhook is None:
        fields.problems.add(section.at("secret"), "requires `webhook`, whose body it signs")
    section.done()
    return found


def read_notify(fields: Fields) -> Notify | None:
    """Read who is notified of the events of the cluster; None: nobody."""
    section = fields.section("notify")
    if section is None:
        return None
    kinds = tuple(section.parsed(path, kind, item, "") for path, item in section.items("kinds"))
    found = Notify(
        webhook=section.read("webhook", webhook, None),
        secret_file=section.read("secret_file", values.absolute_path, None),
        command=section.read("command", values.argv, ()),
        kinds=kinds or DEFAULT_KINDS,
    )
    if section.intact and found.webhook is None and not found.command:
        fields.problems.add(section.path, "must have `webhook` or `command`")
    section.done()
    return found


def _states(section: Fields) -> tuple[JobState, ...]:
    found = [section.parsed(path, _state, item, JobState.FAILED) for path, item in section.items("states")]
    if section.intact and section.has("states") and not found:
        section.problems.add(section.at("states"), "must name a state; omit it for all")
    return tuple(dict.fromkeys(found))


def _state(value: Any) -> JobState:
    """Parse the state of an ended job."""
    found = {state.value: state for state in JobState if state.ended}.get(
        value.upper() if isinstance(value, str) else ""
    )
    if found is None:
        raise Wrong(f"must be SUCCEEDED, FAILED or STOPPED, got {show(value)}")
    return found


def webhook(value: Any) -> str:
    """Parse the URL of a webhook. It may have no user and password: use ``secret``."""
    url = text(value)
    if len(url) > MOST_URL or not url.isascii() or not url.isprintable() or _URL.fullmatch(url) is None:
        raise Wrong(f"must be a URL such as https://example.org/hook, without user and password; got {show(value)}")
    try:
        urlsplit(url).port  # noqa: B018 (it refuses numbers that are none)
    except ValueError as error:
        raise Wrong(f"must have an address and a port that exist; got {show(value)}") from error
    return url


def secret(value: Any) -> str:
    """Parse a secret. Its problems do not show it."""
    if not isinstance(value, str) or not 8 <= len(value) <= MOST_SECRET:
        raise Wrong(f"must be text of 8 to {MOST_SECRET:,} characters")
    return value


def kind(value: Any) -> str:
    """Parse a kind of event."""
    if value not in _KINDS:
        raise Wrong(f"must be a kind of event, such as node-lost, got {show(value)}")
    return str(value)
