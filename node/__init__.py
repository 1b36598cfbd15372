"""Daemons of a node: node-agent, node-api-server, shepherd. Imports nothing of ``master``."""

import gc

gc.set_threshold(50_000, 20, 50)
"""Collect garbage rarely: imported modules stay in memory, and scanning them takes a tenth of a daemon's start."""
