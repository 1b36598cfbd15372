"""What the processes of a cluster say to each other, and what they keep in the store: every message and record, once.

Each module defines the types of one noun. ``codec.py`` is the only place that turns them into text and back.
``master`` and ``node`` both import this package; it imports ``grass.model`` and nothing else of Grass, and does no I/O.

Times are seconds since the epoch of the clock of whoever wrote them, durations seconds, sizes bytes, cpu and gpu
thousandths of a core and of a device, unless a field says otherwise. ``docs/reference/wire.md`` is generated from here.
"""
