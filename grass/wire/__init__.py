"""Messages between the processes of a cluster, and records in the store: each type is defined once, here.

Each module defines the types of one noun. ``codec.py`` is the only place that turns them into text and back.
``master`` and ``node`` both import this package; it imports ``grass.model`` and nothing else of Grass, and does no I/O.

Unless a field says otherwise, times are seconds since the epoch by the writer's clock, durations are seconds, sizes
bytes, cpu and gpu thousandths of a core and of a device. ``docs/reference/wire.md`` is generated from here.
"""
