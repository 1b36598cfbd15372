"""Reads ``metrics`` of a settings file. Used by ``cluster_settings``."""

from __future__ import annotations

import re
from typing import Any

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.values import Wrong, show, text
from grass.model.metrics import MetricsListen
from grass.network_address import host_and_port

_LISTEN = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[1-9][0-9]{0,4}")


def read_metrics(fields: Fields) -> MetricsListen | None:
    """Read where `/metrics` is served over TLS; None: nowhere."""
    section = fields.section("metrics")
    if section is None:
        return None
    found = MetricsListen(
        listen=section.require("listen", listen, ""),
        certificate=section.require("certificate", values.absolute_path, ""),
        key=section.require("key", values.absolute_path, ""),
        clients=section.read("clients", values.absolute_path, None),
    )
    section.done()
    return found


def listen(value: Any) -> str:
    """Parse ``host:port``."""
    found = text(value)
    if _LISTEN.fullmatch(found) is None or host_and_port(found)[1] > 65535:
        raise Wrong(f"must be an address and a port, such as 0.0.0.0:9465 or '[::]:9465'; got {show(value)}")
    return found
