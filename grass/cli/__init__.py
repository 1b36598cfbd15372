"""The `grass` command line. Modules are named after its nouns.

Each command parses its options, calls the client and renders the answer. Only ``output`` prints.
"""

import gc

gc.set_threshold(50_000, 20, 50)
"""Collect garbage rarely: imported modules stay in memory, and scanning them repeatedly takes 7 ms of a call."""
