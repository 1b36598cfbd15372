"""Daemons of the master: master-agent, master-api-server, monitor, log collector. Imports nothing of ``node``."""

import gc

gc.set_threshold(50_000, 20, 50)
"""Collect garbage rarely: imported modules stay in memory, and scanning them takes a tenth of a daemon's start."""
