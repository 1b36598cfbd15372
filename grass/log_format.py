"""How daemons write their logs. Apart, so that the collector does not load what sends logs to the collector."""

from __future__ import annotations

FORMAT = "%(asctime)s %(levelname)s %(message)s"
